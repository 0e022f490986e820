"""Toy sessions in place of NETCONF ones: their processes, their clients, how to look at them.

For tests/unit/toy_scenarios.py.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import gc
import json
import logging
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from agent.netconfd.session_process import ProcessLimits

MIB = 2**20
LIMITS = ProcessLimits(memory_octets=64 * MIB, request_cpu_s=1000, nice=0)
# asm/fcntl.h, asm/ioctls.h
F_SETSIG, FIOSETOWN, FIOASYNC = 10, 0x8901, 0x5452
# linux/prctl.h
PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS = 2, 3, 39
WAIT_S = 30
FILE = "a-file-that-does-not-exist"


# --- in the session process ----------------------------------------------------------------------


def serve(process):
    """Obey one line at a time until the client sends no more."""
    if process.start.get("before") == "write a file":
        return write_a_file(process)
    before = {
        "files": open_files(),
        "given up": given_up(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
    }
    loop = asyncio.new_event_loop()
    process.confine()
    process.client.setblocking(False)
    loop.run_until_complete(obey(process, before))
    return None


async def obey(process, before):
    loop = asyncio.get_running_loop()
    commands = {
        "pid": os.getpid,
        "files": lambda: before["files"],
        "given up": lambda: before["given up"],
        "nice": lambda: before["nice"],
        "start": lambda: dict(process.start),
        "shared": lambda: process.shared,
        "new descriptors": lambda: new_descriptors(process.client),
        "limits": limits,
        "frozen objects": gc.get_freeze_count,
        "others": others,
        "memory": take_memory,
        "aim": lambda: aim(process.client.fileno(), process.start["victim"]),
        "say much": say_much,
        "raise": fail,
        "compute": compute,
        "crash": lambda: ctypes.string_at(0),
        "close": process.client.close,
    }
    while line := await loop.sock_recv(process.client, 1000):
        process.begin_request()
        # That it has begun: what computes or crashes has no other answer.
        await loop.sock_sendall(process.client, b"begun\n")
        # A timer and the selector work without new descriptors.
        await asyncio.sleep(0.001)
        answer = commands[line.decode().strip()]()
        if process.client.fileno() < 0:
            signal.pause()
        await loop.sock_sendall(process.client, json.dumps(answer).encode() + b"\n")


def open_files():
    """What this process has open, but not the directory that is read for it."""
    files = []
    for each in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):
            files.append(str(each.readlink()))
    return sorted(files)


def new_descriptors(client):
    """What each way to a new descriptor fails with."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name, *arguments):
        if getattr(libc, name)(*arguments) < 0:
            raise OSError(ctypes.get_errno(), name)

    ways = {
        "open": lambda: os.open("/dev/null", os.O_RDONLY),
        "socket": socket.socket,
        "pipe": os.pipe,
        "dup": lambda: os.dup(client.fileno()),
        "memfd": lambda: os.memfd_create("x"),
        "epoll": lambda: call("epoll_create1", 0),
        "eventfd": lambda: call("eventfd", 0, 0),
        "pidfd": lambda: os.pidfd_open(os.getpid()),
    }
    return {name: outcome(way) for name, way in ways.items()}


def given_up():
    libc = ctypes.CDLL(None)
    signal_number = ctypes.c_int()
    libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(signal_number))
    return {
        "dumpable": libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
        "no new privileges": libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
        "dies with its parent by": signal_number.value,
    }


def limits():
    """The limits that are in force."""
    return {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        for name in ("NOFILE", "NPROC", "FSIZE", "CORE")
    }


def others():
    """What it can do to its user's other processes and files."""
    spawner = os.getppid()
    ways = {
        "signal": lambda: os.kill(spawner, 0),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, spawner, 19),
        "own priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 0),
        "limit": lambda: resource.prlimit(spawner, resource.RLIMIT_CPU, (1, 1)),
        "rename": lambda: Path(FILE).rename(FILE + "x"),
        "delete": lambda: Path(FILE).unlink(),
        "link": lambda: Path(FILE + "x").symlink_to(FILE),
        "fork": os.fork,
        "execute": lambda: os.execv(sys.executable, ["python"]),  # noqa: S606
    }
    return {name: outcome(way) for name, way in ways.items()}


