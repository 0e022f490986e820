/*
 * Per-stream filtering and policing of a bridge port (IEEE Std 802.1Q-2022, 8.6.5).
 *
 * A classifier of tc in direct-action mode, at the ingress of each port that has stream filters. A
 * frame is looked up by destination address, VLAN and priority; what is found has all that is asked
 * of the stream: the longest service data unit, the list of its stream gate and its flow meter.
 *
 * What is asked of a port is one map that never changes: another configuration is another map, put
 * into `ports` with one update. So each frame meets the former list or the new one, and none meets
 * nothing. What frames change - counters, octets of an interval, tokens - is in maps of its own, which
 * stay when the configuration changes.
 *
 * The gate's state is computed from CLOCK_TAI at each frame. No timer moves it that could be late, and
 * a step of the clock is followed at once. A list and the one that takes over from it at `change_ns`
 * are both there: nothing happens at that instant but that it passes.
 *
 * The layouts are those of agent/mechanisms/stream_filters/layout.py; who changes one changes LAYOUT there.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#define ENTRIES_MAX 128 /* of a list */
#define INSTANCES_MAX 4096 /* of filters, of gates and of meters */
#define PORTS_MAX 1024
#define MAC_OCTETS 6
#define TAG_OCTETS 4
#define FCS_OCTETS 4
#define VLAN_MASK 0xfff
#define PCP_SHIFT 13
#define ANY_PRIORITY 8
#define KEEP_PRIORITY 0xff /* an internal priority value of null */
#define NS_PER_S 1000000000ull
#define BITS_PER_OCTET 8
/* The compiler must not see where a number comes from: it would make a branch for each value, and the
 * verifier lets a program without CAP_PERFMON add to a pointer only what is the same on all paths. */
#define hide(number) asm volatile("" : "+r"(number))

/* Frames of a stream; all zero but the priority: those of no stream. */
struct frames {
	__u8 mac[MAC_OCTETS];
	__u16 vlan_id;
	__u32 priority; /* 0 to 7, or ANY_PRIORITY */
};

struct entry {
	__u64 end_ns; /* since the cycle began; 2^63 - 1 where there is no entry */
	__u32 octets_max; /* 0xffffffff: any number */
	__u8 is_open;
	__u8 ipv;
	__u16 overhead_octets; /* that each frame counts beside its service data unit */
};

/* Without entries the gate has the state of the first one for ever. */
struct list {
	__u64 base_ns; /* CLOCK_TAI */
	__u64 cycle_ns;
	__u32 entries;
	__u32 last; /* the entry that lasts until the cycle ends */
	struct entry entry[ENTRIES_MAX];
};

/* An instance of a table, of the bridge with this interface index. */
struct instance {
	__u32 bridge;
	__u32 id;
};

/* What is asked of a stream. */
struct stream {
	struct instance filter, gate, meter;
	__u32 max_sdu_octets; /* 0: of any length */
	__u8 has_meter;
	__u8 only_counts;
	__u8 initial_state, initial_ipv; /* of the gate; this and what follows is for the agent */
	__u32 handle;
	__u8 has_handle, matched_priority;
	__u16 overhead_octets; /* that the meter adds to each frame */
	__u64 rate_bps;
	__u64 burst_bit_s; /* committed burst size, in bits times 10^9 */
	__u64 change_ns; /* CLOCK_TAI: from then on the second list */
	struct list lists[2];
};

struct counters {
	__u64 matching, passing_sdu, not_passing_sdu, passing, not_passing, red;
};

/*
 * Octets that passed in one interval of a gate's list, which is known by its beginning; and the change
 * that frames have met, so that a clock that is set back does not bring the former list back.
 */
struct gate {
	struct bpf_spin_lock lock;
	__u32 octets;
	__u64 begin_ns;
	__u64 change_ns;
};

/* A token bucket, in bits times 10^9, so that no fraction of a token is lost. */
struct bucket {
	struct bpf_spin_lock lock;
	__u32 is_begun;
	__u64 tokens;
	__u64 filled_ns; /* CLOCK_MONOTONIC */
};

