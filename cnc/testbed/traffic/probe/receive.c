/* tsn-probe receive: when kernel and program had each packet. Lost ones have no row. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <string.h>

static const char *const NAMES[] = {"rx_ns", "got_ns", "rx_hardware_ns", NULL};

static int open_socket(const struct options *options)
{
	int fd = socket(options->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket: %s", strerror(errno));
	stamps_request(fd, options, SOF_TIMESTAMPING_RX_SOFTWARE, SOF_TIMESTAMPING_RX_HARDWARE);
	if (bind(fd, (const struct sockaddr *)&options->address, sizeof(options->address)))
		fail("cannot listen: %s", strerror(errno));
	return fd;
}

/* The time to wait for another packet, from the first on; before that, until a signal. */
static void limit_wait(int fd, int64_t wait_ns)
{
	struct timeval limit = {wait_ns / NS_PER_S, wait_ns % NS_PER_S / 1000};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		fail("SO_RCVTIMEO: %s", strerror(errno));
}

int probe_receive(const struct options *options)
{
	int fd = open_socket(options);
	struct row *table = table_new(options->count);
	char data[QUESTION_OCTETS];
	struct sockaddr_storage from;
	struct packet packet;
	uint32_t received = 0, repeated = 0, strange = 0, run = 0, none;
	char control[512];
	int64_t ns[2];
	FILE *file;

	clock_begin(options->by_tsc);
	file = table_open(options);
	fputs("ready\n", stderr);
	while (received < options->count) {
		struct iovec into = {data, sizeof(data)};
		struct msghdr message = {.msg_name = &from,
					 .msg_namelen = sizeof(from),
					 .msg_iov = &into,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t octets;
		bool is_ours;
		int64_t got, *stamps;

		/* After a signal, what the kernel has already. */
		octets = stamps_take(fd, &message, stopped ? MSG_DONTWAIT : 0, ns, &none, &none);
		if (octets < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				break;
			fail("recvmsg: %s", strerror(errno));
		}
		got = stamp();
		if (!received && sync_is_question(data, octets)) {
			sync_answer(fd, options, &message);
			continue;
		}
		memcpy(&packet, data, sizeof(packet));
		is_ours = octets >= (ssize_t)sizeof(packet) && ntohl(packet.magic) == MAGIC &&
			  ntohl(packet.seq) < options->count;
		if (!is_ours || (received && packet.run != run)) {
			strange++;
			continue;
		}
		stamps = table[ntohl(packet.seq)].stamps;
		if (stamps[GOT] != ABSENT) {
			repeated++;
			continue;
		}
		stamps[GOT] = got;
		stamps[RX] = ns[0];
		stamps[RX_HARDWARE] = ns[1];
		if (!received++) {
			run = packet.run;
			limit_wait(fd, options->wait_ns);
		}
		clock_anchor(got);
	}
	clock_end();
	if (!received)
		fail("no packet came");
	table_header(file, "receive", ntohl(run));
	fprintf(file, "# packets %u\n# repeated %u\n# of_others %u\n", received, repeated, strange);
	stamps_report(fd, file, options, SOF_TIMESTAMPING_RX_HARDWARE,
		      table_missing(table, options->count, GOT, RX_HARDWARE));
	table_write(file, table, options->count, NAMES, GOT);
	return 0;
}
