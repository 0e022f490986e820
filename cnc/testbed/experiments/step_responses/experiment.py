"""Step responses of one control loop over round-trip time and loss.

The loop is closed between two stations of a lab, without a schedule and without other frames; what
is changed is how long its frames take, and which of them are lost. Every curve that is measured is
compared with the recursion of plant and controller. Times in rows count from the start of each run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cnc.errors import InputError
from cnc.loops.model import Accepted, Loop, PiController
from cnc.model import Intent, Plan
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.description import StepResponsesDescription
from cnc.testbed.experiments.experiment import Progress, Report, read_rows, write_rows
from cnc.testbed.experiments.step_responses import sheets
from cnc.testbed.experiments.step_responses.figures import (
    Cell,
    Measured,
    computed,
    draw,
    order_disagreements,
    over,
)
from cnc.testbed.experiments.step_responses.impairment import LOST_MAX, Impairment, impaired
from cnc.testbed.experiments.step_responses.pictures import step_responses_pictures
from cnc.testbed.experiments.step_responses.tuning import compare
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.run import Curve

COLUMNS = ("round_trip_ns", "loss", "seed", *run.COLUMNS)


@dataclass(frozen=True, slots=True)
class StepResponses:
    """The experiment of a file of kind step-responses."""

    description: StepResponsesDescription
    plan: Plan
    loop: Loop
    controller: PiController
    accepted: Accepted
    flows: tuple[Flow, Flow]

    @classmethod
    def of(cls, description: StepResponsesDescription, file: Path) -> StepResponses:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, or has no loop whose curve can be computed and
                judged.
            Unschedulable: its network has no plan.
        """
        plan = planned.plan(description.network, file, description.name, description.seed)
        loop = planned.stepped_loop(plan, description.loop, file)
        controller, accepted = _fit(loop, description, file)
        sensor, actuator = run.loop_flows(plan, loop)
        if not isinstance(sensor, Flow) or not isinstance(actuator, Flow):
            raise InputError(
                f"{file}: network: {description.network} is bridged, and frames to be lost "
                "are identified by the headers of IP and UDP here",
                hint="choose a network with `forwarding: routed`",
            )
        return cls(description, plan, loop, controller, accepted, (sensor, actuator))

    @property
    def emulated(self) -> Intent:
        return self.plan.intent

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Run the loop at each round-trip time and each loss."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[list[object]]:
        for round_trip_ns in self.description.round_trips_ns:
            for loss in self.description.losses:
                progress(f"round trip {duration(round_trip_ns)}, {loss} % lost")
                seeds: Sequence[int | None] = self.description.seeds if loss else [None]
                for seed in seeds:
                    curve = self._run(running, round_trip_ns, loss, seed)
                    for period in curve.periods:
                        yield [round_trip_ns, loss, seed, *run.cells(period)]

    def _run(self, running: Lab, round_trip_ns: int, loss: int, seed: int | None) -> Curve:
        loop = over(self.loop, round_trip_ns)
        impairments = self.impairments(round_trip_ns, loss, seed)
        with (
            tempfile.TemporaryDirectory() as scratch,
            impaired(running, impairments),
            running.quiet(),
        ):
            return run.run(
                running,
                self.plan,
                loop,
                Path(scratch),
                drain_ns=sending.DRAIN_NS + round_trip_ns,
                answers_ns=sending.unplanned_answers_ns(loop),
            )

    def impairments(
        self, round_trip_ns: int, loss: int, seed: int | None
    ) -> tuple[Impairment, Impairment]:
        """What befalls samples and commands."""
        sensor, actuator = self.flows
        lost = draw(self.loop.periods, loss, seed)
        there_ns = round_trip_ns // 2
        return (
            self._impairment(sensor, there_ns, lost.samples),
            self._impairment(actuator, round_trip_ns - there_ns, lost.commands),
        )

    def _impairment(self, flow: Flow, delay_ns: int, lost: frozenset[int]) -> Impairment:
        port = self.plan.streams[flow.name].hops[0].egress.port
        return Impairment(flow.talker, port, flow.ip_version, delay_ns, lost)

    def report(self, directory: Path, platform: Platform) -> Report:
        cells = self._cells(directory)
        tune = self.description.tune
        comparison = compare(self.loop, self.controller, tune) if tune else None
        wrong = []
        if platform.exact:
            measured = (each for cell in cells for each in cell.curves)
            wrong += [why for each in measured if (why := each.disagreement())]
            wrong += order_disagreements(cells)
        if comparison and (why := comparison.disagreement()):
            wrong.append(why)
        return Report(
            summary={
                "loop": self.loop.name,
                "points": [cell.document(self.accepted) for cell in cells],
                "tuning": comparison and comparison.document(),
            },
            sheets=[
                sheets.grid(cells, self.accepted),
                *([sheets.tuning(comparison)] if comparison else []),
            ],
            pictures=step_responses_pictures(cells, self.accepted, comparison),
            disagreements=wrong,
            remarks=self._remarks(platform),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _cells(self, directory: Path) -> list[Cell]:
        cells: dict[tuple[int, int], list[Measured]] = {}
        of_curve = groupby(
            read_rows(directory), lambda row: (row["round_trip_ns"], row["loss"], row["seed"])
        )
        for (round_trip, loss_percent, seed), rows in of_curve:
            one = self._measured(
                int(round_trip),
                int(loss_percent),
                int(seed) if seed else None,
                [run.period_of(row) for row in rows],
            )
            cells.setdefault((one.round_trip_ns, one.loss_percent), []).append(one)
        return [Cell(*point, curves) for point, curves in cells.items()]

    def _measured(
        self, round_trip_ns: int, loss: int, seed: int | None, periods: Sequence[run.Period]
    ) -> Measured:
        loop = over(self.loop, round_trip_ns)
        drawn = draw(loop.periods, loss, seed)
        curve, expected = Curve(loop, periods), computed(loop, drawn)
        return Measured(round_trip_ns, loss, seed, curve, drawn, expected)

    def _remarks(self, platform: Platform) -> list[str]:
        counts = (
            "A command acts the round-trip time and "
            f"{duration(self.loop.deadline_ns)} after its sample was taken. Of what is lost the "
            "last that came is held: the controller goes on with that sample, the plant with that "
            "command. Frames that are lost are drawn by seed and dropped one by one, so that the "
            "recursion of plant and controller has each curve, too."
        )
        if platform.exact:
            return [counts]
        return [counts, "On this clock programs take time: measured curves are not judged."]


def _fit(
    loop: Loop, description: StepResponsesDescription, file: Path
) -> tuple[PiController, Accepted]:
    """The controller of the loop, and the limits by which its curves are judged.

    Raises:
        InputError: the loop does not fit the experiment.
    """
    if loop.has_own_code or not isinstance(loop.controller, PiController):
        raise InputError(
            f"{file}: loop: {loop.name} has code of the operator's own, and its curves are "
            "not computed here",
            hint="choose a loop with a `pi` controller, and a plant without python",
        )
    if loop.accepted is None:
        raise InputError(
            f"{file}: loop: {loop.name} has no `accept`, and nothing says which curves are good",
            hint="give the loop limits of its rise time, its overshoot or both",
        )
    if loop.steps > 1:
        raise InputError(
            f"{file}: loop: {loop.name} has {loop.steps} steps, and a curve is one of one step",
            hint="leave out its key steps; `seeds` of the experiment repeat it",
        )
    if loop.periods > LOST_MAX:
        raise InputError(
            f"{file}: loop: {loop.name} has {loop.periods} periods, and the kernel's classifier "
            f"has room for the losses of {LOST_MAX}",
            hint="watch it for a shorter duration",
        )
    tune = description.tune
    for key, its in (
        ("round-trips", description.round_trips_ns),
        ("tune.round-trips", tune.round_trips_ns if tune else ()),
    ):
        if its and (acts_ns := its[-1] + loop.deadline_ns) >= loop.duration_ns:
            raise InputError(
                f"{file}: {key}: with {duration(its[-1])} the first command of {loop.name} acts "
                f"after {duration(acts_ns)}, and the loop is watched for "
                f"{duration(loop.duration_ns)}",
                hint="watch it longer, or leave out the longest",
            )
    return loop.controller, loop.accepted