struct table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct frames));
	__uint(value_size, sizeof(struct stream));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, PORTS_MAX);
	__type(key, __u32);
	__array(values, struct table);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INSTANCES_MAX);
	__type(key, struct instance);
	__type(value, struct counters);
} filters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INSTANCES_MAX);
	__type(key, struct instance);
	__type(value, struct gate);
} gates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INSTANCES_MAX);
	__type(key, struct instance);
	__type(value, struct bucket);
} meters SEC(".maps");

char _license[] SEC("license") = "GPL";

static __always_inline void count(__u64 *counter, __u64 frames)
{
	hide(frames);
	__sync_fetch_and_add(counter, frames);
}

/* 1 if a is less than b, else 0; both are below 2^63. */
static __always_inline __u64 is_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	hide(difference);
	return difference >> 63;
}

/* A number as that of an entry. The compiler knows the bounds of a product, the verifier of Linux 6.1
 * does not: the mask has to stay in the code. */
static __always_inline __u64 masked(__u64 number)
{
	hide(number);
	return number & (ENTRIES_MAX - 1);
}

/* The number of the entry that holds at this phase of the cycle: how many entries end before it. */
static __always_inline __u32 entry_at(const struct list *list, __u64 phase_ns)
{
	__u64 number = 0;

#pragma unroll
	for (__u32 bit = ENTRIES_MAX / 2; bit; bit /= 2)
		number += bit * is_less(list->entry[masked(number + bit - 1)].end_ns, phase_ns + 1);
	number -= (number - list->last) * is_less(list->last, number);
	return masked(number);
}

/*
 * What is asked of the frame's stream, else of frames of no stream; first for its very priority: that
 * of its tag, by which the next switch goes, also where this port gives the frame another.
 */
static __always_inline const struct stream *stream_of(void *table, const struct __sk_buff *skb)
{
	const __u8 *frame = (void *)(long)skb->data;
	struct frames key = { .vlan_id = skb->vlan_tci & VLAN_MASK };
	const struct stream *found;

	if (frame + MAC_OCTETS > (__u8 *)(long)skb->data_end)
		return 0;
	__builtin_memcpy(key.mac, frame, MAC_OCTETS);
	for (int is_of_none = 0; is_of_none < 2; is_of_none++) {
		if (is_of_none)
			__builtin_memset(&key, 0, sizeof(key));
		key.priority = (skb->vlan_present ? skb->vlan_tci >> PCP_SHIFT : skb->priority) & 7;
		found = bpf_map_lookup_elem(table, &key);
		if (found)
			return found;
		key.priority = ANY_PRIORITY;
		found = bpf_map_lookup_elem(table, &key);
		if (found)
			return found;
	}
	return 0;
}

/* Whether the gate passes a service data unit of so many octets now; its internal priority value is in
 * `ipv` either way. One that does not fit, 0, takes nothing of what others may send. Without a branch: the
 * verifier of Linux 6.1 goes through all that follows for each. */
static __always_inline int passes_gate(const struct stream *stream, __u64 fits, __u32 octets, __u8 *ipv)
{
	__u64 now_ns = bpf_ktime_get_tai_ns(), phase_ns = 0, begin_ns;
	struct gate *gate = bpf_map_lookup_elem(&gates, &stream->gate);
	const struct entry *entry;
	const struct list *list;
	__u32 number;
	int passes = 1;

	if (!gate)
		return 0;
	if (now_ns >= stream->change_ns && gate->change_ns != stream->change_ns)
		gate->change_ns = stream->change_ns;
	/* The second list, unless the change that frames have met is not its own. */
	list = &stream->lists[1 - is_less(0, gate->change_ns ^ stream->change_ns)];
	/* Also before the base time, after a step back: the phase is that of the list. */
	if (list->cycle_ns)
		phase_ns = now_ns >= list->base_ns ?
			(now_ns - list->base_ns) % list->cycle_ns :
			list->cycle_ns - 1 - (list->base_ns - now_ns - 1) % list->cycle_ns;
	number = entry_at(list, phase_ns);
	entry = &list->entry[number];
	/* Without a branch, which would know the number on one of its paths. */
	begin_ns = is_less(0, number) * list->entry[masked(number - 1)].end_ns;
	*ipv = entry->ipv;
	if (!entry->is_open)
		return 0;
	if (entry->octets_max == 0xffffffff)
		return 1;
	octets = fits * (octets + entry->overhead_octets);
	begin_ns += now_ns - phase_ns;
	bpf_spin_lock(&gate->lock);
	if (gate->begin_ns != begin_ns) {
		gate->begin_ns = begin_ns;
		gate->octets = 0;
	}
	if (octets > entry->octets_max || gate->octets > entry->octets_max - octets)
		passes = 0;
	else
		gate->octets += octets;
	bpf_spin_unlock(&gate->lock);
	return passes;
}

