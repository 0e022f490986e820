"""Latent error detection: whether copies come by all paths (IEEE Std 802.1CB-2017, 7.4.4). Pure.

A path that is cut is seen by nobody, since no frame is lost: its copies only are not discarded any
more. Its end is told when a whole reset period has passed without an error, because a test that
finds none right after a reset has seen nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.events import Event, LatentError, LatentErrorEnded
from agent.mechanisms.frer.model import LatentErrorDetection, LatentErrors
from agent.model import NS_PER_MS


class Copies(NamedTuple):
    """What a port has done with the copies of a recovery function."""

    passed: int = 0
    discarded: int = 0


class Watched(NamedTuple):
    """A recovery function by now: how it is watched, and the copies by each of its ports."""

    detection: LatentErrorDetection
    copies: dict[str, Copies]


class LatentErrorDetector:
    """Compares the copies of recovery functions again and again; these are known by the numbers of
    their entries in the Sequence recovery table. Times are of a clock that nobody sets."""

    def __init__(self) -> None:
        self._comparisons: dict[int, _Comparison] = {}

    @property
    def found(self) -> Mapping[int, LatentErrors]:
        """What was found of each function since it is watched by this detector."""
        return {entry: each.found for entry, each in self._comparisons.items()}

    @property
    def next_ns(self) -> int | None:
        """When the next test or reset is due; None where nothing is watched."""
        return min((each.next_ns for each in self._comparisons.values()), default=None)

    def look(self, watched: Mapping[int, Watched], now_ns: int) -> Iterator[Event]:
        """Test and reset what is due of the functions that there are now; what is to be told."""
        for entry in self._comparisons.keys() - watched.keys():
            del self._comparisons[entry]
        for entry, each in sorted(watched.items()):
            comparison = self._comparisons.get(entry)
            if comparison is None or comparison.detection != each.detection:
                self._comparisons[entry] = _Comparison(each.detection, each.copies, now_ns)
            else:
                yield from comparison.look(entry, each.copies, now_ns)


@dataclass
class _Comparison:
    """One function. `tested` are the copies at the newest test or reset."""

    detection: LatentErrorDetection
    tested: Mapping[str, Copies]
    began_ns: int
    found: LatentErrors = field(default_factory=LatentErrors)
    _has_erred: bool = False  # since the newest reset

    def __post_init__(self) -> None:
        self._test_ns = self.began_ns + self._period_ns
        self._reset(self.tested, self.began_ns)

    @property
    def next_ns(self) -> int:
        return min(self._test_ns, self._reset_ns)

    @property
    def _period_ns(self) -> int:
        return self.detection.period_ms * NS_PER_MS

    def look(self, entry: int, copies: Mapping[str, Copies], now_ns: int) -> Iterator[Event]:
        sums = zip(_sum(copies), _sum(self.tested), strict=True)
        if any(now < before for now, before in sums):  # their counters have begun anew
            self._reset(copies, now_ns)
        if now_ns >= self._test_ns:
            yield from self._test(entry, copies, now_ns)
        if now_ns >= self._reset_ns:
            if self.found.detected and not self._has_erred:
                self.found = replace(self.found, detected=False)
                yield LatentErrorEnded(entry)
            self._reset(copies, now_ns)

    def _test(self, entry: int, copies: Mapping[str, Copies], now_ns: int) -> Iterator[Event]:
        """LatentErrorTest, 7.4.4.4."""
        difference = abs(self._base - self._excess(copies))
        self.found = replace(self.found, difference=difference)
        if difference > self.detection.difference:
            is_new = not self.found.detected
            self._has_erred = True
            self.found = replace(self.found, detected=True, errors=self.found.errors + 1)
            if is_new:
                yield LatentError(entry, difference, self._since_tested(copies))
        self.tested = copies
        self._test_ns += ((now_ns - self._test_ns) // self._period_ns + 1) * self._period_ns

    def _reset(self, copies: Mapping[str, Copies], now_ns: int) -> None:
        """LatentErrorReset, 7.4.4.3."""
        self._base, self.tested, self._has_erred = self._excess(copies), copies, False
        self.found = replace(self.found, resets=self.found.resets + 1)
        self._reset_ns = now_ns + self.detection.reset_period_ms * NS_PER_MS

    def _excess(self, copies: Mapping[str, Copies]) -> int:
        """By how much fewer copies were discarded than frames have passed, for the other paths."""
        passed, discarded = _sum(copies)
        return passed * (self.detection.paths - 1) - discarded

    def _since_tested(self, copies: Mapping[str, Copies]) -> dict[str, int]:
        """How many copies have come by each port since the newest test or reset."""
        return {
            port: sum(each) - sum(self.tested.get(port, Copies()))
            for port, each in sorted(copies.items())
        }


def _sum(copies: Mapping[str, Copies]) -> Copies:
    return Copies(
        sum(each.passed for each in copies.values()),
        sum(each.discarded for each in copies.values()),
    )
