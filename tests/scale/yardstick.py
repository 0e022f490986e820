"""CPU time, also as multiples of a yardstick: machines differ, and other work makes them slower."""

from __future__ import annotations

import random
import time
from bisect import bisect, insort
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    """Seconds of CPU time, which depend less on what else runs, and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def yardstick_s() -> float:
    """Seconds for a fixed piece of what the planner does most: bisection and insertion."""

    def work() -> None:
        numbers = random.Random(1)  # noqa: S311  not for secrets
        line: list[int] = []
        for _ in range(30_000):
            insort(line, numbers.randrange(1_000_000))
            bisect(line, numbers.randrange(1_000_000))

    return min(timed(work)[0] for _ in range(3))