def aim(descriptor, victim):
    """Have the kernel signal another process when something arrives at this descriptor."""
    owner, on = struct.pack("i", victim), struct.pack("i", 1)
    ways = {
        "signal": lambda: fcntl.fcntl(descriptor, F_SETSIG, signal.SIGKILL),
        "owner": lambda: fcntl.fcntl(descriptor, fcntl.F_SETOWN, victim),
        "flag": lambda: fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC),
        "owner by ioctl": lambda: fcntl.ioctl(descriptor, FIOSETOWN, owner),
        "flag by ioctl": lambda: fcntl.ioctl(descriptor, FIOASYNC, on),
    }
    return {name: outcome(way) for name, way in ways.items()}


def outcome(way):
    try:
        way()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "works"


def write_a_file(process):
    """Before `confine`, while a file can still be opened; Python ignores SIGXFSZ."""
    status = Path("/proc/self/status").read_text()
    capabilities = [line.split()[1] for line in status.splitlines() if line.startswith("Cap")]
    with tempfile.TemporaryFile(buffering=0) as file:
        written = outcome(lambda: file.write(b"x"))
    process.client.sendall(json.dumps([written, capabilities]).encode())


def take_memory():
    try:
        bytearray(2 * LIMITS.memory_octets)
    except MemoryError:
        return "refused"
    return "works"


def say_much():
    logging.getLogger("toy").warning("an operator's \x1b[31m\nEMERGENCY forged")
    os.write(2, b"y" * 999 + b"\n")
    is_blocking = os.get_blocking(2)
    os.set_blocking(2, True)
    for _ in range(300):
        try:
            os.write(2, b"y" * 999 + b"\n")
        except BrokenPipeError:
            break
    return is_blocking


def fail():
    raise RuntimeError("a defect")


def compute():
    """In C: no signal handler of Python's would run."""
    return sum(range(10**15))


# --- in the spawner ------------------------------------------------------------------------------


def prepare(modules):
    """What all sessions share: the text, and what the spawner has open."""
    if modules == b"broken":
        raise ValueError("module m: line 1: not YANG")
    return {"modules": modules.decode(), "files": open_files()}


# --- in the front --------------------------------------------------------------------------------


class Front:
    """The front's side of toy sessions."""

    def __init__(self, spawner):
        self.spawner = spawner
        self.last = 0

    async def use(self, modules):
        file = os.memfd_create("modules")
        os.write(file, modules)
        await self.spawner.use_modules(file)

    async def session(self, start=None, limits=LIMITS):
        self.last += 1
        near, far = socket.socketpair()
        broker, other = socket.socketpair()
        ended = await self.spawner.start(
            self.last, start or {}, limits, client=far.detach(), broker=other.detach()
        )
        near.setblocking(False)
        return Client(self, self.last, near, broker, ended)


class Client:
    def __init__(self, front, number, near, broker, ended):
        self.front, self.number, self.ended = front, number, ended
        self._socket, self._broker = near, broker
        self._answers = b""

    async def ask(self, command):
        await self.begin(command)
        return json.loads(await self.line())

    async def begin(self, command):
        await asyncio.get_running_loop().sock_sendall(self._socket, command.encode() + b"\n")
        assert await self.line() == b"begun"

    async def line(self):
        while b"\n" not in self._answers:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
            if not data:
                raise EOFError(self._answers)
            self._answers += data
        line, _, self._answers = self._answers.partition(b"\n")
        return line

    def close(self):
        self._socket.close()
        self._broker.close()

    async def end(self):
        """Close, and how it ended then."""
        self.close()
        return await self.how()

    async def how(self):
        return asdict(await asyncio.wait_for(self.ended, WAIT_S))


class Channel:
    """A client in memory: what it sends, and whether it reads."""

    def __init__(self, *requests, reads=True):
        self._requests = asyncio.Queue()
        for request in requests:
            self._requests.put_nowait(request)
        self._gone = asyncio.Event()
        self._reads = reads
        self.answers = b""

    @property
    def is_gone(self):
        return self._gone.is_set()

    async def read(self):
        return await self._requests.get()

    async def write(self, data):
        if not self._reads:
            await self._gone.wait()
        self.answers += data

    async def wait_gone(self):
        await self._gone.wait()

    def leave(self):
        self._gone.set()


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def children(pid):
    """The processes whose parent it is, zombies among them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


async def until(condition):
    """Wait for it; asks again and again, as processes end when they end."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
