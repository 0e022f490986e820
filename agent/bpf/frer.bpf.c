// Replication and elimination of frames (IEEE Std 802.1CB-2017) where they come in by a port.
//
// Where a stream is generated, its frames get a sequence number in an R-TAG (7.8) behind their VLAN
// tag; the bridge then replicates them. Where it is recovered, each number passes once and the R-TAG
// goes. All else passes as it is. The agent writes `generations`, `recoveries` and `resets`, and makes
// the counters; sequence numbers, histories and counts are written here.

#include "frer.h"

static __always_inline void count(__u64 *counter, __u64 frames)
{
	__sync_fetch_and_add(counter, frames);
}

static __always_inline __u64 resets_wanted(__u32 table, __u32 number)
{
	struct entry entry = { table, number };
	__u64 *wanted = bpf_map_lookup_elem(&resets, &entry);

	return wanted ? *wanted : 0;
}

// Puts the R-TAG behind the VLAN tag; the first 16 octets of the frame move forward.
static __always_inline int encode(struct xdp_md *context, __u16 sequence)
{
	struct rtag rtag = { bpf_htons(ETHERTYPE_RTAG), 0, bpf_htons(sequence) };
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct head *frame = data, head;

	if ((void *)(frame + 1) > end)
		return XDP_DROP;
	head = *frame;
	if (bpf_xdp_adjust_head(context, -(int)sizeof(rtag)))
		return XDP_DROP;
	data = (void *)(long)context->data;
	end = (void *)(long)context->data_end;
	frame = data;
	if ((void *)(frame + 1) + sizeof(rtag) > end)
		return XDP_DROP;
	*frame = head;
	*(struct rtag *)(frame + 1) = rtag;
	return XDP_PASS;
}

// Takes the R-TAG, which is there, off again.
static __always_inline int decode(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct head *frame = data, head;

	if ((void *)(frame + 1) > end)
		return XDP_DROP;
	head = *frame;
	if (bpf_xdp_adjust_head(context, sizeof(struct rtag)))
		return XDP_DROP;
	data = (void *)(long)context->data;
	end = (void *)(long)context->data_end;
	frame = data;
	if ((void *)(frame + 1) > end)
		return XDP_DROP;
	*frame = head;
	return XDP_PASS;
}

// SequenceGenerationAlgorithm and SequenceGenerationReset (7.4.1).
static __always_inline int generate(struct xdp_md *context, const struct generation *function,
				    struct counters *counters)
{
	__u32 number = function->entry;
	__u64 wanted = resets_wanted(GENERATION, number);
	struct generation_state *state = bpf_map_lookup_elem(&generated, &number);
	__u16 sequence;

	if (!state) {
		struct generation_state fresh = { .resets = wanted };

		bpf_map_update_elem(&generated, &number, &fresh, BPF_NOEXIST);
		state = bpf_map_lookup_elem(&generated, &number);
		if (!state)
			return XDP_DROP;
	}
	bpf_spin_lock(&state->lock);
	if (state->resets != wanted) {
		state->resets = wanted;
		state->next_sequence = 0;
		count(&counters->resets, 1);
	}
	sequence = state->next_sequence++;
	bpf_spin_unlock(&state->lock);
	count(&counters->passed, 1);
	return encode(context, sequence);
}

// 7.4.3.4.
static __always_inline enum verdict in_vector(struct recovery_state *state, __u16 sequence,
					      __s32 length, struct counters *found)
{
	__s32 ahead = (__s16)(sequence - state->newest);
	__u64 bit, all, leaving, known;

	if (length > HISTORY_MAX)
		length = HISTORY_MAX;
	if (ahead >= length || ahead <= -length) {
		found->rogue = 1;
		return DISCARD;
	}
	if (ahead <= 0) {
		bit = 1ULL << (-ahead & (HISTORY_MAX - 1));
		found->discarded = (state->history & bit) != 0;
		found->out_of_order = !found->discarded;
		state->history |= bit;
		return found->discarded ? DISCARD : ACCEPT;
	}
	// Of the numbers that leave the history, those that have not come are lost.
	all = ~0ULL >> ((HISTORY_MAX - length) & (HISTORY_MAX - 1));
	known = ~0ULL >> ((HISTORY_MAX - state->known) & (HISTORY_MAX - 1));
	leaving = all & ~(all >> (ahead & (HISTORY_MAX - 1))) & known;
	found->lost = __builtin_popcountll(leaving & ~state->history);
	found->out_of_order = ahead != 1;
	state->history = state->history << (ahead & (HISTORY_MAX - 1)) | 1;
	state->known = state->known + ahead > HISTORY_MAX ? HISTORY_MAX : state->known + ahead;
	state->newest = sequence;
	return ACCEPT;
}

// 7.4.3.5.
static __always_inline enum verdict in_match(struct recovery_state *state, __u16 sequence,
					     struct counters *found)
{
	found->discarded = sequence == state->newest;
	if (found->discarded)
		return DISCARD;
	found->out_of_order = (__u16)(sequence - state->newest) != 1;
	state->newest = sequence;
	state->history = state->known = 1;  // should the algorithm become the other one
	return ACCEPT;
}

