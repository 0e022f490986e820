/*
 * A device of a kernel's over vhost-user (docs/interop/vhost-user.rst of QEMU; the other side is
 * arch/um/drivers/virtio_uml.c): features, memory, rings, kicks and calls, all as messages, so that
 * each happens at an exact instant.
 */
#include "network.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VERSION 1
#define VERSION_MASK 3
#define IS_REPLY 4
#define NEED_REPLY 8

#define FEATURE_PROTOCOL (1ULL << 30)
#define FEATURE_VERSION_1 (1ULL << 32)
/* Replies, a channel for calls, configuration, and notifications as messages. */
#define PROTOCOL_FEATURES (1ULL << 3 | 1ULL << 5 | 1ULL << 9 | 1ULL << 14)

enum request {
	GET_FEATURES = 1,
	SET_FEATURES = 2,
	SET_OWNER = 3,
	SET_MEM_TABLE = 5,
	SET_VRING_NUM = 8,
	SET_VRING_ADDR = 9,
	SET_VRING_BASE = 10,
	GET_PROTOCOL_FEATURES = 15,
	SET_PROTOCOL_FEATURES = 16,
	SET_VRING_ENABLE = 18,
	SET_CALL_CHANNEL = 21,
	GET_CONFIG = 24,
	VRING_KICK = 35,
	VRING_CALL = 4, /* towards the kernel */
};

struct header {
	uint32_t request, flags, size;
};

struct memory_table {
	uint32_t count, padding;
	struct {
		uint64_t guest_address, size, user_address, file_offset;
	} regions[MAX_REGIONS];
};

/* Header and content follow each other on the wire; here the content is aligned. */
struct message {
	struct header header;
	union {
		uint64_t number;
		struct {
			uint32_t index, value;
		} ring;
		struct {
			uint32_t index, flags;
			uint64_t descriptors, used, available, log;
		} place;
		struct memory_table table;
		struct {
			uint32_t offset, size, flags;
			uint8_t octets[256];
		} config;
	};
};

#define MAX_CONTENT (sizeof(struct message) - offsetof(struct message, number))

static double monotonic_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/*
 * Reads so much, in time, or ends the run; false: the kernel closed the connection. The kernel may have
 * set any option of the socket that it gave us for calls.
 */
static bool read_whole(struct device *device, int fd, void *to, size_t size)
{
	double until_s = monotonic_s() + calendar_answer_timeout_s();

	for (size_t done = 0; done < size;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		double left_s = until_s - monotonic_s();
		ssize_t got;

		if (left_s <= 0 || (poll(&ready, 1, left_s * 1000 + 1) < 0 && errno != EINTR))
			dead(device->kernel->name, "stopped in a message about %s", device->name);
		got = recv(fd, (char *)to + done, size - done, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return false;
		if (got < 0 && errno != EAGAIN)
			dead(device->kernel->name, "gave %s no socket: %s", device->name, strerror(errno));
		done += got > 0 ? got : 0;
	}
	return true;
}

static void send_message(struct device *device, int fd, const struct message *message)
{
	struct iovec pieces[2] = { { (void *)&message->header, sizeof message->header },
				   { (void *)&message->number, message->header.size } };
	struct msghdr envelope = { .msg_iov = pieces, .msg_iovlen = 2 };
	ssize_t size = sizeof message->header + message->header.size;

	if (sendmsg(fd, &envelope, MSG_NOSIGNAL | MSG_DONTWAIT) != size && errno != EPIPE && errno != ECONNRESET)
		dead(device->kernel->name, "takes no message about %s: %s", device->name, strerror(errno));
}

static void reply(struct device *device, struct message *message)
{
	message->header.flags = VERSION | IS_REPLY;
	send_message(device, device->channel.fd, message);
}

static void reply_number(struct device *device, struct message *message, uint64_t number)
{
	message->header.size = sizeof number;
	message->number = number;
	reply(device, message);
}

static void forget_memory(struct memory *memory)
{
	for (unsigned int n = 0; n < memory->count; n++)
		munmap(memory->regions[n].mapped, memory->regions[n].mapped_size);
	memory->count = 0;
}

static void map_memory(struct device *device, const struct memory_table *table, size_t size,
		       const int *fds, unsigned int fd_count)
{
	struct memory *memory = &device->memory;

	if (table->count > MAX_REGIONS || table->count != fd_count ||
	    size < 8 + table->count * sizeof table->regions[0])
		dead(device->kernel->name, "told %s of %u regions of memory with %u files",
		     device->name, table->count, fd_count);
	forget_memory(memory);
	for (unsigned int n = 0; n < device->queue_count; n++)
		device->queues[n].descriptors = NULL;
	for (unsigned int n = 0; n < table->count; n++) {
		struct region *region = &memory->regions[n];
		uint64_t offset = table->regions[n].file_offset, end;
		struct stat file;

		if (fstat(fds[n], &file) ||
		    __builtin_add_overflow(offset, table->regions[n].size, &end) ||
		    end > (uint64_t)file.st_size || !end)
			dead(device->kernel->name, "told %s of memory beyond its file", device->name);
		region->mapped = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fds[n], 0);
		if (region->mapped == MAP_FAILED)
			dead(device->kernel->name, "has memory that cannot be mapped: %s", strerror(errno));
		region->mapped_size = end;
		region->guest_address = table->regions[n].guest_address;
		region->size = table->regions[n].size;
		region->offset = offset;
		memory->count++;
	}
}

