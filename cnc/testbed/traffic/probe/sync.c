/* tsn-probe send --sync: how far the system clocks of both hosts, which software stamps are of, are from
 * their grandmaster, and no packet before they have been near it for a while.
 *
 * Each host asks its own ptp4l by PTP management messages (IEEE Std 1588-2019, clause 15; linuxptp's
 * own data sets are in its tlv.h). Where that keeps the clock of a card, the kernel compares the card's
 * with the system's, which is phc2sys's part. The receiver answers the sender before the first packet. */
#include "probe.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#define PTP4L_WAIT_NS 100000000
#define RECEIVER_WAIT_NS 500000000
#define ASKED_EVERY_NS NS_PER_S
#define STEADY_NS (10 * NS_PER_S)
#define SAMPLES 5
#define QUESTION 0x54534e51 /* TSNQ */
#define ANSWER 0x54534e41   /* TSNA */

enum { TIME_PROPERTIES = 0x2003, TIME_STATUS_NP = 0xc000, PORT_PROPERTIES_NP = 0xc004 };
enum { MANAGEMENT = 0xd, PTP_VERSION = 2, GET = 0, RESPONSE = 2, TLV_MANAGEMENT = 1 };
enum { MASTER = 6, SLAVE = 9 };	       /* states of a port, table 20 */
enum { BY_SOFTWARE = 0 };	       /* enum timestamp_type of linuxptp's msg.h */
enum { PTP_TIMESCALE = 1 << 3 };       /* of the flags of the time properties, table 66 */
enum { DATA_OCTET = 54 };	       /* of a message; before it headers, and the TLV's */
static const int STATUS_OCTETS = 50, PROPERTIES_OCTETS = 4, PORT_OCTETS = 13;

/* What a ptp4l says of its clock. */
struct ptp4l {
	bool has_status, has_properties, has_port;
	int64_t ahead_ns; /* of the grandmaster */
	int32_t follows;  /* another clock */
	uint64_t grandmaster;
	int64_t utc_offset_ns; /* how far its clock is ahead of UTC, if that is not the system's */
	int state, stamps;
	char interface[IF_NAMESIZE];
};

struct message {
	uint8_t type, version;
	uint16_t octets;
	uint8_t domain, rest[29];
	uint8_t clock[8];
	uint16_t port;
	uint8_t hops[2], action, reserved;
	uint16_t tlv, tlv_octets, id;
} __attribute__((packed));

/* What both hosts send each other. A question is as long, so that nobody gets more than he sends. */
struct said {
	uint32_t magic, number, state, reserved;
	uint64_t offset_ns, grandmaster;
	char why[WHY_OCTETS];
};

static void request(int fd, uint8_t sdo, uint8_t domain, uint16_t id)
{
	struct message message = {.type = sdo << 4 | MANAGEMENT,
				  .version = PTP_VERSION,
				  .octets = htons(sizeof(message)),
				  .domain = domain,
				  .port = 0xffff,
				  .action = GET,
				  .tlv = htons(TLV_MANAGEMENT),
				  .tlv_octets = htons(2),
				  .id = htons(id)};

	_Static_assert(sizeof(message) == DATA_OCTET, "as IEEE Std 1588 has it");
	memset(message.clock, 0xff, sizeof(message.clock));
	message.rest[27] = 4;	 /* control: management */
	message.rest[28] = 0x7f; /* no interval */
	send(fd, &message, sizeof(message), MSG_DONTWAIT);
}

static uint64_t number(const uint8_t *data, int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | *data++;
	return value;
}

/* Take what a response has; whoever may bind the socket's address can answer, so lengths are checked. */
static void take(struct ptp4l *its, const uint8_t *data, ssize_t length)
{
	const struct message *message = (const struct message *)data;
	int has = length - DATA_OCTET, id;

	if (length < DATA_OCTET || (message->action & 0xf) != RESPONSE)
		return;
	id = ntohs(message->id);
	data += DATA_OCTET;
	if (id == TIME_STATUS_NP && has >= STATUS_OCTETS) {
		its->has_status = true;
		its->ahead_ns = (int64_t)number(data, 8);
		its->follows = (int32_t)number(data + 38, 4);
		its->grandmaster = number(data + 42, 8);
	} else if (id == TIME_PROPERTIES && has >= PROPERTIES_OCTETS) {
		its->has_properties = true;
		its->utc_offset_ns = data[2] & PTP_TIMESCALE ? (int16_t)number(data, 2) * NS_PER_S : 0;
	} else if (id == PORT_PROPERTIES_NP && has >= PORT_OCTETS && has >= PORT_OCTETS + data[12] &&
		   data[12] < IF_NAMESIZE && (!its->has_port || data[10] == SLAVE)) {
		its->has_port = true;
		its->state = data[10];
		its->stamps = data[11];
		memcpy(its->interface, data + PORT_OCTETS, data[12]);
		its->interface[data[12]] = '\0';
	}
}

