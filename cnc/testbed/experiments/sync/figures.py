"""The figures of a line of clocks: by hop the true distance from the first, and what ptp4l says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from cnc.support.format import duration
from cnc.testbed.lab.kernels.offsets import TrueOffsets

# IEEE Std 802.1AS-2020, annex B: granularity of time stamps, residence time, error of the rate
# ratio. A relay stamps a frame twice.
STAMP_NS = 40
RESIDENCE_NS = 10_000_000
RATE_ERROR_PPB = 100
RELAY_HOP_NS = 2 * STAMP_NS + RESIDENCE_NS * RATE_ERROR_PPB // 1_000_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """What a ptp4l said at an instant: how far it is from the clock that it follows, and over how
    many links it follows the grandmaster."""

    time_ns: int
    offset_ns: float
    steps_removed: int


@dataclass(frozen=True, slots=True)
class Hop:
    """The clock of the switch that is `number` hops from the first; distances are from the first
    one's in true time, `least_ns` to `greatest_ns` once it is in step and until the first one's
    ptp4l is killed, the `said` ones in the same time. `away_ns` is the greatest distance while that
    is dead, `back_ns` from then on. It is in step from `in_step_ns` after the start of the kernels,
    and again from `in_step_again_ns` after the first one came back; None: never.
    """

    node: str
    number: int
    in_step_ns: int | None
    least_ns: int
    mean_ns: float
    greatest_ns: int
    said_mean_ns: float
    said_greatest_ns: float
    said_added_ns: float
    relay_ns: int
    away_ns: int
    back_ns: int
    in_step_again_ns: int | None

    def disagreements(self, allowed_ns: int) -> list[str]:
        """What is not as it is where clocks are kept together."""
        lines = []
        if self.in_step_ns is None:
            lines.append(f"{self.node}: it was never in step, within {duration(allowed_ns)}")
        if self.in_step_again_ns is None:
            lines.append(
                f"{self.node}: it was not in step again after the grandmaster had come back"
            )
        return lines

    def document(self) -> dict[str, Any]:
        return asdict(self)


def hops_of(
    nodes: Sequence[str],
    truth: TrueOffsets,
    said: Mapping[str, Sequence[Said]],
    *,
    away_ns: tuple[int, int],
    allowed_ns: int,
) -> list[Hop]:
    """The figures of each switch but the first of `nodes`, which the others follow in their order;
    `away_ns` is when its ptp4l was killed, and when it came back."""
    killed_ns, back_ns = away_ns
    first, *others = nodes
    added_ns = 0.0
    hops = []
    for number, node in enumerate(others, start=1):
        distances = truth.distances(node, first)
        before = [each for each in distances if each[0] < killed_ns]
        in_step_ns = in_step_from(before, allowed_ns)
        steady = [distance for at_ns, distance in before if in_step_ns and at_ns >= in_step_ns]
        steady = steady or [before[-1][1]]
        own = [
            each.offset_ns
            for each in said.get(node, ())
            if (in_step_ns or 0) <= each.time_ns < killed_ns
        ] or [0.0]
        added_ns += max(map(abs, own))
        after = [each for each in distances if each[0] >= back_ns]
        again_ns = in_step_from(after, allowed_ns)
        hops.append(
            Hop(
                node=node,
                number=number,
                in_step_ns=in_step_ns,
                least_ns=min(steady),
                mean_ns=fmean(steady),
                greatest_ns=max(steady),
                said_mean_ns=fmean(own),
                said_greatest_ns=max(map(abs, own)),
                said_added_ns=added_ns,
                relay_ns=number * RELAY_HOP_NS,
                away_ns=max(
                    (abs(each) for at_ns, each in distances if killed_ns <= at_ns < back_ns),
                    default=0,
                ),
                back_ns=max((abs(each) for _, each in after), default=0),
                in_step_again_ns=None if again_ns is None else again_ns - back_ns,
            )
        )
    return hops


def in_step_from(distances: Iterable[tuple[int, int]], allowed_ns: int) -> int | None:
    """The instant from which on a clock stays within what is allowed; None: it is not at the
    end."""
    since_ns = None
    for time_ns, distance_ns in distances:
        if abs(distance_ns) > allowed_ns:
            since_ns = None
        elif since_ns is None:
            since_ns = time_ns
    return since_ns
