"""What a network makes of a control loop: one loop, one network run in three ways.

Every port sends at the rate of its link, in order of arrival, or the loop's frames first, or by the
plan; and beside the loop other stations send more and more. Times in rows count from the start of
each run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cnc.loops.model import Loop
from cnc.model import ClassRole, Intent, Plan
from cnc.rollout import push
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.control_loop import queues
from cnc.testbed.experiments.control_loop.figures import FIFO, NAMES, PRIORITY, SCHEDULE, Point
from cnc.testbed.experiments.control_loop.pictures import control_loop_pictures
from cnc.testbed.experiments.description import ControlLoopDescription
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.lab.addressing import way
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.flows import Flow, flow_of_class
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.run import Curve, Period

_NOTHING = "–"  # noqa: RUF001
COLUMNS = ("network", "load", *run.COLUMNS)  # and `run.further_columns` of the loop


@dataclass(frozen=True, slots=True)
class ControlLoop:
    """The experiment of a file of kind control-loop.

    `undisturbed` is what each output is over a network that is always in time; modules of the
    operator's are in the directory `modules`.
    """

    description: ControlLoopDescription
    plan: Plan
    loop: Loop
    undisturbed: Sequence[Sequence[float]]
    modules: Path

    @classmethod
    def of(cls, description: ControlLoopDescription, file: Path) -> ControlLoop:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, has no such loop or stations, or is bridged; or
                the loop follows a path.
            Unschedulable: its network has no plan.
            CncError: code of the operator's own failed.
        """
        plan = planned.plan(description.network, file, description.name, description.seed)
        intent = plan.intent
        why = "ports without a schedule tell frames apart by their DSCP here"
        planned.refuse_bridged(intent, description, file, why)
        loop = planned.stepped_loop(plan, description.loop, file)
        talkers = (("talkers", talker) for talker in description.talkers)
        named = [("listener", description.listener), *talkers]
        planned.refuse_unknown_stations(intent, file, named)
        run.loop_flows(plan, loop)
        modules = (file.parent / description.network).parent
        return cls(description, plan, loop, run.undisturbed_axes(loop, modules), modules)

    @property
    def emulated(self) -> Intent:
        return self.plan.intent

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Run the loop over each network beside each load."""
        columns = (*COLUMNS, *run.further_columns(self.loop))
        write_rows(directory, columns, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[list[object]]:
        ways: list[tuple[str, Callable[[Lab], None]]] = [
            (FIFO, queues.fifo),
            (PRIORITY, queues.strict_priority),
        ]
        answers_ns = sending.unplanned_answers_ns(self.loop)
        for network, prepare in ways:
            prepare(running)
            yield from self._curves(running, network, answers_ns, progress)
            queues.remove(running)
        sending.await_schedule(push(self.plan, connect=running.connect))
        yield from self._curves(running, SCHEDULE, None, progress)

    def _curves(
        self, running: Lab, network: str, answers_ns: int | None, progress: Progress
    ) -> Iterator[list[object]]:
        for load in self.description.loads:
            progress(f"{NAMES[network]}, {load} % of other frames")
            for period in self._run(running, load, answers_ns).periods:
                yield [network, load, *run.cells(period), *run.further_cells(period)]

    def _run(self, running: Lab, load: int, answers_ns: int | None) -> Curve:
        cycle_ns = self.emulated.hyperperiod_ns()
        with tempfile.TemporaryDirectory() as scratch, running.quiet():
            return run.run(
                running,
                self.plan,
                self.loop,
                Path(scratch),
                others=self.others(load) if load else (),
                modules=self.modules,
                lead_ns=-(-self.description.lead_ns // cycle_ns) * cycle_ns,
                drain_ns=sending.DRAIN_NS,
                answers_ns=answers_ns,
            )

    def others(self, load: int) -> list[Flow]:
        """The other frames that take so many per cent of the slowest link on their way."""
        intent, listener = self.emulated, self.description.listener
        talkers, octets = self.description.talkers, self.description.packet_octets
        frame_ns = max(
            intent.network.occupation_ns(link, octets)
            for talker in talkers
            for link in way(intent.network, talker, listener)
        )
        period_ns = frame_ns * 100 * len(talkers) // load
        return [
            replace(
                flow_of_class(intent, ClassRole.BEST_EFFORT, (talker, listener), octets, period_ns),
                name=f"others {talker}",
                offset_ns=period_ns * number // len(talkers),
            )
            for number, talker in enumerate(talkers)
        ]

    def report(self, directory: Path, platform: Platform) -> Report:
        points = self._points(directory)
        planned_ns = self.plan.loops[self.loop.name].total_ns
        wrong = [why for point in points if (why := point.disagreement(planned_ns))]
        return Report(
            summary={
                "planned_delay_ns": planned_ns,
                "deadline_ns": self.loop.deadline_ns,
                "points": [point.document() for point in points],
            },
            sheets=[_table(points)],
            pictures=control_loop_pictures(points, planned_ns),
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform, planned_ns),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _points(self, directory: Path) -> list[Point]:
        curves: dict[tuple[str, int], list[Period]] = {}
        for row in read_rows(directory):
            curves.setdefault((row["network"], int(row["load"])), []).append(run.period_of(row))
        return [
            Point(network, load, Curve(self.loop, periods), self.undisturbed)
            for (network, load), periods in curves.items()
        ]

    def _remarks(self, platform: Platform, planned_ns: int) -> list[str]:
        answers_ns = sending.unplanned_answers_ns(self.loop)
        counts = (
            "Plant and controller count in periods: a command that arrives by the deadline, "
            f"{duration(self.loop.deadline_ns)} after its sample, acts at the deadline; without "
            "one the last command continues to act. So two curves are equal if the same commands "
            "were in time."
        )
        stated = (
            f"The plan says that the loop takes {duration(planned_ns)} at most, before there is a "
            "network. Where no plan says when samples come, commands leave "
            f"{duration(answers_ns)} after them, so that both have as much of the deadline."
        )
        return [counts, " ".join([stated, *not_judged(platform)])]


def _table(points: Sequence[Point]) -> Sheet:
    def ms(time_ns: int | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / 1_000_000:g}"

    rows = []
    for point in points:
        its, delay = point.response, point.delay
        error_s = its.absolute_error_s
        rows.append(
            [
                *(NAMES[point.network], str(point.load), ms(its.rise_time_ns)),
                _NOTHING if its.overshoot is None else f"{100 * its.overshoot:.1f}",
                ms(its.settling_time_ns),
                _NOTHING if error_s is None else f"{1000 * error_s:.6g}",
                *(str(point.curve.missed), str(point.curve.lost_commands)),
                *((_NOTHING,) if delay is None else (f"{delay.max_ns / 1000:.1f}",)),
                "yes" if point.is_undisturbed else "no",
            ]
        )
    return Sheet(
        "Step responses; IAE is the integral of the error's amount",
        [
            *("network", ">load, %", ">rise time, ms", ">overshoot, %", ">settling time, ms"),
            *(">IAE, ms", ">missed", ">lost", ">delay max, µs", "as idle"),
        ],
        rows,
    )
