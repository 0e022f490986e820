"""Two signals that reach a device over a lossy cable, with and without a prediction before it.

A source sends a value at each interval to an edge, and that sends at its own, shorter period over
the lossy cable, what it predicts or only what has come. Times in rows count from the start of each
run.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cnc.errors import InputError
from cnc.model import ClassRole, Intent
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.edge_intelligence.figures import (
    RAMP,
    TOGGLE,
    Run,
    order_disagreements,
    value_at,
)
from cnc.testbed.experiments.edge_intelligence.pictures import edge_intelligence_pictures
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.experiments.step_responses.figures import draw
from cnc.testbed.experiments.step_responses.impairment import LOST_MAX, Impairment, impaired
from cnc.testbed.experiments.unplanned_description import EdgeIntelligenceDescription
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.edge.run import Period, run
from cnc.testbed.traffic.flows import Flow, flow_of_class

COLUMNS = ("signal", "predictor", "loss", "period", "sent", "received_ns", "position")
# The signal, the prediction, and whether the cable is lossy; from the worst prediction to the best.
RUNS = (
    (TOGGLE, "none", False),
    (TOGGLE, "none", True),
    (TOGGLE, "hold", True),
    (RAMP, "none", True),
    (RAMP, "hold", True),
    (RAMP, "line", True),
)
PACKET_OCTETS = 64
_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class EdgeIntelligence:
    """The experiment of a file of kind edge-intelligence."""

    description: EdgeIntelligenceDescription
    emulated: Intent

    @classmethod
    def of(cls, description: EdgeIntelligenceDescription, file: Path) -> EdgeIntelligence:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, is bridged, or has no such stations; or more
                frames would be sent than can be lost one by one.
        """
        why = "frames to be lost are identified by the headers of IP and UDP here"
        intent = planned.routed(description, file, why)
        stations = (description.source, description.edge, description.device)
        named = zip(("source", "edge", "device"), stations, strict=True)
        planned.refuse_unknown_stations(intent, file, named)
        its = cls(description, intent)
        if its.periods > LOST_MAX:
            raise InputError(
                f"{file}: values: the edge sends {its.periods} frames, and the kernel's classifier "
                f"has room for the losses of {LOST_MAX}",
                hint="send fewer values, or let the edge have a longer period",
            )
        return its

    @property
    def periods(self) -> int:
        """Of the edge in a run."""
        return self.description.values * self.periods_each

    @property
    def periods_each(self) -> int:
        """Of the edge for each value of the source."""
        return self.description.interval_ns // self.description.period_ns

    def values(self, signal: str) -> list[float]:
        return [value_at(signal, n) for n in range(self.description.values)]

    def lost(self, loss_percent: int) -> Collection[int]:
        """The periods of the edge whose frames are lost: the same in every run of that loss."""
        seed = self.description.seed if loss_percent else None
        return draw(self.periods, loss_percent, seed).commands

    def flows(self) -> tuple[Flow, Flow]:
        """From the source to the edge, and from there to the device."""
        its = self.description
        return (
            self._flow(its.source, its.edge, its.interval_ns),
            self._flow(its.edge, its.device, its.period_ns),
        )

    def _flow(self, talker: str, listener: str, period_ns: int) -> Flow:
        ends = talker, listener
        return flow_of_class(self.emulated, ClassRole.BEST_EFFORT, ends, PACKET_OCTETS, period_ns)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Send each signal with each prediction."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[list[object]]:
        for signal, predictor, is_lossy in RUNS:
            loss = self.description.loss if is_lossy else 0
            progress(f"{signal}, prediction {predictor}, {loss} % lost")
            periods = self._run(running, self.values(signal), predictor, self.lost(loss))
            for n, each in enumerate(periods):
                sent = "" if each.sent is None else repr(each.sent)
                yield [signal, predictor, loss, n, sent, each.received_ns, repr(each.position)]

    def _run(
        self, running: Lab, values: Sequence[float], predictor: str, lost: Collection[int]
    ) -> list[Period]:
        inwards, outwards = self.flows()
        port = next_hops(self.emulated.network, outwards.listener)[outwards.talker].source.port
        impairment = Impairment(outwards.talker, port, outwards.ip_version, 0, lost)
        with (
            tempfile.TemporaryDirectory() as scratch,
            impaired(running, [impairment]),
            running.quiet(),
        ):
            return run(running, (inwards, outwards), values, predictor, Path(scratch))

    def report(self, directory: Path, platform: Platform) -> Report:
        its = self.description
        runs = self._runs(directory)
        wrong = [
            why for each in runs for why in each.disagreements(its.interval_ns, its.gap_error_ns)
        ]
        return Report(
            summary={"runs": [each.document() for each in runs]},
            sheets=[_toggles(runs), _ramps(runs)],
            pictures=edge_intelligence_pictures(runs, its.period_ns),
            disagreements=[*wrong, *order_disagreements(runs)] if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _runs(self, directory: Path) -> list[Run]:
        found = groupby(
            read_rows(directory), lambda row: (row["signal"], row["predictor"], int(row["loss"]))
        )
        return [
            Run(
                signal=signal,
                predictor=predictor,
                loss_percent=loss,
                values=self.values(signal),
                periods_each=self.periods_each,
                lost=self.lost(loss),
                periods=[
                    Period(
                        sent=float(row["sent"]) if row["sent"] else None,
                        received_ns=int(row["received_ns"]) if row["received_ns"] else None,
                        position=float(row["position"]),
                    )
                    for row in rows
                ],
            )
            for (signal, predictor, loss), rows in found
        ]

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        said = (
            f"{its.source} sends a value each {duration(its.interval_ns)} to {its.edge}, which "
            f"looks for one each {duration(its.period_ns)}: with prediction none it passes on what "
            "has come, with hold it sends the last value in every period, with line what the last "
            f"two say. Frames from {its.edge} to {its.device} are lost by number, drawn by seed, "
            "so that what the device gets can be computed."
        )
        return [said, *not_judged(platform)]


def _toggles(runs: Sequence[Run]) -> Sheet:
    rows = []
    for each in (each for each in runs if each.signal == TOGGLE):
        gaps_ns = each.gaps_ns
        ends = (min(gaps_ns), max(gaps_ns)) if gaps_ns else ()
        rows.append(
            [
                *(each.predictor, str(each.loss_percent), str(each.sent), str(each.arrived)),
                f"{len(each.changes_ns)} of {len(each.values)}",
                " … ".join(f"{gap_ns / 1e6:.3f}" for gap_ns in ends) or _NOTHING,
            ]
        )
    return Sheet(
        "Toggles at the device",
        [
            *("prediction", ">lost, %", ">frames sent", ">arrived", ">changes"),
            ">from one to the next, ms",
        ],
        rows,
    )


def _ramps(runs: Sequence[Run]) -> Sheet:
    return Sheet(
        "How far the device is from a ramp, in parts of its height",
        ["prediction", ">lost, %", ">frames sent", ">arrived", ">mean", ">max"],
        [
            [
                *(each.predictor, str(each.loss_percent), str(each.sent), str(each.arrived)),
                *(f"{statistics.fmean(each.errors):.4f}", f"{max(each.errors):.4f}"),
            ]
            for each in runs
            if each.signal == RAMP
        ],
    )
