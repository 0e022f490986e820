"""A kernel as the program for networks of many kernels sees it: what user-mode Linux would send.

It speaks arch/um/kernel/time.c and arch/um/drivers/virtio_uml.c of Linux 6.12 with the program, a
step at a time, so that a test decides what happens when, and may break every rule.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cnc.testbed.lab.virtual_network import program

START, WAIT, RUN = 1, 3, 6
MESSAGE = struct.Struct("=IIQ")
SHARED_OCTETS = 4096
PLACE_OCTETS = 128
SHARES_TIME = HAS_REQUEST = 1
FREE_UNTIL, NOW, RUNNING = 8, 16, 24
NEVER = 2**63 - 1

SET_OWNER, SET_FEATURES, SET_MEMORY = 3, 2, 5
RING_SIZE, RING_PLACE, RING_BASE, RING_ENABLE = 8, 9, 10, 18
CALL_CHANNEL, KICK, GET_CONFIG = 21, 35, 24
VERSION, REPLY, NEED_REPLY = 1, 4, 8
HEADER = struct.Struct("=III")
VIRTIO_1 = 1 << 32

GUEST_ADDRESS = 0x1000_0000
MEMORY_OCTETS = 1 << 20
RING_SLOTS = 16
QUEUE_OCTETS = 0x4000  # a queue's rings, and from half of it on its buffers
BUFFER_OCTETS = 0x200
NEXT, WRITE = 1, 2
FRAME_HEADER_OCTETS = 12


class VirtualNetwork:
    """The running program; `events` are the lines it has said so far."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self.process = process
        self.directory = directory

    def order(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def event(self) -> list[str]:
        """The next event's words; none at the end of its output."""
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n").split(" ", maxsplit=3)

    def ends(self) -> int:
        return self.process.wait(30)


@contextmanager
def virtual_network(*lines: str, options: str = "") -> Iterator[VirtualNetwork]:
    """The program with a network of these lines, in which {} is a directory for sockets.

    `options`: of the calendar.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        description = directory / "network"
        text = "\n".join([f"time {{}}/time {options}", *lines]).replace("{}", name)
        description.write_text(text + "\n")
        with subprocess.Popen(
            [program(), description],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield VirtualNetwork(process, directory)
            finally:
                process.kill()


def connect(path: Path) -> socket.socket:
    joined = socket.socket(socket.AF_UNIX)
    joined.settimeout(20)
    joined.connect(str(path))
    return joined


class Kernel:
    """A kernel that has said its ID; its first turn begins with `started`."""

    def __init__(self, network: VirtualNetwork, number: int) -> None:
        self.number = number
        self.time = connect(network.directory / "time")
        self.time.sendall(MESSAGE.pack(START, 1, number))
        self.shared: mmap.mmap

    def started(self) -> None:
        message, rights, _, _ = self.time.recvmsg(MESSAGE.size, socket.CMSG_SPACE(8))
        assert MESSAGE.unpack(message) == (0, 1, self.number + 1)
        shared_fd, log_fd = array.array("i", rights[0][2])
        self.shared = mmap.mmap(shared_fd, os.fstat(shared_fd).st_size)
        os.close(shared_fd)
        os.close(log_fd)
        self.write_place(0, "=I", SHARES_TIME)

    def write_place(self, offset: int, form: str, *values: int) -> None:
        place = SHARED_OCTETS + (self.number + 1) * PLACE_OCTETS
        struct.pack_into(form, self.shared, place + offset, *values)

    def request(self, at_ns: int) -> None:
        self.write_place(4, "=IQ", HAS_REQUEST, at_ns)

    @property
    def now_ns(self) -> int:
        return struct.unpack_from("=Q", self.shared, NOW)[0]

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        struct.pack_into("=Q", self.shared, NOW, now_ns)

    @property
    def free_until_ns(self) -> int:
        return struct.unpack_from("=Q", self.shared, FREE_UNTIL)[0]

    @property
    def has_its_turn(self) -> bool:
        place: int = struct.unpack_from("=H", self.shared, RUNNING)[0]
        return place == self.number + 1

    def waits(self, until_ns: int) -> None:
        """Gives the turn back."""
        self.request(until_ns)
        self.time.sendall(MESSAGE.pack(WAIT, 2, 0))

    def runs(self) -> int:
        """Gets the turn; the instant."""
        operation, _, at_ns = MESSAGE.unpack(self.time.recv(MESSAGE.size, socket.MSG_WAITALL))
        assert operation == RUN
        self.write_place(4, "=I", 0)
        return at_ns

    def sleeps(self) -> None:
        self.waits(NEVER)


@dataclass
class Queue:
    number: int
    offered: int = 0
    taken: int = 0

    @property
    def start(self) -> int:
        return self.number * QUEUE_OCTETS

    @property
    def available(self) -> int:
        return self.start + 16 * RING_SLOTS

    @property
    def used(self) -> int:
        return self.start + 0x1000

    def buffer(self, slot: int) -> int:
        return self.start + QUEUE_OCTETS // 2 + slot * BUFFER_OCTETS


@dataclass
class Device:
    """A device's driver in a kernel that has its turn."""

    kernel: Kernel
    socket: socket.socket
    calls: socket.socket
    memory: mmap.mmap
    memory_fd: int
    queues: list[Queue] = field(default_factory=lambda: [Queue(0), Queue(1)])

    def send(self, request: int, content: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        message = HEADER.pack(request, VERSION | NEED_REPLY, len(content)) + content
        socket.send_fds(self.socket, [message], list(fds))

    def asks(self, request: int, content: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        self.send(request, content, fds)
        answer = self.socket.recv(HEADER.size + 8, socket.MSG_WAITALL)
        assert answer == HEADER.pack(request, VERSION | REPLY, 8) + bytes(8)

    def write(self, at: int, form: str, *values: int) -> None:
        struct.pack_into(form, self.memory, at, *values)

    def offer(self, queue: Queue, *pieces: tuple[int, int, int]) -> None:
        """Make a buffer of (address, octets, flags) available."""
        slot = queue.offered % RING_SLOTS
        for n, (address, octets, flags) in enumerate(pieces):
            self.write(queue.start + 16 * (slot + n), "=QIHH", address, octets, flags, slot + n + 1)
        self.write(queue.available + 4 + 2 * slot, "=H", slot)
        queue.offered += 1
        self.write(queue.available + 2, "=H", queue.offered)

    def can_take(self, octets: int = BUFFER_OCTETS) -> None:
        """Offer a buffer for what comes."""
        address = GUEST_ADDRESS + self.queues[0].buffer(self.queues[0].offered % RING_SLOTS)
        self.offer(self.queues[0], (address, octets, WRITE))

    def put(self, octets: bytes) -> None:
        """Offer octets to send, and kick."""
        at = self.queues[1].buffer(self.queues[1].offered % RING_SLOTS)
        self.memory[at : at + len(octets)] = octets
        self.offer(self.queues[1], (GUEST_ADDRESS + at, len(octets), 0))
        self.asks(KICK, struct.pack("=II", 1, 0))

    def put_frame(self, octets: int) -> None:
        self.put(bytes(FRAME_HEADER_OCTETS) + bytes(6) + b"\x02" + bytes(octets - 7))

    def interrupted(self) -> int:
        """Answers the interrupt that comes, and wants a turn at once; the queue's number."""
        request, _, size, number, _ = struct.unpack("=IIIII", self.calls.recv(20))
        self.kernel.request(self.kernel.now_ns)
        self.calls.sendall(HEADER.pack(request, VERSION | REPLY, size) + bytes(8))
        return number

    def taken(self, queue: Queue) -> bytes:
        """What the device has put into the next buffer."""
        (index,) = struct.unpack_from("=H", self.memory, queue.used + 2)
        assert index != queue.taken % 2**16, "no buffer has come back"
        element = queue.used + 4 + 8 * (queue.taken % RING_SLOTS)
        slot, octets = struct.unpack_from("=II", self.memory, element)
        queue.taken += 1
        return self.memory[queue.buffer(slot) : queue.buffer(slot) + octets]


def attach(kernel: Kernel, path: Path) -> Device:
    """What virtio_uml does with a device of two queues while its kernel boots."""
    memory_fd = os.memfd_create("memory")
    os.ftruncate(memory_fd, MEMORY_OCTETS)
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    device = Device(kernel, connect(path), ours, mmap.mmap(memory_fd, MEMORY_OCTETS), memory_fd)
    device.asks(SET_OWNER)
    device.asks(CALL_CHANNEL, b"", (theirs.fileno(),))
    theirs.close()
    device.asks(SET_FEATURES, struct.pack("=Q", VIRTIO_1))
    region = struct.pack("=IIQQQQ", 1, 0, GUEST_ADDRESS, MEMORY_OCTETS, GUEST_ADDRESS, 0)
    device.asks(SET_MEMORY, region, (memory_fd,))
    for queue in device.queues:
        places = (queue.start, queue.used, queue.available)
        addresses = [GUEST_ADDRESS + place for place in places]
        device.asks(RING_SIZE, struct.pack("=II", queue.number, RING_SLOTS))
        device.asks(RING_BASE, struct.pack("=II", queue.number, 0))
        device.asks(RING_PLACE, struct.pack("=IIQQQQ", queue.number, 0, *addresses, 0))
        device.asks(RING_ENABLE, struct.pack("=II", queue.number, 1))
    return device
