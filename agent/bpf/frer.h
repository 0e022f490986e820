// What the program of frer.bpf.c and the agent share: agent/mechanisms/frer/maps.py has the same layouts.

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_RTAG 0xF1C1
#define VLAN_ID_MASK 0x0FFF
#define STREAMS_MAX 4096
#define HISTORY_MAX 64

enum algorithm { NO_RECOVERY, VECTOR, MATCH };
enum table { GENERATION, RECOVERY };
enum verdict { DISCARD, ACCEPT };

// What stands before the EtherType of a tagged frame's content.
struct head {
	__u8 destination[6], source[6];
	__be16 vlan_ethertype, vlan_control;
};

struct rtag {
	__be16 ethertype, reserved, sequence;
};

struct stream_at_port {
	__u32 ifindex;
	__u8 destination[6];
	__u16 vlan;
};

struct generation {
	__u32 handle, entry;
	__u8 reset, unused[3];
};

// A recovery function; `entry` is its number in the Sequence recovery table, and entries of the same
// number share one state. Histories are of 64 numbers at most, the length of a register.
struct recovery {
	__u64 reset_timeout_ns;
	__u32 entry;
	__u8 algorithm, history_length, take_no_sequence, reset;
};

// Which the agent does, by its own timer: the program only keeps what it was told.
struct latent_error_detection {
	__u32 difference, period_ms, reset_period_ms;
	__u16 paths, unused;
};

struct recoveries_of_stream {
	__u32 handle, unused;
	struct recovery individual, combined;
	struct latent_error_detection combined_detection;
};

struct entry {
	__u32 table, number;
};

struct generation_state {
	struct bpf_spin_lock lock;
	__u16 next_sequence, unused;
	__u64 resets;
};

// 7.4.3.2; bit N of `history`: the frame N before `newest` has come. Only the first `known` bits are
// of frames since the reset: what came before that is neither lost nor a copy.
struct recovery_state {
	struct bpf_spin_lock lock;
	__u16 newest;
	__u8 take_any, known;
	__u64 history, passed_ns, resets;
};

// 10.8, for one stream at one port.
struct counters {
	__u64 passed, discarded, out_of_order, rogue, lost, tagless, resets, errored;
};

#define HASH(NAME, KEY, VALUE) \
	struct { \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(max_entries, STREAMS_MAX); \
		__type(key, KEY); \
		__type(value, VALUE); \
	} NAME SEC(".maps")

HASH(generations, struct stream_at_port, struct generation);
HASH(recoveries, struct stream_at_port, struct recoveries_of_stream);
HASH(resets, struct entry, __u64);  // how often the agent has asked for one
HASH(generated, __u32, struct generation_state);
HASH(recovered, __u32, struct recovery_state);
HASH(counts, struct stream_at_port, struct counters);
