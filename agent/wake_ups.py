"""How late timers of the kernel wake up: what was measured in the last 24 hours, in little memory.

Pure. Each hour has a histogram whose buckets grow with the lateness, eight to each power of two;
the oldest hour goes when a new one begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOURS = 24
# 1 - 10⁻⁵: of fewer wake-ups than ENOUGH nothing can be said of one in so many.
QUANTILE_MISSES = 100_000
ENOUGH = QUANTILE_MISSES
_BUCKETS_LOG2 = 3  # of each power of two: a bucket is at most an eighth of its lateness wide


@dataclass(frozen=True, slots=True)
class WakeUps:
    """How late timers woke up, in nanoseconds.

    `quantile_ns` is what all but one in 100,000 keep to, None where fewer than that were measured.
    """

    count: int
    maximum_ns: int
    quantile_ns: int | None


class WakeUpRecord:
    """What was measured, by hours of a clock that nobody sets. Not to be used by two threads."""

    def __init__(self) -> None:
        self._buckets: dict[int, Counter[int]] = {}
        self._maxima_ns: dict[int, int] = {}

    def add(self, hour: int, lateness_ns: int) -> None:
        """One wake-up; a timer that seems early, by the reading of two clocks, is on time."""
        lateness_ns = max(0, lateness_ns)
        self._buckets.setdefault(hour, Counter())[_bucket(lateness_ns)] += 1
        self._maxima_ns[hour] = max(lateness_ns, self._maxima_ns.get(hour, 0))
        self._forget_before(hour - HOURS + 1)

    def wake_ups(self, hour: int) -> WakeUps | None:
        """What holds in this hour; None where nothing was measured in the last 24."""
        self._forget_before(hour - HOURS + 1)
        total: Counter[int] = Counter()
        for buckets in self._buckets.values():
            total.update(buckets)
        count = total.total()
        if not count:
            return None
        maximum_ns = max(self._maxima_ns.values())
        quantile_ns = min(_quantile_ns(total), maximum_ns) if count >= ENOUGH else None
        return WakeUps(count, maximum_ns, quantile_ns)

    def encode(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            str(hour): {
                "maximum-ns": self._maxima_ns[hour],
                "buckets": {str(bucket): count for bucket, count in buckets.items()},
            }
            for hour, buckets in self._buckets.items()
        }

    @classmethod
    def decode(cls, kept: Mapping[str, Any]) -> WakeUpRecord:
        """What `encode` returned; raises ValueError, KeyError, TypeError or AttributeError."""
        record = cls()
        for hour, its in kept.items():
            counts = {int(bucket): _natural(count) for bucket, count in its["buckets"].items()}
            record._maxima_ns[int(hour)] = _natural(its["maximum-ns"])
            record._buckets[int(hour)] = Counter(counts)
        return record

    def _forget_before(self, first: int) -> None:
        for hour in [each for each in self._buckets if each < first]:
            del self._buckets[hour], self._maxima_ns[hour]


def _bucket(lateness_ns: int) -> int:
    """The number of the bucket: one for each nanosecond at first, then ever wider ones."""
    shift = max(0, lateness_ns.bit_length() - _BUCKETS_LOG2 - 1)
    return (shift << _BUCKETS_LOG2) + (lateness_ns >> shift)


def _last_ns(bucket: int) -> int:
    """The greatest lateness of a bucket."""
    shift = max(0, (bucket >> _BUCKETS_LOG2) - 1)
    return ((bucket - (shift << _BUCKETS_LOG2) + 1) << shift) - 1


def _quantile_ns(total: Counter[int]) -> int:
    later = total.total() // QUANTILE_MISSES
    for bucket in sorted(total, reverse=True):
        later -= total[bucket]
        if later < 0:
            return _last_ns(bucket)
    raise ValueError("no wake-ups")


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number of wake-ups or nanoseconds")
    return value