/* Ask ptp4l; false: it has no socket there, and `errno` says why. */
static bool ask_ptp4l(const struct options *options, struct ptp4l *its)
{
	static const uint16_t IDS[] = {TIME_STATUS_NP, TIME_PROPERTIES, PORT_PROPERTIES_NP};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int64_t left_ns, deadline_ns = clock_ns(CLOCK_MONOTONIC) + PTP4L_WAIT_NS;
	uint8_t data[1500];

	if (fd < 0)
		fail("socket: %s", strerror(errno));
	/* An address that the kernel chooses, to be answered at: nothing to remove. */
	bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t));
	strcpy(address.sun_path, options->ptp4l);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return false;
	}
	for (int sdo = 0; sdo < 2; sdo++) /* of IEEE 1588, and of IEEE 802.1AS */
		for (size_t each = 0; each < sizeof(IDS) / sizeof(*IDS); each++)
			request(fd, sdo, options->domain, IDS[each]);
	while ((left_ns = deadline_ns - clock_ns(CLOCK_MONOTONIC)) > 0) {
		struct pollfd until = {.fd = fd, .events = POLLIN};
		struct timespec left = {.tv_nsec = left_ns};

		if (its->has_status && its->has_properties && its->has_port && its->state == SLAVE)
			break;
		if (ppoll(&until, 1, &left, NULL) == 1)
			take(its, data, recv(fd, data, sizeof(data), 0));
	}
	close(fd);
	return true;
}

static int64_t of_clock(const struct ptp_clock_time *time)
{
	return time->sec * NS_PER_S + time->nsec;
}

/* How far the system's clock is ahead of that of a card, as the shortest of some comparisons has it;
 * false, with errno: the driver of the card has none. */
static bool compare(int fd, int64_t *ahead_ns)
{
	struct ptp_sys_offset_extended closely = {.n_samples = SAMPLES};
	struct ptp_sys_offset around = {.n_samples = SAMPLES};
	bool is_close = !ioctl(fd, PTP_SYS_OFFSET_EXTENDED, &closely);
	int64_t least_ns = INT64_MAX;

	/* What a driver without the first has, whose instants are further apart. */
	if (!is_close && ioctl(fd, PTP_SYS_OFFSET, &around))
		return false;
	for (int each = 0; each < SAMPLES; each++) {
		const struct ptp_clock_time *times = is_close ? closely.ts[each] : &around.ts[2 * each];
		int64_t before_ns = of_clock(&times[0]), width_ns = of_clock(&times[2]) - before_ns;

		if (width_ns < least_ns) {
			least_ns = width_ns;
			*ahead_ns = before_ns + width_ns / 2 - of_clock(&times[1]);
		}
	}
	return true;
}

/* The same with the card of an interface; false: it cannot be, and `why` says so. */
static bool compare_with_card(const char *interface, int64_t *ahead_ns, char why[WHY_OCTETS])
{
	struct ethtool_ts_info able = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	struct ifreq about = {.ifr_data = (void *)&able};
	char path[32];
	bool compared;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(about.ifr_name, interface);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &about) || able.phc_index < 0) {
		close(fd);
		return !snprintf(why, WHY_OCTETS, "ptp4l has stamps of the clock of %s, which has none",
				 interface);
	}
	close(fd);
	snprintf(path, sizeof(path), "/dev/ptp%d", able.phc_index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	compared = fd >= 0 && compare(fd, ahead_ns);
	if (!compared)
		snprintf(why, WHY_OCTETS, "%s, the clock of %s, cannot be compared with the system's: %s",
			 path, interface, strerror(errno));
	if (fd >= 0)
		close(fd);
	return compared;
}

/* How far this host's system clock is from the grandmaster, and what that is known from. */
struct offset sync_read(const struct options *options)
{
	struct offset its = {.state = NO_SOURCE};
	struct ptp4l daemon = {0};
	int64_t system_ahead_ns = 0;

	if (!ask_ptp4l(options, &daemon)) {
		snprintf(its.why, WHY_OCTETS, "no ptp4l at %s: %s (--ptp4l names its uds_address)",
			 options->ptp4l, strerror(errno));
		return its;
	}
	if (!daemon.has_status || !daemon.has_port || !daemon.has_properties) {
		snprintf(its.why, WHY_OCTETS,
			 "ptp4l at %s did not say within 100 ms %s (--domain: %d)", options->ptp4l,
			 daemon.has_status ? "which clock it keeps, which uds_ro_address never does"
					   : "how far its clock is off", options->domain);
		return its;
	}
	its.state = NOT_YET;
	its.grandmaster = daemon.grandmaster;
	if (daemon.follows ? daemon.state != SLAVE : daemon.state != MASTER) {
		snprintf(its.why, WHY_OCTETS, "its ptp4l has no port in the state slave, nor is it the "
			 "grandmaster");
		return its;
	}
	if (daemon.stamps != BY_SOFTWARE) {
		if (!compare_with_card(daemon.interface, &system_ahead_ns, its.why)) {
			its.state = NO_SOURCE;
			return its;
		}
		system_ahead_ns += daemon.utc_offset_ns;
	}
	its.state = KNOWN;
	its.ns = (daemon.follows ? daemon.ahead_ns : 0) + system_ahead_ns;
	snprintf(its.why, WHY_OCTETS, "%s, %s%s", options->ptp4l,
		 daemon.stamps == BY_SOFTWARE ? "which keeps the system clock"
					      : "which keeps the clock of ",
		 daemon.stamps == BY_SOFTWARE ? "" : daemon.interface);
	return its;
}

