/*
 * The split ring of virtio 1.2, section 2.7, seen from the device.
 *
 * The guest can write anything into its rings at any time: what decides where we read or write is
 * copied first and checked then, and a guest that breaks the rules ends the run.
 */
#include "network.h"

#define DESCRIPTOR_NEXT 1
#define DESCRIPTOR_WRITE 2
#define NO_INTERRUPT 1 /* in the flags of the available ring */
#define NO_NOTIFY 1    /* in the flags of the used ring */

struct descriptor {
	uint64_t address;
	uint32_t size;
	uint16_t flags;
	uint16_t next;
};

struct used_element {
	uint32_t head;
	uint32_t written;
};

void *memory_at(const struct memory *memory, uint64_t address, uint64_t size)
{
	for (unsigned int n = 0; n < memory->count; n++) {
		const struct region *region = &memory->regions[n];
		uint64_t within = address - region->guest_address;

		if (address >= region->guest_address && within <= region->size &&
		    size <= region->size - within)
			return region->mapped + region->offset + within;
	}
	dead(memory->owner, "gave its device an address outside its memory: 0x%lx", address);
}

void virtqueue_place(struct virtqueue *queue, const struct memory *memory, uint64_t descriptors,
		     uint64_t available, uint64_t used)
{
	if (!queue->size || (descriptors & 15) || (available & 1) || (used & 3))
		dead(memory->owner, "placed a ring wrongly");
	queue->descriptors =
		memory_at(memory, descriptors, queue->size * sizeof(struct descriptor));
	queue->available = memory_at(memory, available, 6 + 2 * (uint64_t)queue->size);
	queue->used = memory_at(memory, used, 6 + sizeof(struct used_element) * queue->size);
}

bool virtqueue_take(struct virtqueue *queue, const struct memory *memory, struct chain *chain)
{
	uint16_t ready, number;
	unsigned int hops = 0;
	struct descriptor next;

	if (!queue->enabled || !queue->descriptors)
		return false;
	memory_of = memory->owner;
	ready = __atomic_load_n(&queue->available[1], __ATOMIC_ACQUIRE) - queue->next_available;
	if (!ready)
		return false;
	if (ready > queue->size)
		dead(memory->owner, "offered %u buffers in a ring of %u", ready, queue->size);
	chain->readable = chain->writable = 0;
	number = __atomic_load_n(&queue->available[2 + queue->next_available % queue->size],
				 __ATOMIC_RELAXED);
	chain->head = number;
	queue->next_available++;
	do {
		struct iovec piece;

		if (number >= queue->size || ++hops > MAX_PIECES)
			dead(memory->owner, "has a chain of descriptors that leaves its ring or never ends");
		next = ((volatile struct descriptor *)queue->descriptors)[number];
		if (next.flags & ~(DESCRIPTOR_NEXT | DESCRIPTOR_WRITE))
			dead(memory->owner, "used a descriptor flag that was not offered: %u", next.flags);
		piece.iov_base = memory_at(memory, next.address, next.size);
		piece.iov_len = next.size;
		if (next.flags & DESCRIPTOR_WRITE)
			chain->to[chain->writable++] = piece;
		else
			chain->from[chain->readable++] = piece;
		number = next.next;
	} while (next.flags & DESCRIPTOR_NEXT);
	return true;
}

void virtqueue_give_back(struct virtqueue *queue, uint16_t head, uint32_t written)
{
	uint16_t index = __atomic_load_n(&queue->used[1], __ATOMIC_RELAXED);
	struct used_element *elements = (struct used_element *)&queue->used[2];

	elements[index % queue->size] = (struct used_element){ head, written };
	__atomic_store_n(&queue->used[1], index + 1, __ATOMIC_RELEASE);
}

bool virtqueue_wants_call(const struct virtqueue *queue)
{
	return !(__atomic_load_n(&queue->available[0], __ATOMIC_ACQUIRE) & NO_INTERRUPT);
}

void virtqueue_ask_for_kicks(struct virtqueue *queue, bool wanted)
{
	if (queue->enabled && queue->used)
		__atomic_store_n(&queue->used[0], wanted ? 0 : NO_NOTIFY, __ATOMIC_SEQ_CST);
}
