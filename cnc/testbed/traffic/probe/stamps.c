/* Time stamps that the kernel takes (Documentation/networking/timestamping.rst). */
#include "probe.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

static int ask_driver(int fd, const char *name, unsigned long request, void *data)
{
	struct ifreq about = {.ifr_data = data};

	strcpy(about.ifr_name, name);
	return ioctl(fd, request, &about);
}

static const char *filter_name(int filter)
{
	switch (filter) {
	case HWTSTAMP_FILTER_NONE: return "none";
	case HWTSTAMP_FILTER_PTP_V2_L2_EVENT: return "ptpv2-l2-event";
	case HWTSTAMP_FILTER_PTP_V2_L4_EVENT: return "ptpv2-l4-event";
	case HWTSTAMP_FILTER_PTP_V2_EVENT: return "ptpv2-event";
	default: return "of some packets";
	}
}

/* Why the driver of an interface stamps no packets such as these, written to `why`; false: it does.
 * `wanted` is what they are to have: a stamp as they leave, or as they arrive. */
static bool hardware_lacks(int fd, const char *name, uint32_t wanted, char why[WHY_OCTETS])
{
	struct ethtool_ts_info able = {.cmd = ETHTOOL_GET_TS_INFO};
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct hwtstamp_config set = {0};
	bool sent = wanted & SOF_TIMESTAMPING_TX_HARDWARE;
	const char *what = sent ? "sent" : "received";

	if (ask_driver(fd, name, SIOCETHTOOL, &able))
		return snprintf(why, WHY_OCTETS, "%s: %s", name, strerror(errno));
	if (ask_driver(fd, name, SIOCETHTOOL, &driver))
		strcpy(driver.driver, "unknown");
	wanted |= SOF_TIMESTAMPING_RAW_HARDWARE;
	if ((able.so_timestamping & wanted) != wanted)
		return snprintf(why, WHY_OCTETS,
				"%s has no hardware time stamps: its driver %s stamps no %s packets "
				"(`ethtool -T %s`)", name, driver.driver, what, name);
	if (ask_driver(fd, name, SIOCGHWTSTAMP, &set))
		return snprintf(why, WHY_OCTETS, "the driver %s of %s does not say whether it stamps: %s",
				driver.driver, name, strerror(errno));
	if (sent && set.tx_type == HWTSTAMP_TX_OFF)
		return snprintf(why, WHY_OCTETS,
				"%s stamps no sent packets, its tx type is off: `hwstamp_ctl -i %s -t 1 -r 1` "
				"switches it on", name, name);
	if (sent || set.rx_filter == HWTSTAMP_FILTER_ALL)
		return false;
	if (!(able.rx_filters & 1 << HWTSTAMP_FILTER_ALL))
		return snprintf(why, WHY_OCTETS,
				"%s stamps no such packets, and cannot: its driver %s has no filter for all "
				"received ones (`ethtool -T %s`)", name, driver.driver, name);
	return snprintf(why, WHY_OCTETS,
			"%s stamps no such packets, its filter of received ones is %s: "
			"`hwstamp_ctl -i %s -t 1 -r 1` stamps all", name, filter_name(set.rx_filter), name);
}

/* After a run: of so many packets these have no hardware stamp, and why, into the header. */
void stamps_report(int fd, FILE *file, const struct options *options, uint32_t wanted,
		   uint32_t missing)
{
	char why[WHY_OCTETS];
	const char *since = "";

	if (!options->hardware || !missing)
		return;
	if (hardware_lacks(fd, options->hardware, wanted, why))
		since = "since the run began, ";
	else if (wanted & SOF_TIMESTAMPING_TX_HARDWARE)
		snprintf(why, WHY_OCTETS,
			 "%s gave none within %d ms of the last packet, or they left by another interface "
			 "(`ip route get`, `ethtool -S %s`)", options->hardware, LAST_STAMP_MS,
			 options->hardware);
	else
		snprintf(why, WHY_OCTETS, "%s handed them over without, or they came by another interface",
			 options->hardware);
	fprintf(file, "# without_hardware_stamp %u %s%s\n", missing, since, why);
	fprintf(stderr, "tsn-probe: %u packets have no hardware time stamp: %s%s\n", missing, since, why);
}

void stamps_request(int fd, const struct options *options, uint32_t software, uint32_t hardware)
{
	uint32_t flags = software | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_CMSG;

	if (options->hardware) {
		char why[WHY_OCTETS];

		if (strlen(options->hardware) >= IF_NAMESIZE)
			refuse("--hardware: found '%s', expected the name of an interface",
			       options->hardware);
		if (hardware_lacks(fd, options->hardware, hardware, why))
			refuse("--hardware: %s", why);
		/* Without the last a driver that stamps in hardware gives no software stamp. */
		flags |= hardware | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_OPT_TX_SWHW;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)))
		fail("SO_TIMESTAMPING: %s", strerror(errno));
}

static int64_t of_timespec(const struct timespec *time)
{
	return time->tv_sec || time->tv_nsec ? time->tv_sec * NS_PER_S + time->tv_nsec : ABSENT;
}

/* Receive a message and, into `ns`, its software and hardware stamp. `kind` (SCM_TSTAMP_) and `id`
 * are of what was sent. Returns how many octets, or -1, with errno, where there is none. */
ssize_t stamps_take(int fd, struct msghdr *message, int flags, int64_t ns[2], uint32_t *kind,
		    uint32_t *id)
{
	ssize_t octets;

	ns[0] = ns[1] = ABSENT;
	octets = recvmsg(fd, message, flags);
	if (octets < 0)
		return octets;
	for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
		if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_TIMESTAMPING) {
			struct scm_timestamping stamps;

			memcpy(&stamps, CMSG_DATA(each), sizeof(stamps));
			ns[0] = of_timespec(&stamps.ts[0]);
			ns[1] = of_timespec(&stamps.ts[2]);
		} else if ((each->cmsg_level == SOL_IP && each->cmsg_type == IP_RECVERR) ||
			   (each->cmsg_level == SOL_IPV6 && each->cmsg_type == IPV6_RECVERR)) {
			struct sock_extended_err error;

			memcpy(&error, CMSG_DATA(each), sizeof(error));
			*kind = error.ee_info;
			*id = error.ee_data;
		}
	}
	return octets;
}
