/*
 * Who is next: the calendar of user-mode Linux's time travel (include/uapi/linux/um_timetravel.h),
 * with the memory that each kernel shares with it.
 *
 * Exactly one has its turn. A kernel that runs may go on by itself up to `free_until_ns`, the next instant
 * of anybody else; there it sends WAIT. The next is the one with the earliest instant; at one instant
 * first what the network does, in the order of the description, then the kernels by their ID.
 *
 * Before the cables are plugged in no kernel can tell another anything. Until then, or until the network
 * does something, all that want a turn have theirs side by side, as many at once as there are processors:
 * whatever the order in which their messages come, each kernel sees the same.
 */
#include "network.h"
#include "time_travel.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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
static struct kernel *speaking; /* whose message is being handled */
static unsigned int running_count;
static bool held;
static uint64_t held_at_ns;
static int log_fd = -1;
static struct channel listening;
static double answer_timeout_s;
static uint64_t plugged_in_ns;
static unsigned int processors = 1;
static uint64_t now_ns;

unsigned int calendar_add(void (*happen)(void *), void *of)
{
	entries = realloc(entries, (entry_count + 1) * sizeof *entries);
	if (!entries)
		refuse("no memory left");
	entries[entry_count] = (struct entry){ NEVER, happen, of };
	return entry_count++;
}

/* Shared memory may say anything; what is in `struct kernel` is ours. */
static void let_run_until(struct kernel *kernel, uint64_t until_ns)
{
	kernel->free_until_ns = until_ns;
	kernel->shared->free_until_ns = until_ns;
}

void calendar_set(unsigned int entry, uint64_t at_ns)
{
	entries[entry].at_ns = at_ns;
	if (speaking && at_ns < speaking->free_until_ns)
		let_run_until(speaking, at_ns);
}

double calendar_answer_timeout_s(void)
{
	return answer_timeout_s;
}

bool calendar_is_plugged_in(void)
{
	return calendar_now_ns() >= plugged_in_ns;
}

void calendar_hold(void)
{
	uint64_t at_ns = calendar_now_ns();

	held = true;
	if (at_ns > held_at_ns)
		held_at_ns = at_ns;
	if (speaking->free_until_ns > at_ns)
		let_run_until(speaking, at_ns);
}

/* While a kernel runs it says by itself what time it is, and may not say anything. */
static void hear_time(struct kernel *kernel)
{
	uint64_t claimed_ns = __atomic_load_n(&kernel->shared->now_ns, __ATOMIC_ACQUIRE);

	if (claimed_ns < kernel->now_ns ||
	    (claimed_ns > kernel->now_ns && claimed_ns > kernel->free_until_ns)) {
		speaking = NULL;
		dead(kernel->name, "set the time to %lu, which was not in its turn", claimed_ns);
	}
	kernel->now_ns = claimed_ns;
}

void calendar_hear(struct kernel *kernel, const char *what)
{
	if (kernel->state != RUNNING)
		dead(kernel->name, "spoke to %s when it was not its turn", what);
	speaking = kernel;
}

uint64_t calendar_now_ns(void)
{
	if (!speaking)
		return now_ns;
	hear_time(speaking);
	return speaking->now_ns;
}

static void set_now(uint64_t at_ns)
{
	now_ns = at_ns;
	for (unsigned int n = 0; n < kernel_count; n++)
		if (kernels[n].now_ns < at_ns)
			kernels[n].now_ns = kernels[n].shared->now_ns = at_ns;
}

/* --- kernels */

/* A kernel that runs changes the memory; so that several can at once, each has its own. */
static void share_time(struct kernel *kernel)
{
	size_t size = sizeof *kernel->shared + (MAX_KERNELS + 1) * sizeof kernel->shared->places[0];

	kernel->shared_fd = memfd_create(kernel->name, MFD_CLOEXEC);
	if (kernel->shared_fd < 0 || ftruncate(kernel->shared_fd, size))
		refuse("cannot make the memory to share with a kernel: %s", strerror(errno));
	kernel->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, kernel->shared_fd, 0);
	if (kernel->shared == MAP_FAILED)
		refuse("cannot map the memory to share with a kernel: %s", strerror(errno));
	kernel->shared->version = SHARED_VERSION;
	kernel->shared->size = size;
	kernel->shared->place_count = MAX_KERNELS + 1;
	kernel->shared->running = OWN_PLACE;
	kernel->shared->places[OWN_PLACE].capabilities = SHARES_TIME;
}

struct kernel *kernel_add(unsigned int id, const char *name)
{
	struct kernel *kernel = &kernels[kernel_count];

	if (id != kernel_count || kernel_count == MAX_KERNELS)
		refuse("kernel %u %s: the IDs are 0, 1, … in this order, at most %u", id, name, MAX_KERNELS);
	kernel->id = kernel_count++;
	snprintf(kernel->name, sizeof kernel->name, "%s", name);
	kernel->fd = -1;
	kernel->oscillator = oscillator_constant(0);
	share_time(kernel);
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

static struct place *place_of(const struct kernel *kernel)
{
	return &kernel->shared->places[kernel->id + 1];
}

struct published_clock kernel_clock(const struct kernel *kernel)
{
	struct published_clock clock;

