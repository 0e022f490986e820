/*
 * The protocol between user-mode Linux and its calendar, as include/uapi/linux/um_timetravel.h has it
 * since Linux 6.11: written down here since distributions' headers are older than the kernel we build.
 */
#ifndef TIME_TRAVEL_H
#define TIME_TRAVEL_H

#include <stdint.h>

enum operation {
	TIME_ACK = 0,
	TIME_START = 1,	  /* a kernel's first message, with its ID; the ACK carries two descriptors */
	TIME_WAIT = 3,	  /* a kernel gives its turn back; no ACK */
	TIME_RUN = 6,	  /* a kernel gets its turn; no ACK */
	TIME_OF_DAY = 8, /* a kernel without time-travel-start= asks for the time of day */
};

struct time_message {
	uint32_t operation;
	uint32_t sequence; /* of an ACK: that of what it answers */
	uint64_t time_ns;
};

#define SHARED_VERSION 2
#define SHARES_TIME 1 /* in `capabilities`: works with this memory */
#define HAS_REQUEST 1 /* in `flags`: wants a turn at `request_ns` */

/* One participant's place. */
struct place {
	uint32_t capabilities;
	uint32_t flags;
	uint64_t request_ns;
	uint64_t name;
	uint8_t reserved[40];
	/* Linux leaves these free; see um-published-clock.patch. */
	uint8_t published_clock[64];
};

/* What a kernel and the calendar share; of its places two are used, theirs. */
struct shared_time {
	union {
		struct {
			uint32_t version;
			uint32_t size;
			uint64_t free_until_ns; /* so far the kernel may go by itself in its turn */
			uint64_t now_ns;	/* set by the kernel in its turn */
			uint16_t running;	/* the place of the kernel in its turn, else the calendar's */
			uint16_t place_count;
		};
		uint8_t page[4096];
	};
	struct place places[];
};

#endif
