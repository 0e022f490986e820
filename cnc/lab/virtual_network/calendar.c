/*
 * Who is next: the calendar of user-mode Linux's time travel (include/uapi/linux/um_timetravel.h),
 * with the memory that all kernels share with it.
 *
 * Exactly one has its turn. A kernel that runs may go on by itself up to `free_until_ns`, the next instant
 * of anybody else; there it sends WAIT. The next is the one with the earliest instant; at one instant
 * first what the network does, in the order of the description, then the kernels by their ID.
 */
#include "network.h"
#include "time_travel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWN_PLACE 0		  /* of the calendar; kernel n has place n + 1 */

struct entry {
	uint64_t at_ns;
	void (*happen)(void *);
	void *of;
};

static struct entry *entries;
static unsigned int entry_count;
static struct kernel kernels[MAX_KERNELS];
static struct channel channels[MAX_KERNELS];
static unsigned int kernel_count;
static struct kernel *running;
static bool held;
static struct shared_time *shared;
static int shared_fd = -1, log_fd = -1;
static struct channel listening;
static double answer_timeout_s;
/* The shared memory may say anything; these are ours. */
static uint64_t now_ns;

unsigned int calendar_add(void (*happen)(void *), void *of)
{
	entries = realloc(entries, (entry_count + 1) * sizeof *entries);
	if (!entries)
		refuse("no memory left");
	entries[entry_count] = (struct entry){ NEVER, happen, of };
	return entry_count++;
}

void calendar_set(unsigned int entry, uint64_t at_ns)
{
	entries[entry].at_ns = at_ns;
	if (running && at_ns < shared->free_until_ns)
		shared->free_until_ns = at_ns;
}

double calendar_answer_timeout_s(void)
{
	return answer_timeout_s;
}

void calendar_hold(void)
{
	held = true;
	if (running && shared->free_until_ns > calendar_now_ns())
		shared->free_until_ns = now_ns;
}

/* While a kernel runs it says by itself what time it is, and may not say anything. */
uint64_t calendar_now_ns(void)
{
	uint64_t claimed_ns;

	if (running) {
		claimed_ns = __atomic_load_n(&shared->now_ns, __ATOMIC_ACQUIRE);
		if (claimed_ns < now_ns || (claimed_ns > now_ns && claimed_ns > shared->free_until_ns)) {
			struct kernel *liar = running;

			running = NULL;
			dead(liar->name, "set the time to %lu, which was not in its turn", claimed_ns);
		}
		now_ns = claimed_ns;
	}
	return now_ns;
}

static void set_now(uint64_t at_ns)
{
	now_ns = at_ns;
	shared->now_ns = at_ns;
}

/* --- kernels */

struct kernel *kernel_add(unsigned int id, const char *name)
{
	struct kernel *kernel = &kernels[kernel_count];

	if (id != kernel_count || kernel_count == MAX_KERNELS)
		refuse("kernel %u %s: the IDs are 0, 1, … in this order, at most %u", id, name, MAX_KERNELS);
	kernel->id = kernel_count++;
	snprintf(kernel->name, sizeof kernel->name, "%s", name);
	kernel->fd = -1;
	kernel->oscillator = oscillator_constant(0);
	return kernel;
}

struct kernel *kernel_named(const char *name)
{
	for (unsigned int n = 0; n < kernel_count; n++)
		if (!strcmp(kernels[n].name, name))
			return &kernels[n];
	return NULL;
}

struct kernel *kernel_numbered(unsigned int index)
{
	return index < kernel_count ? &kernels[index] : NULL;
}

struct published_clock kernel_clock(const struct kernel *kernel)
{
	struct published_clock clock;

	memcpy(&clock, shared->places[kernel->id + 1].published_clock, sizeof clock);
	return clock;
}

static void ended(struct kernel *kernel)
{
	channel_close(&channels[kernel->id]);
	kernel->state = ENDED;
	if (!kernel->may_end)
		dead(kernel->name, "has ended");
	printf("ended %s %lu\n", kernel->name, calendar_now_ns());
}