/* Whether a frame of so many octets is green (MEF 10.3, committed rate and burst alone). */
static __always_inline int is_green(const struct stream *stream, __u32 octets)
{
	__u64 now_ns = bpf_ktime_get_ns(), needed = octets * BITS_PER_OCTET * NS_PER_S;
	struct bucket *bucket = bpf_map_lookup_elem(&meters, &stream->meter);
	__u64 full_ns = stream->rate_bps ? stream->burst_bit_s / stream->rate_bps : ~0ull;
	__u64 burst = stream->burst_bit_s;
	__u64 elapsed_ns;
	int green = 0;

	if (!bucket)
		return 0;
	bpf_spin_lock(&bucket->lock);
	/* Another processor may have been here later than this one looked at the clock. */
	elapsed_ns = now_ns > bucket->filled_ns ? now_ns - bucket->filled_ns : 0;
	if (!bucket->is_begun || elapsed_ns > full_ns)
		bucket->tokens = burst;
	else
		bucket->tokens += elapsed_ns * stream->rate_bps;
	if (bucket->tokens > burst)
		bucket->tokens = burst;
	if (elapsed_ns || !bucket->is_begun)
		bucket->filled_ns = now_ns;
	bucket->is_begun = 1;
	if (bucket->tokens >= needed) {
		bucket->tokens -= needed;
		green = 1;
	}
	bpf_spin_unlock(&bucket->lock);
	return green;
}

SEC("tc")
int filter(struct __sk_buff *skb)
{
	__u32 port = skb->ifindex, sdu_octets, frame_octets;
	const struct stream *stream;
	struct counters *counters;
	__u8 ipv = KEEP_PRIORITY;
	__u64 fits;
	int passes;
	void *table = bpf_map_lookup_elem(&ports, &port);

	if (!table)
		return TC_ACT_UNSPEC;
	stream = stream_of(table, skb);
	if (!stream)
		return TC_ACT_UNSPEC;
	counters = bpf_map_lookup_elem(&filters, &stream->filter);
	if (!counters)
		return TC_ACT_UNSPEC;
	/* The tag is not in the frame here, but beside it. */
	sdu_octets = skb->len - 14;
	frame_octets = skb->len + (skb->vlan_present ? TAG_OCTETS : 0) + FCS_OCTETS;
	count(&counters->matching, 1);
	fits = 1 - (is_less(0, stream->max_sdu_octets) & is_less(stream->max_sdu_octets, sdu_octets));
	count(&counters->passing_sdu, fits);
	count(&counters->not_passing_sdu, 1 - fits);
	/* What is too long and only counted goes the way of its interval all the same. */
	passes = passes_gate(stream, fits, sdu_octets, &ipv);
	count(&counters->passing, passes & fits);
	count(&counters->not_passing, (1 - passes) & fits);
	passes &= fits;
	if (passes && stream->has_meter) {
		passes = is_green(stream, frame_octets + stream->overhead_octets);
		count(&counters->red, !passes);
	}
	if (!passes && !stream->only_counts)
		return TC_ACT_SHOT;
	if (ipv != KEEP_PRIORITY)
		skb->priority = ipv;
	return TC_ACT_UNSPEC;
}
