"""The end of a stream at which commands run: each is a process, its streams are frames."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypedDict

from cnc.testbed.remote.frames import Decoder, Frame, FrameError, Kind, ended

_READ_OCTETS = 4096
NOT_FOUND = 127  # as a shell's

CommandLine = Callable[[list[str]], Sequence[str]]


class _Command(TypedDict):
    argv: list[str]
    environment: dict[str, str]
    directory: str


class Server:
    """Runs what the client of one stream asks for, until the stream ends; then ends all of it.

    `command_line` makes of what the client wants what is run, in `environment` and the client's.
    """

    def __init__(
        self, descriptor: int, command_line: CommandLine, environment: Mapping[str, str]
    ) -> None:
        self._descriptor = descriptor
        self._command_line = command_line
        self._environment = environment
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Read frames until the stream ends or has something else in it."""
        decoder = Decoder()
        with contextlib.suppress(OSError, FrameError):
            while octets := os.read(self._descriptor, _READ_OCTETS):
                for frame in decoder.feed(octets):
                    self._take(frame)
        for process in list(self._running.values()):
            _kill(process)

    def send(self, frame: Frame) -> None:
        """Write a frame; once the client is gone, nothing."""
        octets = frame.encoded()
        with self._writing, contextlib.suppress(OSError):
            while octets:
                octets = octets[os.write(self._descriptor, octets) :]

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.RUN:
            self._start(frame.channel, json.loads(frame.data))
            return
        process = self._running.get(frame.channel)
        if process is None or process.stdin is None:
            return  # it has ended meanwhile
        if frame.kind is Kind.KILL:
            _kill(process)
        with contextlib.suppress(BrokenPipeError, ValueError):  # it reads no more, or was told
            if frame.kind is Kind.INPUT:
                process.stdin.write(frame.data)
                process.stdin.flush()
            elif frame.kind is Kind.INPUT_END:
                process.stdin.close()

    def _start(self, channel: int, command: _Command) -> None:
        directory = command["directory"]
        try:
            process = subprocess.Popen(
                self._command_line(command["argv"]),
                env={**os.environ, **self._environment, **command["environment"]},
                # A directory that was made after this kernel was started may be on no node.
                cwd=directory if os.path.isdir(directory) else "/",  # noqa: PTH112
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.send(Frame(Kind.ERRORS, channel, f"{error}\n".encode()))
            self.send(ended(channel, NOT_FOUND))
            return
        self._running[channel] = process
        threading.Thread(target=self._follow, args=(channel, process), daemon=True).start()

    def _follow(self, channel: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101  both are pipes
        assert process.stderr is not None  # noqa: S101
        errors = threading.Thread(
            target=self._copy, args=(process.stderr, Kind.ERRORS, channel), daemon=True
        )
        errors.start()
        self._copy(process.stdout, Kind.OUTPUT, channel)
        errors.join()
        code = process.wait()
        del self._running[channel]
        self.send(ended(channel, code))

    def _copy(self, stream: IO[bytes], kind: Kind, channel: int) -> None:
        while octets := os.read(stream.fileno(), _READ_OCTETS):
            self.send(Frame(kind, channel, octets))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
