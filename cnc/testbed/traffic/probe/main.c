/* tsn-probe: where the time of a packet goes in two hosts, without a clock that both have. After
 * X-LAP (Reif and others, RTN 2017): a row a packet, one store a stamp, all else after the run. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static const char USAGE[] =
	"usage: tsn-probe send ADDRESS [OPTION...]      send UDP packets, stamp each on its way out\n"
	"       tsn-probe receive [ADDRESS] [OPTION...] receive and stamp them (default: all addresses)\n"
	"       tsn-probe residence IN OUT [OPTION...]  how long packets are in this switch, from port IN\n"
	"                                               to port OUT: --count, --port, --dscp, --wait, -o\n"
	"       tsn-probe cost                          what a stamp costs, and how exact cycles are\n"
	"       tsn-probe replay FILE                   send captured packets; `cnc lab traffic` writes FILE\n"
	"       tsn-probe path                          print where this program is, to be copied\n"
	"\n"
	"  --count N            packets to send, or rows of the receiver's table, of 64 octets each\n"
	"                       (1 to 10000000, default 1000)\n"
	"  --port N             UDP port (default 5005)\n"
	"  --clock realtime|tsc what the program's own stamps are read from (default realtime)\n"
	"  --hardware INTERFACE have it stamp, too\n"
	"  -o, --output FILE    where to write the table (default: standard output); of cost: how far\n"
	"                       each instant that is computed from cycles is from the clock\n"
	"\n"
	"send:\n"
	"  --period DURATION    such as 1ms, 250us (1us to 60s, default 1ms), from a multiple of it on\n"
	"  --size OCTETS        UDP payload (12 to 9000, default 64)\n"
	"  --dscp N             0 to 63\n"
	"  --priority N         SO_PRIORITY, 0 to 15; more than 6 needs CAP_NET_ADMIN\n"
	"  --no-stamps          of the kernel: each takes time at every interface that a packet leaves\n"
	"  --sync LIMIT         send nothing before the system clocks of both hosts have been within\n"
	"                       LIMIT of their grandmaster, such as 1us, for 10 s\n"
	"receive:\n"
	"  --wait DURATION      end when no packet has come for so long (default 5s); before the\n"
	"                       first, wait until a signal\n"
	"of both, for --sync:\n"
	"  --ptp4l SOCKET       its uds_address (default /var/run/ptp4l)\n"
	"  --domain N           its PTP domain (default 0)\n"
	"\n"
	"`cnc lab trace --import SENDER.csv RECEIVER.csv` says what the tables mean.\n";

static const struct option OPTIONS[] = {
	{"count", required_argument, NULL, 'c'},  {"port", required_argument, NULL, 'P'},
	{"clock", required_argument, NULL, 'k'},  {"hardware", required_argument, NULL, 'H'},
	{"output", required_argument, NULL, 'o'}, {"period", required_argument, NULL, 'p'},
	{"size", required_argument, NULL, 's'},   {"dscp", required_argument, NULL, 'd'},
	{"priority", required_argument, NULL, 'r'}, {"wait", required_argument, NULL, 'w'},
	{"sync", required_argument, NULL, 'y'},   {"ptp4l", required_argument, NULL, 'u'},
	{"domain", required_argument, NULL, 'D'}, {"no-stamps", no_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},	  {0},
};
/* Which of them a command has. */
static const char SENDS[] = "cPkHopsdryuDnh", RECEIVES[] = "cPkHowuDh", COSTS[] = "oh",
		  RESIDES[] = "cPodwh", REPLAYS[] = "oh";

volatile sig_atomic_t stopped;

static void say(const char *format, va_list arguments)
{
	fputs("tsn-probe: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void refuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	exit(2);
}

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	exit(1);
}

static void stop(int signal)
{
	stopped = signal;
}

static int64_t number(const char *option, const char *text, int64_t least, int64_t most)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9' || value < least || value > most)
		refuse("--%s: found '%s', expected a whole number from %lld to %lld", option, text,
		       (long long)least, (long long)most);
	return value;
}