	memcpy(&clock, place_of(kernel)->published_clock, sizeof clock);
	return clock;
}

/* When a kernel wants its next turn; a kernel that has just connected, at once. */
static uint64_t wanted_ns(const struct kernel *kernel)
{
	const struct place *place = place_of(kernel);

	if (kernel->state == CONNECTED)
		return 0;
	if (kernel->state != WAITING || !(place->flags & HAS_REQUEST))
		return NEVER;
	return place->request_ns;
}

static void end_turn(struct kernel *kernel)
{
	hear_time(kernel);
	kernel->shared->running = OWN_PLACE;
	kernel->state = WAITING;
	running_count--;
	if (!(place_of(kernel)->capabilities & SHARES_TIME))
		dead(kernel->name, "does not use the shared memory, as Linux does since 6.11");
	if (wanted_ns(kernel) < kernel->now_ns)
		dead(kernel->name, "wants a turn in the past");
}

static void ended(struct kernel *kernel)
{
	channel_close(&channels[kernel->id]);
	if (kernel->state == RUNNING) {
		speaking = kernel;
		running_count--;
	}
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
	calendar_hear(kernel, "the calendar");
	switch (message.operation) {
	case TIME_WAIT:
		end_turn(kernel);
		return;
	case TIME_OF_DAY:
		message.time_ns = start_of_day_ns + calendar_now_ns();
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

void calendar_open(const char *path, double timeout_s, uint64_t cables_from_ns)
{
	cpu_set_t ours;

	answer_timeout_s = timeout_s;
	plugged_in_ns = cables_from_ns;
	if (!sched_getaffinity(0, sizeof ours, &ours))
		processors = CPU_COUNT(&ours);
	log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (log_fd < 0)
		refuse("cannot open /dev/null: %s", strerror(errno));
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

/* The first of the earliest instant of what the network does; NULL: it does nothing. */
static struct entry *earliest_entry(void)
{
	struct entry *first = NULL;

	for (unsigned int n = 0; n < entry_count; n++)
		if (entries[n].at_ns < (first ? first->at_ns : NEVER))
			first = &entries[n];
	return first;
}

/* The first of those that want a turn the earliest, but one of them; NULL: none wants one. */
static struct kernel *earliest_kernel(const struct kernel *but)
{
	struct kernel *first = NULL;
	uint64_t first_ns = NEVER;

	for (unsigned int n = 0; n < kernel_count; n++)
		if (&kernels[n] != but && wanted_ns(&kernels[n]) < first_ns) {
			first = &kernels[n];
			first_ns = wanted_ns(first);
		}
	return first;
}

static uint64_t sooner(uint64_t one_ns, uint64_t other_ns)
{
	return one_ns < other_ns ? one_ns : other_ns;
}

/* `until_ns`, or the instant before it at which the network does something. */
static uint64_t undisturbed(uint64_t until_ns)
{
	const struct entry *entry = earliest_entry();

	return entry ? sooner(entry->at_ns, until_ns) : until_ns;
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
	int fds[2] = { kernel->shared_fd, log_fd };

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

static void begin_turn(struct kernel *kernel, uint64_t until_ns)
{
	bool first = kernel->state == CONNECTED;
	uint64_t at_ns = wanted_ns(kernel);

	if (at_ns > kernel->now_ns)
		kernel->now_ns = kernel->shared->now_ns = at_ns;
	kernel->state = RUNNING;
	kernel->shared->running = kernel->id + 1;
	let_run_until(kernel, until_ns);
	running_count++;
	if (first)
		send_start(kernel);
	else
		send_run(kernel, kernel->now_ns);
}

static struct kernel *any_running(void)
{
	struct kernel *kernel = kernels;

	while (kernel->state != RUNNING)
		kernel++;
	return kernel;
}

/* Returns when each of these has had its turn, which takes it no further than `until_ns`. */
static void take_turns(struct kernel **due, unsigned int count, uint64_t until_ns)
{
	unsigned int begun = 0;

	while (begun < count || running_count) {
		while (begun < count && running_count < processors)
			begin_turn(due[begun++], until_ns);
		if (running_count && !channels_serve(answer_timeout_s))
			dead(any_running()->name, "has not given its turn back for %g s", answer_timeout_s);
	}
	speaking = NULL;
}

static void turn_of(struct kernel *kernel, uint64_t until_ns)
{
	const struct kernel *next = earliest_kernel(kernel);

	until_ns = undisturbed(until_ns);
	take_turns(&kernel, 1, next ? sooner(wanted_ns(next), until_ns) : until_ns);
}

/* Before the cables are plugged in only the network itself can bring a kernel something. */
static void turns_side_by_side(uint64_t until_ns)
{
	struct kernel *due[MAX_KERNELS];
	unsigned int count = 0;

	until_ns = undisturbed(sooner(plugged_in_ns, until_ns));
	for (unsigned int n = 0; n < kernel_count; n++)
		if (wanted_ns(&kernels[n]) < until_ns)
			due[count++] = &kernels[n];
	take_turns(due, count, until_ns);
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
	held_at_ns = 0;
	while (!held) {
		if (!anybody_left())
			return ALL_ENDED;
		entry = earliest_entry();
		kernel = earliest_kernel(NULL);
		at_ns = kernel ? wanted_ns(kernel) : NEVER;
		if (entry && entry->at_ns <= at_ns) {
			at_ns = entry->at_ns;
			kernel = NULL;
		}
		if (at_ns >= NEVER && until_ns >= NEVER)
			return ALL_ASLEEP;
		if (at_ns >= until_ns) {
			set_now(until_ns);
			return REACHED;
		}
		set_now(at_ns);
		if (kernel && at_ns < plugged_in_ns) {
			turns_side_by_side(until_ns);
		} else if (kernel) {
			turn_of(kernel, until_ns);
		} else {
			entry->at_ns = NEVER;
			entry->happen(entry->of);
		}
	}
	now_ns = held_at_ns;
	return HELD;
}
