/*
 * A network card (virtio 1.2, section 5.1): rings like those of a real one. It sends one frame at a time
 * at its cable's rate, from its transmit queue of the highest number first, and gives a buffer back when
 * the frame has left, so that the kernel's queueing discipline decides what comes next.
 */
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURE_MAC (1ULL << 5)
#define FEATURE_CONTROL_QUEUE (1ULL << 17)
#define FEATURE_MULTIQUEUE (1ULL << 22)
#define FEATURE_SPEED (1ULL << 63)
#define HEADER_OCTETS 12
#define CONTROL_QUEUES 4
#define CONTROL_QUEUES_SET 0
#define CONTROL_OK 0
#define CONTROL_ERROR 1
#define MBPS 1000000

struct config {
	uint8_t mac[6];
	uint16_t status, pairs, mtu;
	uint32_t speed_mbps;
	uint8_t duplex;
} __attribute__((packed));

static struct card **cards;
static unsigned int card_count;

static unsigned int receive_queue(unsigned int pair)
{
	return 2 * pair;
}

static unsigned int transmit_queue(unsigned int pair)
{
	return 2 * pair + 1;
}

/* --- sending */

/* The frame of a buffer, without the header before it. */
static struct frame *frame_of(struct card *card, const struct chain *chain)
{
	struct frame *frame = allocate(sizeof *frame + HEADER_OCTETS + MAX_FRAME);
	size_t size = 0;

	for (unsigned int n = 0; n < chain->readable; n++) {
		if (chain->from[n].iov_len > HEADER_OCTETS + MAX_FRAME - size)
			dead(card->device.kernel->name, "sent a frame of more than %u octets through %s",
			     MAX_FRAME, card->device.name);
		memcpy(frame->octets + size, chain->from[n].iov_base, chain->from[n].iov_len);
		size += chain->from[n].iov_len;
	}
	if (size < HEADER_OCTETS + 14)
		dead(card->device.kernel->name, "sent less than a frame through %s", card->device.name);
	frame->size = size - HEADER_OCTETS;
	memmove(frame->octets, frame->octets + HEADER_OCTETS, frame->size);
	return frame;
}

static void ask_for_kicks(struct card *card, bool wanted)
{
	for (unsigned int pair = 0; pair < card->pairs; pair++)
		virtqueue_ask_for_kicks(&card->device.queues[transmit_queue(pair)], wanted);
}

static void send_next(struct card *card)
{
	struct chain chain;
	struct frame *frame;

	for (unsigned int pair = card->pairs; pair-- > 0 && !card->sending;) {
		unsigned int queue = transmit_queue(pair);

		if (!virtqueue_take(&card->device.queues[queue], &card->device.memory, &chain))
			continue;
		frame = frame_of(card, &chain);
		card->sending = true;
		card->sending_queue = queue;
		card->sending_head = chain.head;
		calendar_set(card->sent, calendar_now_ns() + line_occupied_ns(card->line, frame->size));
		line_carry(card->line, frame);
	}
	ask_for_kicks(card, !card->sending);
}

static void sent(void *of)
{
	struct card *card = of;
	struct virtqueue *queue = &card->device.queues[card->sending_queue];

	card->sending = false;
	if (!queue->descriptors)
		return; /* the kernel has taken the device down meanwhile */
	memory_of = card->device.kernel->name;
	virtqueue_give_back(queue, card->sending_head, 0);
	device_call(&card->device, card->sending_queue);
	send_next(card);
}

/* --- the control queue: how many queues the kernel uses is the kernel's business */

static void control(struct card *card, struct virtqueue *queue)
{
	struct chain chain;

	while (virtqueue_take(queue, &card->device.memory, &chain)) {
		const uint8_t *command = chain.readable ? chain.from[0].iov_base : NULL;

		if (!chain.writable || !chain.to[0].iov_len || !command || chain.from[0].iov_len < 2)
			dead(card->device.kernel->name, "gave %s no command, or no room for an answer",
			     card->device.name);
		*(uint8_t *)chain.to[0].iov_base =
			command[0] == CONTROL_QUEUES && command[1] == CONTROL_QUEUES_SET ? CONTROL_OK :
											   CONTROL_ERROR;
		virtqueue_give_back(queue, chain.head, 1);
	}
}