/* The receiver's part: answer a sender's question, until there are packets. */
void sync_answer(int fd, const struct options *options, const struct msghdr *question)
{
	const struct said *asked = question->msg_iov->iov_base;
	struct said said = {.magic = htonl(ANSWER), .number = asked->number};
	struct offset its = sync_read(options);

	said.state = htonl(its.state);
	said.offset_ns = htobe64((uint64_t)its.ns);
	said.grandmaster = htobe64(its.grandmaster);
	memcpy(said.why, its.why, WHY_OCTETS);
	sendto(fd, &said, sizeof(said), MSG_DONTWAIT, question->msg_name, question->msg_namelen);
}

bool sync_is_question(const void *data, ssize_t octets)
{
	return octets == sizeof(struct said) && ((const struct said *)data)->magic == htonl(QUESTION);
}

static struct offset ask_receiver(int fd)
{
	struct said asked = {.magic = htonl(QUESTION)}, said;
	struct timeval limit = {.tv_usec = RECEIVER_WAIT_NS / 1000};
	struct offset its = {.state = NO_SOURCE};

	if (getrandom(&asked.number, sizeof(asked.number), 0) != sizeof(asked.number))
		fail("getrandom: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(fd, &asked, sizeof(asked), 0) < 0)
		errno = errno ? errno : EIO;
	do {
		if (recv(fd, &said, sizeof(said), 0) != sizeof(said)) {
			snprintf(its.why, WHY_OCTETS, "it does not answer; is `tsn-probe receive` there?");
			return its;
		}
	} while (said.magic != htonl(ANSWER) || said.number != asked.number);
	its.state = ntohl(said.state);
	its.ns = (int64_t)be64toh(said.offset_ns);
	its.grandmaster = be64toh(said.grandmaster);
	memcpy(its.why, said.why, WHY_OCTETS - 1);
	for (char *each = its.why; *each; each++) /* to be shown on a terminal */
		if (*each < ' ' || *each > '~')
			*each = '?';
	return its;
}

/* Whether it is within the limit, which is told where that was not so `before`; below 0: unknown. */
static bool is_within(const char *host, const struct offset *its, int64_t limit_ns, int before)
{
	bool is = its->state == KNOWN && llabs(its->ns) <= limit_ns;

	if (is == before)
		return is;
	fprintf(stderr, is ? "tsn-probe: %s: " : "tsn-probe: waiting for %s: ", host);
	if (its->state == KNOWN)
		fprintf(stderr, "clock %lld ns from the grandmaster (%s)\n", (long long)its->ns, its->why);
	else
		fprintf(stderr, "%s\n", its->why);
	return is;
}

/* Return when both clocks have been within the limit for so long. Refuses what will never be. */
void sync_await(const struct options *options, struct offset both[2])
{
	static const char *const HOSTS[] = {"this host", "the receiver"};
	int fd = socket(options->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timespec pause = {.tv_sec = ASKED_EVERY_NS / NS_PER_S};
	int within[2] = {-1, -1};
	bool apart = false;
	int64_t since_ns = ABSENT;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&options->address, sizeof(options->address)))
		fail("cannot reach the address: %s", strerror(errno));
	for (; !stopped; nanosleep(&pause, NULL)) {
		both[0] = sync_read(options);
		both[1] = ask_receiver(fd);
		for (int each = 0; each < 2; each++) {
			if (both[each].state == NO_SOURCE && within[each] < 0)
				refuse("--sync: %s: %s", HOSTS[each], both[each].why);
			within[each] = is_within(HOSTS[each], &both[each], options->sync_ns, within[each]);
		}
		if (within[0] && within[1] && both[0].grandmaster != both[1].grandmaster && !apart)
			fprintf(stderr, "tsn-probe: waiting: the hosts have different grandmasters\n");
		apart = both[0].grandmaster != both[1].grandmaster;
		if (!within[0] || !within[1] || apart)
			since_ns = ABSENT;
		else if (since_ns == ABSENT)
			since_ns = clock_ns(CLOCK_MONOTONIC);
		else if (clock_ns(CLOCK_MONOTONIC) - since_ns >= STEADY_NS) {
			close(fd);
			return;
		}
	}
	fail("not started: the clocks were not within %lld ns for %lld s", (long long)options->sync_ns,
	     STEADY_NS / NS_PER_S);
}
