/* Time stamps that the kernel takes (Documentation/networking/timestamping.rst). */
#include "probe.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>

/* Refuse an interface that cannot stamp, or that nobody has told to: its PTP daemon does that. */
static void require_hardware(int fd, const char *name, uint32_t wanted)
{
	struct ethtool_ts_info able = {.cmd = ETHTOOL_GET_TS_INFO};
	struct hwtstamp_config set = {0};
	struct ifreq request = {.ifr_data = (void *)&able};

	if (strlen(name) >= sizeof(request.ifr_name))
		refuse("--hardware: found '%s', expected the name of an interface", name);
	strcpy(request.ifr_name, name);
	if (ioctl(fd, SIOCETHTOOL, &request))
		refuse("--hardware: %s: %s", name, strerror(errno));
	if ((able.so_timestamping & wanted) != wanted)
		refuse("--hardware: %s has no hardware time stamps (`ethtool -T %s`)", name, name);
	request.ifr_data = (void *)&set;
	if (ioctl(fd, SIOCGHWTSTAMP, &request))
		refuse("--hardware: %s: cannot tell whether it stamps: %s", name, strerror(errno));
	if (wanted & SOF_TIMESTAMPING_TX_HARDWARE ? set.tx_type == HWTSTAMP_TX_OFF
						  : set.rx_filter != HWTSTAMP_FILTER_ALL)
		refuse("--hardware: %s stamps no such packets: `hwstamp_ctl -i %s -t 1 -r 1` tells it to",
		       name, name);
}

void stamps_request(int fd, const struct options *options, uint32_t software, uint32_t hardware)
{
	uint32_t flags = software | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_CMSG;

	if (options->hardware) {
		require_hardware(fd, options->hardware, hardware);
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
 * are of what was sent. Returns false, with errno, where there is none. */
bool stamps_take(int fd, struct msghdr *message, int flags, int64_t ns[2], uint32_t *kind,
		 uint32_t *id)
{
	ns[0] = ns[1] = ABSENT;
	if (recvmsg(fd, message, flags) < 0)
		return false;
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
	return true;
}