static void answer(struct kernel *kernel, struct time_message message)
{
	message.operation = TIME_ACK;
	if (send(kernel->fd, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
		ended(kernel);
}

static void message_from(struct channel *channel)
{
	struct kernel *kernel = channel->of;
	struct time_message message;
	ssize_t got = recv(channel->fd, &message, sizeof message, MSG_WAITALL);

	if (got == 0 || (got < 0 && errno == ECONNRESET)) {
		ended(kernel);
		return;
	}
	if (got != sizeof message)
		dead(kernel->name, "stopped in a message to the calendar");
	if (kernel->state != RUNNING)
		dead(kernel->name, "spoke to the calendar when it was not its turn");
	switch (message.operation) {
	case TIME_WAIT:
		kernel->state = WAITING;
		return;
	case TIME_OF_DAY:
		message.time_ns = start_of_day_ns + now_ns;
		answer(kernel, message);
		return;
	default:
		dead(kernel->name, "sent the calendar an operation %u, which it does not take", message.operation);
	}
}

/* The first message says who it is. */
static void introduced(struct channel *channel)
{
	struct time_message message;
	struct kernel *kernel;
	ssize_t got = recv(channel->fd, &message, sizeof message, MSG_WAITALL);

	if (got != sizeof message || message.operation != TIME_START || message.time_ns >= kernel_count)
		dead("-", "somebody connected to the calendar who is no kernel of this network");
	kernel = &kernels[message.time_ns];
	if (kernel->state != ABSENT)
		dead(kernel->name, "connected to the calendar twice");
	kernel->state = CONNECTED;
	kernel->fd = channel->fd;
	/* The answer is its first turn. */
	channels[kernel->id] = (struct channel){ channel->fd, message_from, kernel };
	kernel->start_sequence = message.sequence;
}

static void connected(struct channel *channel)
{
	struct channel *stranger = allocate(sizeof *stranger);

	*stranger = (struct channel){ accept_from(channel->fd, answer_timeout_s), introduced, stranger };
	introduced(stranger);
	free(stranger);
}

void calendar_open(const char *path, double timeout_s)
{
	size_t size = sizeof *shared + (MAX_KERNELS + 1) * sizeof shared->places[0];

	answer_timeout_s = timeout_s;
	shared_fd = memfd_create("calendar", MFD_CLOEXEC);
	log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (shared_fd < 0 || log_fd < 0 || ftruncate(shared_fd, size))
		refuse("cannot make the memory that kernels share: %s", strerror(errno));
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (shared == MAP_FAILED)
		refuse("cannot map the memory that kernels share: %s", strerror(errno));
	shared->version = SHARED_VERSION;
	shared->size = size;
	shared->place_count = MAX_KERNELS + 1;
	shared->running = OWN_PLACE;
	shared->places[OWN_PLACE].capabilities = SHARES_TIME;
	listening = (struct channel){ listen_at(path), connected, NULL };
	channel_watch(&listening);
}

void calendar_gather(void)
{
	for (unsigned int n = 0; n < kernel_count; n++)
		while (kernels[n].state == ABSENT)
			if (!channels_serve(answer_timeout_s))
				dead(kernels[n].name, "did not connect to the calendar within %g s",
				     answer_timeout_s);
	for (unsigned int n = 0; n < kernel_count; n++)
		channel_watch(&channels[n]);
}

/* --- turns */

/* When a kernel wants its next turn; a kernel that has just connected, at once. */
static uint64_t wanted_ns(const struct kernel *kernel)
{
	const struct place *place = &shared->places[kernel->id + 1];

	if (kernel->state == CONNECTED)
		return 0;
	if (kernel->state != WAITING || !(place->flags & HAS_REQUEST))
		return NEVER;
	return place->request_ns;
}

/* The earliest instant of anybody but one kernel; who it is. */
static uint64_t earliest(const struct kernel *but, struct entry **entry, struct kernel **kernel)
{
	uint64_t first_ns = NEVER;

	*entry = NULL;
	*kernel = NULL;
	for (unsigned int n = 0; n < entry_count; n++)
		if (entries[n].at_ns < first_ns) {
			first_ns = entries[n].at_ns;
			*entry = &entries[n];
		}
	for (unsigned int n = 0; n < kernel_count; n++)
		if (&kernels[n] != but && wanted_ns(&kernels[n]) < first_ns) {
			first_ns = wanted_ns(&kernels[n]);
			*kernel = &kernels[n];
		}
	return first_ns;
}

static void send_start(struct kernel *kernel)
{
	struct time_message message = { TIME_ACK, kernel->start_sequence, kernel->id + 1 };
	struct iovec piece = { &message, sizeof message };
	union {
		struct cmsghdr first;
		char octets[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr envelope = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
				   .msg_controllen = sizeof control };
	int fds[2] = { shared_fd, log_fd };

	control.first = (struct cmsghdr){ CMSG_LEN(sizeof fds), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.first), fds, sizeof fds);
	if (sendmsg(kernel->fd, &envelope, MSG_NOSIGNAL) != sizeof message)
		ended(kernel);
}

static void send_run(struct kernel *kernel, uint64_t at_ns)
{
	struct time_message message = { TIME_RUN, 0, at_ns };

	if (send(kernel->fd, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
		ended(kernel);
}

static void turn_of(struct kernel *kernel, uint64_t at_ns, uint64_t until_ns)
{
	bool first = kernel->state == CONNECTED;
	struct kernel *next_kernel;
	struct entry *next_entry;
	uint64_t next_ns = earliest(kernel, &next_entry, &next_kernel);

	kernel->state = RUNNING;
	shared->running = kernel->id + 1;
	shared->free_until_ns = next_ns < until_ns ? next_ns : until_ns;
	running = kernel;
	if (first)
		send_start(kernel);
	else
		send_run(kernel, at_ns);
	while (kernel->state == RUNNING)
		if (!channels_serve(answer_timeout_s))
			dead(kernel->name, "has not given its turn back for %g s", answer_timeout_s);
	calendar_now_ns();
	running = NULL;
	shared->running = OWN_PLACE;
	shared->now_ns = now_ns;
	if (kernel->state == ENDED)
		return;
	if (first && !(shared->places[kernel->id + 1].capabilities & SHARES_TIME))
		dead(kernel->name, "does not use the shared memory, as Linux does since 6.11");
	if (wanted_ns(kernel) < now_ns)
		dead(kernel->name, "wants a turn in the past");
}

static bool anybody_left(void)
{
	for (unsigned int n = 0; n < kernel_count; n++)
		if (kernels[n].state != ENDED)
			return true;
	return false;
}

enum stop calendar_go(uint64_t until_ns)
{
	struct kernel *kernel;
	struct entry *entry;
	uint64_t at_ns;

	held = false;
	while (!held) {
		if (!anybody_left())
			return ALL_ENDED;
		at_ns = earliest(NULL, &entry, &kernel);
		if (at_ns >= NEVER && until_ns >= NEVER)
			return ALL_ASLEEP;
		if (at_ns >= until_ns) {
			set_now(until_ns);
			return REACHED;
		}
		set_now(at_ns);
		if (kernel) {
			turn_of(kernel, at_ns, until_ns);
		} else {
			entry->at_ns = NEVER;
			entry->happen(entry->of);
		}
	}
	return HELD;
}