static struct virtqueue *queue_numbered(struct device *device, uint32_t index)
{
	if (index >= device->queue_count)
		dead(device->kernel->name, "named queue %u of %s, which has %u", index, device->name,
		     device->queue_count);
	return &device->queues[index];
}

static void set_size(struct device *device, uint32_t index, uint32_t size)
{
	struct virtqueue *queue = queue_numbered(device, index);

	if (!size || size > MAX_QUEUE_SIZE || (size & (size - 1)))
		dead(device->kernel->name, "wants a ring of %u for %s", size, device->name);
	queue->size = size;
	queue->descriptors = NULL;
}

static void get_config(struct device *device, struct message *message)
{
	uint32_t size = message->config.size;

	if (message->config.offset || size > sizeof message->config.octets ||
	    message->header.size != 12 + size)
		dead(device->kernel->name, "asked %s wrongly for its configuration", device->name);
	memset(message->config.octets, 0, size);
	memcpy(message->config.octets, device->config,
	       size < device->config_size ? size : device->config_size);
	reply(device, message);
}

/* What each request must carry at least. */
static size_t least_size(uint32_t request)
{
	switch (request) {
	case SET_FEATURES:
	case SET_PROTOCOL_FEATURES:
	case SET_VRING_NUM:
	case SET_VRING_BASE:
	case SET_VRING_ENABLE:
	case SET_MEM_TABLE:
	case VRING_KICK:
		return 8;
	case GET_CONFIG:
		return 12;
	case SET_VRING_ADDR:
		return 40;
	default:
		return 0;
	}
}

static void handle(struct device *device, struct message *message, const int *fds,
		   unsigned int fd_count)
{
	bool wants_reply = message->header.flags & NEED_REPLY;
	struct virtqueue *queue;

	if (message->header.size < least_size(message->header.request))
		dead(device->kernel->name, "sent %s a message %u that is too short", device->name,
		     message->header.request);
	switch (message->header.request) {
	case GET_FEATURES:
		reply_number(device, message, device->features | FEATURE_PROTOCOL | FEATURE_VERSION_1);
		return;
	case GET_PROTOCOL_FEATURES:
		reply_number(device, message, PROTOCOL_FEATURES);
		return;
	case GET_CONFIG:
		get_config(device, message);
		return;
	case SET_OWNER:
	case SET_PROTOCOL_FEATURES:
		break;
	case SET_FEATURES:
		if (!(message->number & FEATURE_VERSION_1))
			dead(device->kernel->name, "speaks no virtio 1 with %s", device->name);
		break;
	case SET_MEM_TABLE:
		map_memory(device, &message->table, message->header.size, fds, fd_count);
		break;
	case SET_VRING_NUM:
		set_size(device, message->ring.index, message->ring.value);
		break;
	case SET_VRING_BASE:
		queue_numbered(device, message->ring.index)->next_available = message->ring.value;
		break;
	case SET_VRING_ADDR:
		queue = queue_numbered(device, message->place.index);
		virtqueue_place(queue, &device->memory, message->place.descriptors,
				message->place.available, message->place.used);
		break;
	case SET_VRING_ENABLE:
		queue_numbered(device, message->ring.index)->enabled = message->ring.value;
		break;
	case SET_CALL_CHANNEL:
		if (fd_count != 1)
			dead(device->kernel->name, "gave %s no channel for calls", device->name);
		if (device->call_fd >= 0)
			close(device->call_fd);
		device->call_fd = dup(fds[0]);
		break;
	case VRING_KICK:
		queue_numbered(device, message->ring.index);
		device->kicked(device, message->ring.index);
		break;
	default:
		dead(device->kernel->name, "sent %s a message %u, which is not known", device->name,
		     message->header.request);
	}
	if (wants_reply)
		reply_number(device, message, 0);
}

