/*
 * Many Linux kernels in one virtual time: what the files of this program share.
 *
 * One thing happens at a time: a kernel has its turn, or a card, cable or console does something at an
 * instant it asked the calendar for. So nothing here needs a lock, and each run is the same run. Several
 * kernels have their turns at once only where none can tell another anything; calendar.c says when.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define NEVER INT64_MAX
#define MAX_KERNELS 256
#define MAX_NAME 64
/* Jumbo frames with two tags; without the FCS, which virtio-net does not carry. */
#define MAX_FRAME 9240

/* --- end.c: the ways a run ends before its time */

/* Says `dead NAME TIME_NS REASON` and ends the program with exit code 1. */
_Noreturn void dead(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whose memory is being read or written; a fault there (SIGBUS) is this one's end. */
extern const char *memory_of;
void catch_faults(void);
/* Says why the description or this machine is no good and ends the program with exit code 2. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *allocate(size_t size);

/* --- calendar.c: who is next */

/* Adds something that happens at instants of its choice; of two at one instant the one added first. */
unsigned int calendar_add(void (*happen)(void *), void *of);
/* The next instant at which it happens; NEVER: it does not. */
void calendar_set(unsigned int entry, uint64_t at_ns);
/* The instant of what happens; while a message is handled, that of the kernel whose it is. */
uint64_t calendar_now_ns(void);
/* Cables and segments carry nothing before `cables_from_ns`. */
void calendar_open(const char *path, double answer_timeout_s, uint64_t cables_from_ns);
bool calendar_is_plugged_in(void);
/* How long (wall time) a kernel may be silent in its turn. */
double calendar_answer_timeout_s(void);
/* Waits until every kernel has connected. */
void calendar_gather(void);
/* Lets time pass up to an instant, or until it is held; says what it stopped for. */
enum stop { REACHED, HELD, ALL_ASLEEP, ALL_ENDED };
enum stop calendar_go(uint64_t until_ns);
/* The kernel that is heard gives its turn back at this very instant, and time stands still. */
void calendar_hold(void);

struct kernel {
	unsigned int id;
	char name[MAX_NAME];
	bool may_end;
	enum { ABSENT, CONNECTED, RUNNING, WAITING, ENDED } state;
	int fd;
	uint32_t start_sequence;
	struct shared_time *shared;
	int shared_fd;
	uint64_t now_ns;	/* how far it is, */
	uint64_t free_until_ns; /* and may go in this turn */
	struct oscillator *oscillator;
};

/* A message of a kernel's is being handled: it must have its turn, and the present is its own. */
void calendar_hear(struct kernel *kernel, const char *what);

struct kernel *kernel_add(unsigned int id, const char *name);
struct kernel *kernel_named(const char *name);
struct kernel *kernel_numbered(unsigned int index);

/* What a kernel's clocks are read from; see um-published-clock.patch. */
struct published_clock {
	uint64_t valid;
	uint64_t cycle_last;
	uint64_t shifted_ns;
	uint32_t mult;
	uint32_t shift;
	int64_t real_ns;
	int64_t tai_ns;
};

struct published_clock kernel_clock(const struct kernel *kernel);

/* --- channels.c: what may be read, and who reads it */

struct channel {
	int fd;
	void (*readable)(struct channel *channel);
	void *of;
};

void channel_watch(struct channel *channel);
void channel_close(struct channel *channel);
int listen_at(const char *path);
/* Handles what is readable; false when nothing was for so long. */
bool channels_serve(double timeout_s);
/* A connection that was waiting at a listening socket; a peer that stops in a message is an error. */
int accept_from(int listening, double timeout_s);

/* --- virtqueue.c: the split ring of virtio 1.2, section 2.7 */

#define MAX_QUEUE_SIZE 1024
#define MAX_PIECES 64
#define MAX_REGIONS 8

struct region {
	uint64_t guest_address;
	uint64_t size;
	uint8_t *mapped;
	size_t mapped_size;
	uint64_t offset;
};

struct memory {
	const char *owner;
	struct region regions[MAX_REGIONS];
	unsigned int count;
};

struct virtqueue {
	uint16_t size;
	uint16_t next_available;
	bool enabled;
	struct descriptor *descriptors;
	uint16_t *available;
	uint16_t *used;
};

/* One buffer of the guest's: what it may be read from, or written to. */
struct chain {
	uint16_t head;
	unsigned int readable, writable;
	struct iovec from[MAX_PIECES], to[MAX_PIECES];
};

void *memory_at(const struct memory *memory, uint64_t address, uint64_t size);
void virtqueue_place(struct virtqueue *queue, const struct memory *memory, uint64_t descriptors,
		     uint64_t available, uint64_t used);
bool virtqueue_take(struct virtqueue *queue, const struct memory *memory, struct chain *chain);
void virtqueue_give_back(struct virtqueue *queue, uint16_t head, uint32_t written);
bool virtqueue_wants_call(const struct virtqueue *queue);
void virtqueue_ask_for_kicks(struct virtqueue *queue, bool wanted);

/* --- vhost_user.c: a device of a kernel's */

#define MAX_QUEUES 65

struct device {
	struct kernel *kernel;
	char name[2 * MAX_NAME];
	struct channel listening, channel;
	int call_fd;
	struct memory memory;
	struct virtqueue queues[MAX_QUEUES];
	unsigned int queue_count;
	uint64_t features;
	uint8_t config[64];
	size_t config_size;
	void (*kicked)(struct device *device, unsigned int queue);
};

void device_open(struct device *device, const char *path);
/* Interrupts the kernel, which must not be running. */
void device_call(struct device *device, unsigned int queue);

/* --- cable.c, capture.c, segment.c, card.c, console.c */

struct frame {
	struct frame *next;
	uint64_t arrives_ns;
	size_t size;
	uint8_t octets[];
};

/* Where frames go: the card at a cable's other end, or the ports of a segment. */
struct line {
	uint64_t rate_bps, propagation_ns, jitter_ns, pareto_ns;
	double loss, bit_error;
	uint64_t random;
	struct frame *first, *last;
	unsigned int arrival;
	void (*deliver)(void *to, void *from, struct frame *frame);
	void *from, *to;
	struct capture *capture;
	unsigned int capture_interface;
};

void line_open(struct line *line);
/* How long a frame occupies the line. */
uint64_t line_occupied_ns(const struct line *line, size_t frame_size);
/* Takes a frame whose sending begins now. */
void line_carry(struct line *line, struct frame *frame);

struct card {
	struct device device;
	struct line *line;
	unsigned int pairs;
	bool sending;
	unsigned int sending_queue;
	uint16_t sending_head;
	unsigned int sent;
	uint8_t mac[6];
};

struct card *card_add(struct kernel *kernel, const char *port, const uint8_t mac[6], unsigned int pairs,
		      const char *path);
struct card *card_named(const char *name);
void card_join(struct card *card, struct line *line);
/* Captures both directions of a card's cable; false: it is on none, or captured already. */
bool card_capture(struct card *card, struct capture *capture);
/* Refuses a network with a card that leads nowhere. */
void cards_check(void);
/* Hands over a frame and interrupts the kernel; a card without a free buffer loses it. */
void card_receive(void *card, void *from, struct frame *frame);

void segment_join(struct card **cards, unsigned int count, uint64_t rate_bps, uint64_t delay_ns);

struct capture *capture_open(const char *path);
/* Adds one, by whose number frames are written. */
unsigned int capture_interface(struct capture *capture, const char *name);
bool capture_is_open(const struct capture *capture);
/* Whether there was an open one. */
bool capture_close(const char *path);
void capture_frame(struct capture *capture, unsigned int interface, const struct frame *frame,
		   const char *comment);
/* The time of day at the start, ns since 1970. */
extern uint64_t start_of_day_ns;

void console_add(struct kernel *kernel, const char *path);
bool console_send(const char *name, const char *hexadecimal);
/* Says what the nodes wrote: a line `octets NAME TIME_NS HEX` each. */
void consoles_say(void);

/* --- clocks.c: the true offsets */

/* An oscillator that is off by so many parts in 10^12 from certain instants on. */
struct oscillator *oscillator_constant(int64_t parts);
struct oscillator *oscillator_read(const char *path);
void clocks_record(const char *path, uint64_t period_ns);

/* --- description.c: the network, a line for each of its parts */

void describe(const char *path);

#endif