// One recovery function (7.4.3). Its timer is looked at when a frame comes, which is when it matters.
// `sequence` is negative for a frame without R-TAG. Frames that come out of order or not at all are
// counted by the last function of a stream at the port.
static __always_inline enum verdict recover(const struct recovery *function, __s32 sequence,
					    struct counters *counters, int is_individual,
					    int is_last)
{
	__u32 number = function->entry;
	__u64 wanted = resets_wanted(RECOVERY, number), now_ns = bpf_ktime_get_ns();
	struct recovery_state *state = bpf_map_lookup_elem(&recovered, &number);
	struct counters found = {};
	enum verdict verdict = ACCEPT;

	if (!state) {
		struct recovery_state fresh = { .take_any = 1, .resets = wanted };

		bpf_map_update_elem(&recovered, &number, &fresh, BPF_NOEXIST);
		state = bpf_map_lookup_elem(&recovered, &number);
		if (!state)
			return DISCARD;
	}
	bpf_spin_lock(&state->lock);
	if (state->resets != wanted ||
	    (!state->take_any && now_ns - state->passed_ns > function->reset_timeout_ns)) {
		state->resets = wanted;
		state->take_any = 1;
		found.resets = 1;
	}
	if (sequence < 0) {
		verdict = function->take_no_sequence ? ACCEPT : DISCARD;
	} else if (state->take_any) {
		state->take_any = 0;
		state->newest = sequence;
		state->history = state->known = 1;
	} else if (function->algorithm == MATCH) {
		verdict = in_match(state, sequence, &found);
	} else {
		verdict = in_vector(state, sequence, function->history_length, &found);
	}
	// The timer of an individual recovery function also waits for the frames that it discards to
	// end: for a sender that repeats one for ever (10.4.1.10).
	if (verdict == ACCEPT || is_individual)
		state->passed_ns = now_ns;
	bpf_spin_unlock(&state->lock);
	// All of them: which one to count would be an offset that only a program of root may have.
	count(&counters->resets, found.resets);
	count(&counters->discarded, found.discarded);
	count(&counters->rogue, found.rogue);
	count(&counters->out_of_order, is_last ? found.out_of_order : 0);
	count(&counters->lost, is_last ? found.lost : 0);
	return verdict;
}

static __always_inline int recover_stream(struct xdp_md *context, struct counters *counters,
					  const struct recoveries_of_stream *functions)
{
	struct head *frame = (void *)(long)context->data;
	struct rtag *rtag = (void *)(frame + 1);
	void *end = (void *)(long)context->data_end;
	__s32 sequence = -1;

	if ((void *)&rtag->reserved > end)
		return XDP_PASS;
	if (rtag->ethertype == bpf_htons(ETHERTYPE_RTAG)) {
		// An R-TAG is followed by the EtherType of the content.
		if ((void *)(rtag + 1) + sizeof(__be16) > end) {
			count(&counters->errored, 1);
			return XDP_DROP;
		}
		sequence = bpf_ntohs(rtag->sequence);
	} else {
		count(&counters->tagless, 1);
	}
	if (functions->individual.algorithm != NO_RECOVERY &&
	    recover(&functions->individual, sequence, counters, 1,
		    functions->combined.algorithm == NO_RECOVERY) == DISCARD)
		return XDP_DROP;
	if (functions->combined.algorithm != NO_RECOVERY &&
	    recover(&functions->combined, sequence, counters, 0, 1) == DISCARD)
		return XDP_DROP;
	count(&counters->passed, 1);
	return sequence < 0 ? XDP_PASS : decode(context);
}

SEC("xdp.frags")
int tsn_frer(struct xdp_md *context)
{
	struct head *frame = (void *)(long)context->data;
	struct stream_at_port stream;
	struct recoveries_of_stream *recovery;
	struct generation *generation;
	struct counters *counters;

	if ((void *)(frame + 1) > (void *)(long)context->data_end ||
	    frame->vlan_ethertype != bpf_htons(ETHERTYPE_VLAN))
		return XDP_PASS;
	// From its end to its beginning: without CAP_PERFMON the verifier of Linux 6.1 lets a program write no
	// part of eight octets of the stack into whose first octets it has put a number.
	stream.vlan = bpf_ntohs(frame->vlan_control) & VLAN_ID_MASK;
	barrier();
	__builtin_memcpy(stream.destination, frame->destination, sizeof(stream.destination));
	barrier();
	stream.ifindex = context->ingress_ifindex;
	// The agent makes the counters before what counts in them.
	counters = bpf_map_lookup_elem(&counts, &stream);
	if (!counters)
		return XDP_PASS;
	generation = bpf_map_lookup_elem(&generations, &stream);
	if (generation)
		return generate(context, generation, counters);
	recovery = bpf_map_lookup_elem(&recoveries, &stream);
	return recovery ? recover_stream(context, counters, recovery) : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
