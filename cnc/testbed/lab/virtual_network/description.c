/*
 * The network, a line for each of its parts, words separated by blanks. In this order:
 *
 *   clock START_NS                      time of day at the start, ns since 1970
 *   time PATH [answer-timeout=SECONDS] [cables-from=NS]
 *                                       socket of the calendar; when cables are plugged in
 *   kernel ID NAME [may-end] [oscillator-ppb=PPB | oscillator-table=FILE]
 *   card NAME/PORT MAC PATH [queues=N]  socket of a network card
 *   console NAME PATH                   socket of a console
 *   cable NAME/PORT NAME/PORT rate=BPS propagation=NS [propagation-back=NS] [jitter=NS] [loss-ppb=N]
 *         [bit-error-ppt=N] [seed=N] [capture=FILE]
 *   segment NAME/PORT NAME/PORT … [rate=BPS] [delay=NS]
 *   offsets FILE PERIOD_NS              the true offsets of all clocks
 */
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 512
#define MAX_PAIRS 32
#define DEFAULT_ANSWER_TIMEOUT_S 120
#define DEFAULT_SEGMENT_BPS 1000000000

static const char *file_name;
static unsigned int line_number;
static char *words[MAX_WORDS];
static unsigned int word_count;
static bool opened;

static _Noreturn void wrong(const char *what, const char *word)
{
	refuse("%s:%u: %s: %s", file_name, line_number, word, what);
}

static uint64_t number(const char *word, uint64_t most)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(word, &end, 10);
	if (errno || *end || *word < '0' || *word > '9' || value > most)
		wrong("is no number here, or too great", word);
	return value;
}

static int64_t signed_number(const char *word, int64_t most)
{
	return *word == '-' ? -(int64_t)number(word + 1, most) : (int64_t)number(word, most);
}

static const char *word(unsigned int index)
{
	if (index >= word_count)
		wrong("something is missing behind it", words[word_count - 1]);
	return words[index];
}

/* What stands behind NAME= in this line; NULL: nothing. What is asked for is known. */
static const char *option(const char *name)
{
	size_t size = strlen(name);

	for (unsigned int n = 1; n < word_count; n++)
		if (words[n] && !strncmp(words[n], name, size) && words[n][size] == '=') {
			const char *value = words[n] + size + 1;

			words[n] = NULL;
			return value;
		}
	return NULL;
}

static uint64_t number_option(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *value = option(name);

	return value ? number(value, most) : otherwise;
}

/* Nothing may stand behind the first words that was not asked for. */
static void nothing_behind(unsigned int count)
{
	for (unsigned int n = count; n < word_count; n++)
		if (words[n])
			wrong("is not known here", words[n]);
}

static struct kernel *known_kernel(const char *name)
{
	struct kernel *kernel = kernel_named(name);

	if (!kernel)
		wrong("is no kernel of a line before", name);
	return kernel;
}

/* A card that is on nothing yet. */
static struct card *free_card(const char *name)
{
	struct card *card = card_named(name);

	if (!card || card->line)
		wrong(card ? "is on a cable already" : "is no card of a line before", name);
	return card;
}

static void time_line(void)
{
	uint64_t timeout_s = number_option("answer-timeout", DEFAULT_ANSWER_TIMEOUT_S, 86400);
	uint64_t cables_from_ns = number_option("cables-from", 0, INT64_MAX);

	if (opened)
		wrong("there is one calendar", words[0]);
	opened = true;
	calendar_open(word(1), timeout_s, cables_from_ns);
	nothing_behind(2);
}

static void kernel_line(void)
{
	struct kernel *kernel;
	const char *ppb = option("oscillator-ppb"), *table = option("oscillator-table");
	unsigned int id = number(word(1), MAX_KERNELS);

	if (kernel_named(word(2)) || strlen(word(2)) >= MAX_NAME || strchr(word(2), '/'))
		wrong("is no name for a kernel, or taken", word(2));
	kernel = kernel_add(id, word(2));
	if (ppb)
		kernel->oscillator = oscillator_constant(1000 * signed_number(ppb, 100000000));
	if (table)
		kernel->oscillator = oscillator_read(table);
	for (unsigned int n = 3; n < word_count; n++)
		if (words[n] && !strcmp(words[n], "may-end")) {
			kernel->may_end = true;
			words[n] = NULL;
		}
	nothing_behind(3);
}

