/*
 * One direction of a cable: a frame occupies it for its own length and 24 octets (preamble, FCS,
 * interframe gap) at the cable's rate, and is there after the propagation time and the jitter, unless it
 * is lost or damaged: what a receiver would throw away for its FCS does not arrive. Frames do not
 * overtake each other.
 */
#include "network.h"

#include <math.h>
#include <stdlib.h>

#define OVERHEAD_OCTETS 24
#define SHORTEST_FRAME 60
#define NS_PER_S 1000000000

/* SplitMix64 (Steele, Lea, Flood 2014): as good a sequence from each seed. */
static uint64_t random_number(uint64_t *state)
{
	uint64_t mixed = *state += 0x9e3779b97f4a7c15;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
	return mixed ^ mixed >> 31;
}

static bool happens(uint64_t *state, double probability)
{
	return probability > 0 && (random_number(state) >> 11) * 0x1p-53 < probability;
}

/* A time that is `mean_ns` long on average, by a Pareto distribution of shape 3 from 0 on, cut off at
 * seven times that, as netem's is (iproute2, netem/pareto.c). */
static uint64_t pareto_ns(uint64_t *state, uint64_t mean_ns)
{
	double uniform, times;

	if (!mean_ns)
		return 0;
	uniform = ((random_number(state) >> 11) + 1) * 0x1p-53;
	times = 2 * (1 / cbrt(uniform) - 1);
	return (times < 7 ? times : 7) * mean_ns;
}

static uint64_t octets_on_line(size_t frame_size)
{
	return (frame_size < SHORTEST_FRAME ? SHORTEST_FRAME : frame_size) + OVERHEAD_OCTETS;
}

uint64_t line_occupied_ns(const struct line *line, size_t frame_size)
{
	uint64_t bits = 8 * octets_on_line(frame_size);

	return line->rate_bps ? (bits * NS_PER_S + line->rate_bps - 1) / line->rate_bps : 0;
}

static void arrived(void *of)
{
	struct line *line = of;
	struct frame *frame = line->first;

	line->first = frame->next;
	calendar_set(line->arrival, line->first ? line->first->arrives_ns : NEVER);
	line->deliver(line->to, line->from, frame);
	free(frame);
}

void line_open(struct line *line)
{
	line->arrival = calendar_add(arrived, line);
}

void line_carry(struct line *line, struct frame *frame)
{
	uint64_t jitter_ns;
	const char *fate;
	double damaged;

	if (!calendar_is_plugged_in()) {
		free(frame);
		return;
	}
	jitter_ns = line->jitter_ns ? random_number(&line->random) % (line->jitter_ns + 1) : 0;
	jitter_ns += pareto_ns(&line->random, line->pareto_ns);
	damaged = -expm1(8.0 * octets_on_line(frame->size) * log1p(-line->bit_error));
	fate = happens(&line->random, line->loss) ? "lost" :
	       happens(&line->random, damaged)    ? "damaged" :
						    NULL;
	frame->arrives_ns = calendar_now_ns() + line_occupied_ns(line, frame->size) +
			    line->propagation_ns + jitter_ns;
	if (line->first && frame->arrives_ns < line->last->arrives_ns)
		frame->arrives_ns = line->last->arrives_ns;
	if (capture_is_open(line->capture))
		capture_frame(line->capture, line->capture_interface, frame, fate);
	if (fate) {
		free(frame);
		return;
	}
	frame->next = NULL;
	if (line->first)
		line->last->next = frame;
	else
		calendar_set(line->arrival, frame->arrives_ns);
	if (!line->first)
		line->first = frame;
	line->last = frame;
}
