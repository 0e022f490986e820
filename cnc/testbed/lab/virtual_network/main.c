/*
 * virtual-network DESCRIPTION: many user-mode Linux kernels in one virtual time (description.c says how
 * they are described).
 *
 * Standard output has a line for each event: `ready` (kernels may be booted), `started TIME_NS` (all have
 * connected), `octets NAME TIME_NS HEX` (a node wrote to its console), `reached TIME_NS`,
 * `asleep TIME_NS` (nobody will ever do anything again), `ended NAME TIME_NS`, and `dead NAME TIME_NS
 * REASON` before exit code 1. Standard input takes orders: `send NAME HEX` (octets into a console, at the
 * present instant), `capture FILE NAME/PORT…` (what is on these ports' cables from here on), `release
 * FILE` (no more of it) and `go [UNTIL_NS]`. Time stands still at the start and after each event but `ended`
 * until the next `go`. The end of standard input is the end of the run, with exit code 0, as is that of
 * the last kernel.
 */
#include "network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void go(const char *until)
{
	char *end = "";
	uint64_t until_ns = NEVER;

	if (until) {
		errno = 0;
		until_ns = strtoull(until, &end, 10);
	}
	if (*end || errno || until_ns > NEVER || until_ns < calendar_now_ns())
		refuse("go %s: no instant that is still to come", until);
	switch (calendar_go(until_ns)) {
	case HELD:
		consoles_say();
		break;
	case REACHED:
		printf("reached %" PRIu64 "\n", calendar_now_ns());
		break;
	case ALL_ASLEEP:
		printf("asleep %" PRIu64 "\n", calendar_now_ns());
		break;
	case ALL_ENDED:
		exit(0);
	}
}

static bool start_capture(const char *path, const char *port)
{
	struct capture *capture = capture_open(path);

	for (; port; port = strtok(NULL, " \n")) {
		struct card *card = card_named(port);

		if (!card || !card_capture(card, capture))
			return false;
	}
	return true;
}

static void obey(char *order)
{
	char *what = strtok(order, " \n"), *first = strtok(NULL, " \n"), *second = strtok(NULL, " \n");
	bool done = false;

	if (what && !strcmp(what, "go") && !second) {
		go(first);
		done = true;
	} else if (what && first && !strcmp(what, "release") && !second) {
		done = capture_close(first);
	} else if (what && second && !strcmp(what, "capture")) {
		done = start_capture(first, second);
	} else if (what && second && !strcmp(what, "send")) {
		done = console_send(first, second);
	}
	if (!done)
		refuse("%s %s: no order, or for nothing that there is", what ? what : "", first ? first : "");
}

int main(int count, char **arguments)
{
	char *order = NULL;
	size_t room = 0;

	if (count != 2)
		refuse("usage: virtual-network DESCRIPTION");
	setvbuf(stdout, NULL, _IOLBF, 0);
	catch_faults();
	describe(arguments[1]);
	printf("ready\n");
	calendar_gather();
	printf("started %" PRIu64 "\n", calendar_now_ns());
	while (getline(&order, &room, stdin) >= 0)
		obey(order);
	return 0;
}
