"""A schedule while ptp4l keeps the clocks together, and when it no longer does.

Three parts, one after the other, in a lab with a kernel and an oscillator for each node:

in-sync            ptp4l runs everywhere
grandmaster-away   that of the first switch is killed while all streams are sent, and comes back
runs-off           that of another one is killed, and its clock goes away from the others', by a
                   stated rate in each of several turns

ptp4l leaves a clock the frequency that it had, so that one whose ptp4l has died goes on well for as
long as its oscillator stays the same. In the third part it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from cnc.model import NS_PER_S, Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.support.format import duration
from cnc.testbed.experiments import clocked, planned, sending
from cnc.testbed.experiments.clock_loss.figures import Part, Turn, part_of
from cnc.testbed.experiments.clock_loss.pictures import clock_loss_pictures
from cnc.testbed.experiments.clock_loss.prediction import first_late_ns
from cnc.testbed.experiments.clocked import Act, Clocks
from cnc.testbed.experiments.description import ClockLossDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows
from cnc.testbed.lab.kernels import gptp
from cnc.testbed.lab.kernels.offsets import TrueOffsets
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.recording import AnyFlow, flows

IN_SYNC, GRANDMASTER_AWAY, RUNS_OFF = "in-sync", "grandmaster-away", "runs-off"
FAILS_AFTER_NS = NS_PER_S // 2  # of the start of sending
_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class ClockLoss:
    """The experiment of a file of kind clock-loss."""

    description: ClockLossDescription
    plan: Plan
    sent: Sequence[AnyFlow]

    @classmethod
    def of(cls, description: ClockLossDescription, file: Path) -> ClockLoss:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read or emulated, lacks its switch, or bridges.
            Unschedulable: its network has no plan.
        """
        why = "streams with several ways are not predicted"
        intent = clocked.network_of(description, file, why)
        plan = compute(intent, seed=description.seed)
        return cls(description, plan, [f for f in flows(plan) if f.latency_bound_ns is not None])

    @property
    def emulated(self) -> Intent:
        """The network with switches that take the most time to hand a frame on: frames that are
        early at a gate would make good for a wrong clock."""
        return clocked.at_their_slowest(self.plan.intent)

    def run_on(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push once, then send in each part; times in rows count from the start of each."""
        sending.await_schedule(push(self.plan, connect=running.connect))
        parts = clocked.Parts(running, self.sent)
        for part, (duration_ns, acts) in self._parts(Clocks(running)).items():
            progress(f"{part}: sending for {duration(duration_ns)}")
            parts.record(part, duration_ns, acts)
        parts.write(directory)

    def _parts(self, clocks: Clocks) -> dict[str, tuple[int, Sequence[Act]]]:
        """By its name how long to send in a part, and what happens meanwhile."""
        about = self.description
        first, switch = gptp.grandmaster(self.emulated), about.switch
        back_ns = self._back_ns
        ends_ns = FAILS_AFTER_NS + about.runs_off_for_ns
        parts: dict[str, tuple[int, Sequence[Act]]] = {
            IN_SYNC: (self.cycles * self.emulated.hyperperiod_ns(), ()),
            GRANDMASTER_AWAY: (
                back_ns + about.grandmaster_away_ns,
                (
                    Act(FAILS_AFTER_NS, partial(clocks.stop_following, first)),
                    Act(back_ns, partial(clocks.follow_again, first)),
                ),
            ),
        }
        for rate_ppb in about.runs_off_ppb:
            parts[_running_off(rate_ppb)] = (
                ends_ns,
                (
                    Act(FAILS_AFTER_NS, partial(clocks.stop_following, switch)),
                    Act(FAILS_AFTER_NS, partial(clocks.run_off, switch, rate_ppb)),
                    Act(ends_ns, partial(clocks.follow_again, switch)),
                ),
            )
        return parts

    @property
    def cycles(self) -> int:
        """How often the schedule goes round in sync until there are frames enough."""
        intent = self.emulated
        cycle_ns = intent.hyperperiod_ns()
        per_cycle = sum(cycle_ns // stream.period_ns for stream in intent.streams.values())
        return -(-self.description.frames // per_cycle)

    def report(self, directory: Path, platform: Platform) -> Report:
        truth = {part: TrueOffsets(its) for part, its in clocked.read_offsets(directory).items()}
        parts = {
            part: part_of(self.sent, planned.frames(rows), truth[part], self._nodes)
            for part, rows in groupby(read_rows(directory), key=lambda row: row["part"])
        }
        turns = [self._turn(rate_ppb, parts) for rate_ppb in self.description.runs_off_ppb]
        allowed_ns = self.emulated.network.clock_error_ns
        kept = {part: parts[part] for part in (IN_SYNC, GRANDMASTER_AWAY)}
        return Report(
            summary={
                "planned_clock_error_ns": allowed_ns,
                "switch": self.description.switch,
                "parts": {name: part.document() for name, part in parts.items()},
                "turns": [turn.document() for turn in turns],
                "clock": platform.clock,
            },
            sheets=[_parts_table(parts), _turns_table(turns)],
            pictures=clock_loss_pictures(
                kept[GRANDMASTER_AWAY],
                {"killed": FAILS_AFTER_NS, "back": self._back_ns},
                turns,
                allowed_ns,
            ),
            disagreements=[
                *(
                    line
                    for name, part in kept.items()
                    for line in part.disagreements(name, allowed_ns)
                ),
                *(line for turn in turns for line in turn.disagreements(allowed_ns)),
            ],
            remarks=self._remarks(turns),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    @property
    def _nodes(self) -> Sequence[str]:
        """Those whose clocks the plan counts on, the grandmaster first."""
        return [*self.emulated.network.bridges, *self.emulated.network.end_stations]

    @property
    def _back_ns(self) -> int:
        return FAILS_AFTER_NS + self.description.grandmaster_away_ns

    def _turn(self, rate_ppb: int, parts: Mapping[str, Part]) -> Turn:
        limit_ns = abs(rate_ppb) * self.description.runs_off_for_ns // NS_PER_S
        switch = self.description.switch
        return Turn(
            switch=switch,
            follows=gptp.grandmaster(self.emulated),
            rate_ppb=rate_ppb,
            fails_at_ns=FAILS_AFTER_NS,
            part=parts[_running_off(rate_ppb)],
            predicted=first_late_ns(
                replace(self.plan, intent=self.emulated),
                switch,
                ahead=rate_ppb > 0,
                limit_ns=limit_ns,
            ),
        )

    def _remarks(self, turns: Sequence[Turn]) -> list[str]:
        judged = (
            f"{clocked.about_oscillators(self.description.oscillators_ppb)} Latencies are in true "
            "time, by the true offsets of talker's and listener's clocks. A frame that its talker "
            "sent more than 1 µs late is not judged."
        )
        prediction = (
            "A prediction follows each frame through the gates of the plan, with those of the "
            "switch early or late by the error of its clock. A frame may be late sooner by what "
            "a control frame takes on its way, and reading a clock takes 256 ns."
        )
        return [judged, prediction, *(f"{turn.name}: {turn.verdict}" for turn in turns)]


def _running_off(rate_ppb: int) -> str:
    return f"{RUNS_OFF} {rate_ppb} ppb"


def _parts_table(parts: Mapping[str, Part]) -> Sheet:
    return Sheet(
        "Frames in each part, and the most that two clocks of the network differed",
        ["part", ">frames", ">sent late", ">late", ">lost", ">clocks differed, ns"],
        [
            [
                name,
                *(f"{part.frames:,}", str(part.sent_late), f"{part.late:,}", str(part.lost)),
                f"{part.clocks_differed_max_ns:,}",
            ]
            for name, part in parts.items()
        ],
    )


def _turns_table(turns: Sequence[Turn]) -> Sheet:
    return Sheet(
        "A clock runs off: when the first frame of each stream is late, after ptp4l has died",
        [
            *("clock", "stream", ">predicted error, µs", ">measured error, µs"),
            *(">predicted after, s", ">measured after, s", ">frames", ">late"),
        ],
        [
            [
                *(turn.name, its.stream, _us(turn.predicted.get(its.stream))),
                *(_us(turn.error_ns(its.first_late_ns)), _s(turn.predicted_after_ns(its.stream))),
                *(_s(turn.after_ns(its.first_late_ns)), str(its.frames), str(its.late)),
            ]
            for turn in turns
            for its in turn.part.streams
        ],
    )


def _us(time_ns: int | None) -> str:
    return _NOTHING if time_ns is None else f"{time_ns / 1000:.2f}"


def _s(time_ns: int | None) -> str:
    return _NOTHING if time_ns is None else f"{time_ns / NS_PER_S:.3f}"
