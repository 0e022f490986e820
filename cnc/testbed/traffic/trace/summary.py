"""What a trace says of each flow: how long its frames were in each layer, and in each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cnc.testbed.traffic.measure import Spread, spread
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns
from cnc.testbed.traffic.trace.stages import Stage


@dataclass(frozen=True, slots=True)
class StageTime:
    """The time of frames in one stage: of all together, and how it spreads."""

    sum_ns: int
    spread: Spread


@dataclass(frozen=True, slots=True)
class TracedFlow:
    """The frames of a flow by one path; counts as in `PathColumns`.

    The figures are of frames that are neither lost nor incomplete, and empty or None if there are
    none. `total_sum_ns` is exactly the sum of those of the stages, of which those that are not
    known are no part.
    """

    flow: str
    listener: str
    path: int
    frames: int
    lost: int
    incomplete: int
    repeated: int
    resent: int
    layers: Mapping[Layer, Spread]
    stages: Mapping[Stage, StageTime]
    total: Spread | None
    total_sum_ns: int | None


def summarise(paths: Iterable[PathColumns]) -> list[TracedFlow]:
    """One for each flow and path, in their order."""
    return [_summary(each) for each in paths]


def _summary(path: PathColumns) -> TracedFlow:
    durations_ns = {stage: path.stage_ns(stage) for stage in path.stages if len(path)}
    return TracedFlow(
        flow=path.flow,
        listener=path.listener,
        path=path.path,
        frames=path.frames,
        lost=path.lost,
        incomplete=path.incomplete,
        repeated=path.repeated,
        resent=path.resent,
        layers={layer: spread(its) for layer in Layer if (its := path.layer_ns(layer))},
        stages={stage: StageTime(sum(its), spread(its)) for stage, its in durations_ns.items()},
        total=spread(path.total_ns) if len(path) else None,
        total_sum_ns=sum(path.total_ns) if len(path) else None,
    )
