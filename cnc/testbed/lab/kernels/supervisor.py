"""Looks after the kernels of a lab: `python -m cnc.testbed.lab.kernels.supervisor HOME`.

It starts the network and the kernels, says `ready` or why not on its standard output, and then runs
commands for whoever connects to its socket, on the controller.

Virtual time passes only while the lab comes up or a command runs. In between all kernels stand
still at one instant, so that what comes next does not depend on when it comes. Unless the lab is to
have real time: then, once it is up, time passes as the clock of this machine does.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from cnc.testbed.intent.lab_model import LabTime
from cnc.testbed.lab.kernels import pace
from cnc.testbed.lab.kernels.layout import CONTROL, ENDED, SPECIFICATION
from cnc.testbed.lab.kernels.pace import Pace
from cnc.testbed.remote.frames import Decoder, Frame, FrameError, Kind

_READ_OCTETS = 65536
# How long time passes before the supervisor looks whether somebody has asked for something.
SLICE_NS = 1_000_000_000
LOG_LINES_SHOWN = 15
_CONSOLES = ("stdout", "stderr", "status")  # of a guest, see cnc/testbed/lab/vm/kernels/guest


class _Capture(NamedTuple):
    """What a client has captured: the ports, and the file that it reads."""

    ports: frozenset[str]
    file: Path


class _Ended(Exception):
    """The lab cannot go on; the text says why."""


class Supervisor:
    """The network of a lab, its kernels, and the commands that run on its controller."""

    def __init__(self, home: Path) -> None:
        specification = json.loads((home / SPECIFICATION).read_text())
        self._home = home
        self._controller: str = specification["controller"]
        self._kernels: Mapping[str, Sequence[str]] = specification["kernels"]
        self._network = subprocess.Popen(
            specification["network"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._decoder = Decoder()
        self._clients: dict[int, socket.socket] = {}
        self._decoders: dict[int, Decoder] = {}
        self._running: set[int] = set()
        self._captures: dict[int, _Capture] = {}
        self._channels = 0
        self._is_coming_up = True
        self._has_real_time = specification["time"] == LabTime.REAL
        self._pace: Pace | None = None
        self._has_time = False
        self._now_ns = 0

    def run(self) -> NoReturn:
        """Serve until the lab ends.

        Raises _Ended with the reason.
        """
        self._await("ready")
        for number, (node, argv) in enumerate(self._kernels.items()):
            self._boot(self._home / f"node{number}", node, argv)
        self._await("started")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._home / CONTROL))
        listening.listen()
        assert self._network.stdout is not None  # noqa: S101  it is a pipe
        self._selector.register(self._network.stdout, selectors.EVENT_READ, self._take_event)
        self._selector.register(listening, selectors.EVENT_READ, lambda: self._accept(listening))
        while True:
            for key, _ in self._selector.select(self._let_time_pass()):
                key.data()

    def _let_time_pass(self) -> float | None:
        """Let a slice of time pass, if it may; else how long until it may (s), None: until
        something happens."""
        if self._has_time:
            return None
        slice_ns = SLICE_NS
        if self._pace:
            slice_ns = pace.SLICE_NS
            if wait_s := self._pace.wait_s(self._now_ns):
                return wait_s
        elif not (self._is_coming_up or self._running):
            return None
        self._has_time = True
        self._order(f"go {self._now_ns + slice_ns}")
        return None

    def _boot(self, run: Path, node: str, argv: Sequence[str]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [os.open(run / name, flags, 0o600) for name in _CONSOLES]
        consoles = [f"con{number}=null,fd:{file}" for number, file in enumerate(files, 1)]
        with (run / "console").open("wb") as log:
            self._processes[node] = subprocess.Popen(
                [*argv, *consoles],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=files,
            )
        (run / "pid").write_text(f"{self._processes[node].pid}\n")
        for file in files:
            os.close(file)

    def _await(self, event: str) -> None:
        words = self._read_event()
        if words[0] != event:
            raise _Ended(self._reason(words))
        if len(words) > 1:
            self._now_ns = int(words[1])

    def _read_event(self) -> list[str]:
        assert self._network.stdout is not None  # noqa: S101  it is a pipe
        line = self._network.stdout.readline().decode()
        if not line:
            raise _Ended(f"virtual-network ended with {self._network.wait()}")
        return line.split()

    def _order(self, text: str) -> None:
        assert self._network.stdin is not None  # noqa: S101  it is a pipe
        self._network.stdin.write(f"{text}\n".encode())
        self._network.stdin.flush()

    def _take_event(self) -> None:
        """Time stands still from here on."""
        words = self._read_event()
        self._has_time = False
        if words[0] == "octets":
            self._now_ns = int(words[2])
            try:
                for frame in self._decoder.feed(bytes.fromhex(words[3])):
                    self._take_frame(frame)
            except FrameError as error:
                raise _Ended(f"kernel of {words[1]}: not a frame on its console: {error}") from None
        elif words[0] == "reached":
            self._now_ns = int(words[1])
        else:
            raise _Ended(self._reason(words))

    def _reason(self, words: Sequence[str]) -> str:
        if words[0] == "dead":
            _, node, time_ns, *reason = words
            return f"kernel of {node}: {' '.join(reason)}, at {time_ns} ns\n{self._tail(node)}"
        if words[0] == "asleep":
            return f"nothing is left to happen, at {words[1]} ns: all kernels sleep for ever"
        return " ".join(words)

    def _tail(self, node: str) -> str:
        """What the kernel of a node and its programs have said last."""
        run = self._home / f"node{list(self._kernels).index(node)}"
        lines = []
        for name in ("console", "stderr"):
            text = (run / name).read_text(errors="replace")
            lines += [f"{node}: {line}" for line in text.splitlines()[-LOG_LINES_SHOWN:]]
        return "\n".join(lines)

    def _take_frame(self, frame: Frame) -> None:
        if frame.kind is Kind.READY:
            self._is_coming_up = False
            if self._has_real_time:
                self._pace = Pace(self._now_ns)
            print("ready", flush=True)  # noqa: T201  the parent reads it
            return
        client = self._clients.get(frame.channel)
        if client is None:
            return
        with contextlib.suppress(OSError):
            client.sendall(Frame(frame.kind, 0, frame.data).encoded())
        if frame.kind is Kind.ENDED:
            self._forget(frame.channel)

    def _accept(self, listening: socket.socket) -> None:
        client, _ = listening.accept()
        self._channels = (self._channels + 1) % (1 << 16)
        channel = self._channels
        self._clients[channel] = client
        self._decoders[channel] = Decoder()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._relay(channel))

    def _relay(self, channel: int) -> None:
        client = self._clients.get(channel)
        if client is None:
            return  # it ended in this very round
        try:
            octets = client.recv(_READ_OCTETS)
            frames = [Frame(f.kind, channel, f.data) for f in self._decoders[channel].feed(octets)]
        except (OSError, FrameError):
            octets, frames = b"", []
        if not octets:
            # No node knows of a capture, nor is to lose time for one.
            frames = [] if channel in self._captures else [Frame(Kind.KILL, channel)]
            self._forget(channel)
        for frame in frames:
            if frame.kind is Kind.CAPTURE:
                self._capture(channel, frozenset(json.loads(frame.data)))
                continue
            if frame.kind is Kind.RUN:
                self._running.add(channel)
            self._order(f"send {self._controller} {frame.encoded().hex()}")

    def _capture(self, channel: int, ports: frozenset[str]) -> None:
        """Have what is on the cables of these ports in a file, as long as the client is there."""
        client = self._clients[channel]
        taken = {port for each in self._captures.values() for port in each.ports & ports}
        if taken:
            text = f"the cable of {', '.join(sorted(taken))} is being captured already"
            client.sendall(Frame(Kind.ERRORS, 0, text.encode()).encoded())
            return
        file = self._home / f"capture{channel}"
        file.touch(mode=0o600)
        self._captures[channel] = _Capture(ports, file)
        self._order(f"capture {file} {' '.join(sorted(ports))}")
        client.sendall(Frame(Kind.OUTPUT, 0, str(file).encode()).encoded())

    def _forget(self, channel: int) -> None:
        if capture := self._captures.pop(channel, None):
            self._order(f"release {capture.file}")
            capture.file.unlink()
        self._running.discard(channel)
        client = self._clients.pop(channel)
        del self._decoders[channel]
        self._selector.unregister(client)
        client.close()

    def end(self) -> None:
        """End the kernels and the network."""
        for process in (*self._processes.values(), self._network):
            process.kill()
            process.wait()


def main(home: Path) -> int:
    """Supervise until the lab ends; `ended` in its directory then says why."""
    supervisor = Supervisor(home)
    try:
        supervisor.run()
    except _Ended as reason:
        (home / ENDED).write_text(f"{reason}\n")
        print(str(reason).replace("\n", " | "), flush=True)  # noqa: T201  the parent reads it
    finally:
        supervisor.end()
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
