/* libtsn-talker: send the frames of a planned stream at their instants (Linux, glibc).
 *
 * tsn-agent publishes when the frames of each stream leave the end station, and gives their transmit
 * queues an etf qdisc where the intent says `launch-time`. A program hands frames over before their
 * instants, and the kernel, or the device, sends them then:
 *
 *     struct tsn_departure next = {0};
 *     struct tsn_launch launch;
 *     int result = tsn_next_departure(TSN_OFFSETS, "motion", 1, tsn_tai_ns(), &next);
 *     if (result == 0)
 *         result = tsn_launch_open(&launch, fd, &next);         // a UDP or packet socket
 *     while (result == 0) {
 *         tsn_sleep_until(next.instant_ns - launch.ahead_ns - 1000000);
 *         result = tsn_launch_send(&launch, frame, octets, next.instant_ns);
 *         if (result == 0)
 *             result = tsn_next_departure(TSN_OFFSETS, "motion", 1, next.period_begin_ns + 1, &next);
 *     }
 *     fprintf(stderr, "%s\n", tsn_error(result));
 *
 * Asking for each departure in turn follows a push that moves the stream: no period is left out, and none
 * gets two frames. All times are nanoseconds of CLOCK_TAI. Functions return 0 or a negative error number.
 */
#ifndef TSN_TALKER_H
#define TSN_TALKER_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSN_OFFSETS "/run/tsn-agent/offsets.json"

/* The frames of a stream in one period; the first of `frames` leaves `interface` at `instant_ns`. */
struct tsn_departure {
	char interface[IF_NAMESIZE];
	uint64_t period_begin_ns, period_ns, instant_ns;
	uint32_t payload_octets; /* the longest IP packet that has room */
	uint16_t frames;         /* in each period, back to back */
	uint8_t priority;        /* SO_PRIORITY, and the PCP of a tag */
	int8_t dscp;             /* -1: none */
};

/* A socket whose frames leave at their instants, and how many of them did not. */
struct tsn_launch {
	int fd;
	int in_hardware;           /* the device keeps to the instant, else a timer of the kernel */
	uint64_t delta_ns;         /* of the etf qdisc */
	uint64_t ahead_ns;         /* a frame has to be sent so long before its instant */
	uint64_t missed, refused;  /* SO_EE_CODE_TXTIME_MISSED, SO_EE_CODE_TXTIME_INVALID_PARAM */
};

/* The departure in the first period that begins at `earliest_ns` or later. -ENOENT: no table has the
 * stream; -EBADMSG: the file is none of tsn-agent's. `path` is 2 for the second copy of a frame. */
int tsn_next_departure(const char *file, const char *stream, unsigned path, uint64_t earliest_ns,
		       struct tsn_departure *next);

/* Prepare a socket for the interface, priority and DSCP of a departure. -EOPNOTSUPP: its frames would
 * meet no etf qdisc with CLOCK_TAI there, and the kernel would ignore their time; -EPERM: the program has
 * no CAP_NET_ADMIN. */
int tsn_launch_open(struct tsn_launch *launch, int fd, const struct tsn_departure *departure);

/* Have a frame leave at an instant, and drain what the kernel reports of those before. */
int tsn_launch_send(struct tsn_launch *launch, const void *frame, size_t octets, uint64_t instant_ns);

/* Count the frames that did not leave. */
int tsn_launch_drain(struct tsn_launch *launch);

/* Tell tsn-agent, whose offsets are in `file`, how many frames of a stream did not leave, for `cnc status`;
 * once in some seconds is enough. -ENOENT, -EACCES: nobody, or not this user, may tell it
 * (docs/operate/end-stations.md). */
int tsn_launch_report(const struct tsn_launch *launch, const char *file, const char *stream, unsigned path);

uint64_t tsn_tai_ns(void);
void tsn_sleep_until(uint64_t instant_ns);

/* What a result means and what to do about it, in words. */
const char *tsn_error(int result);

#ifdef __cplusplus
}
#endif
#endif
