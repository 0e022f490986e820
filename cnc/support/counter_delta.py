"""Counters that should be constant: their increase since the condition began."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

from cnc.model import NS_PER_S

QUIET_NS = 60 * NS_PER_S  # the condition ends after this time without an increase


_Key = TypeVar("_Key", bound=Hashable)


class CounterDelta(Generic[_Key]):
    """One port's counters of one kind, by traffic class or by what else tells them apart.

    A count below the previous one has restarted at 0.
    """

    def __init__(self) -> None:
        self._last: dict[_Key, int] | None = None
        self._increase: dict[_Key, int] = {}
        self._increased_ns = 0

    def update(
        self, counts: Mapping[_Key, int], now_ns: int, ignored: Collection[_Key] = ()
    ) -> Mapping[_Key, int]:
        """The increase of each count in the current condition; empty without a condition.

        Counts before the first update are ignored, and how much those `ignored` have increased
        since the last one. `now_ns` is monotonic.
        """
        last = counts if self._last is None else self._last
        for key, count in counts.items():
            before = last.get(key, 0)
            more = count - before if count >= before else count
            if more and key not in ignored:
                self._increase[key] = self._increase.get(key, 0) + more
                self._increased_ns = now_ns
        self._last = {**last, **counts}
        if now_ns - self._increased_ns >= QUIET_NS:
            self._increase.clear()
        return dict(self._increase)


def grown(before: Mapping[_Key, int], now: Mapping[_Key, int]) -> dict[_Key, int]:
    """By how much those counts have grown that have; one that was not there yet has not."""
    more = {key: count - before.get(key, count) for key, count in now.items()}
    return {key: count for key, count in more.items() if count > 0}
