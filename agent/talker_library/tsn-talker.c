/* See tsn-talker.h. */
#define _GNU_SOURCE
#include "tsn-talker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL
#define FILE_OCTETS_MAX (16 << 20)
#define DEPTH_MAX 16

/* --- JSON, as far as the agent writes it ------------------------------------------------------- */

static const char *after_space(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* The end of a string that begins at `at`; NULL where it has none. */
static const char *string_end(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && !*++at)
			return NULL;
	return *at ? at + 1 : NULL;
}

/* Behind the value at `at`; NULL where it is none. */
static const char *value_end(const char *at)
{
	int depth = 0;

	do {
		at = after_space(at);
		if (*at == '"') {
			at = string_end(at);
			if (!at)
				return NULL;
		} else if (*at == '{' || *at == '[') {
			if (++depth > DEPTH_MAX)
				return NULL;
			at++;
		} else if (*at == '}' || *at == ']') {
			depth--;
			at++;
		} else {
			size_t octets = strcspn(at, " \t\r\n,:{}[]\"");

			if (!octets && *at != ',' && *at != ':')
				return NULL;
			at += octets ? octets : 1;
		}
	} while (depth > 0);
	return at;
}

/* The next member of the object, or entry of the list, behind `at`; NULL where there is none. */
static const char *next_in(const char *at)
{
	at = after_space(at);
	if (*at == ',' || *at == '{' || *at == '[')
		at = after_space(at + 1);
	return *at && *at != '}' && *at != ']' ? at : NULL;
}

static int is_string(const char *at, const char *text)
{
	size_t octets = strlen(text);

	return *at == '"' && !strncmp(at + 1, text, octets) && at[1 + octets] == '"';
}

/* The value behind the name of a member. */
static const char *value_of(const char *member)
{
	const char *end = *member == '"' ? string_end(member) : NULL;

	end = end ? after_space(end) : NULL;
	return end && *end == ':' ? after_space(end + 1) : NULL;
}

/* The value of a member of the object; NULL where it is not there. */
static const char *member_of(const char *object, const char *name)
{
	const char *member = object && *object == '{' ? next_in(object) : NULL;

	while (member) {
		const char *value = value_of(member);

		if (!value)
			return NULL;
		if (is_string(member, name))
			return value;
		member = value_end(value);
		member = member ? next_in(member) : NULL;
	}
	return NULL;
}

static uint64_t number_of(const char *object, const char *name, uint64_t otherwise)
{
	const char *value = member_of(object, name);

	return value && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : otherwise;
}

/* --- the offsets --------------------------------------------------------------------------------- */

static const char *stream_in(const char *table, const char *stream, unsigned path)
{
	const char *list = member_of(table, "stream");
	const char *entry = list && *list == '[' ? next_in(list) : NULL;

	while (entry) {
		const char *name = member_of(entry, "name");

		if (name && is_string(name, stream) && number_of(entry, "path", 1) == path)
			return entry;
		entry = value_end(entry);
		entry = entry ? next_in(entry) : NULL;
	}
	return NULL;
}

/* The departure of a table; -ENOENT where it has no such stream. */
static int departure_in(const char *table, const char *stream, unsigned path, uint64_t earliest_ns,
			struct tsn_departure *next)
{
	const char *entry = stream_in(table, stream, path);
	uint64_t base_ns;

	if (!entry)
		return -ENOENT;
	base_ns = number_of(table, "base-time-ns", 0);
	if (earliest_ns < base_ns)
		earliest_ns = base_ns;
	next->period_ns = number_of(entry, "period-ns", 0);
	if (!next->period_ns)
		return -EBADMSG;
	next->period_begin_ns = (earliest_ns + next->period_ns - 1) / next->period_ns * next->period_ns;
	next->instant_ns = next->period_begin_ns + number_of(entry, "offset-ns", 0);
	next->payload_octets = number_of(entry, "payload-octets", 0);
	next->frames = number_of(entry, "frames-per-period", 1);
	next->priority = number_of(entry, "priority", 0);
	next->dscp = member_of(entry, "dscp") ? (int8_t)number_of(entry, "dscp", 0) : -1;
	return 0;
}

