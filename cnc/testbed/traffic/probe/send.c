/* tsn-probe send: packets at planned instants, and when each was where on its way out. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>

#define AHEAD_NS 100000000 /* of the first packet */
#define SETTLED_MS 100	   /* in which the last one has passed a switch of this machine */

static const char *const NAMES[] = {
	"planned_ns", "app_ns", "sched_ns", "left_ns", "left_hardware_ns", NULL,
};

static void set(int fd, int level, int option, int value, const char *what)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		refuse("%s: the kernel does not take %d: %s", what, value, strerror(errno));
}

static int open_socket(const struct options *options)
{
	bool six = options->address.ss_family == AF_INET6;
	int level = six ? IPPROTO_IPV6 : IPPROTO_IP;
	int fd = socket(options->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket: %s", strerror(errno));
	/* Before the priority, which it would change. */
	if (options->dscp >= 0)
		set(fd, level, six ? IPV6_TCLASS : IP_TOS, options->dscp << 2, "--dscp");
	if (options->priority >= 0)
		set(fd, SOL_SOCKET, SO_PRIORITY, options->priority, "--priority");
	/* A packet in fragments would have several stamps of each kind. */
	set(fd, level, six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, IP_PMTUDISC_DO, "path MTU discovery");
	if (!options->no_stamps)
		stamps_request(fd, options,
			       SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE |
				       SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY,
			       SOF_TIMESTAMPING_TX_HARDWARE);
	if (connect(fd, (const struct sockaddr *)&options->address, sizeof(options->address)))
		fail("cannot reach the address: %s", strerror(errno));
	return fd;
}

/* Take what stamps there are. Done after each packet, when it is on its way: else they would wait
 * in the socket's buffer, which has room for few hundreds. */
static void collect(int fd, struct row *table, uint32_t sent)
{
	char control[512];
	int64_t ns[2];

	for (;;) {
		struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
		uint32_t kind = 0, id = UINT32_MAX;

		if (stamps_take(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT, ns, &kind, &id) < 0)
			return;
		if (id >= sent)
			continue;
		if (ns[0] != ABSENT)
			table[id].stamps[kind == SCM_TSTAMP_SCHED ? SCHED : LEFT] = ns[0];
		if (ns[1] != ABSENT)
			table[id].stamps[LEFT_HARDWARE] = ns[1];
	}
}

/* How far clocks were off before and after the run, into the header. */
static void write_offsets(FILE *file, const struct options *options, const struct offset both[2])
{
	struct offset after;

	if (!options->sync_ns)
		return;
	after = sync_read(options);
	fprintf(file, "# sync_limit_ns %lld\n# sync_source %s\n# offset_ns %lld\n",
		(long long)options->sync_ns, both[0].why, (long long)both[0].ns);
	fprintf(file, "# receiver_sync_source %s\n# receiver_offset_ns %lld\n", both[1].why,
		(long long)both[1].ns);
	if (after.state == KNOWN)
		fprintf(file, "# offset_after_ns %lld\n", (long long)after.ns);
}

int probe_send(const struct options *options)
{
	int fd = open_socket(options);
	struct row *table = table_new(options->count);
	char payload[OCTETS_MAX] = {0};
	struct packet packet = {.magic = htonl(MAGIC)};
	int last = options->hardware ? LEFT_HARDWARE : LEFT;
	struct offset both[2];
	int64_t begin_ns;
	uint32_t sent = 0;
	FILE *file;

	prctl(PR_SET_TIMERSLACK, 1); /* ns; else 50 µs for who has no real-time priority */
	if (getrandom(&packet.run, sizeof(packet.run), 0) != sizeof(packet.run))
		fail("getrandom: %s", strerror(errno));
	file = table_open(options);
	if (options->sync_ns)
		sync_await(options, both);
	clock_begin(options->by_tsc);
	begin_ns = clock_ns(CLOCK_REALTIME) + AHEAD_NS;
	begin_ns += options->period_ns - begin_ns % options->period_ns;
	for (; sent < options->count && !stopped; sent++) {
		int64_t planned_ns = begin_ns + sent * options->period_ns;
		struct timespec until = {planned_ns / NS_PER_S, planned_ns % NS_PER_S};
		int64_t *stamps = table[sent].stamps;

		packet.seq = htonl(sent);
		memcpy(payload, &packet, sizeof(packet));
		if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL))
			break;
		stamps[PLANNED] = planned_ns;
		stamps[APP] = stamp();
		if (send(fd, payload, options->octets, 0) < 0)
			fail("packet %u was not sent: %s%s", sent, strerror(errno),
			     errno == ECONNREFUSED ? "; is there a receiver?" : "");
		collect(fd, table, sent + 1);
		clock_anchor(stamps[APP]);
	}
	for (int waited_ms = 0; sent && !options->no_stamps && waited_ms < LAST_STAMP_MS; waited_ms++) {
		if (table[sent - 1].stamps[last] != ABSENT)
			break;
		poll(NULL, 0, 1);
		collect(fd, table, sent);
	}
	/* What follows computes for long: whoever forwards the last packet may need this processor. */
	if (options->no_stamps)
		poll(NULL, 0, SETTLED_MS);
	clock_end();
	table_header(file, "send", ntohl(packet.run));
	fprintf(file, "# packets %u\n# period_ns %lld\n# payload_octets %zu\n", sent,
		(long long)options->period_ns, options->octets);
	write_offsets(file, options, both);
	stamps_report(fd, file, options, SOF_TIMESTAMPING_TX_HARDWARE,
		      table_missing(table, sent, APP, LEFT_HARDWARE));
	table_write(file, table, sent, NAMES, APP);
	return 0;
}
