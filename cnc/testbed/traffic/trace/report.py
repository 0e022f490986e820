"""What a trace says: where the time of each frame of a lab, or between two hosts, has gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cnc.testbed.traffic.trace.correlation import Correlations, correlations
from cnc.testbed.traffic.trace.drift import Drift, drifts
from cnc.testbed.traffic.trace.outliers import Outliers, outliers
from cnc.testbed.traffic.trace.summary import TracedFlow, summarise

if TYPE_CHECKING:
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.trace.account import Account
    from cnc.testbed.traffic.trace.clocks import TrueTime
    from cnc.testbed.traffic.trace.columns import PathColumns
    from cnc.testbed.traffic.trace.imported import ImportedRun
    from cnc.testbed.traffic.trace.margins import HopMargin


@dataclass(frozen=True)
class TraceReport:
    """The accounts of a trace, and what follows from them, computed where it is asked for.

    `of` names the network, or the packets, and `facts` stand below pictures. `frames` are the
    accounts that were wanted whole. One of a lab has `platform` and `margins`, where each node has
    a clock of its own also `true_time`; one of two hosts is `imported`.
    """

    of: str
    paths: Sequence[PathColumns]
    start_ns: int
    facts: Mapping[str, str]
    frames: Sequence[Account] = ()
    platform: Platform | None = None
    margins: Sequence[HopMargin] | None = None
    true_time: TrueTime | None = None
    imported: ImportedRun | None = None

    @cached_property
    def flows(self) -> Sequence[TracedFlow]:
        return summarise(self.paths)

    @cached_property
    def outliers(self) -> Sequence[Outliers]:
        return outliers(self.paths)

    @cached_property
    def correlations(self) -> Sequence[Correlations]:
        return correlations(self.paths)

    @cached_property
    def drifts(self) -> Sequence[Drift]:
        return drifts(self.paths)
