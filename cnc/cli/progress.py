"""What the commands say while they work: on the error stream, for whoever waits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic as monotonic_s
from typing import TYPE_CHECKING

from cnc.cli.terminal import echo
from cnc.support.format import printable

if TYPE_CHECKING:
    from rich.status import Status

Say = Callable[[str], None]

_QUIET_S = 1.0  # nobody waits for less
_LINE_EVERY_S = 5.0


@contextmanager
def steps() -> Iterator[Callable[[object], None]]:
    """Print each step with the time it began, on a terminal; elsewhere it is logged (-v)."""
    if not sys.stderr.isatty():
        import logging  # noqa: PLC0415

        log = logging.getLogger(__name__)
        yield lambda step: log.info("%s", step)
        return
    begun = monotonic_s()
    yield lambda step: echo(f"{monotonic_s() - begun:6.2f} s  {step}", err=True)


@contextmanager
def live() -> Iterator[Say]:
    """Say how far long work has come, and nothing in its first second.

    On a terminal that is one line which changes and goes away in the end; elsewhere it is logged
    (-v), every five seconds at most.
    """
    with _changing_line() if sys.stderr.isatty() else _lines() as say:
        yield say


@contextmanager
def _changing_line() -> Iterator[Say]:
    begun = monotonic_s()
    line: Status | None = None
    with ExitStack() as stack:

        def say(text: str) -> None:
            nonlocal line
            if line is not None:
                line.update(printable(text))
            elif monotonic_s() - begun >= _QUIET_S:
                from rich.console import Console  # noqa: PLC0415

                line = stack.enter_context(Console(stderr=True).status(printable(text)))

        yield say


@contextmanager
def _lines() -> Iterator[Say]:
    import logging  # noqa: PLC0415

    log = logging.getLogger(__name__)
    due = monotonic_s() + _QUIET_S

    def say(text: str) -> None:
        nonlocal due
        now = monotonic_s()
        if now >= due:
            log.info("%s", text)
            due = now + _LINE_EVERY_S

    yield say
