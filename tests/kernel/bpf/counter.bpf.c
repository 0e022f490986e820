/* Counts the frames that a port receives; what the tests of the loader load. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

#ifndef STEP
#define STEP 1
#endif

SEC("tc")
int count(struct __sk_buff *skb)
{
	__u32 port = skb->ifindex;
	__u64 *number = bpf_map_lookup_elem(&frames, &port);

#ifdef REFUSED
	__sync_fetch_and_add(number, STEP); /* which may be a null pointer */
#else
	if (number)
		__sync_fetch_and_add(number, STEP);
#endif
	return TC_ACT_UNSPEC;
}
