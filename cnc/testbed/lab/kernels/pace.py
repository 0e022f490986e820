"""How a lab's virtual time passes as the clock of the machine does."""

from __future__ import annotations

import time
from collections.abc import Callable

from cnc.model import NS_PER_S

# So much passes at once; by so much the lab's time is behind where the machine is fast enough.
SLICE_NS = 10_000_000
# A lab that is further behind stays behind: it does not run faster than the machine's clock later.
_BEHIND_MAX_NS = 100_000_000


class Pace:
    """Says when the next slice of virtual time may pass; from `now_ns` of virtual time on."""

    def __init__(self, now_ns: int, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._ahead_ns = clock_ns() - now_ns  # of virtual time is the machine's clock

    def wait_s(self, now_ns: int) -> float:
        """How long to wait until the slice from `now_ns` on may pass: until the machine's clock has
        passed it. 0: now."""
        end_ns = now_ns + SLICE_NS + self._ahead_ns
        early_ns = end_ns - self._clock_ns()
        if early_ns < -_BEHIND_MAX_NS:
            self._ahead_ns -= early_ns
        return max(0, early_ns) / NS_PER_S
