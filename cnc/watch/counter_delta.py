"""Counters that should be constant: their increase since the condition began."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.model import NS_PER_S

QUIET_NS = 60 * NS_PER_S  # the condition ends after this time without an increase


class CounterDelta:
    """One port's counters of one kind, by traffic class.

    A count below the previous one has restarted at 0.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] | None = None
        self._increase: dict[int, int] = {}
        self._increased_ns = 0

    def update(self, counts: Mapping[int, int], now_ns: int) -> Mapping[int, int]:
        """The increase of each class in the current condition; empty without a condition.

        Counts before the first update are ignored. `now_ns` is monotonic.
        """
        last = counts if self._last is None else self._last
        for number, count in counts.items():
            before = last.get(number, 0)
            if more := count - before if count >= before else count:
                self._increase[number] = self._increase.get(number, 0) + more
                self._increased_ns = now_ns
        self._last = {**last, **counts}
        if now_ns - self._increased_ns >= QUIET_NS:
            self._increase.clear()
        return dict(self._increase)
