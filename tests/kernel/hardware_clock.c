/* Has a port without a hardware clock look like one, for programs that end without (isochron 0.9):
 *
 *     gcc -shared -fPIC -o hardware_clock.so hardware_clock.c
 *     LD_PRELOAD=./hardware_clock.so isochron rcv --interface eth0 --l4
 *
 * What they ask about the clock is answered from CLOCK_TAI, and a request to switch hardware time
 * stamps on with yes, after which the kernel gives none. Its software time stamps are as ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	struct ethtool_ts_info *info;
	va_list arguments;
	int result;
	void *data;

	va_start(arguments, request);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request == SIOCSHWTSTAMP)
		return 0;
	result = next(fd, request, data);
	if (request == SIOCETHTOOL && !result) {
		info = (void *)((struct ifreq *)data)->ifr_data;
		if (info->cmd == ETHTOOL_GET_TS_INFO)
			info->phc_index = 0;
	}
	return result;
}

int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, int);
	va_end(arguments);
	return next(strcmp(path, "/dev/ptp0") ? path : "/dev/null", flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");

	return next(clock < 0 ? CLOCK_TAI : clock, now); /* below 0: that of a file */
}