static void detach(struct device *device)
{
	channel_close(&device->channel);
	for (unsigned int n = 0; n < device->queue_count; n++)
		device->queues[n] = (struct virtqueue){ 0 };
	forget_memory(&device->memory);
	if (device->call_fd >= 0)
		close(device->call_fd);
	device->call_fd = -1;
}

static void readable(struct channel *channel)
{
	struct device *device = channel->of;
	union {
		struct cmsghdr first;
		char octets[CMSG_SPACE(sizeof(int) * MAX_REGIONS)];
	} control;
	struct message message;
	struct iovec piece = { &message.header, sizeof message.header };
	struct msghdr envelope = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
				   .msg_controllen = sizeof control };
	ssize_t got = recvmsg(channel->fd, &envelope, MSG_WAITALL | MSG_CMSG_CLOEXEC);
	struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&envelope) : NULL;
	unsigned int fd_count = 0;
	int fds[MAX_REGIONS];

	if (got == 0 || (got < 0 && errno == ECONNRESET)) {
		detach(device);
		return;
	}
	calendar_hear(device->kernel, device->name);
	if (rights && rights->cmsg_type == SCM_RIGHTS) {
		fd_count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(rights), fd_count * sizeof(int));
	}
	if (got != sizeof message.header || (message.header.flags & VERSION_MASK) != VERSION ||
	    message.header.size > MAX_CONTENT)
		dead(device->kernel->name, "sent %s what is no message of vhost-user", device->name);
	if (!read_whole(device, channel->fd, &message.number, message.header.size))
		dead(device->kernel->name, "stopped in a message about %s", device->name);
	handle(device, &message, fds, fd_count);
	while (fd_count > 0)
		close(fds[--fd_count]);
}

static void connected(struct channel *channel)
{
	struct device *device = channel->of;
	int fd = accept_from(channel->fd, calendar_answer_timeout_s());

	if (device->channel.fd >= 0)
		dead(device->kernel->name, "connected twice to %s", device->name);
	device->channel = (struct channel){ fd, readable, device };
	channel_watch(&device->channel);
}

void device_open(struct device *device, const char *path)
{
	device->memory.owner = device->kernel->name;
	device->call_fd = device->channel.fd = -1;
	device->listening = (struct channel){ listen_at(path), connected, device };
	channel_watch(&device->listening);
}

void device_call(struct device *device, unsigned int queue)
{
	struct message call = { .header = { VRING_CALL, VERSION | NEED_REPLY, 8 },
				.ring = { queue, 0 } };
	struct message answer;

	if (device->call_fd < 0 || !virtqueue_wants_call(&device->queues[queue]))
		return;
	send_message(device, device->call_fd, &call);
	if (!read_whole(device, device->call_fd, &answer.header, sizeof answer.header) ||
	    !read_whole(device, device->call_fd, &answer.number, sizeof answer.number))
		return; /* its end will be seen on the calendar's socket */
	if (answer.header.request != VRING_CALL || !(answer.header.flags & IS_REPLY) ||
	    answer.header.size != 8)
		dead(device->kernel->name, "answered an interrupt of %s with something else", device->name);
}
