"""The process that forks a session process for each session, and tells the front how they end.

It has one thread, no event loop, no host key and no sysrepo: what it has is all that a session
process begins with. Commands come from the front as packets (`agent.netconfd.wire`):

    {"modules": true}                                       + a file with the YANG modules
    {"start": N, "session": {…}, "limits": {…}}             + the sockets to client and broker
    {"kill": N}

and these packets go back, the answers to commands in order:

    {"prepared": true}      or {"not_prepared": text}
    {"started": N}          or {"not_started": text}
    {"said": N, "text": what it wrote to stderr}
    {"ended": N, "status": as waitpid(2) has it, "cpu_s": S, "max_rss_octets": M}
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn

from agent.netconfd import confinement, wire
from agent.netconfd.session_process import (
    Prepare,
    ProcessLimits,
    Serve,
    SessionProcess,
    Shared,
)
from agent.netconfd.system_calls import SystemCallFilter, Unavailable

LOG = logging.getLogger(__name__)

STDIN, STDOUT, STDERR = range(3)
# Of one session on stderr, in its whole life: a process that was taken over must not fill the log.
MAX_SAID_OCTETS = 65_536
_READ_OCTETS = 4096
NO_DESCRIPTOR = "the process that starts sessions has no descriptor left"
_FROM_FRONT_DESCRIPTORS = 2


def run(
    control: socket.socket, front: int, prepare: Prepare[Shared], serve: Serve[Shared]
) -> NoReturn:
    """Obey the process `front`, which has just forked this one, until its end closes."""
    status = 1
    try:
        confinement.set_name("netconf-spawner")
        confinement.die_with(front)
        confinement.end_first_without_memory()
        confinement.forbid_inspection()
        confinement.forbid_new_privileges()
        confinement.drop_capabilities()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, STDIN)
        os.dup2(null, STDOUT)
        # The handlers of the front may use a descriptor that is closed next.
        logging.basicConfig(
            level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True
        )
        # The front's own descriptors, whatever they are.
        confinement.close_all_but({STDIN, STDOUT, STDERR, control.fileno()})
        _Spawner(control, prepare, serve).run()
        status = 0
    except Exception:
        LOG.exception("the process that starts sessions failed")
    finally:
        os._exit(status)


@dataclass
class _Child:
    number: int
    pid: int
    # The end of a pipe whose other end is its stderr; None when it has said too much.
    stderr: int | None
    said_octets_left: int = MAX_SAID_OCTETS


class _Spawner(Generic[Shared]):
    def __init__(
        self, control: socket.socket, prepare: Prepare[Shared], serve: Serve[Shared]
    ) -> None:
        self._control = control
        self._prepare = prepare
        self._serve = serve
        self._shared: Shared | None = None
        self._system_calls = _system_call_filter()
        self._children: dict[int, _Child] = {}
        self._pids: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_up, self._waker = socket.socketpair()
        self._front_is_there = True

    def run(self) -> None:
        """Obey until the front's end closes. The kernel ends the sessions with this process."""
        # A terminal and a service manager signal all processes: the front decides what ends when.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Without a handler there would be no wake-up.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._wake_up.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._watch(self._control.fileno(), self._obey)
        self._watch(self._wake_up.fileno(), self._reap)
        try:
            while self._front_is_there:
                for key, _ in self._selector.select():
                    key.data()
        except (BrokenPipeError, ConnectionResetError):
            # The front has ended while a packet was on its way to it.
            pass

    def _watch(self, descriptor: int, act: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, act)

    def _obey(self) -> None:
        received = wire.receive_packet(self._control, _FROM_FRONT_DESCRIPTORS)
        if received is None:
            self._front_is_there = False
            return
        packet, descriptors = received
        try:
            match packet:
                case {"modules": True} if descriptors:
                    self._use_modules(*descriptors)
                case {"modules": True}:
                    self._send({"not_prepared": NO_DESCRIPTOR})
                case {"start": number, "session": session, "limits": limits} if descriptors:
                    self._start(number, session, ProcessLimits(**limits), *descriptors)
                case {"start": _}:
                    self._send({"not_started": NO_DESCRIPTOR})
                case {"kill": number}:
                    self._kill(number)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _use_modules(self, modules: int) -> None:
        try:
            self._shared = self._prepare(_content(modules))
        except Exception as error:
            LOG.exception("cannot use the YANG modules")
            self._send({"not_prepared": f"{type(error).__name__}: {error}"})
            return
        # What is left lives as long as the sessions. Their garbage collectors must not touch it:
        # each page that one of them writes to would be copied for it.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._send({"prepared": True})

    def _start(
        self,
        number: int,
        session: Mapping[str, Any],
        limits: ProcessLimits,
        client: int,
        broker: int,
    ) -> None:
        if self._shared is None:
            self._send({"not_started": "there are no YANG modules yet"})
            return
        spawner = os.getpid()
        try:
            # If the pipe is full, what it says is lost, and it does not wait.
            reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self._send({"not_started": f"no pipe for the session: {error.strerror}"})
            return
        try:
            pid = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            self._send({"not_started": f"no process for the session: {error.strerror}"})
            return
        if not pid:
            sockets = socket.socket(fileno=client), socket.socket(fileno=broker)
            process = SessionProcess(
                number, session, limits, self._shared, *sockets, system_calls=self._system_calls
            )
            self._become_session(process, spawner, writer)
        os.close(writer)
        child = _Child(number, pid, reader)
        self._children[pid] = child
        self._pids[number] = pid
        self._watch(reader, lambda: self._forward(child))
        self._send({"started": number})

    def _become_session(
        self, process: SessionProcess[Shared], spawner: int, stderr: int
    ) -> NoReturn:
        status = 1
        try:
            confinement.die_with(spawner)
            os.nice(process.limits.nice)
            signal.set_wakeup_fd(-1)
            # SIGPIPE stays ignored, as always in Python: a write to a closed socket is an error.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            confinement.set_name("netconf-session")
            os.dup2(stderr, STDERR)
            confinement.close_all_but(
                {STDIN, STDOUT, STDERR, process.client.fileno(), process.broker.fileno()}
            )
            confinement.forbid_processes_and_files()
            self._serve(process)
            status = 0
        except Exception:
            LOG.exception("the session failed inside the server")
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _kill(self, number: int) -> None:
        pid = self._pids.get(number)
        # Until it is waited for, no other process gets this number.
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while self._drain_wake_up():
            pass
        while self._children:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            child = self._children.pop(pid)
            del self._pids[child.number]
            while child.stderr is not None:
                self._forward(child)
            self._send(
                {
                    "ended": child.number,
                    "status": status,
                    "cpu_s": usage.ru_utime + usage.ru_stime,
                    "max_rss_octets": usage.ru_maxrss * 1024,
                }
            )

    def _drain_wake_up(self) -> bytes:
        try:
            return self._wake_up.recv(_READ_OCTETS)
        except BlockingIOError:
            return b""

    def _forward(self, child: _Child) -> None:
        """Tell the front what the session process says; stop at the end, or when it is too much."""
        if child.stderr is None:
            return
        try:
            said = os.read(child.stderr, min(_READ_OCTETS, child.said_octets_left))
        except BlockingIOError:
            # It has ended and left the pipe to another process, which root may start.
            said = b""
        child.said_octets_left -= len(said)
        if said:
            self._send({"said": child.number, "text": said.decode(errors="replace")})
        if not said or not child.said_octets_left:
            self._selector.unregister(child.stderr)
            os.close(child.stderr)
            child.stderr = None

    def _send(self, packet: Mapping[str, Any]) -> None:
        wire.send_packet(self._control, packet)


def _system_call_filter() -> SystemCallFilter | None:
    try:
        return SystemCallFilter()
    except Unavailable as error:
        LOG.warning(
            "%s: a session that was taken over could signal processes of this user and delete "
            "its files; install libseccomp2, on a kernel with CONFIG_SECCOMP_FILTER",
            error,
        )
        return None


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    content = bytearray()
    # The front and the broker share its position: not to be moved.
    while piece := os.pread(descriptor, size - len(content), len(content)):
        content += piece
    return bytes(content)
