"""A `tsn-netconfd` process for a test, and clients that reach it over real SSH on loopback."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO

import asyncssh

from cnc.model import NS_PER_S
from tests.stack.forked_server import ForkedServer
from tests.stack.front_end import FrontEnd

START_TIMEOUT_S = 20.0
WAIT_TIMEOUT_S = 10.0
COMMAND = [sys.executable, "-m", "agent.netconfd"]


def wait_until(condition, timeout_s=WAIT_TIMEOUT_S):
    """Poll until the condition holds; its last value, so that a test can assert on it."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


class NetconfdProcess(FrontEnd):
    """One server process; `start` again after `kill` is what a service manager would do."""

    # Whether it may be forked from a process that has imported it; one with a wrapper or a command
    # of its own never is.
    is_forked = False

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.host_key = directory / "host_key"
        self.state_dir = directory / "state"
        # What says where it keeps what outlives it.
        self.state_options = ["--state-dir", str(self.state_dir)]
        # Without %u, its key opens the door to whatever user a test wants to be.
        self.authorized_keys = directory / "authorized_keys"
        self.command = COMMAND
        # What a test puts in front of the command, and behind it.
        self.wrapper: list[str] = []
        self.arguments: list[str] = []
        self._log = directory / "log"
        self._notify = directory / "notify"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | ForkedServer | None = None
        client_key = directory / "client_key"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(client_key))
        # OpenSSH uses no key that others may read.
        client_key.chmod(0o600)
        key.write_public_key(str(self.authorized_keys))
        super().__init__("127.0.0.1", 0, "operator", client_key, "", "")

    def start(self) -> None:
        """Start, and return when the server says that it is ready."""
        self._notify.unlink(missing_ok=True)
        self._log_start = 0
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
            self._log.open("wb") as log,
        ):
            notify.bind(str(self._notify))
            self._process = self._launch(log)
            # One that ends instead must not be waited for.
            with _end_of(self._process) as end:
                ready, _, _ = select.select([notify, end], [], [], START_TIMEOUT_S)
            assert notify in ready, self.log
            assert notify.recv(100) == b"READY=1"
        listening = re.search(r"listening on .* port (\d+)", self.log)
        assert listening, self.log
        self.port = int(listening.group(1))
        public_key = self.host_key.with_suffix(".pub").read_text()
        self.host_key_type, self.host_key_b64 = public_key.split()[:2]

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes] | ForkedServer:
        options = [
            *("--listen", "127.0.0.1:0"),
            *("--host-key", str(self.host_key), "--authorized-keys", str(self.authorized_keys)),
            *self.state_options,
            *self.arguments,
        ]
        environment = os.environ | {"NOTIFY_SOCKET": str(self._notify)}
        if self.is_forked and not self.wrapper and self.command == COMMAND:
            return ForkedServer(options, environment, self._log)
        command = [*self.wrapper, *self.command, *options]
        return subprocess.Popen(command, env=environment, stderr=log)

    @property
    def log(self) -> str:
        """What the server has logged since its last start, or since `forget_log`."""
        return self._log.read_text()[self._log_start :]

    def forget_log(self) -> None:
        """Let `log` begin here."""
        self._log_start = len(self._log.read_text())

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """End it as a service manager does; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """The exit code of one that ends by itself."""
        assert self._process is not None
        return self._process.wait(START_TIMEOUT_S)

    @property
    def pids(self) -> list[int]:
        """The ids of all its processes."""
        return [self.pid, *_descendants(self.pid)]

    @property
    def cpu_s(self) -> float:
        """The CPU time of all its processes so far, and of those that have ended."""
        fields = [_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in self.pids]
        return sum(sum(map(int, each[11:15])) for each in fields) / os.sysconf("SC_CLK_TCK")

    @property
    def private_octets(self) -> int:
        """The memory of all its processes that each of them shares with no other."""
        return sum(map(private_octets, self.pids))

    @property
    def lasting_private_octets(self) -> int:
        """That of the processes that outlive each session: front, spawner and broker."""
        return sum(map(private_octets, (self.pid, self.spawner_pid, self.broker_pid)))

    @property
    def broker_pid(self) -> int:
        """The id of the process that holds sysrepo."""
        (broker,) = self._named("netconf-broker")
        return broker

    @property
    def spawner_pid(self) -> int:
        """The id of the process that forks the session processes."""
        (spawner,) = self._named("netconf-spawner")
        return spawner

    @property
    def session_pids(self) -> list[int]:
        """The ids of the session processes, the oldest first."""
        return sorted(self._named("netconf-session"))

    def _named(self, name: str) -> list[int]:
        return [pid for pid in _descendants(self.pid) if _name(pid) == name]

    def kill(self) -> None:
        """End all its processes without warning."""
        assert self._process is not None
        pids = self.pids
        # The front last: whoever outlives it would have time to clean up.
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(START_TIMEOUT_S)
        assert wait_until(lambda: not any(map(runs, pids)))


def on_cpu_s(pids: Iterable[int]) -> float:
    """What these processes and their descendants that run now have computed, to the nanosecond."""
    families = [[pid, *_descendants(pid)] for pid in pids]
    times_ns = (
        int((_text(thread) or "0").split()[0])  # Documentation/scheduler/sched-stats.rst
        for pid in chain.from_iterable(families)
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )
    return sum(times_ns) / NS_PER_S


def private_octets(pid: int) -> int:
    """The memory that a process shares with no other; 0 if it has ended."""
    lines = _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _descendants(pid: int) -> list[int]:
    try:
        files = list(Path(f"/proc/{pid}/task").glob("*/children"))
    except FileNotFoundError:  # it has ended meanwhile
        return []
    children = [int(child) for file in files for child in _text(file).split()]
    return [each for child in children for each in (child, *_descendants(child))]


def _name(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/comm")).strip()


def runs(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    state = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def _end_of(process: subprocess.Popen[bytes] | ForkedServer) -> Iterator[int]:
    """A descriptor that is readable when the process has ended."""
    if isinstance(process, ForkedServer):
        yield process.sentinel
        return
    end = os.pidfd_open(process.pid)
    try:
        yield end
    finally:
        os.close(end)


@contextmanager
def running_netconfd(directory: Path):
    """A started server, stopped at the end whatever happened to it in between."""
    server = NetconfdProcess(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()
