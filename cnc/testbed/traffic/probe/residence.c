/* tsn-probe residence: how long packets of a sender are in a switch, from the kernel's stamps at both of
 * its ports. The stamps are software's: of a packet that is forwarded the kernel gives no hardware
 * stamp as it leaves, for that goes to the socket which has sent it. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { CAME, WENT }; /* columns of the table; the first is in each row */
#define PORTS 2
#define HEAD_OCTETS 128 /* of a packet: headers, and what tsn-probe writes */
static const char *const NAMES[] = {"in_ns", "out_ns", NULL};

static int open_port(const struct options *options, const char *name)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("a packet socket, which needs CAP_NET_RAW: %s", strerror(errno));
	address.sll_ifindex = if_nametoindex(name);
	if (!address.sll_ifindex)
		refuse("found '%s', expected the name of an interface", name);
	stamps_request(fd, options, SOF_TIMESTAMPING_RX_SOFTWARE, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		fail("cannot listen at %s: %s", name, strerror(errno));
	return fd;
}

/* The UDP payload of an IP packet, behind VLAN tags, if it is of this flow. */
static bool find(const struct options *options, const uint8_t *data, ssize_t octets, uint16_t type,
		 struct packet *packet)
{
	const uint8_t *end = data + octets;
	struct udphdr udp;
	int dscp;

	while ((type == ETH_P_8021Q || type == ETH_P_8021AD) && end - data >= 4) {
		type = data[2] << 8 | data[3];
		data += 4;
	}
	if (type == ETH_P_IP && end - data >= (ssize_t)sizeof(struct iphdr)) {
		if (data[9] != IPPROTO_UDP)
			return false;
		dscp = data[1] >> 2;
		data += (data[0] & 0xf) * 4;
	} else if (type == ETH_P_IPV6 && end - data >= (ssize_t)sizeof(struct ip6_hdr)) {
		if (data[6] != IPPROTO_UDP)
			return false;
		dscp = (data[0] << 8 | data[1]) >> 6 & 0x3f;
		data += sizeof(struct ip6_hdr);
	} else {
		return false;
	}
	if (end - data < (ssize_t)(sizeof(udp) + sizeof(*packet)))
		return false;
	memcpy(&udp, data, sizeof(udp));
	memcpy(packet, data + sizeof(udp), sizeof(*packet));
	return udp.dest == htons(options->port) && ntohl(packet->magic) == MAGIC &&
	       (options->dscp < 0 || options->dscp == dscp);
}

static int by_duration(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

	return (one > other) - (one < other);
}

/* How long packets stayed, and how many did not go on. */
static void summarise(FILE *file, const struct row *table, uint32_t count, uint32_t came)
{
	int64_t *stayed_ns = malloc((came ? came : 1) * sizeof(*stayed_ns));
	uint32_t went = 0;

	for (uint32_t seq = 0; stayed_ns && seq < count; seq++)
		if (table[seq].stamps[CAME] != ABSENT && table[seq].stamps[WENT] != ABSENT)
			stayed_ns[went++] = table[seq].stamps[WENT] - table[seq].stamps[CAME];
	fprintf(file, "# not_forwarded %u\n", came - went);
	fprintf(stderr, "tsn-probe: %u packets came in, %u did not go on\n", came, came - went);
	if (!went)
		return;
	qsort(stayed_ns, went, sizeof(*stayed_ns), by_duration);
	fprintf(stderr, "tsn-probe: residence_ns min %lld p50 %lld p99 %lld max %lld\n",
		(long long)stayed_ns[0], (long long)stayed_ns[(went - 1) / 2],
		(long long)stayed_ns[(uint32_t)((went - 1) * 0.99)], (long long)stayed_ns[went - 1]);
	free(stayed_ns);
}

int probe_residence(const struct options *options)
{
	struct row *table = table_new(options->count);
	struct pollfd ports[PORTS];
	uint32_t came = 0, gone = 0, others = 0, run = 0, none;
	FILE *file;

	for (int each = 0; each < PORTS; each++)
		ports[each] = (struct pollfd){.fd = open_port(options, options->ports[each]), .events = POLLIN};
	file = table_open(options);
	fputs("ready\n", stderr);
	while (gone < options->count && !stopped) {
		int wait_ms = came ? (int)((options->wait_ns + 999999) / 1000000) : -1;

		if (poll(ports, PORTS, wait_ms) <= 0)
			break;
		/* First where they come in: so none leaves that is not known. */
		for (int each = 0; each < PORTS; each++) {
			uint8_t head[HEAD_OCTETS];
			char control[256];
			struct sockaddr_ll from;
			struct iovec into = {head, sizeof(head)};
			struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from),
						 .msg_iov = &into, .msg_iovlen = 1,
						 .msg_control = control, .msg_controllen = sizeof(control)};
			struct packet packet;
			ssize_t octets;
			int64_t ns[2], *stamps;

			octets = stamps_take(ports[each].fd, &message, MSG_DONTWAIT, ns, &none, &none);
			if (octets < 0 || (from.sll_pkttype == PACKET_OUTGOING) != each ||
			    !find(options, head, octets, ntohs(from.sll_protocol), &packet))
				continue;
			if (!came && each == WENT)
				continue; /* of a run that was there before */
			if (!came)
				run = packet.run;
			if (packet.run != run || ntohl(packet.seq) >= options->count) {
				others++;
				continue;
			}
			stamps = table[ntohl(packet.seq)].stamps;
			if (stamps[each] != ABSENT)
				continue;
			stamps[each] = ns[0];
			came += each == CAME;
			gone += each == WENT;
		}
	}
	if (!came)
		fail("no packet came in at %s", options->ports[CAME]);
	table_header(file, "residence", ntohl(run));
	fprintf(file, "# ports %s %s\n# packets %u\n# of_others %u\n", options->ports[CAME],
		options->ports[WENT], came, others);
	summarise(file, table, options->count, came);
	table_write(file, table, options->count, NAMES, CAME);
	return 0;
}
