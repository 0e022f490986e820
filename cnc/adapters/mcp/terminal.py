"""The terminal on which a person confirms changes: not the streams that the asking program holds.

Programs that start MCP servers often give them a session of their own, without a terminal, or keep
their terminal for themselves; then another one is named, whose shell sleeps meanwhile.
"""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import anyio

from cnc.errors import CncError, InputError
from cnc.support.format import printable

OWN = Path("/dev/tty")  # the controlling terminal of whoever started this process
ANSWER_WITHIN_S = 120
_LINE_MAX = 4096  # of a terminal in canonical mode, termios(3)
_LOCAL_FLAGS = 3  # in what tcgetattr returns
_YES = b"yes"


class Terminal:
    """Asks one question at a time."""

    def __init__(self, file: int, path: Path) -> None:
        self._file, self._path = file, path
        self._asking = anyio.Lock()

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Raises InputError for what is no terminal."""
        try:
            file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(
                f"{path}: there is no terminal to confirm changes on: {error.strerror}",
                hint="start it from a terminal, or name one that you look at: --terminal, and what "
                "`tty` prints there",
            ) from error
        try:
            if not os.isatty(file):
                raise InputError(f"{path} is no terminal", hint="name what `tty` prints there")
            # Another program may have the terminal: then reading is an error, and does not stop us.
            for each in (signal.SIGTTIN, signal.SIGTTOU):
                signal.signal(each, signal.SIG_IGN)
            yield cls(file, path)
        finally:
            os.close(file)

    async def confirm(self, question: str) -> None:
        """Return after a person has typed yes to `question`, which is printed without anything that
        commands the terminal; what was typed before does not count.

        Raises:
            CncError: the answer is another one, or none comes within `ANSWER_WITHIN_S`, or another
                program reads from the terminal.
        """
        async with self._asking:
            try:
                if not termios.tcgetattr(self._file)[_LOCAL_FLAGS] & termios.ICANON:
                    raise CncError(
                        f"{self._path} is used by another program, which gets what is typed there",
                        hint="let `sleep infinity` run there",
                    )
                termios.tcflush(self._file, termios.TCIFLUSH)
                self._print(f"\n{question}\nType yes to do it ({ANSWER_WITHIN_S} s): ")
                answer = await self._answer()
            except (OSError, termios.error) as error:
                raise CncError(f"{self._path} cannot be asked: {error.args[-1]}") from error
            if answer.strip() != _YES:
                self._print("Refused.\n")
                raise CncError(f"refused by the person at {self._path}; nothing has changed")
            self._print("Asked of the service.\n")

    async def _answer(self) -> bytes:
        done = False
        try:
            with anyio.fail_after(ANSWER_WITHIN_S):
                await anyio.wait_readable(self._file)
            done = True
            return os.read(self._file, _LINE_MAX)
        except TimeoutError as error:
            raise CncError(
                f"it was not confirmed at {self._path} within {ANSWER_WITHIN_S} s; "
                "nothing has changed"
            ) from error
        finally:
            if not done:  # the question stands no more: it is too late, or was taken back
                self._print("\nNot asked any more.\n")

    def _print(self, text: str) -> None:
        os.write(self._file, printable(text).encode())
