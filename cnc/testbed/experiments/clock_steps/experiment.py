"""Rollouts while a clock settles, and while the clock of a switch is set in their middle.

In a lab with a kernel and an oscillator for each node, which ptp4l keeps together:

settling   the ptp4l of a switch is started again: a push is refused until its clock has settled
a step     the clock of the switch is set ahead in the middle of a push, by another time in each
           turn, while streams are sent

Two schedules take turns: with and without one stream. The others stay as they are in both, so that
each of their frames has one bound throughout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.model import NS_PER_S, Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.rollout.events import Listener, StepBegun, ignore
from cnc.support.format import duration
from cnc.talker import tai_ns
from cnc.testbed.experiments import clocked, planned, sending
from cnc.testbed.experiments.clock_loss.figures import part_of
from cnc.testbed.experiments.clock_steps.figures import (
    PUSH_COLUMNS,
    PUSHED,
    Push,
    Runs,
    Turn,
    settling_disagreements,
    truth_of,
)
from cnc.testbed.experiments.clock_steps.pictures import clock_steps_pictures
from cnc.testbed.experiments.clocked import Act, Clocks
from cnc.testbed.experiments.description import ClockStepsDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows, write_rows
from cnc.testbed.lab.kernels import gptp
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.recording import AnyFlow, flows

PUSHES = "pushes.csv"
SETTLING, SETTLED = "settling", "settled"
BEGINS_AFTER_NS = NS_PER_S // 2  # of the start of sending
# For a ptp4l that is started again to follow, and to have measured for some of ten seconds.
_FOLLOWS_AFTER_S = 6
_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class ClockSteps:
    """The experiment of a file of kind clock-steps: `whole` has all streams, `lesser` lacks one."""

    description: ClockStepsDescription
    whole: Plan
    lesser: Plan
    sent: Sequence[AnyFlow]

    @classmethod
    def of(cls, description: ClockStepsDescription, file: Path) -> ClockSteps:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read or emulated, lacks its switch or its stream, or
                bridges.
            Unschedulable: its network has no plan.
        """
        why = "a rollout waits for the previous paths of streams there"
        intent = clocked.network_of(description, file, why)
        adds = description.adds
        if adds not in intent.streams or len(intent.streams) == 1:
            raise InputError(
                f"{file}: adds: the network has no stream {adds} beside others",
                hint=f"its streams are {', '.join(intent.streams)}",
            )
        others = {name: each for name, each in intent.streams.items() if name != adds}
        lesser = compute(replace(intent, streams=others), seed=description.seed)
        whole = compute(intent, keep=lesser, seed=description.seed)
        sent = [flow for flow in flows(lesser) if flow.latency_bound_ns is not None]
        return cls(description, whole, lesser, sent)

    @property
    def emulated(self) -> Intent:
        """The network with switches that take the most time to hand a frame on: frames that are
        early at a gate would make good for a wrong clock."""
        return clocked.at_their_slowest(self.whole.intent)

    def run_on(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push again and again; times in rows count from the start of sending in each part."""
        sending.await_schedule(push(self.lesser, connect=running.connect))
        progress("a push while a clock settles")
        pushes = self._settle(running)
        parts = clocked.Parts(running, self.sent)
        for by_ns in self.description.steps_ns:
            progress(f"a step of {duration(by_ns)} in the middle of a push")
            turn = _Rollout(running, self, by_ns)
            acts = [Act(BEGINS_AFTER_NS, turn.roll_out)]
            start_ns = parts.record(turn.part, self.description.sends_for_ns, acts)
            pushes.append(turn.outcome(start_ns))
        parts.write(directory)
        write_rows(directory, PUSH_COLUMNS, [each.row() for each in pushes], PUSHES)

    def _settle(self, running: Lab) -> list[Push]:
        """Two pushes of the whole schedule: while the clock of the switch settles, and after."""
        clocks, switch = Clocks(running), self.description.switch
        clocks.stop_following(switch)
        clocks.follow_again(switch)
        time.sleep(_FOLLOWS_AFTER_S)
        found = []
        for part in (SETTLING, SETTLED):
            result = _pushed(running, self.whole)
            runs = running_now(running, self.whole, self.lesser)
            found.append(Push(part, 0, result, runs, None))
            gptp.await_settled(running)
        return found

    def report(self, directory: Path, platform: Platform) -> Report:
        truth = truth_of(clocked.read_offsets(directory))
        refused, accepted, *stepped = map(Push.of, read_rows(directory, PUSHES))
        nodes = [*self.emulated.network.bridges, *self.emulated.network.end_stations]
        parts = {
            part: part_of(self.sent, planned.frames(rows), truth[part], nodes)
            for part, rows in groupby(read_rows(directory), key=lambda row: row["part"])
        }
        switch, first = self.description.switch, gptp.grandmaster(self.emulated)
        turns = [Turn(each, parts[each.part], switch, first) for each in stepped]
        allowed_ns = self.emulated.network.clock_error_ns
        return Report(
            summary={
                "planned_clock_error_ns": allowed_ns,
                "switch": switch,
                "during": self.description.during,
                "settling": {"refused": refused.result, "then": accepted.result},
                "turns": [turn.document(allowed_ns) for turn in turns],
                "clock": platform.clock,
            },
            sheets=[_table(turns, allowed_ns)],
            pictures=clock_steps_pictures(turns, allowed_ns),
            disagreements=[
                *settling_disagreements(refused, accepted, switch),
                *(line for turn in turns for line in turn.disagreements(allowed_ns)),
            ],
            remarks=[f"While the clock of {switch} settled: {refused.result}", self._about()],
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _about(self) -> str:
        about = self.description
        return (
            f"The clock of {about.switch} is set when the step {about.during} of the rollout "
            "begins. Frames are those of the streams that both schedules have, "
            "judged in true time. In step: within the clock error of the plan, by true offsets. "
            f"{clocked.about_oscillators(about.oscillators_ppb)}"
        )


class _Rollout:
    """One rollout, in whose middle the clock of a switch is set."""

    def __init__(self, running: Lab, of: ClockSteps, by_ns: int) -> None:
        """From the schedule of the two that runs to the other one."""
        self._running = running
        self._about = of.description
        self._by_ns = by_ns
        runs_whole = running_now(running, of.whole, of.lesser) is Runs.NEW
        self._new, self._old = (of.lesser, of.whole) if runs_whole else (of.whole, of.lesser)
        self._stepped_ns: int | None = None
        self._result = ""
        self.part = f"step of {by_ns} ns"

    def roll_out(self) -> None:
        """Push, and keep what became of it."""
        self._result = _pushed(self._running, self._new, self._on_step)

    def _on_step(self, event: StepBegun) -> None:
        if event.step == self._about.during and self._stepped_ns is None:
            Clocks(self._running).step(self._about.switch, self._by_ns)
            self._stepped_ns = tai_ns()

    def outcome(self, start_ns: int) -> Push:
        """What all switches run now; `start_ns` is when sending began."""
        runs = running_now(self._running, self._new, self._old)
        stepped_ns = None if self._stepped_ns is None else self._stepped_ns - start_ns
        return Push(self.part, self._by_ns, self._result, runs, stepped_ns)


def _pushed(running: Lab, plan: Plan, listener: Listener = ignore) -> str:
    """PUSHED, or why the push was refused or taken back, in a line."""
    try:
        push(plan, connect=running.connect, listener=listener)
    except CncError as error:
        return "; ".join(str(error).splitlines())
    return PUSHED


def running_now(running: Lab, new: Plan, old: Plan) -> Runs:
    """Which of two schedules every port of the network runs, or is about to."""
    for runs, plan in ((Runs.NEW, new), (Runs.OLD, old)):
        if all(port.agrees for port in status(plan, connect=running.connect)):
            return runs
    return Runs.MIXED


def _table(turns: Sequence[Turn], allowed_ns: int) -> Sheet:
    return Sheet(
        "A step of the clock in the middle of a rollout: what the push said, which schedule every "
        "switch runs then, the frames of the streams that are in both, and when the last late one "
        "was sent and the clock was in step again, from the step on",
        [
            *("step", "push", "all run", ">frames", ">late", ">lost"),
            *(">last late after, s", ">in step after, s"),
        ],
        [
            [
                *(duration(turn.push.by_ns), turn.push.result, f"the {turn.push.runs} one"),
                *(f"{turn.part.frames:,}", f"{turn.part.late:,}", f"{turn.part.lost:,}"),
                *(_s(turn.last_bad_after_ns()), _s(turn.in_step_after_ns(allowed_ns))),
            ]
            for turn in turns
        ],
    )


def _s(time_ns: int | None) -> str:
    return _NOTHING if time_ns is None else f"{time_ns / NS_PER_S:.2f}"
