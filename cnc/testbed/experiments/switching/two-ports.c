/* A switch of two ports that forwards every frame from one to the other, by XDP or by AF_XDP:
 *
 *     two-ports xdp|af-xdp-sleeps|af-xdp-polls native|generic PORT PORT
 *
 * It prints `ready` when it forwards, and does so until its standard input ends. Exit code 3: this kernel
 * has no such thing, and standard error says what.
 *
 * xdp     a program of four instructions redirects each frame as it is received (bpf_redirect)
 * af-xdp  each frame is copied into memory of this program, which hands it to the other port's ring, as
 *         DPDK's l2fwd does; like that it polls, or it sleeps while there is none
 *
 * The programs are written as instructions: so there is no need of clang, libbpf or libxdp. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PORTS 2
#define FRAMES 2048 /* of both ports together */
#define FRAME_OCTETS 2048
#define RING FRAMES
#define UNSUPPORTED 3
#define PAUSE_US 50

static void fail(int code, const char *format, ...)
{
	va_list arguments;
	int error = errno;

	va_start(arguments, format);
	fputs("two-ports: ", stderr);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, ": %s\n", strerror(error));
	exit(code);
}

/* What a call says that this kernel does not have. */
static int code_of(int error)
{
	return error == EOPNOTSUPP || error == EAFNOSUPPORT || error == ENOSYS || error == EINVAL
		       ? UNSUPPORTED : 1;
}

static int bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* Have a program run for each frame that a port receives, until this process ends. */
static void attach(const struct bpf_insn *program, int count, int port, uint32_t mode)
{
	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP,
			       .insns = (uintptr_t)program,
			       .insn_cnt = count,
			       .license = (uintptr_t)"GPL"};
	union bpf_attr link = {.link_create = {.target_ifindex = port, .attach_type = BPF_XDP,
					       .flags = mode}};
	int fd = bpf(BPF_PROG_LOAD, &load);

	if (fd < 0)
		fail(code_of(errno), "BPF_PROG_LOAD of an XDP program");
	link.link_create.prog_fd = fd;
	if (bpf(BPF_LINK_CREATE, &link) < 0)
		fail(code_of(errno), "BPF_LINK_CREATE at a port");
}

static void redirect(const int ports[PORTS], uint32_t mode)
{
	for (int port = 0; port < PORTS; port++) {
		const struct bpf_insn program[] = {
			{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = ports[!port]},
			{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 0},
			{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect},
			{.code = BPF_JMP | BPF_EXIT},
		};

		attach(program, sizeof(program) / sizeof(*program), ports[port], mode);
	}
}

/* A ring of descriptors that the kernel shares; `at` is where this program is. */
struct ring {
	uint32_t *producer, *consumer, at;
	void *entries;
};

struct port {
	int fd;
	struct ring fill, completed, received, sent;
};

static struct ring map(int fd, const struct xdp_ring_offset *offsets, uint64_t page, size_t entry)
{
	size_t octets = offsets->desc + RING * entry;
	char *memory = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);

	if (memory == MAP_FAILED)
		fail(1, "mmap of a ring");
	return (struct ring){(uint32_t *)(memory + offsets->producer),
			     (uint32_t *)(memory + offsets->consumer), 0, memory + offsets->desc};
}

static void set(int fd, int option, const void *value, socklen_t octets)
{
	if (setsockopt(fd, SOL_XDP, option, value, octets))
		fail(code_of(errno), "AF_XDP socket, option %d", option);
}

static struct port open_port(const struct xdp_umem_reg *memory)
{
	const int entries = RING;
	struct xdp_mmap_offsets offsets;
	socklen_t octets = sizeof(offsets);
	struct port its = {.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)};

	if (its.fd < 0)
		fail(code_of(errno), "socket(AF_XDP), which needs CONFIG_XDP_SOCKETS");
	if (memory)
		set(its.fd, XDP_UMEM_REG, memory, sizeof(*memory));
	set(its.fd, XDP_UMEM_FILL_RING, &entries, sizeof(entries));
	set(its.fd, XDP_UMEM_COMPLETION_RING, &entries, sizeof(entries));
	set(its.fd, XDP_RX_RING, &entries, sizeof(entries));
	set(its.fd, XDP_TX_RING, &entries, sizeof(entries));
	if (getsockopt(its.fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &octets))
		fail(1, "XDP_MMAP_OFFSETS");
	its.fill = map(its.fd, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t));
	its.completed = map(its.fd, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t));
	its.received = map(its.fd, &offsets.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
	its.sent = map(its.fd, &offsets.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
	return its;
}

/* Each frame that a port receives goes to its socket. */
static void attach_socket(int fd, int port, uint32_t mode)
{
	union bpf_attr create = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4,
				 .max_entries = 1};
	const uint32_t queue = 0;
	int map_fd = bpf(BPF_MAP_CREATE, &create);
	union bpf_attr update = {.map_fd = map_fd, .key = (uintptr_t)&queue, .value = (uintptr_t)&fd};
	const struct bpf_insn program[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = map_fd},
		{0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = queue},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_DROP},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
		{.code = BPF_JMP | BPF_EXIT},
	};

	if (map_fd < 0)
		fail(code_of(errno), "BPF_MAP_CREATE of sockets, which needs CONFIG_XDP_SOCKETS");
	if (bpf(BPF_MAP_UPDATE_ELEM, &update))
		fail(1, "BPF_MAP_UPDATE_ELEM");
	attach(program, sizeof(program) / sizeof(*program), port, mode);
}

