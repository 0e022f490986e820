/* Clocks: which may be read, what reading one costs, and how cycles become time. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define ANCHORS 65536 /* 18 hours */
#define ANCHOR_CYCLES 2500000000
#define SPIN_CYCLES 2000000
#define SLEEP_NS 1000000
#define BATCHES 501
#define BATCH 200
#define INSTANTS 2001
#define INSTANT_NS 100000

/* The same instant on two clocks, and for how long it is not known of the first. */
struct pair {
	int64_t other, ns, width;
};

bool by_tsc;
static struct pair anchors[ANCHORS];
static int anchored;
static struct pair monotonic; /* as the run began */

static int64_t monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* CLOCK_REALTIME between two readings of another clock: the tightest of three, for a program that
 * is interrupted in between does not know which instant it has read. */
static struct pair bracket(int64_t (*other)(void))
{
	struct pair best = {.width = INT64_MAX};

	for (int attempt = 0; attempt < 3; attempt++) {
		int64_t before = other();
		int64_t ns = clock_ns(CLOCK_REALTIME);
		int64_t width = other() - before;

		if (width < best.width)
			best = (struct pair){before + width / 2, ns, width};
	}
	return best;
}

static double cycles_per_ns(const struct pair *begin, const struct pair *end)
{
	return (double)(end->other - begin->other) / (double)(end->ns - begin->ns);
}

/* Whether cycles and clock go on together while the program computes and while it sleeps. In
 * virtual time they do not: computing takes cycles and no time, sleeping time and few cycles. */
static bool is_steady(void)
{
	struct timespec asleep = {.tv_nsec = SLEEP_NS};
	struct pair begin = bracket(tsc_cycles), middle, end;
	double ratio;

	while (tsc_cycles() - begin.other < SPIN_CYCLES)
		;
	middle = bracket(tsc_cycles);
	nanosleep(&asleep, NULL);
	end = bracket(tsc_cycles);
	ratio = cycles_per_ns(&begin, &middle) / cycles_per_ns(&middle, &end);
	return ratio > 0.5 && ratio < 2;
}

static bool has_flags(const char *first, const char *second)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (file && !found && getline(&line, &size, file) > 0)
		found = !strncmp(line, "flags", 5) && strstr(line, first) && strstr(line, second);
	free(line);
	if (file)
		fclose(file);
	return found;
}

const char *tsc_refusal(void)
{
#if !defined(__x86_64__)
	return "this processor has none";
#endif
	if (!is_steady())
		return "its cycles do not go with the clock, as in virtual time";
	if (!has_flags(" constant_tsc", " nonstop_tsc"))
		return "it may change its frequency or stop: /proc/cpuinfo lacks constant_tsc "
		       "or nonstop_tsc";
	return NULL;
}

void clock_begin(bool tsc)
{
	const char *why = tsc ? tsc_refusal() : NULL;

	if (why)
		refuse("--clock: the TSC cannot be used: %s; use --clock realtime", why);
	by_tsc = tsc;
	monotonic = bracket(monotonic_ns);
	anchors[0] = bracket(tsc_cycles);
	anchored = 1;
}

/* Take another pair to convert by if the last is about a second old: the clock's frequency is
 * adjusted, the TSC's is not. `now` is a stamp. */
void clock_anchor(int64_t now)
{
	if (by_tsc && anchored < ANCHORS - 1 &&
	    now - anchors[anchored - 1].other > ANCHOR_CYCLES)
		anchors[anchored++] = bracket(tsc_cycles);
}

void clock_end(void)
{
	struct pair end = bracket(monotonic_ns);
	int64_t set_ns = (end.ns - end.other) - (monotonic.ns - monotonic.other);

	anchors[anchored++] = bracket(tsc_cycles);
	if (llabs(set_ns) > end.width + monotonic.width)
		fail("CLOCK_REALTIME was set during the run, by %lld ns: its stamps do not compare",
		     (long long)set_ns);
}

/* By linear interpolation between the pairs around a stamp (X-LAP, section 3.1, figure 2). */
int64_t stamp_ns(int64_t stamp)
{
	static int at; /* where the last one was: stamps come nearly in order */
	const struct pair *begin;

	if (!by_tsc || stamp == ABSENT)
		return stamp;
	while (at < anchored - 2 && stamp >= anchors[at + 1].other)
		at++;
	while (at > 0 && stamp < anchors[at].other)
		at--;
	begin = &anchors[at];
	return begin->ns +
	       (int64_t)((double)(stamp - begin->other) / cycles_per_ns(begin, begin + 1));
}

int64_t tsc_hz(void)
{
	return (int64_t)(cycles_per_ns(&anchors[0], &anchors[anchored - 1]) * NS_PER_S);
}

static int by_value(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

/* What a stamp costs, stored in its row: the median of batches. */
double stamp_cost_ns(bool tsc)
{
	static double costs_ns[BATCHES];
	struct row *table = table_new(BATCH);

	for (int batch = 0; batch < BATCHES; batch++) {
		int64_t begin_ns = monotonic_ns();

		for (int place = 0; place < BATCH; place++)
			*(volatile int64_t *)&table[place].stamps[APP] =
				tsc ? tsc_cycles() : clock_ns(CLOCK_REALTIME);
		costs_ns[batch] = (double)(monotonic_ns() - begin_ns) / BATCH;
	}
	free(table);
	qsort(costs_ns, BATCHES, sizeof(*costs_ns), by_value);
	return costs_ns[BATCHES / 2];
}

/* How far instants that are computed from cycles are from those that the clock was read to be; to
 * `file`, if there is one, each of them. */
static void print_reconstruction(FILE *file)
{
	static int64_t cycles[INSTANTS], read_ns[INSTANTS];
	static double errors_ns[INSTANTS];
	struct timespec pause = {.tv_nsec = INSTANT_NS};

	clock_begin(true);
	for (int each = 0; each < INSTANTS; each++) {
		nanosleep(&pause, NULL);
		cycles[each] = tsc_cycles();
		read_ns[each] = clock_ns(CLOCK_REALTIME);
		clock_anchor(cycles[each]);
	}
	clock_end();
	if (file)
		table_begin(file);
	for (int each = 0; each < INSTANTS; each++) {
		int64_t error_ns = stamp_ns(cycles[each]) - read_ns[each];

		if (file)
			fprintf(file, "%s%lld,%lld\n", each ? "" : "read_ns,error_ns\n",
				(long long)read_ns[each], (long long)error_ns);
		errors_ns[each] = (double)llabs(error_ns);
	}
	if (file)
		table_end(file);
	qsort(errors_ns, INSTANTS, sizeof(*errors_ns), by_value);
	printf("tsc_hz %lld\n", (long long)tsc_hz());
	printf("reconstruction_p50_ns %.0f\n", errors_ns[INSTANTS / 2]);
	printf("reconstruction_p99_ns %.0f\n", errors_ns[INSTANTS * 99 / 100]);
	printf("reconstruction_max_ns %.0f\n", errors_ns[INSTANTS - 1]);
}

int print_cost(const struct options *options)
{
	const char *why = tsc_refusal();
	FILE *file = NULL;

	if (options->output && why)
		refuse("--output: there is nothing to compute, the TSC cannot be used: %s", why);
	if (options->output)
		file = table_open(options);
	printf("realtime_stamp_ns %.1f\n", stamp_cost_ns(false));
	if (why) {
		printf("tsc refused: %s\n", why);
		return 0;
	}
	printf("tsc_stamp_ns %.1f\n", stamp_cost_ns(true));
	print_reconstruction(file);
	return 0;
}
