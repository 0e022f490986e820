/* The ways a run ends before its time: always with a name and a reason. */
#include "network.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *memory_of;

void dead(const char *name, const char *format, ...)
{
	va_list arguments;

	printf("dead %s %lu ", name, calendar_now_ns());
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

void refuse(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "virtual-network: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(2);
}

/* A kernel can shorten the file that its memory is, after we have mapped it. */
static void faulted(int number)
{
	char line[2 * MAX_NAME + 96];
	int size;

	(void)number;
	if (!memory_of)
		abort();
	size = snprintf(line, sizeof line, "dead %s %lu took away memory that its devices use\n",
			memory_of, calendar_now_ns());
	if (write(STDOUT_FILENO, line, size) < 0)
		abort();
	_exit(1);
}

void catch_faults(void)
{
	struct sigaction action = { .sa_handler = faulted };

	sigaction(SIGBUS, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void *allocate(size_t size)
{
	void *allocated = calloc(1, size);

	if (!allocated)
		refuse("no memory left");
	return allocated;
}