static int64_t duration_ns(const char *option, const char *text, int64_t least_ns, int64_t most_ns)
{
	static const struct { const char *name; int64_t ns; } UNITS[] = {
		{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", NS_PER_S},
	};
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	for (size_t each = 0; each < sizeof(UNITS) / sizeof(*UNITS) && !errno; each++)
		if (*text >= '0' && *text <= '9' && !strcmp(end, UNITS[each].name) &&
		    value <= most_ns / UNITS[each].ns && value * UNITS[each].ns >= least_ns)
			return value * UNITS[each].ns;
	refuse("--%s: found '%s', expected a whole number with ns, us, ms or s, from %lld%s to %llds",
	       option, text, (long long)(least_ns < 1000 ? least_ns : least_ns / 1000),
	       least_ns < 1000 ? "ns" : "us", (long long)(most_ns / NS_PER_S));
}

/* That of a UNIX socket. */
static const char *read_path(const char *option, const char *text)
{
	if (strlen(text) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		refuse("--%s: found '%s', expected a path of at most 107 octets", option, text);
	return text;
}

void read_address(const char *text, in_port_t port, struct sockaddr_storage *address)
{
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	const char *scope = strchr(text, '%');
	char bare[INET6_ADDRSTRLEN] = "";

	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		return;
	}
	if (scope ? (size_t)(scope - text) < sizeof(bare) : strlen(text) < sizeof(bare))
		memcpy(bare, text, scope ? (size_t)(scope - text) : strlen(text));
	if (inet_pton(AF_INET6, bare, &six->sin6_addr) != 1)
		refuse("found '%s', expected an IPv4 or IPv6 address", text);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	if (scope && !(six->sin6_scope_id = if_nametoindex(scope + 1)))
		refuse("found '%s', expected the name of an interface after %%", text);
}

static bool read_clock(const char *text)
{
	if (strcmp(text, "realtime") && strcmp(text, "tsc"))
		refuse("--clock: found '%s', expected realtime or tsc", text);
	return !strcmp(text, "tsc");
}

static void read_options(int count, char **words, const char *allowed, struct options *options)
{
	const char *address = allowed == RECEIVES ? "::" : NULL;
	in_port_t port = 5005;
	int option, place;

	while ((option = getopt_long(count, words, "ho:", OPTIONS, &place)) != -1) {
		if (option == '?')
			exit(2); /* getopt has said why */
		if (!strchr(allowed, option))
			refuse("`%s` has no option --%s", words[0], OPTIONS[place].name);
		switch (option) {
		case 'c': options->count = number("count", optarg, 1, COUNT_MAX); break;
		case 'P': port = number("port", optarg, 1, 65535); break;
		case 'k': options->by_tsc = read_clock(optarg); break;
		case 'H': options->hardware = optarg; break;
		case 'o': options->output = optarg; break;
		case 'p': options->period_ns = duration_ns("period", optarg, 1000, 60 * NS_PER_S); break;
		case 's': options->octets = number("size", optarg, OCTETS_MIN, OCTETS_MAX); break;
		case 'd': options->dscp = number("dscp", optarg, 0, 63); break;
		case 'r': options->priority = number("priority", optarg, 0, 15); break;
		case 'w': options->wait_ns = duration_ns("wait", optarg, 1000, 3600 * NS_PER_S); break;
		case 'y': options->sync_ns = duration_ns("sync", optarg, 1, 60 * NS_PER_S); break;
		case 'u': options->ptp4l = read_path("ptp4l", optarg); break;
		case 'D': options->domain = number("domain", optarg, 0, 255); break;
		case 'n': options->no_stamps = true; break;
		case 'h': fputs(USAGE, stdout); exit(0);
		}
	}
	if (allowed == COSTS) {
		if (optind < count)
			refuse("`%s`: expected no address, found %s", words[0], words[optind]);
		return;
	}
	if (optind < count)
		address = words[optind++];
	options->port = port;
	if (allowed == RESIDES) {
		if (!address || optind + 1 != count)
			refuse("`%s`: expected the ports IN and OUT", words[0]);
		options->ports[0] = address;
		options->ports[1] = words[optind];
		return;
	}
	if (allowed == REPLAYS) {
		if (!address || optind < count)
			refuse("`%s`: expected one file, found %s", words[0],
			       address ? words[optind] : "none");
		options->timeline = address;
		return;
	}
	if (!address || optind < count)
		refuse("`%s`: expected one address, found %s", words[0], address ? words[optind] : "none");
	if (options->no_stamps && options->hardware)
		refuse("--hardware and --no-stamps exclude each other");
	read_address(address, port, &options->address);
}

static int print_path(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path));

	if (length < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	printf("%.*s\n", (int)length, path);
	return 0;
}

int main(int count, char **words)
{
	struct options options = {.count = 1000,
				  .period_ns = 1000000,
				  .wait_ns = 5 * NS_PER_S,
				  .ptp4l = "/var/run/ptp4l",
				  .octets = 64,
				  .priority = -1,
				  .dscp = -1};
	struct sigaction on_stop = {.sa_handler = stop};
	const char *command = count > 1 ? words[1] : "";
	bool sends = !strcmp(command, "send"), resides = !strcmp(command, "residence");

	if (!strcmp(command, "--help") || !strcmp(command, "-h")) {
		fputs(USAGE, stdout);
		return 0;
	}
	if (!strcmp(command, "cost")) {
		read_options(count - 1, words + 1, COSTS, &options);
		return print_cost(&options);
	}
	if (!strcmp(command, "replay")) {
		read_options(count - 1, words + 1, REPLAYS, &options);
		return probe_replay(&options);
	}
	if (!strcmp(command, "path") && count == 2)
		return print_path();
	if (!sends && !resides && strcmp(command, "receive"))
		refuse("expected send, receive, residence, replay, cost or path (--help)");
	read_options(count - 1, words + 1, sends ? SENDS : resides ? RESIDES : RECEIVES, &options);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	if (resides)
		return probe_residence(&options);
	return sends ? probe_send(&options) : probe_receive(&options);
}
