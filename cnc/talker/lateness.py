"""How late a talker sends, in little memory, and told to the agent of its station."""

from __future__ import annotations

import contextlib
import json
import os
import time
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from urllib.parse import quote

DIRECTORY = "lateness"  # beside the offsets
# A program that gives its frames no time of transmission says what agents of before know.
FORMAT, FORMAT_OF_LAUNCHES = "tsn-lateness/1", "tsn-lateness/2"
HOURS = 24
QUANTILE_MISSES = 100_000  # of fewer periods nothing can be said of one in so many
WRITE_EVERY_S = 10
_HOUR_S = 3600
# 1, 2, 5, 10 … nanoseconds up to a day: a plan takes no finer steps.
STEPS_NS: tuple[int, ...] = tuple(
    digit * int(10**power) for power in range(14) for digit in (1, 2, 5)
)


class Lateness:
    """What was measured in the last 24 hours, of the stream that `file` is named after.

    The agent makes the directory of `file` for those that may write there; without it, or that
    right, nothing is told. Not to be used by two threads.

    `missed` and `refused` count frames with a time of transmission that did not leave: they missed
    it in the qdisc, or were refused there; None: the program states no such time.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.missed: int | None = None
        self.refused: int | None = None
        self._hours: dict[int, Counter[int]] = {}  # by the number of the step
        self._maxima_ns: dict[int, int] = {}
        self._next_write_s = time.clock_gettime(time.CLOCK_BOOTTIME) + WRITE_EVERY_S

    @classmethod
    def of(cls, offsets: Path, stream: str, path: int) -> Lateness:
        """That of a stream in the file of offsets."""
        return cls(offsets.parent / DIRECTORY / f"{quote(stream, safe='')}.{path}")

    def add(self, late_ns: int) -> None:
        """One period; every 10 s the agent is told."""
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        hour, late_ns = int(now_s) // _HOUR_S, max(0, late_ns)
        self._hours.setdefault(hour, Counter())[bisect_left(STEPS_NS, late_ns)] += 1
        self._maxima_ns[hour] = max(late_ns, self._maxima_ns.get(hour, 0))
        for past in [each for each in self._hours if each <= hour - HOURS]:
            del self._hours[past], self._maxima_ns[past]
        if now_s >= self._next_write_s:
            self.write()
            self._next_write_s = now_s + WRITE_EVERY_S

    def write(self) -> None:
        """Tell the agent, if there is anything."""
        if not self._hours and self.missed is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o644)  # the agent is another user, whatever the umask is
                file.write(json.dumps(self._figures()).encode())
            new.replace(self._file)

    def _figures(self) -> dict[str, str | int]:
        figures: dict[str, str | int] = {"format": FORMAT}
        if self.missed is not None and self.refused is not None:
            figures = {
                "format": FORMAT_OF_LAUNCHES,
                "missed": self.missed,
                "refused": self.refused,
            }
        if self._hours:
            figures |= self._measured()
        return figures

    def _measured(self) -> dict[str, int]:
        total: Counter[int] = Counter()
        for steps in self._hours.values():
            total.update(steps)
        count, maximum_ns = total.total(), max(self._maxima_ns.values())
        measured = {"count": count, "maximum-ns": maximum_ns}
        if count >= QUANTILE_MISSES:
            measured["quantile-ns"] = min(_quantile_ns(total), maximum_ns)
        return measured


def _quantile_ns(total: Counter[int]) -> int:
    """What all but one in 100,000 keep to."""
    later = total.total() // QUANTILE_MISSES
    for step in sorted(total, reverse=True):
        later -= total[step]
        if later < 0:
            return STEPS_NS[min(step, len(STEPS_NS) - 1)]
    raise ValueError("nothing was measured")
