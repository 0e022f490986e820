/* Usage: launch_talker OFFSETS STREAM ADDRESS PORT FRAMES
 *
 * Sends so many frames of a stream with libtsn-talker, each with its instant as the payload, and prints
 * how many missed their time and were refused. Exits with 1 and says why where it cannot.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <tsn-talker.h>

static const uint64_t LEAD_NS = 1000000;

static int talk(const char *offsets, const char *stream, int fd, int frames)
{
	struct tsn_departure next;
	struct tsn_launch launch;
	int result = tsn_next_departure(offsets, stream, 1, tsn_tai_ns() + 2 * LEAD_NS, &next);

	if (!result)
		result = tsn_launch_open(&launch, fd, &next);
	while (!result && frames--) {
		tsn_sleep_until(next.instant_ns - launch.ahead_ns - LEAD_NS);
		result = tsn_launch_send(&launch, &next.instant_ns, sizeof(next.instant_ns), next.instant_ns);
		if (!result)
			result = tsn_next_departure(offsets, stream, 1, next.period_begin_ns + 1, &next);
	}
	if (result)
		return result;
	tsn_sleep_until(next.instant_ns + LEAD_NS);
	result = tsn_launch_drain(&launch);
	if (!result)
		result = tsn_launch_report(&launch, offsets, stream, 1);
	printf("%s %llu missed %llu refused\n", next.interface, (unsigned long long)launch.missed,
	       (unsigned long long)launch.refused);
	return result;
}

int main(int count, char **arguments)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int result, fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (count != 6)
		return 2;
	inet_pton(AF_INET, arguments[3], &to.sin_addr);
	to.sin_port = htons(atoi(arguments[4]));
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return 2;
	result = talk(arguments[1], arguments[2], fd, atoi(arguments[5]));
	if (result)
		fprintf(stderr, "%s: %s\n", arguments[2], tsn_error(result));
	return !!result;
}