/* `pending` replaces `running` from its base time on. */
static int departure_of(const char *tables, const char *stream, unsigned path, uint64_t earliest_ns,
			struct tsn_departure *next)
{
	const char *pending = member_of(tables, "pending");
	int result = departure_in(member_of(tables, "running"), stream, path, earliest_ns, next);

	if (!pending || *pending != '{')
		return result;
	if (!result && next->period_begin_ns < number_of(pending, "base-time-ns", 0))
		return 0;
	return departure_in(pending, stream, path, earliest_ns, next);
}

static int earliest_of(const char *document, const char *stream, unsigned path, uint64_t earliest_ns,
		       struct tsn_departure *next)
{
	const char *format = member_of(document, "format");
	const char *interfaces = member_of(document, "interfaces");
	const char *member = interfaces && *interfaces == '{' ? next_in(interfaces) : NULL;
	int found = -ENOENT;

	if (!format || !is_string(format, "tsn-offsets/1") || !interfaces)
		return -EBADMSG;
	while (member) {
		struct tsn_departure its = {0};
		const char *tables = value_of(member);
		const char *end = tables ? value_end(tables) : NULL;
		size_t octets = strcspn(member + 1, "\"");
		int result;

		if (!end || octets >= sizeof(its.interface))
			return -EBADMSG;
		result = departure_of(tables, stream, path, earliest_ns, &its);
		if (result == -EBADMSG)
			return result;
		if (!result && (found || its.period_begin_ns < next->period_begin_ns)) {
			memcpy(its.interface, member + 1, octets);
			*next = its;
			found = 0;
		}
		member = next_in(end);
	}
	return found;
}

int tsn_next_departure(const char *file, const char *stream, unsigned path, uint64_t earliest_ns,
		       struct tsn_departure *next)
{
	int result = -EBADMSG, fd = open(file, O_RDONLY | O_CLOEXEC);
	struct stat found;
	size_t octets = 0;
	char *content;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &found) || found.st_size > FILE_OCTETS_MAX) {
		close(fd);
		return -EBADMSG;
	}
	content = malloc(found.st_size + 1);
	/* The agent never writes into the file, it replaces it. */
	while (content && octets < (size_t)found.st_size) {
		ssize_t more = read(fd, content + octets, found.st_size - octets);

		if (more <= 0)
			break;
		octets += more;
	}
	if (content) {
		content[octets] = 0;
		result = earliest_of(after_space(content), stream, path, earliest_ns, next);
	}
	free(content);
	close(fd);
	return content ? result : -ENOMEM;
}

/* --- the qdiscs of the interface ----------------------------------------------------------------- */

struct found_etf {
	uint32_t root, queue; /* of the root, the queue of the priority */
	int has_root;
	uint32_t parents[64];
	struct tc_etf_qopt etf[64];
	unsigned etfs;
};

static const struct rtattr *attribute(const struct rtattr *at, int octets, unsigned short type)
{
	for (; RTA_OK(at, octets); at = RTA_NEXT(at, octets))
		if ((at->rta_type & NLA_TYPE_MASK) == type)
			return at;
	return NULL;
}

static void take_qdisc(const struct nlmsghdr *message, unsigned index, unsigned priority,
		       struct found_etf *found)
{
	const struct tcmsg *tc = NLMSG_DATA(message);
	const struct rtattr *first = TCA_RTA(tc);
	int octets = NLMSG_PAYLOAD(message, sizeof(*tc));
	const struct rtattr *kind = attribute(first, octets, TCA_KIND);
	const struct rtattr *options = attribute(first, octets, TCA_OPTIONS);

