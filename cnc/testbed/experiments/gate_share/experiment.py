"""What a share of the cycle does to traffic that does not know the cycle.

Its intent is planned and pushed like every other; then both senders send. A frame's time at the
gate is that from the sender to its reception, less what frames take where there is no schedule.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cnc.errors import InputError
from cnc.model import Intent
from cnc.planner import plan
from cnc.rollout.goal import Goal
from cnc.rollout.rollout import roll_out
from cnc.support.format import duration
from cnc.testbed.experiments import sending
from cnc.testbed.experiments.description import GateShareDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows, write_rows
from cnc.testbed.experiments.gate_share import gateway
from cnc.testbed.experiments.gate_share.beside import Beside, beside_table
from cnc.testbed.experiments.gate_share.figures import Point
from cnc.testbed.experiments.gate_share.gateway import TALKERS
from cnc.testbed.experiments.gate_share.pictures import gate_share_pictures
from cnc.testbed.lab import Lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.measure import Spread, spread

COLUMNS = ("share", "class", "seq", "planned_ns", "sent_ns", "left_ns", "received_ns")
_NOTHING = "–"  # noqa: RUF001
UNGATED_FRAMES = 200  # of each class, for what the path takes without a gate


@dataclass(frozen=True, slots=True)
class GateShare:
    """The experiment of a file of kind gate-share."""

    description: GateShareDescription

    @classmethod
    def of(cls, description: GateShareDescription, file: Path) -> GateShare:
        """The experiment of a file.

        Raises:
            InputError: the closed form, by which it is to be judged, does not describe it; or a
                share leaves a class no time for one of its frames.
            Unschedulable: a share leaves none to the stream that is planned beside it.
        """
        if description.closed_form and (reason := gateway.meeting(description)):
            raise InputError(
                f"{file}: {reason}; the closed form describes frames that wait for the gate alone",
                hint="choose fewer frames-per-cycle, a higher rate or other shares; or, to measure "
                "without judging, `closed-form: false`",
            )
        for share in description.shares:
            gateway.planned(description, share)
        return cls(description)

    @property
    def emulated(self) -> Intent:
        return gateway.intent(self.description)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Send without a schedule, then at each share; times in rows count from the start of each.

        The column `share` is empty where there is no schedule.
        """
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        progress("without a schedule")
        self._push(running, None)
        for flow in gateway.flows(self.description):  # alone: they would hold each other up
            yield from self._sent(running, "", UNGATED_FRAMES, [flow])
        for share in self.description.shares:
            progress(f"{share} % of the cycle for high priority")
            self._push(running, share)
            flows = gateway.flows(self.description)
            if self.description.beside:
                flows.append(gateway.planned_flow(self.description, share))
            yield from self._sent(running, str(share), self.description.frames, flows)

    def _push(self, running: Lab, share: int | None) -> None:
        its = gateway.planned(self.description, share) if share else plan(self.emulated)
        goal = Goal.of(its, "experiment")
        sending.await_schedule(roll_out(goal, connect=running.connect, history=None))

    def _sent(
        self, running: Lab, share: str, frames: int, flows: Sequence[Flow]
    ) -> Iterator[tuple[object, ...]]:
        duration_ns = frames * self.description.period_ns
        recording = sending.record(running, flows, duration_ns, stamps=True)
        for f in recording:
            times = (f.planned_ns, f.sent_ns, f.left_ns, f.received_ns)
            since = ("" if at is None else at - recording.start_ns for at in times)
            yield share, f.flow, f.seq, *since

    def report(self, directory: Path, platform: Platform) -> Report:
        points, wake_up, beside = self._read(directory)
        judged: list[Point | Beside] = [*points, *beside] if platform.exact else []
        wrong = [why for each in judged if (why := each.disagreement())]
        return Report(
            summary={
                "cycle_ns": self.description.cycle_ns,
                "wake_up_error_ns": asdict(wake_up),
                "points": [point.document() for point in points],
                "linear_fit": _linear_fits(points),
                "beside": [each.document() for each in beside],
            },
            sheets=[_table(points), *([beside_table(beside)] if beside else [])],
            pictures=gate_share_pictures(self.description, points),
            disagreements=wrong,
            remarks=[self._arrivals(), self._beside(platform, wake_up)],
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _read(self, directory: Path) -> tuple[list[Point], Spread, list[Beside]]:
        """The points by share and class, how late the senders were woken, and what became of the
        stream beside them."""
        by_point: dict[tuple[str, str], list[dict[str, str]]] = {}
        wake_ups_ns = []
        for row in read_rows(directory):
            by_point.setdefault((row["share"], row["class"]), []).append(row)
            wake_ups_ns.append(int(row["sent_ns"]) - int(row["planned_ns"]))
        path_ns = {
            name: spread(_on_the_way_ns(rows)).p50_ns
            for (share, name), rows in by_point.items()
            if not share
        }
        points = [
            Point(
                share=int(share),
                name=name,
                sent=len(rows),
                path_ns=path_ns[name],
                at_gate_ns=[time_ns - path_ns[name] for time_ns in _on_the_way_ns(rows)],
                closed_ns=gateway.closed_ns(name, int(share), self.description.cycle_ns),
                expected_mean_ns=self._expected_mean_ns(name, int(share)),
            )
            for (share, name), rows in by_point.items()
            if share and name != gateway.PLANNED
        ]
        points.sort(key=lambda point: (point.share, point.name))
        beside = [
            Beside.of(int(share), gateway.planned_flow(self.description, int(share)), rows)
            for (share, name), rows in by_point.items()
            if name == gateway.PLANNED
        ]
        return points, spread(wake_ups_ns), beside

    def _expected_mean_ns(self, name: str, share: int) -> float | None:
        if not self.description.closed_form:
            return None
        shut_ns = gateway.shut_ns(self.description, name, share)
        return gateway.expected_mean_ns(shut_ns, self.description.cycle_ns)

    def _arrivals(self) -> str:
        period = duration(self.description.period_ns)
        return (
            f"Frames arrive uniformly over the cycle: with a period of {period} a sender drifts "
            f"through it, and its {self.description.frames:,} frames meet as many evenly spread "
            "phases, each once."
        )

    def _beside(self, platform: Platform, wake_up: Spread) -> str:
        if not platform.exact:
            return sending.not_exact(wake_up)
        return (
            "The gate holds a frame back that would not be sent before it closes, which lengthens "
            "the closed part by the transmission time of one frame, "
            f"{duration(self.description.transmission_ns)}. Senders woke "
            f"{duration(wake_up.max_ns)} late at worst."
        )


def _on_the_way_ns(rows: Sequence[Mapping[str, str]]) -> list[int]:
    """From leaving the sender to reception, of the frames that arrived, by their numbers."""
    return [
        int(row["received_ns"]) - int(row["left_ns"])
        for row in sorted(rows, key=lambda row: int(row["seq"]))
        if row["received_ns"]
    ]


def _linear_fits(points: Sequence[Point]) -> dict[str, float] | None:
    """How straight the means are over the shares: R² of a straight line, by class."""
    by_class = {
        name: [(point.share, point.mean_ns) for point in points if point.name == name]
        for name in TALKERS
    }
    if any(len(each) < 3 for each in by_class.values()):  # noqa: PLR2004  two are always straight
        return None
    return {
        name: round(statistics.correlation(*zip(*each, strict=True)) ** 2, 4)
        for name, each in by_class.items()
    }


def _table(points: Sequence[Point]) -> Sheet:
    def us(time_ns: float | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / 1000:.1f}"

    return Sheet(
        "Time at the gate, and jitter: how much two frames in a row differ",
        [
            *("class", ">share, %", ">frames", ">lost", ">mean, µs", ">closed form, µs"),
            *(">p80, µs", ">max, µs", ">jitter p80, µs", ">closed, µs"),
        ],
        [
            [
                *(point.name, str(point.share), str(point.sent), str(point.lost)),
                *(us(point.mean_ns), us(point.expected_mean_ns)),
                *(us(figures["p80_ns"]), us(figures["max_ns"]), us(figures["p80_jitter_ns"])),
                us(point.closed_ns),
            ]
            for point in sorted(points, key=lambda point: point.name, reverse=True)
            for figures in (point.document(),)
        ],
    )
