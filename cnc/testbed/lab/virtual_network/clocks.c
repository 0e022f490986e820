/*
 * The true offset of each node's clocks as a time series. A kernel leaves in the shared memory what its
 * clocks are read from (um-published-clock.patch); read at any instant that way, they are exact to the
 * nanosecond, and the kernel neither wakes nor loses the time of a clock read.
 */
#include "network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 1000000000000LL
#define MAX_PARTS (PARTS / 10)
#define NS_PER_S 1000000000LL

struct entry {
	uint64_t true_ns;
	int64_t parts;
};

struct oscillator {
	struct entry *entries;
	size_t count;
	/* The entry of the latest instant asked for, and what the oscillator had counted there. */
	size_t current;
	uint64_t current_ns;
};

static FILE *file;
static uint64_t period_ns;
static unsigned int sample;

struct oscillator *oscillator_constant(int64_t parts)
{
	struct oscillator *oscillator = allocate(sizeof *oscillator);

	oscillator->entries = allocate(sizeof *oscillator->entries);
	oscillator->entries[0].parts = parts;
	oscillator->count = 1;
	return oscillator;
}

struct oscillator *oscillator_read(const char *path)
{
	struct oscillator *oscillator = allocate(sizeof *oscillator);
	FILE *table = fopen(path, "re");
	struct entry entry;

	if (!table)
		refuse("cannot read %s: %s", path, strerror(errno));
	while (fread(&entry, sizeof entry, 1, table) == 1) {
		size_t n = oscillator->count++;

		if (llabs(entry.parts) > MAX_PARTS ||
		    (n ? entry.true_ns <= oscillator->entries[n - 1].true_ns : entry.true_ns != 0))
			refuse("%s: bad entry %zu", path, n);
		oscillator->entries = realloc(oscillator->entries, (n + 1) * sizeof entry);
		if (!oscillator->entries)
			refuse("no memory left");
		oscillator->entries[n] = entry;
	}
	if (!oscillator->count)
		refuse("%s: no table", path);
	fclose(table);
	return oscillator;
}

static uint64_t after_ns(uint64_t ns, int64_t parts)
{
	return (unsigned __int128)ns * (PARTS + parts) / PARTS;
}

/* What the oscillator has counted at an instant, no earlier than the one before: as um-oscillator.patch. */
static uint64_t oscillator_ns(struct oscillator *oscillator, uint64_t true_ns)
{
	struct entry *entry = &oscillator->entries[oscillator->current];

	while (oscillator->current + 1 < oscillator->count && entry[1].true_ns <= true_ns) {
		oscillator->current_ns += after_ns(entry[1].true_ns - entry->true_ns, entry->parts);
		oscillator->current++;
		entry++;
	}
	return oscillator->current_ns + after_ns(true_ns - entry->true_ns, entry->parts);
}

static void sample_clocks(void *of)
{
	uint64_t now_ns = calendar_now_ns();
	struct kernel *kernel;

	(void)of;
	for (unsigned int n = 0; (kernel = kernel_numbered(n)); n++) {
		struct published_clock clock = kernel_clock(kernel);
		uint64_t cycles, since_ns;

		if (!clock.valid || clock.shift > 63 || kernel->state == ENDED)
			continue;
		cycles = oscillator_ns(kernel->oscillator, now_ns);
		since_ns = ((cycles - clock.cycle_last) * clock.mult + clock.shifted_ns) >> clock.shift;
		fprintf(file, "%" PRIu64 ",%s,%" PRId64 ",%" PRId64 "\n", now_ns, kernel->name,
			(int64_t)(clock.real_ns + since_ns - start_of_day_ns - now_ns),
			(int64_t)((clock.tai_ns - clock.real_ns) / NS_PER_S));
	}
	/* Who reads it finds all that has happened. */
	if (fflush(file))
		refuse("cannot write true offsets: %s", strerror(errno));
	calendar_set(sample, now_ns + period_ns);
}

void clocks_record(const char *path, uint64_t every_ns)
{
	file = fopen(path, "we");
	if (!file)
		refuse("cannot write %s: %s", path, strerror(errno));
	fprintf(file, "time_ns,node,offset_ns,tai_minus_utc_s\n");
	period_ns = every_ns;
	sample = calendar_add(sample_clocks, NULL);
	calendar_set(sample, period_ns);
}