	if ((unsigned)tc->tcm_ifindex != index || !kind || !options)
		return;
	if (tc->tcm_parent == TC_H_ROOT) {
		const struct tc_mqprio_qopt *map = RTA_DATA(options);

		found->has_root = 1;
		found->root = tc->tcm_handle;
		if (!strcmp(RTA_DATA(kind), "taprio")) {
			options = attribute(RTA_DATA(options), RTA_PAYLOAD(options), TCA_TAPRIO_ATTR_PRIOMAP);
			map = options ? RTA_DATA(options) : NULL;
		} else if (strcmp(RTA_DATA(kind), "mqprio")) {
			map = NULL;
		}
		if (map)
			found->queue = map->offset[map->prio_tc_map[priority & 15]];
	} else if (!strcmp(RTA_DATA(kind), "etf") && found->etfs < 64) {
		options = attribute(RTA_DATA(options), RTA_PAYLOAD(options), TCA_ETF_PARMS);
		if (options) {
			found->parents[found->etfs] = tc->tcm_parent;
			memcpy(&found->etf[found->etfs++], RTA_DATA(options), sizeof(found->etf[0]));
		}
	}
}

/* The etf that frames of a priority meet. -EOPNOTSUPP where there is none with CLOCK_TAI. */
static int etf_of(const char *interface, unsigned priority, struct tc_etf_qopt *etf)
{
	struct {
		struct nlmsghdr header;
		struct tcmsg tc;
	} request = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
			   .nlmsg_type = RTM_GETQDISC,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	};
	static const size_t room = 1 << 16;
	struct found_etf found = {0};
	unsigned index = if_nametoindex(interface), each;
	int result = -EOPNOTSUPP, is_done = 0;
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	char *answer = malloc(room);

	if (!index || netlink < 0 || !answer ||
	    send(netlink, &request, request.header.nlmsg_len, 0) < 0) {
		result = -errno;
		is_done = 1;
	}
	while (!is_done) {
		ssize_t received = recv(netlink, answer, room, 0);
		int octets = received;
		const struct nlmsghdr *message = (const struct nlmsghdr *)answer;

		if (received <= 0)
			break;
		for (; NLMSG_OK(message, (unsigned)octets); message = NLMSG_NEXT(message, octets)) {
			is_done |= message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR;
			if (message->nlmsg_type == RTM_NEWQDISC)
				take_qdisc(message, index, priority, &found);
		}
	}
	for (each = 0; found.has_root && each < found.etfs; each++)
		if (found.parents[each] == (found.root | (found.queue + 1)) &&
		    found.etf[each].clockid == CLOCK_TAI) {
			*etf = found.etf[each];
			result = 0;
		}
	free(answer);
	if (netlink >= 0)
		close(netlink);
	return result;
}

/* --- sending ------------------------------------------------------------------------------------- */

int tsn_launch_open(struct tsn_launch *launch, int fd, const struct tsn_departure *departure)
{
	struct sock_txtime txtime = {.clockid = CLOCK_TAI, .flags = SOF_TXTIME_REPORT_ERRORS};
	const int priority = departure->priority, tos = departure->dscp << 2;
	const char *interface = departure->interface;
	struct tc_etf_qopt etf;
	int domain = AF_UNSPEC, result = etf_of(interface, departure->priority, &etf);
	socklen_t octets = sizeof(domain);

	if (result)
		return result;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &octets))
		return -errno;
	if (domain != AF_PACKET &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface)))
		return -errno;
	/* Setting the TOS sets the priority, too (ip(7)), so it comes first. */
	if (departure->dscp >= 0 && domain == AF_INET && setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)))
		return -errno;
	if (departure->dscp >= 0 && domain == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos)))
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		return -errno;
	*launch = (struct tsn_launch){.fd = fd, .delta_ns = etf.delta};
	launch->in_hardware = !!(etf.flags & TC_ETF_OFFLOAD_ON);
	launch->ahead_ns = launch->in_hardware ? launch->delta_ns : 0;
	return 0;
}

