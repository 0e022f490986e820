/* The table of stamps: allocated before a run, written after it. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows with all stamps absent, written once, so that no page is missing when a stamp is taken. */
struct row *table_new(uint32_t count)
{
	struct row *table = aligned_alloc(sizeof(*table), count * sizeof(*table));

	if (!table)
		fail("no memory for %u rows of %zu octets", count, sizeof(*table));
	for (uint32_t seq = 0; seq < count; seq++)
		for (int column = 0; column < 8; column++)
			table[seq].stamps[column] = ABSENT;
	return table;
}

/* Before a run, so that it is not lost for a directory that is not there. What a file has stays
 * until there is something to write. */
FILE *table_open(const struct options *options)
{
	FILE *file = stdout;

	if (options->output) {
		int fd = open(options->output, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

		file = fd < 0 ? NULL : fdopen(fd, "w");
		if (!file)
			refuse("--output: %s: %s", options->output, strerror(errno));
	}
	return file;
}

/* Away with what a file has. */
void table_begin(FILE *file)
{
	/* A pipe cannot be cut short, and need not be. */
	if (ftruncate(fileno(file), 0) && errno != EINVAL)
		fail("cannot write the table: %s", strerror(errno));
}

void table_end(FILE *file)
{
	if (fclose(file))
		fail("cannot write the table: %s", strerror(errno));
}

void table_header(FILE *file, const char *command, uint32_t run)
{
	char host[65] = "";

	table_begin(file);
	gethostname(host, sizeof(host) - 1);
	fprintf(file, "# tsn-probe 1\n# command %s\n# host %s\n# run %08x\n", command, host, run);
	fprintf(file, "# clock %s\n", by_tsc ? "tsc" : "realtime");
	if (by_tsc)
		fprintf(file, "# tsc_hz %lld\n", (long long)tsc_hz());
	fprintf(file, "# stamp_cost_ns %.1f\n", stamp_cost_ns(by_tsc));
}

/* How many packets that have the stamp `own` lack that of a column. */
uint32_t table_missing(const struct row *table, uint32_t count, int own, int column)
{
	uint32_t missing = 0;

	for (uint32_t seq = 0; seq < count; seq++)
		missing += table[seq].stamps[own] != ABSENT && table[seq].stamps[column] == ABSENT;
	return missing;
}

/* A row for each packet that has the stamp `own`, the only one that this program took. */
void table_write(FILE *file, const struct row *table, uint32_t count, const char *const *names,
		 int own)
{
	fputs("seq", file);
	for (int column = 0; names[column]; column++)
		fprintf(file, ",%s", names[column]);
	for (uint32_t seq = 0; seq < count; seq++) {
		if (table[seq].stamps[own] == ABSENT)
			continue;
		fprintf(file, "\n%u", seq);
		for (int column = 0; names[column]; column++) {
			int64_t ns = table[seq].stamps[column];

			if (column == own)
				ns = stamp_ns(ns);
			if (ns == ABSENT)
				fputc(',', file);
			else
				fprintf(file, ",%lld", (long long)ns);
		}
	}
	fputc('\n', file);
	table_end(file);
}
