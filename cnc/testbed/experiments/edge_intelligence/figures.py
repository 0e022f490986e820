"""A signal at its source and at the device: computed from what is lost, and measured."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cnc.support.format import counted, duration
from cnc.testbed.traffic.edge.predictors import PREDICTORS, Received
from cnc.testbed.traffic.edge.run import Period

TOGGLE, RAMP = "toggle", "ramp"
TURNS_AFTER = 10  # values of a ramp
HALF = 50  # per cent
FEW = 5, 8  # of all changes: beyond half of the frames lost, no more come without a prediction


def value_at(signal: str, intervals: float) -> float:
    """The signal so many intervals after the first value: a toggle is 1, 0, 1, …; a ramp goes from
    0 to 1 in ten intervals, and back."""
    if signal == TOGGLE:
        return float(int(intervals) % 2 == 0)
    turned = intervals % (2 * TURNS_AFTER)
    return min(turned, 2 * TURNS_AFTER - turned) / TURNS_AFTER


def computed(
    values: Sequence[float], predictor: str, periods_each: int, lost: Collection[int]
) -> list[tuple[float | None, float]]:
    """What the edge sends in each of its periods, and where the device is at the end of it, if the
    frames of these periods are lost and all others are in time."""
    received: list[Received] = []
    result: list[tuple[float | None, float]] = []
    position = 0.0
    for n in range(len(values) * periods_each):
        if n % periods_each == 0:
            received.append(Received(n, values[n // periods_each]))
        sent = PREDICTORS[predictor](received, n)
        if sent is not None and n not in lost:
            position = sent
        result.append((sent, position))
    return result


@dataclass(frozen=True, slots=True)
class Run:
    """A signal of `values` at the device; the edge has `periods_each` periods for each of them.

    `lost` are the periods whose frames are to be lost.
    """

    signal: str
    predictor: str
    loss_percent: int
    values: Sequence[float]
    periods_each: int
    lost: Collection[int]
    periods: Sequence[Period]

    @property
    def here(self) -> str:
        return f"{self.signal}, prediction {self.predictor}, {self.loss_percent} % lost"

    @property
    def expected(self) -> list[tuple[float | None, float]]:
        return computed(self.values, self.predictor, self.periods_each, self.lost)

    @property
    def sent(self) -> int:
        return sum(each.sent is not None for each in self.periods)

    @property
    def arrived(self) -> int:
        return sum(each.received_ns is not None for each in self.periods)

    @property
    def changes_ns(self) -> list[int]:
        """When the device got another value than it had."""
        positions = [0.0, *(each.position for each in self.periods)]
        return [
            each.received_ns
            for each, (before, now) in zip(self.periods, pairwise(positions), strict=True)
            if before != now and each.received_ns is not None
        ]

    @property
    def gaps_ns(self) -> list[int]:
        return [later - earlier for earlier, later in pairwise(self.changes_ns)]

    @property
    def truth(self) -> list[float]:
        """The signal in each period of the edge."""
        return [value_at(self.signal, n / self.periods_each) for n in range(len(self.periods))]

    @property
    def errors(self) -> list[float]:
        """How far the device is from the signal in each period of the edge."""
        return [
            abs(each.position - true) for each, true in zip(self.periods, self.truth, strict=True)
        ]

    def disagreements(self, interval_ns: int, gap_error_ns: int) -> Iterator[str]:
        """What is not as computed, or not as expected."""
        for n, (each, (sent, position)) in enumerate(zip(self.periods, self.expected, strict=True)):
            came = each.received_ns is not None
            if (repr(each.sent), came) != (repr(sent), sent is not None and n not in self.lost):
                what = "came" if came else "did not come"
                yield f"{self.here}: {each.sent} of period {n} {what}, against what was computed"
                return
            if repr(each.position) != repr(position):
                yield f"{self.here}: at {each.position!r} in period {n}, computed {position!r}"
                return
        if self.signal == TOGGLE:
            yield from self._unexpected_changes(interval_ns, gap_error_ns)

    def _unexpected_changes(self, interval_ns: int, gap_error_ns: int) -> Iterator[str]:
        all_, came = len(self.values), len(self.changes_ns)
        if self.predictor == "none" and self.loss_percent >= HALF:
            if came * FEW[1] >= all_ * FEW[0]:
                yield f"{self.here}: {came} of {all_} changes came, fewer than 5 of 8 expected"
            return
        if self.predictor == "none" and self.loss_percent:
            return
        if came != all_:
            yield f"{self.here}: {came} of {counted(all_, 'change')} came"
        for gap_ns in self.gaps_ns:
            if abs(gap_ns - interval_ns) > gap_error_ns:
                yield (
                    f"{self.here}: two changes {duration(gap_ns)} apart, "
                    f"{duration(interval_ns)} and at most {duration(gap_error_ns)} off expected"
                )

    def document(self) -> dict[str, Any]:
        is_toggle = self.signal == TOGGLE
        return {
            "signal": self.signal,
            "predictor": self.predictor,
            "loss_percent": self.loss_percent,
            "sent": self.sent,
            "arrived": self.arrived,
            "changes": len(self.changes_ns) if is_toggle else None,
            "gaps_ns": self.gaps_ns if is_toggle else None,
            "mean_error": statistics.fmean(self.errors),
            "max_error": max(self.errors),
        }


def order_disagreements(runs: Sequence[Run]) -> Iterator[str]:
    """A ramp is followed more closely the more is predicted."""
    ramps = [(statistics.fmean(each.errors), each) for each in runs if each.signal == RAMP]
    for (worse, one), (better, other) in pairwise(ramps):
        if better >= worse:
            yield (
                f"{other.here}: off by {better:.4f} on average, no less than with prediction "
                f"{one.predictor}, {worse:.4f}"
            )
