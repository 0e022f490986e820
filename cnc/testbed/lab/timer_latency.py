"""How late this machine runs a program whose timer has expired, while something is measured on it.

On a clock that runs by itself talkers, listeners and software gates are late by that, and what is
measured with them is no better. In virtual time nothing is late, and nothing is measured.

Run as `python -I timer_latency.py` it waits for one instant of CLOCK_TAI after another, at the
priority of talkers, until its standard input is closed, and prints how late it was at each.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from cnc.errors import CncError
from cnc.support import exact_clock
from cnc.support.format import duration
from cnc.talker import be_punctual, sleep_until, tai_ns

PERIOD_NS = 5_003_000  # in step with no schedule, so that it disturbs no phase more than another
_END_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class TimerLatency:
    """How late so many timers were: 99 % of them by `p99_ns` or less, the latest by `max_ns`."""

    timers: int
    p99_ns: int
    max_ns: int

    def __str__(self) -> str:
        return f"timers up to {duration(self.max_ns)} late (99 %: {duration(self.p99_ns)})"


class TimerProbe:
    """Measures while it is used as a context manager; then `latency` has what was found, None in
    virtual time.

    Raises:
        CncError: the program that measures has failed.
    """

    def __init__(self) -> None:
        self.latency: TimerLatency | None = None
        self._program: subprocess.Popen[str] | None = None

    def __enter__(self) -> TimerProbe:
        if not exact_clock.is_exact():
            self._program = subprocess.Popen(
                [sys.executable, "-I", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._program is None:
            return
        with self._program as program:
            try:
                if kind is None:
                    self.latency = _read(program)
            finally:
                program.kill()


def _read(program: subprocess.Popen[str]) -> TimerLatency:
    try:
        out, said = program.communicate(timeout=_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CncError(f"timers were measured, and no end of it in {_END_TIMEOUT_S} s") from None
    if program.returncode != 0:
        raise CncError("timers could not be measured", hint=said.strip() or None)
    late_ns = sorted(map(int, out.split()))
    return TimerLatency(len(late_ns), late_ns[-(-len(late_ns) * 99 // 100) - 1], late_ns[-1])


def lateness_ns(is_over: Callable[[], bool]) -> list[int]:
    """How late this process was at instants of CLOCK_TAI, PERIOD_NS apart; at one or more.

    Of those that a standstill covers none is left out, or the longest would count for least.
    """
    late_ns: list[int] = []
    instant_ns = tai_ns()
    while not late_ns or not is_over():
        instant_ns += PERIOD_NS
        sleep_until(instant_ns)
        late_ns.append(tai_ns() - instant_ns)
    return late_ns


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command that has started it ends it
    be_punctual(go_first=True)
    poll = select.poll()
    poll.register(sys.stdin)
    print(*lateness_ns(lambda: bool(poll.poll(0))))  # noqa: T201  the parent reads it


if __name__ == "__main__":
    main()