int tsn_launch_send(struct tsn_launch *launch, const void *frame, size_t octets, uint64_t instant_ns)
{
	/* In software the qdisc releases a frame its delta before the time of transmission. */
	uint64_t txtime_ns = instant_ns + (launch->in_hardware ? 0 : launch->delta_ns);
	struct iovec part = {.iov_base = (void *)frame, .iov_len = octets};
	union {
		char octets[CMSG_SPACE(sizeof(uint64_t))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.octets,
				 .msg_controllen = sizeof(control.octets)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int result = tsn_launch_drain(launch);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_TXTIME;
	header->cmsg_len = CMSG_LEN(sizeof(txtime_ns));
	memcpy(CMSG_DATA(header), &txtime_ns, sizeof(txtime_ns));
	if (result)
		return result;
	/* ENOBUFS: a qdisc has refused the frame, and the next drain counts it. */
	return sendmsg(launch->fd, &message, 0) < 0 && errno != ENOBUFS ? -errno : 0;
}

int tsn_launch_drain(struct tsn_launch *launch)
{
	char frame[1], control[256];

	for (;;) {
		struct iovec part = {.iov_base = frame, .iov_len = sizeof(frame)};
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		struct cmsghdr *each;

		if (recvmsg(launch->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
			struct sock_extended_err report;

			if (each->cmsg_len < CMSG_LEN(sizeof(report)))
				continue;
			memcpy(&report, CMSG_DATA(each), sizeof(report));
			if (report.ee_origin != SO_EE_ORIGIN_TXTIME)
				continue;
			if (report.ee_code == SO_EE_CODE_TXTIME_MISSED)
				launch->missed++;
			else
				launch->refused++;
		}
	}
}

/* --- what the agent is told (agent/mechanisms/talker_offsets/lateness.py) ------------------------- */

/* The name of a stream as part of a file's name, as in a URL; -ENAMETOOLONG where it has no room. */
static int escaped(const char *name, char *into, size_t room)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
	size_t used = 0;

	for (; *name; name++) {
		if (used + 4 > room)
			return -ENAMETOOLONG;
		if (strchr(plain, *name))
			into[used++] = *name;
		else
			used += sprintf(into + used, "%%%02X", (unsigned char)*name);
	}
	into[used] = 0;
	return 0;
}

int tsn_launch_report(const struct tsn_launch *launch, const char *file, const char *stream, unsigned path)
{
	const char *slash = strrchr(file, '/');
	int fd, octets, result, folder = slash ? slash - file : 1;
	char name[3 * NAME_MAX], final[PATH_MAX], new[PATH_MAX + 4], text[128];

	result = escaped(stream, name, sizeof(name));
	if (result)
		return result;
	if (snprintf(final, sizeof(final), "%.*s/lateness/%s.%u", folder, slash ? file : ".", name, path) >=
	    (int)sizeof(final))
		return -ENAMETOOLONG;
	snprintf(new, sizeof(new), "%s.new", final);
	octets = snprintf(text, sizeof(text),
			  "{\"format\": \"tsn-lateness/2\", \"missed\": %llu, \"refused\": %llu}",
			  (unsigned long long)launch->missed, (unsigned long long)launch->refused);
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* The agent is another user, whatever the umask is. */
	result = fchmod(fd, 0644) || write(fd, text, octets) != octets ? -errno : 0;
	if (close(fd) && !result)
		result = -errno;
	if (!result && rename(new, final))
		result = -errno;
	if (result)
		unlink(new);
	return result;
}

uint64_t tsn_tai_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_TAI, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void tsn_sleep_until(uint64_t instant_ns)
{
	struct timespec until = {.tv_sec = instant_ns / NS_PER_S, .tv_nsec = instant_ns % NS_PER_S};

	while (clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

const char *tsn_error(int result)
{
	switch (-result) {
	case 0:
		return "no error";
	case ENOENT:
		return "the agent publishes no such stream: push a plan with it to this end station";
	case EBADMSG:
		return "the offsets cannot be read: see the journal of tsn-agent, which writes them";
	case EOPNOTSUPP:
		return "its frames would meet no etf qdisc, and the kernel would ignore their time: state "
		       "`launch-time` of this end station in the intent and push it";
	case EPERM:
		return "a time of transmission by CLOCK_TAI needs CAP_NET_ADMIN";
	default:
		return strerror(-result);
	}
}
