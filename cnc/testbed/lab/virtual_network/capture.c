/* What is on a cable, as pcapng (draft-ietf-opsawg-pcapng) with nanoseconds: an interface a direction. */
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_HEADER 0x0a0d0d0a
#define INTERFACE_DESCRIPTION 1
#define ENHANCED_PACKET 6
#define ETHERNET 1
#define OPTION_COMMENT 1
#define OPTION_NAME 2  /* of an interface */
#define OPTION_FLAGS 2 /* of a frame */
#define OUTBOUND 2
#define OPTION_RESOLUTION 9
#define TIMES "times are those at which the sending of a frame begins"
#define MAX_BLOCK (MAX_FRAME + 256)

uint64_t start_of_day_ns;

struct capture {
	FILE *file; /* NULL: it has been closed */
	char *path;
	unsigned int interfaces;
	struct capture *next;
};

static struct capture *captures;

struct block {
	size_t size;
	uint8_t octets[MAX_BLOCK];
};

static void add(struct block *block, const void *octets, size_t size)
{
	memcpy(block->octets + block->size, octets, size);
	block->size += size;
	while (block->size % 4)
		block->octets[block->size++] = 0;
}

static void add_number(struct block *block, uint32_t number)
{
	add(block, &number, sizeof number);
}

static void add_option(struct block *block, uint16_t code, const void *value, uint16_t size)
{
	add_number(block, code | (uint32_t)size << 16);
	add(block, value, size);
}

static struct block begin(uint32_t type)
{
	struct block block = { .size = 0 };

	add_number(&block, type);
	add_number(&block, 0); /* its size, known at its end */
	return block;
}

static void write_block(struct capture *capture, struct block *block)
{
	uint32_t size = block->size + 4;

	memcpy(block->octets + 4, &size, 4);
	add_number(block, size);
	if (fwrite(block->octets, 1, block->size, capture->file) != block->size || fflush(capture->file))
		refuse("cannot write a capture: %s", strerror(errno));
}

unsigned int capture_interface(struct capture *capture, const char *name)
{
	struct block block = begin(INTERFACE_DESCRIPTION);
	uint8_t nanoseconds = 9;

	add_number(&block, ETHERNET);
	add_number(&block, 0); /* no frame is cut */
	add_option(&block, OPTION_NAME, name, strlen(name));
	add_option(&block, OPTION_RESOLUTION, &nanoseconds, 1);
	add_number(&block, 0);
	write_block(capture, &block);
	return capture->interfaces++;
}

struct capture *capture_open(const char *path)
{
	struct capture *capture = allocate(sizeof *capture);
	struct block block = begin(SECTION_HEADER);

	capture->file = fopen(path, "we");
	capture->path = strdup(path);
	if (!capture->file || !capture->path)
		refuse("cannot write %s: %s", path, strerror(errno));
	/* Who reads along finds whole blocks only. */
	setvbuf(capture->file, NULL, _IOFBF, MAX_BLOCK);
	add_number(&block, 0x1a2b3c4d); /* the order of octets */
	add_number(&block, 1);		/* version 1.0 */
	add_number(&block, UINT32_MAX); /* as long as it is */
	add_number(&block, UINT32_MAX);
	add_option(&block, OPTION_COMMENT, TIMES, sizeof TIMES - 1);
	add_number(&block, 0);
	write_block(capture, &block);
	capture->next = captures;
	captures = capture;
	return capture;
}

bool capture_is_open(const struct capture *capture)
{
	return capture && capture->file;
}

bool capture_close(const char *path)
{
	struct capture *capture = captures;

	while (capture && (!capture->file || strcmp(capture->path, path)))
		capture = capture->next;
	if (!capture)
		return false;
	fclose(capture->file);
	capture->file = NULL;
	return true;
}

/* Its time is that at which its sending began. */
void capture_frame(struct capture *capture, unsigned int interface, const struct frame *frame,
		   const char *comment)
{
	struct block block = begin(ENHANCED_PACKET);
	uint64_t at_ns = start_of_day_ns + calendar_now_ns();
	uint32_t outbound = OUTBOUND;

	add_number(&block, interface);
	add_number(&block, at_ns >> 32);
	add_number(&block, at_ns);
	add_number(&block, frame->size);
	add_number(&block, frame->size);
	add(&block, frame->octets, frame->size);
	if (comment)
		add_option(&block, OPTION_COMMENT, comment, strlen(comment));
	add_option(&block, OPTION_FLAGS, &outbound, sizeof outbound);
	add_number(&block, 0);
	write_block(capture, &block);
}
