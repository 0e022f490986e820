"""So many a second of each host: what comes faster waits, so that it holds up itself alone."""

from __future__ import annotations

import time
from collections import OrderedDict

_HOSTS_MAX = 4096


class Pace:
    """`per_s` of each host, after `at_once` that do not wait; nobody waits longer than `wait_max_s`
    (GCRA, ITU-T I.371)."""

    def __init__(self, per_s: float, *, at_once: int, wait_max_s: float) -> None:
        self.wait_max_s = wait_max_s
        self._each_s, self._ahead_s = 1 / per_s, at_once / per_s
        self._due: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, host: str) -> float | None:
        """How long the next one of a host waits; None where that is too long: it counts for
        nothing then."""
        now = time.monotonic()
        due = max(self._due.get(host, now), now) + self._each_s
        wait_s = due - now - self._ahead_s
        if wait_s > self.wait_max_s:
            return None
        self._due[host] = due
        self._due.move_to_end(host)
        if len(self._due) > _HOSTS_MAX:
            self._due.popitem(last=False)
        return max(0.0, wait_s)
