/* tsn-probe replay: packets of a capture at their instants, as `cnc lab traffic` has written them to
 * a file: lines `flow NUMBER ADDRESS PORT DSCP`, one `run DURATION DRAIN TURN STAMPS`, and then one
 * `INSTANT FLOW OCTETS` for each UDP payload, in the order of time. It does as the talkers beside it
 * (cnc/testbed/traffic/endpoint.py): says that it is ready, reads the start (TAI) and writes the same rows.
 *
 * In virtual time each reading of the clock takes time. So the clock is read once a wait: of packets
 * that are due by then each is sent at once, with the same reading. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FLOWS_MAX 1024
#define REHEARSAL 0xffff /* of a packet that is not counted */
#define REHEARSALS_AHEAD_NS 500000000
#define REHEARSAL_NS 1000000
#define REAL_TIME_PRIORITY 50
#define BUFFER_OCTETS (64 << 20)
#define STAMPS_NS 50000 /* to read both stamps of a packet: several times as long as it takes */

struct flow {
	int fd;
	uint16_t number;
	uint32_t sent;
	uint32_t *places; /* of its packets, by sequence number, for their stamps */
};

struct due {
	int64_t at_ns, sent_ns, stamps[2];
	uint32_t seq;
	uint16_t flow, octets;
};

/* How a payload begins, in network byte order: endpoint.py's PROBE. */
struct probe {
	uint16_t flow;
	uint32_t seq;
} __attribute__((packed));

static struct flow flows[FLOWS_MAX];
static struct due *packets;
static uint32_t flow_count, count;
static int64_t duration_ns, drain_ns, turn;
static int stamped;

static void sleep_until(int64_t ns)
{
	struct timespec until = {ns / NS_PER_S, ns % NS_PER_S};

	while (clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, NULL) == EINTR && !stopped)
		;
}

static void set(int fd, int level, int option, int value, const char *what)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		fail("%s: %s", what, strerror(errno));
}

