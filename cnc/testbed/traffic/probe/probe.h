/* What the parts of tsn-probe share. Instants are nanoseconds of CLOCK_REALTIME, which the kernel's
 * software time stamps are of, unless they say otherwise. */
#ifndef PROBE_H
#define PROBE_H

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define NS_PER_S 1000000000LL
#define ABSENT INT64_MIN
#define LAST_STAMP_MS 1000 /* how long to wait for it */
#define COUNT_MAX 10000000 /* packets: 640 MB of rows */
#define OCTETS_MIN sizeof(struct packet)
#define OCTETS_MAX 9000

/* The row of a packet, by its sequence number: a stamp is one store into its cache line. */
struct row {
	int64_t stamps[8];
} __attribute__((aligned(64)));

enum { PLANNED, APP, SCHED, LEFT, LEFT_HARDWARE }; /* of the sender */
enum { RX, GOT, RX_HARDWARE };                     /* of the receiver */

/* How a payload begins, in network byte order. A packet of another run is none of ours. */
struct packet {
	uint32_t magic, run, seq;
};
#define MAGIC 0x54534e50 /* TSNP */

#define WHY_OCTETS 512

/* How far a system clock is ahead of its grandmaster, if that is known, and from what or why not. */
enum { NO_SOURCE, NOT_YET, KNOWN };
struct offset {
	uint32_t state;
	int64_t ns;
	uint64_t grandmaster;
	char why[WHY_OCTETS];
};

struct options {
	struct sockaddr_storage address;
	const char *timeline; /* of a replay */
	const char *ports[2]; /* of a switch: where packets come in, and where they go */
	uint16_t port;	      /* UDP's */
	const char *output;   /* NULL: standard output */
	const char *hardware; /* the interface whose clock stamps, too; NULL: none does */
	uint32_t count;
	int64_t period_ns, wait_ns;
	int64_t sync_ns;   /* 0: send without asking how far clocks are off */
	const char *ptp4l; /* its socket */
	uint8_t domain;
	size_t octets;
	int priority, dscp; /* -1: as the system has it */
	bool by_tsc, no_stamps;
};

/* main.c: say what is wrong and end, with exit code 2 for input and 1 for all else. */
void refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* An IPv4 or IPv6 address; one of a link with its interface, fe80::1%eth0. */
void read_address(const char *text, in_port_t port, struct sockaddr_storage *address);
extern volatile sig_atomic_t stopped; /* by a signal: end the run, and write what there is */

/* clock.c */
extern bool by_tsc;
static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}
static inline int64_t tsc_cycles(void)
{
#if defined(__x86_64__)
	_mm_lfence(); /* not before what precedes it has been done */
	return (int64_t)__rdtsc();
#else
	return 0;
#endif
}
/* Nanoseconds or, by TSC, cycles, which `stamp_ns` converts after the run. */
static inline int64_t stamp(void)
{
	return by_tsc ? tsc_cycles() : clock_ns(CLOCK_REALTIME);
}
const char *tsc_refusal(void); /* NULL: its cycles can be converted */
void clock_begin(bool tsc);
void clock_anchor(int64_t now);
void clock_end(void);
int64_t stamp_ns(int64_t stamp);
int64_t tsc_hz(void);
double stamp_cost_ns(bool tsc);
int print_cost(const struct options *options);

/* table.c */
struct row *table_new(uint32_t count);
FILE *table_open(const struct options *options);
void table_begin(FILE *file);
void table_end(FILE *file);
void table_header(FILE *file, const char *command, uint32_t run);
uint32_t table_missing(const struct row *table, uint32_t count, int own, int column);
void table_write(FILE *file, const struct row *table, uint32_t count, const char *const *names,
		 int own);

/* stamps.c: time stamps of the kernel */
void stamps_request(int fd, const struct options *options, uint32_t software, uint32_t hardware);
void stamps_report(int fd, FILE *file, const struct options *options, uint32_t wanted,
		   uint32_t missing);
ssize_t stamps_take(int fd, struct msghdr *message, int flags, int64_t ns[2], uint32_t *kind,
		    uint32_t *id);

/* sync.c: clocks of both hosts */
#define QUESTION_OCTETS 1024 /* more than a question has */
struct offset sync_read(const struct options *options);
void sync_await(const struct options *options, struct offset both[2]);
bool sync_is_question(const void *data, ssize_t octets);
void sync_answer(int fd, const struct options *options, const struct msghdr *question);

int probe_send(const struct options *options);
int probe_replay(const struct options *options);
int probe_residence(const struct options *options);
int probe_receive(const struct options *options);

#endif