static uint32_t waiting(const struct ring *ring)
{
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->at;
}

static void taken(struct ring *ring, uint32_t count)
{
	ring->at += count;
	__atomic_store_n(ring->consumer, ring->at, __ATOMIC_RELEASE);
}

static void given(struct ring *ring, uint32_t count)
{
	ring->at += count;
	__atomic_store_n(ring->producer, ring->at, __ATOMIC_RELEASE);
}

/* Memory of frames that a port has sent is that of the port at which they came, again. */
static void reuse(struct port *from, struct port *to)
{
	uint64_t *fill = from->fill.entries, *completed = to->completed.entries;
	uint32_t count = waiting(&to->completed);

	for (uint32_t each = 0; each < count; each++)
		fill[(from->fill.at + each) % RING] =
			completed[(to->completed.at + each) % RING] & ~(uint64_t)(FRAME_OCTETS - 1);
	taken(&to->completed, count);
	given(&from->fill, count);
}

/* What came at a port leaves by the other. There is room in each ring for all memory. */
static void forward(struct port *from, struct port *to)
{
	struct xdp_desc *received = from->received.entries, *sent = to->sent.entries;
	uint32_t count = waiting(&from->received), before;

	if (!count)
		return;
	for (uint32_t each = 0; each < count; each++)
		sent[(to->sent.at + each) % RING] = received[(from->received.at + each) % RING];
	taken(&from->received, count);
	given(&to->sent, count);
	/* The kernel sends 32 frames a call, and fewer where those before have not been received. Those
	 * are taken by a thread of lower priority, which has to get to run. */
	while ((before = __atomic_load_n(to->sent.consumer, __ATOMIC_ACQUIRE)) != to->sent.at) {
		if (sendto(to->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
		    errno != EBUSY && errno != ENOBUFS)
			fail(1, "sending by an AF_XDP socket");
		reuse(from, to);
		if (__atomic_load_n(to->sent.consumer, __ATOMIC_ACQUIRE) == before)
			usleep(PAUSE_US);
	}
}

static void await_end(void)
{
	char octet;

	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &octet, 1) > 0)
		;
}

static void by_sockets(const int names[PORTS], uint32_t mode, bool polls)
{
	void *memory = mmap(NULL, FRAMES * FRAME_OCTETS, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	const struct xdp_umem_reg reg = {.addr = (uintptr_t)memory, .len = FRAMES * FRAME_OCTETS,
					 .chunk_size = FRAME_OCTETS};
	struct pollfd until[PORTS + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
	struct port ports[PORTS];

	if (memory == MAP_FAILED)
		fail(1, "mmap of the frames");
	for (int each = 0; each < PORTS; each++) {
		struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = names[each],
					       .sxdp_flags = each ? XDP_SHARED_UMEM : XDP_COPY};
		uint64_t *fill;

		ports[each] = open_port(each ? NULL : &reg);
		fill = ports[each].fill.entries;
		for (int frame = 0; frame < FRAMES / PORTS; frame++)
			fill[frame] = (uint64_t)(each * FRAMES / PORTS + frame) * FRAME_OCTETS;
		given(&ports[each].fill, FRAMES / PORTS);
		address.sxdp_shared_umem_fd = ports[0].fd;
		if (bind(ports[each].fd, (struct sockaddr *)&address, sizeof(address)))
			fail(code_of(errno), "bind of an AF_XDP socket");
		attach_socket(ports[each].fd, names[each], mode);
		until[each + 1] = (struct pollfd){.fd = ports[each].fd, .events = POLLIN};
	}
	puts("ready");
	fflush(stdout);
	for (unsigned int turn = 0;; turn++) {
		/* One that polls asks now and then whether it is to end. */
		if ((!polls || turn % 1024 == 0) && poll(until, PORTS + 1, polls ? 0 : -1) < 0)
			fail(1, "poll");
		if (until[0].revents)
			return;
		for (int each = 0; each < PORTS; each++)
			forward(&ports[each], &ports[!each]);
	}
}

int main(int count, char **words)
{
	int ports[PORTS];
	uint32_t mode;

	if (count != 5)
		return 2;
	mode = !strcmp(words[2], "native") ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	for (int each = 0; each < PORTS; each++)
		if (!(ports[each] = if_nametoindex(words[3 + each])))
			fail(2, "%s", words[3 + each]);
	if (!strcmp(words[1], "xdp")) {
		redirect(ports, mode);
		await_end();
	} else {
		by_sockets(ports, mode, !strcmp(words[1], "af-xdp-polls"));
	}
	return 0;
}
