/* A port that stamps in hardware, as its driver would describe it, for tsn-probe on a machine that has
 * none: linked with -Wl,--wrap=ioctl, it answers what tsn-probe asks of a driver. The answers are
 * built from ethtool.h and net_tstamp.h of the kernel, not recorded. The kernel itself is asked for
 * everything else, and so gives no hardware stamp. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

int __real_ioctl(int fd, unsigned long request, ...);

static int number(const char *variable)
{
	const char *text = getenv(variable);

	return text ? (int)strtol(text, NULL, 0) : -1;
}

int __wrap_ioctl(int fd, unsigned long request, void *data)
{
	void *about = ((struct ifreq *)data)->ifr_data;
	static int asked;

	if (request == SIOCETHTOOL && *(__u32 *)about == ETHTOOL_GDRVINFO) {
		strcpy(((struct ethtool_drvinfo *)about)->driver, "igb");
		return 0;
	}
	if (request == SIOCETHTOOL && *(__u32 *)about == ETHTOOL_GET_TS_INFO) {
		struct ethtool_ts_info *able = about;

		able->so_timestamping = (__u32)number("ABLE");
		able->rx_filters = (__u32)number("FILTERS");
		able->phc_index = 0;
		return 0;
	}
	if (request == SIOCGHWTSTAMP) {
		struct hwtstamp_config *set = about;

		if (number("TX_TYPE") < 0) {
			errno = EOPNOTSUPP;
			return -1;
		}
		set->tx_type = asked++ && number("LATER_TX_TYPE") >= 0 ? number("LATER_TX_TYPE")
								     : number("TX_TYPE");
		set->rx_filter = number("RX_FILTER");
		return 0;
	}
	return __real_ioctl(fd, request, data);
}