static int open_socket(const char *text, in_port_t port, int dscp)
{
	struct sockaddr_storage address;
	int fd, most = BUFFER_OCTETS;
	bool six;

	read_address(text, port, &address);
	six = address.ss_family == AF_INET6;
	fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail("socket: %s", strerror(errno));
	set(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS, dscp << 2, "DSCP");
	/* What does not fit the port is to be lost there, and not to hold up what comes after it.
	 * Without CAP_NET_ADMIN the system's limits apply. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof(most));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &most, sizeof(most));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		fail("cannot reach %s: %s", text, strerror(errno));
	return fd;
}

static uint16_t flow_of(const char *file, uint32_t line, unsigned int number)
{
	for (uint32_t each = 0; each < flow_count; each++)
		if (flows[each].number == number)
			return each;
	refuse("%s:%u: there is no flow %u before it", file, line, number);
}

static void add(const char *file, uint32_t line, int64_t at_ns, unsigned int number,
		unsigned int octets)
{
	struct flow *flow = &flows[flow_of(file, line, number)];

	if (octets < sizeof(struct probe) || octets > OCTETS_MAX)
		refuse("%s:%u: found %u octets, expected %zu to %d", file, line, octets,
		       sizeof(struct probe), OCTETS_MAX);
	if (count && at_ns < packets[count - 1].at_ns)
		refuse("%s:%u: found an instant before that of the line above", file, line);
	if (count == COUNT_MAX)
		refuse("%s:%u: more than %d packets", file, line, COUNT_MAX);
	if (!(count & (count - 1)))
		packets = realloc(packets, (count ? 2 * count : 1) * sizeof(*packets));
	if (!(flow->sent & (flow->sent - 1)))
		flow->places = realloc(flow->places,
				       (flow->sent ? 2 * flow->sent : 1) * sizeof(*flow->places));
	if (!packets || !flow->places)
		fail("no memory for %u packets", count);
	flow->places[flow->sent] = count;
	packets[count++] = (struct due){.at_ns = at_ns,
					.stamps = {ABSENT, ABSENT},
					.seq = flow->sent++,
					.flow = flow - flows,
					.octets = octets};
}

static void read_timeline(const char *name)
{
	FILE *file = fopen(name, "re");
	char text[256], address[64];
	unsigned int number, port, dscp, octets;
	int64_t at_ns;
	uint32_t line = 0;

	if (!file)
		refuse("%s: %s", name, strerror(errno));
	while (fgets(text, sizeof(text), file)) {
		line++;
		if (sscanf(text, "%" SCNd64 " %u %u", &at_ns, &number, &octets) == 3)
			add(name, line, at_ns, number, octets);
		else if (sscanf(text, "flow %u %63s %u %u", &number, address, &port, &dscp) == 4 &&
			 flow_count < FLOWS_MAX)
			flows[flow_count++] = (struct flow){.fd = open_socket(address, port, dscp),
							    .number = number};
		else if (sscanf(text, "run %" SCNd64 " %" SCNd64 " %" SCNd64 " %d", &duration_ns,
				&drain_ns, &turn, &stamped) != 4)
			refuse("%s:%u: found none of the lines of a timeline", name, line);
	}
	fclose(file);
	for (uint32_t each = 0; each < flow_count; each++)
		flows[each].sent = 0;
}

/* The stamps of what a flow has sent, the first of each kind: the cables of a lab stamp again. */
static void collect(struct flow *flow, int64_t offset_ns)
{
	char control[512];
	int64_t ns[2];

	for (;;) {
		struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
		uint32_t kind = 0, id = UINT32_MAX;
		int64_t *stamp;

		if (stamps_take(flow->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT, ns, &kind, &id) < 0)
			return;
		if (id >= flow->sent || ns[0] == ABSENT)
			continue;
		stamp = &packets[flow->places[id]].stamps[kind != SCM_TSTAMP_SCHED];
		if (*stamp == ABSENT)
			*stamp = ns[0] + offset_ns;
	}
}

static void send_packet(const struct flow *flow, uint16_t number, uint32_t seq, size_t octets)
{
	static char payload[OCTETS_MAX];
	struct probe probe = {htons(number), htonl(seq)};

	memcpy(payload, &probe, sizeof(probe));
	/* A port without room is no failure: the packet is lost, as many are in a network. */
	if (send(flow->fd, payload, octets, 0) < 0 && errno != ENOBUFS)
		fail("packet %u of flow %u was not sent: %s%s", seq, flow->number, strerror(errno),
		     errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENETDOWN ?
			     ": the kernel drops a lab's routes when one of its links goes down; `cnc "
			     "lab down` and `cnc lab up` make it again" : "");
}

static void rehearse(void)
{
	static const struct options software;

	for (uint32_t each = 0; each < flow_count; each++) {
		/* The first packet of a program takes longer than all others. */
		send_packet(&flows[each], REHEARSAL, 0, sizeof(struct probe));
		if (stamped)
			stamps_request(flows[each].fd, &software,
				       SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE |
					       SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY,
				       0);
	}
}

static void send_all(int64_t start_ns, int64_t offset_ns)
{
	int64_t now_ns = INT64_MIN; /* the first waits, too */

	for (uint32_t each = 0; each < count && !stopped; each++) {
		struct due *due = &packets[each];
		struct flow *flow = &flows[due->flow];
		int64_t planned_ns = start_ns + due->at_ns;

		if (planned_ns > now_ns) {
			sleep_until(planned_ns);
			now_ns = clock_ns(CLOCK_TAI);
		}
		due->sent_ns = now_ns;
		send_packet(flow, flow->number, due->seq, due->octets);
		flow->sent++;
		if (stamped && each + 1 < count &&
		    packets[each + 1].at_ns - due->at_ns > STAMPS_NS)
			collect(flow, offset_ns);
	}
}

static void write_rows(FILE *file, int64_t start_ns)
{
	table_begin(file);
	fputs("flow,seq,planned_ns,sent_ns,scheduled_ns,left_ns\n", file);
	for (uint32_t each = 0; each < count; each++) {
		const struct due *due = &packets[each];

		fprintf(file, "%u,%u,%" PRId64 ",%" PRId64, flows[due->flow].number, due->seq,
			start_ns + due->at_ns, due->sent_ns);
		for (int kind = 0; kind < 2; kind++)
			if (due->stamps[kind] == ABSENT)
				fputc(',', file);
			else
				fprintf(file, ",%" PRId64, due->stamps[kind]);
		fputc('\n', file);
	}
	table_end(file);
}

int probe_replay(const struct options *options)
{
	const struct sched_param first = {REAL_TIME_PRIORITY};
	int64_t start_ns, offset_ns;
	FILE *file;

	read_timeline(options->timeline);
	file = table_open(options);
	offset_ns = (clock_ns(CLOCK_TAI) - clock_ns(CLOCK_REALTIME) + NS_PER_S / 2) / NS_PER_S * NS_PER_S;
	printf("ready %" PRId64 "\n", clock_ns(CLOCK_TAI));
	fflush(stdout);
	if (scanf("%" SCNd64, &start_ns) != 1)
		fail("found no instant to start at on standard input");
	prctl(PR_SET_TIMERSLACK, 1);
	/* Less exact without CAP_SYS_NICE and CAP_IPC_LOCK, not wrong. */
	sched_setscheduler(0, SCHED_FIFO, &first);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	sleep_until(start_ns - REHEARSALS_AHEAD_NS + turn * REHEARSAL_NS);
	rehearse();
	send_all(start_ns, offset_ns);
	/* Not before the others have sent their last: at this priority, writing would delay them. */
	sleep_until(start_ns + duration_ns + drain_ns);
	for (uint32_t each = 0; stamped && each < flow_count; each++)
		collect(&flows[each], offset_ns);
	write_rows(file, start_ns);
	return 0;
}
