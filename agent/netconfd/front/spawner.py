"""The front's side of the process that forks the session processes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.netconfd import wire
from agent.netconfd.front import spawner_process
from agent.netconfd.session_process import Prepare, ProcessLimits, Serve, Shared

LOG = logging.getLogger(__name__)


class SpawnerError(Exception):
    """The spawner could not do what it was asked to; the text gives the reason."""


class SpawnerDied(SpawnerError):
    """The spawner has ended, and every session process with it."""


@dataclass(frozen=True)
class Ended:
    """How a session process ended: in words, and whether that was at its own will or at ours."""

    how: str
    is_orderly: bool
    cpu_s: float
    max_rss_octets: int
    was_killed: bool = False


@dataclass
class _Running:
    limits: ProcessLimits
    ended: asyncio.Future[Ended]
    is_killed: bool = False


class Spawner:
    """Starts and ends session processes, by their numbers."""

    def __init__(self, control: socket.socket, pid: int) -> None:
        """For `fork`."""
        self._control = control
        self._pid = pid
        # The spawner answers in order.
        self._unprepared: deque[asyncio.Future[None]] = deque()
        self._unstarted: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._running: dict[int, _Running] = {}
        self._is_attached = False
        self._loop: asyncio.AbstractEventLoop
        self._outbox: wire.Outbox
        self.died: asyncio.Future[str]

    @classmethod
    def fork(cls, serve: Serve[Shared], prepare: Prepare[Shared]) -> Spawner:
        """Fork the spawner from this process, which has one thread and no secrets yet.

        `prepare` loads from the YANG modules what session processes share; `serve` is called in
        each of them. What they import must be imported now: later they cannot open files.

        Raises OSError.
        """
        control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        front = os.getpid()
        pid = os.fork()
        if not pid:
            control.close()
            spawner_process.run(other, front, prepare, serve)
        other.close()
        control.setblocking(False)
        return cls(control, pid)

    def attach(self) -> None:
        """Use the running event loop from now on; to be called once, before everything else.

        `died` is set when the spawner ends without having been told to.
        """
        self._loop = asyncio.get_running_loop()
        self.died = self._loop.create_future()
        # It may be loading modules while there are more commands than the socket holds.
        self._outbox = wire.Outbox(self._control, self._lose)
        self._loop.add_reader(self._control, self._receive)
        self._is_attached = True

    async def use_modules(self, modules: int) -> None:
        """Load the YANG modules in this file for the sessions to come, and close the file.

        Raises SpawnerError; the sessions to come get what was loaded before, then.
        """
        prepared: asyncio.Future[None] = self._loop.create_future()
        self._send({"modules": True}, [modules])
        self._unprepared.append(prepared)
        await prepared

    async def start(
        self,
        number: int,
        session: Mapping[str, Any],
        limits: ProcessLimits,
        *,
        client: int,
        broker: int,
    ) -> asyncio.Future[Ended]:
        """Start the process of session `number`, which none has yet; closes both descriptors.

        Returns what is set when the process has ended. Raises SpawnerError.
        """
        started: asyncio.Future[None] = self._loop.create_future()
        command = {"start": number, "session": session, "limits": asdict(limits)}
        self._send(command, [client, broker])
        self._unstarted.append((number, started))
        running = _Running(limits, self._loop.create_future())
        self._running[number] = running
        try:
            await started
        except asyncio.CancelledError:
            self.kill(number)
            raise
        return running.ended

    def kill(self, number: int) -> None:
        """End the process of session `number` at once, whatever it does; it may have ended."""
        if number in self._running:
            self._running[number].is_killed = True
            self._send({"kill": number})

    async def close(self) -> None:
        """End every session process, and then the spawner."""
        self._detach("the server ends")
        await asyncio.to_thread(os.waitpid, self._pid, 0)

    def _send(self, packet: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        try:
            self._outbox.send(packet, descriptors)
        except OSError as error:
            raise SpawnerError(f"the process that starts sessions: {error}") from None
        finally:
            wire.close_all(descriptors)
        if not self._is_attached:
            raise SpawnerDied("the process that starts sessions has ended")

    def _receive(self) -> None:
        try:
            received = wire.receive_packet(self._control, 0)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error.strerror)
            return
        if received is None:
            self._lose("it closed its socket")
            return
        match received[0]:
            case {"prepared": True}:
                _settle(self._unprepared.popleft(), None)
            case {"not_prepared": reason}:
                _settle(self._unprepared.popleft(), SpawnerError(reason))
            case {"started": _}:
                _settle(self._unstarted.popleft()[1], None)
            case {"not_started": reason}:
                number, started = self._unstarted.popleft()
                del self._running[number]
                _settle(started, SpawnerError(reason))
            case {"said": number, "text": text}:
                _log(number, text)
            case {"ended": number, "status": status, **usage}:
                running = self._running.pop(number)
                running.ended.set_result(_ended(status, running, **usage))

    def _lose(self, reason: str | None) -> None:
        self._detach("the process that starts sessions has ended")
        self.died.set_result(reason or "unknown")

    def _detach(self, reason: str) -> None:
        if not self._is_attached:
            return
        self._is_attached = False
        self._loop.remove_reader(self._control)
        self._outbox.close()
        self._control.close()
        for waiting in (*self._unprepared, *(started for _, started in self._unstarted)):
            _settle(waiting, SpawnerDied(reason))
        for running in self._running.values():
            running.ended.set_result(Ended(reason, is_orderly=False, cpu_s=0, max_rss_octets=0))
        self._running.clear()


def _settle(waiting: asyncio.Future[None], error: SpawnerError | None) -> None:
    # Whoever waited may have been cancelled.
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)


def _log(number: int, text: str) -> None:
    """One record a line, so that a session that was taken over cannot write others' records."""
    for line in text.splitlines():
        printable = "".join(
            each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line
        )
        LOG.warning("session %d: %s", number, printable)


def _ended(status: int, running: _Running, *, cpu_s: float, max_rss_octets: int) -> Ended:
    return Ended(
        _how_it_ended(status, running),
        status == 0,
        cpu_s=cpu_s,
        max_rss_octets=max_rss_octets,
        was_killed=running.is_killed,
    )


def _how_it_ended(status: int, running: _Running) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return "ended"
    if code > 0:
        return f"failed inside the server (exit code {code})"
    match -code:
        case signal.SIGXCPU:
            return f"used more than {running.limits.request_cpu_s} s of CPU for a request"
        case signal.SIGKILL if not running.is_killed:
            return "was killed: by an administrator, or because memory ran out"
        case signal.SIGKILL | signal.SIGTERM:
            return "was ended"
        case number:
            return f"crashed: {_signal_name(number)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
