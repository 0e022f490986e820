/*
 * A console of a node (virtio 1.2, section 5.3: one port, /dev/hvc0): how the host gives orders to the
 * network at exact instants. When a node has written, time stands still until the host says go on.
 */
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TO_NODE 0
#define FROM_NODE 1

struct console {
	struct device device;
	unsigned int arrival;
	uint8_t *input, *output;
	size_t input_size, output_size;
	struct console *next;
};

static struct console *consoles;

static void append(uint8_t **octets, size_t *size, const void *more, size_t more_size)
{
	*octets = realloc(*octets, *size + more_size);
	if (!*octets)
		refuse("no memory left");
	memcpy(*octets + *size, more, more_size);
	*size += more_size;
}

static void deliver(void *of)
{
	struct console *console = of;
	struct virtqueue *queue = &console->device.queues[TO_NODE];
	struct chain chain;
	size_t done = 0;

	while (done < console->input_size &&
	       virtqueue_take(queue, &console->device.memory, &chain)) {
		uint32_t written = 0;

		for (unsigned int n = 0; n < chain.writable && done < console->input_size; n++) {
			size_t left = console->input_size - done;
			size_t part = chain.to[n].iov_len < left ? chain.to[n].iov_len : left;

			memcpy(chain.to[n].iov_base, console->input + done, part);
			written += part;
			done += part;
		}
		virtqueue_give_back(queue, chain.head, written);
	}
	console->input_size -= done;
	if (done) {
		memmove(console->input, console->input + done, console->input_size);
		device_call(&console->device, TO_NODE);
	}
}

static void kicked(struct device *device, unsigned int number)
{
	struct console *console = (struct console *)device;
	struct virtqueue *queue = &device->queues[FROM_NODE];
	struct chain chain;

	if (number == TO_NODE) {
		if (console->input_size)
			calendar_set(console->arrival, calendar_now_ns());
		return;
	}
	while (virtqueue_take(queue, &device->memory, &chain)) {
		for (unsigned int n = 0; n < chain.readable; n++)
			append(&console->output, &console->output_size, chain.from[n].iov_base,
			       chain.from[n].iov_len);
		virtqueue_give_back(queue, chain.head, 0);
		calendar_hold();
	}
}

void console_add(struct kernel *kernel, const char *path)
{
	struct console *console = allocate(sizeof *console), **last = &consoles;

	console->device.kernel = kernel;
	console->device.kicked = kicked;
	console->device.queue_count = 2;
	snprintf(console->device.name, sizeof console->device.name, "%s's console", kernel->name);
	console->arrival = calendar_add(deliver, console);
	device_open(&console->device, path);
	while (*last)
		last = &(*last)->next;
	*last = console;
}

bool console_send(const char *name, const char *hexadecimal)
{
	struct console *console = consoles;
	unsigned int octet;
	uint8_t value;

	while (console && strcmp(console->device.kernel->name, name))
		console = console->next;
	if (!console || !*hexadecimal)
		return false;
	for (; *hexadecimal; hexadecimal += 2) {
		if (strspn(hexadecimal, "0123456789abcdefABCDEF") < 2 ||
		    sscanf(hexadecimal, "%2x", &octet) != 1)
			return false;
		value = octet;
		append(&console->input, &console->input_size, &value, 1);
	}
	calendar_set(console->arrival, calendar_now_ns());
	return true;
}

void consoles_say(void)
{
	for (struct console *console = consoles; console; console = console->next) {
		if (!console->output_size)
			continue;
		printf("octets %s %lu ", console->device.kernel->name, calendar_now_ns());
		for (size_t n = 0; n < console->output_size; n++)
			printf("%02x", console->output[n]);
		printf("\n");
		console->output_size = 0;
	}
}