static void kicked(struct device *device, unsigned int queue)
{
	struct card *card = (struct card *)device;

	if (queue == 2 * card->pairs)
		control(card, &device->queues[queue]);
	else if (!card->sending)
		send_next(card);
}

/* --- receiving */

void card_receive(void *of, void *from, struct frame *frame)
{
	struct card *card = of;
	struct virtqueue *queue = &card->device.queues[receive_queue(0)];
	/* One buffer for each frame; everything else is for offloads that are not offered. */
	uint8_t header[HEADER_OCTETS] = { [10] = 1 };
	size_t done = 0, size = HEADER_OCTETS + frame->size;
	struct chain chain;

	(void)from;
	if (!virtqueue_take(queue, &card->device.memory, &chain))
		return;
	for (unsigned int n = 0; n < chain.writable && done < size; n++) {
		uint8_t *to = chain.to[n].iov_base;

		for (size_t left = chain.to[n].iov_len; left > 0 && done < size;) {
			const uint8_t *source = done < HEADER_OCTETS ? header + done :
								       frame->octets + done - HEADER_OCTETS;
			size_t part = (done < HEADER_OCTETS ? HEADER_OCTETS : size) - done;

			part = part < left ? part : left;
			memcpy(to, source, part);
			to += part;
			done += part;
			left -= part;
		}
	}
	/* What is too long for the buffer is lost: the kernel sees a buffer without a frame. */
	virtqueue_give_back(queue, chain.head, done == size ? done : 0);
	device_call(&card->device, receive_queue(0));
}

/* --- what the network is built from */

struct card *card_add(struct kernel *kernel, const char *port, const uint8_t mac[6], unsigned int pairs,
		      const char *path)
{
	struct card *card = allocate(sizeof *card);
	struct config *config = (struct config *)card->device.config;

	card->pairs = pairs;
	card->device.kernel = kernel;
	card->device.kicked = kicked;
	snprintf(card->device.name, sizeof card->device.name, "%s/%s", kernel->name, port);
	card->device.queue_count = 2 * pairs + (pairs > 1);
	card->device.features = FEATURE_MAC | FEATURE_SPEED |
				(pairs > 1 ? FEATURE_CONTROL_QUEUE | FEATURE_MULTIQUEUE : 0);
	card->device.config_size = sizeof *config;
	memcpy(card->mac, mac, sizeof card->mac);
	memcpy(config->mac, mac, sizeof config->mac);
	config->pairs = pairs;
	config->duplex = 1;
	card->sent = calendar_add(sent, card);
	device_open(&card->device, path);
	cards = realloc(cards, (card_count + 1) * sizeof *cards);
	if (!cards)
		refuse("no memory left");
	cards[card_count++] = card;
	return card;
}

struct card *card_named(const char *name)
{
	for (unsigned int n = 0; n < card_count; n++)
		if (!strcmp(cards[n]->device.name, name))
			return cards[n];
	return NULL;
}

void cards_check(void)
{
	for (unsigned int n = 0; n < card_count; n++)
		if (!cards[n]->line)
			refuse("card %s is on no cable and no segment", cards[n]->device.name);
}

void card_join(struct card *card, struct line *line)
{
	struct config *config = (struct config *)card->device.config;

	card->line = line;
	config->speed_mbps = line->rate_bps / MBPS;
}

bool card_capture(struct card *card, struct capture *capture)
{
	struct card *other;

	if (card->line->deliver != card_receive || capture_is_open(card->line->capture))
		return false;
	other = card->line->to;
	for (unsigned int n = 0; n < 2; n++) {
		struct card *end = n ? other : card;

		end->line->capture = capture;
		end->line->capture_interface = capture_interface(capture, end->device.name);
	}
	return true;
}
