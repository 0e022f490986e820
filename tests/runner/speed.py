"""How much slower this machine is than the one that tests/budget.toml is of.

Seconds of CPU time measure no work: the same tests took 2.0 to 2.4 times as many on another machine
with two processors while both were busy, and 1.4 times while one was idle. So a short piece of
Python is timed again and again beside the lanes, which slows down as they do.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

ADDITIONS = 1_000_000
# What they take, of CPU time, on the machine of the budget. It was not measured there: on the other
# one it was 0.030 to 0.043 s while the unit tests took 2.3 times their budget.
REFERENCE_S = 0.015
# Far less than a hundredth of one processor.
PERIOD_S = 10.0
SAMPLES_NOW = 20


@dataclass
class Speed:
    """Samples of how long `ADDITIONS` take, each with when it was made (time.monotonic)."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Make samples until the end of the `with`."""
        ended = threading.Event()
        thread = threading.Thread(target=self._measure, args=(ended,), name="speed", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def slowness(self, last_s: float) -> float:
        """How many times as long as on the machine of the budget things have taken in the last so
        many seconds, by the median; 1 on a faster machine, and where nothing was measured."""
        since = time.monotonic() - last_s
        took = [took_s for at_s, took_s in self.samples if at_s >= since]
        return max(1.0, statistics.median(took) / REFERENCE_S) if took else 1.0

    def _measure(self, ended: threading.Event) -> None:
        while True:
            self.samples.append((time.monotonic(), additions_s()))
            if ended.wait(PERIOD_S):
                return


def slowness_now() -> float:
    """How many times as long as on the machine of the budget things take from start to end now,
    beside other work, too; 1 on a faster machine. It takes a third of a second of CPU time.

    That long, since a process that computes for a moment only goes before those that always do.
    """
    begun = time.monotonic()
    for _ in range(SAMPLES_NOW):
        additions_s()
    return max(1.0, (time.monotonic() - begun) / (SAMPLES_NOW * REFERENCE_S))


def additions_s() -> float:
    """The CPU time that `ADDITIONS` take now."""
    begun, total = time.thread_time(), 0
    for number in range(ADDITIONS):
        total += number
    return time.thread_time() - begun