static void card_line(void)
{
	unsigned int octets[6], pairs = number_option("queues", 1, MAX_PAIRS);
	char *port = strchr(word(1), '/'), rest;
	uint8_t mac[6];

	if (!port || card_named(word(1)) || strlen(port) >= MAX_NAME || !pairs)
		wrong("is no NAME/PORT, or taken", words[1]);
	if (sscanf(word(2), "%2x:%2x:%2x:%2x:%2x:%2x%c", &octets[0], &octets[1], &octets[2], &octets[3],
		   &octets[4], &octets[5], &rest) != 6)
		wrong("is no MAC address", words[2]);
	for (unsigned int n = 0; n < 6; n++)
		mac[n] = octets[n];
	*port = 0;
	card_add(known_kernel(words[1]), port + 1, mac, pairs, word(3));
	nothing_behind(4);
}

static void console_line(void)
{
	console_add(known_kernel(word(1)), word(2));
	nothing_behind(3);
}

static void cable_line(void)
{
	struct card *ends[2] = { free_card(word(1)), free_card(word(2)) };
	uint64_t seed = number_option("seed", 0, UINT64_MAX);
	const char *capture_path = option("capture");
	struct line common = {
		.rate_bps = number_option("rate", 0, 1000000000000),
		.propagation_ns = number_option("propagation", 0, 1000000000000),
		.jitter_ns = number_option("jitter", 0, 1000000000000),
		.pareto_ns = number_option("pareto", 0, 1000000000),
		.loss = number_option("loss-ppb", 0, 1000000000) * 1e-9,
		.bit_error = number_option("bit-error-ppt", 0, 1000000000000) * 1e-12,
		.deliver = card_receive,
	};

	uint64_t back_ns = number_option("propagation-back", common.propagation_ns, 1000000000000);

	if (ends[0] == ends[1])
		wrong("is both ends of its cable", words[1]);
	for (unsigned int n = 0; n < 2; n++) {
		struct line *line = allocate(sizeof *line);

		*line = common;
		if (n == 1)
			line->propagation_ns = back_ns;
		line->random = 2 * seed + n;
		line->from = ends[n];
		line->to = ends[1 - n];
		line_open(line);
		card_join(ends[n], line);
	}
	if (capture_path)
		card_capture(ends[0], capture_open(capture_path));
	nothing_behind(3);
}

static void segment_line(void)
{
	uint64_t rate_bps = number_option("rate", DEFAULT_SEGMENT_BPS, 1000000000000);
	uint64_t delay_ns = number_option("delay", 0, 1000000000000);
	struct card **cards = allocate(word_count * sizeof *cards);
	unsigned int count = 0;

	for (unsigned int n = 1; n < word_count; n++)
		if (words[n])
			cards[count++] = free_card(words[n]);
	segment_join(cards, count, rate_bps, delay_ns);
}

static void part(void)
{
	if (!strcmp(words[0], "clock")) {
		start_of_day_ns = number(word(1), INT64_MAX);
		nothing_behind(2);
	} else if (!strcmp(words[0], "time")) {
		time_line();
	} else if (!strcmp(words[0], "kernel")) {
		kernel_line();
	} else if (!strcmp(words[0], "card")) {
		card_line();
	} else if (!strcmp(words[0], "console")) {
		console_line();
	} else if (!strcmp(words[0], "cable")) {
		cable_line();
	} else if (!strcmp(words[0], "segment")) {
		segment_line();
	} else if (!strcmp(words[0], "offsets")) {
		clocks_record(word(1), number(word(2), INT64_MAX) ?: 1);
		nothing_behind(3);
	} else {
		wrong("is no part of a network", words[0]);
	}
}

void describe(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t room = 0;
	char *text = NULL;

	file_name = path;
	if (!file)
		refuse("cannot read %s: %s", path, strerror(errno));
	while (getline(&text, &room, file) >= 0) {
		line_number++;
		word_count = 0;
		for (char *each = strtok(text, " \n"); each; each = strtok(NULL, " \n")) {
			if (word_count == MAX_WORDS)
				wrong("there are too many words before it", each);
			words[word_count++] = each;
		}
		if (word_count)
			part();
	}
	free(text);
	fclose(file);
	if (!opened)
		refuse("%s: no line `time PATH`", path);
	cards_check();
}
