/*
 * A segment for management: a switch that knows the addresses of its cards. Each card sends to it at the
 * segment's rate; it has as much capacity as is asked for.
 */
#include "network.h"

#include <string.h>

struct segment {
	struct card **cards;
	unsigned int count;
};

static void forward(void *to, void *from, struct frame *frame)
{
	struct segment *segment = to;
	struct card *known = NULL;

	for (unsigned int n = 0; n < segment->count; n++)
		if (!memcmp(segment->cards[n]->mac, frame->octets, 6))
			known = segment->cards[n];
	for (unsigned int n = 0; n < segment->count; n++)
		if (segment->cards[n] != from && (!known || segment->cards[n] == known))
			card_receive(segment->cards[n], NULL, frame);
}

void segment_join(struct card **cards, unsigned int count, uint64_t rate_bps, uint64_t delay_ns)
{
	struct segment *segment = allocate(sizeof *segment);

	segment->cards = cards;
	segment->count = count;
	for (unsigned int n = 0; n < count; n++) {
		struct line *line = allocate(sizeof *line);

		*line = (struct line){ .rate_bps = rate_bps, .propagation_ns = delay_ns,
				       .deliver = forward, .from = cards[n], .to = segment };
		line_open(line);
		card_join(cards[n], line);
	}
}
