"""Counters that should stand still: how far they moved since the trouble began."""

from __future__ import annotations

from collections.abc import Mapping

from cnc.model import NS_PER_S

QUIET_NS = 60 * NS_PER_S  # a counter at rest for so long is at rest again


class Growth:
    """One port's counters of one kind, by traffic class.

    A count that is less than before began again at 0.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] | None = None
        self._grown: dict[int, int] = {}
        self._grew_ns = 0

    def update(self, counts: Mapping[int, int], now_ns: int) -> Mapping[int, int]:
        """By how much each class has grown in the trouble that is now; empty: there is none.

        What was counted before the first update is nobody's trouble. `now_ns` is monotonic.
        """
        last = counts if self._last is None else self._last
        for number, count in counts.items():
            before = last.get(number, 0)
            if more := count - before if count >= before else count:
                self._grown[number] = self._grown.get(number, 0) + more
                self._grew_ns = now_ns
        self._last = {**last, **counts}
        if now_ns - self._grew_ns >= QUIET_NS:
            self._grown.clear()
        return dict(self._grown)
