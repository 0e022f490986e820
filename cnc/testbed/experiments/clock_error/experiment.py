"""What it costs when switches' clocks differ by more than the plan allows for.

All switches of a lab share one clock. A switch whose clock is ahead does everything early; so its
gate control lists are pushed as they would look from the right clock: turned within their cycle.

Every switch takes as long as it may to hand a frame on. Else frames would be early at every gate,
and that would make good for wrong clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, takewhile
from pathlib import Path

from cnc.account.wire import control_ns
from cnc.errors import InputError
from cnc.model import GateControlList, GateEntry, Intent, Plan, transmission_ns
from cnc.rollout.goal import Goal
from cnc.rollout.rollout import roll_out
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.clock_error.figures import Point
from cnc.testbed.experiments.clock_error.pictures import clock_error_pictures
from cnc.testbed.experiments.description import ClockErrorDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows, write_rows
from cnc.testbed.lab import Lab
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.measure import Spread, summarise, wake_up_error
from cnc.testbed.traffic.recording import AnyFlow, flows

COLUMNS = ("error_ns", *planned.FRAME_COLUMNS)

_NOTHING = "–"  # noqa: RUF001
SHORTEST_FRAME_OCTETS = 60  # ETH_ZLEN: what has to fit every interval (sch_taprio.c)


@dataclass(frozen=True, slots=True)
class ClockError:
    """The experiment of a file of kind clock-error."""

    description: ClockErrorDescription
    plan: Plan
    sent: Sequence[AnyFlow]

    @classmethod
    def of(cls, description: ClockErrorDescription, file: Path) -> ClockError:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read or emulated, or lacks one of its switches.
            Unschedulable: its network has no plan.
        """
        # In spare room frames that miss their window leave at once: what a wrong clock does to the
        # windows would not be seen.
        plan = planned.plan(
            description.network, file, description.name, description.seed, recovers=False
        )
        known = plan.intent.network.bridges
        if unknown := [name for name in description.switches if name not in known]:
            raise InputError(
                f"{file}: switches: {plan.intent.name} has no switch {', '.join(unknown)}",
                hint=f"its switches are {', '.join(known)}",
            )
        return cls(description, plan, [f for f in flows(plan) if f.latency_bound_ns is not None])

    @property
    def emulated(self) -> Intent:
        return at_their_slowest(self.plan.intent)

    @property
    def errors_ns(self) -> list[int]:
        """From the clocks most behind to the clocks most ahead."""
        return sorted(
            {sign * error_ns for error_ns in self.description.errors_ns for sign in (-1, 1)}
        )

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push and send for each error in turn; times in rows count from the start of each."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        duration_ns = self.description.cycles * self.plan.intent.hyperperiod_ns()
        for error_ns in self.errors_ns:
            progress(
                f"clocks of {', '.join(self.description.switches)} ahead by {duration(error_ns)}"
            )
            # As lists, not as a plan: none would be let pass that has its lists turned, and where
            # they are cut an entry may be shorter than the network allows, if not the kernel.
            goal = replace(Goal.of(self.with_error(error_ns), "experiment"), plan=None)
            sending.await_schedule(roll_out(goal, connect=running.connect, history=None))
            recording = sending.record(running, self.sent, duration_ns)
            for row in planned.frame_rows(recording):
                yield error_ns, *row

    def with_error(self, error_ns: int) -> Plan:
        """The plan as it is carried out while the clocks are ahead by `error_ns`."""
        links = self.plan.intent.network.links
        gates = {
            port: early(
                gates, error_ns, transmission_ns(SHORTEST_FRAME_OCTETS, links[port].rate_bps)
            )
            if port.node in self.description.switches
            else gates
            for port, gates in self.plan.gates.items()
        }
        return replace(self.plan, gates=gates)

    def report(self, directory: Path, platform: Platform) -> Report:
        planned_ns = self.plan.intent.network.clock_error_ns
        points, frames = [], []
        for text, rows in groupby(read_rows(directory), key=lambda row: row["error_ns"]):
            recorded = list(planned.frames(rows))
            plan = self.with_error(int(text))
            streams = summarise(plan, self.sent, recorded, timed_wires=platform.exact)
            points.append(Point(int(text), streams))
            frames += recorded
        wake_up = wake_up_error(self.sent, frames)
        wrong = [line for point in points if (line := point.disagreement(planned_ns))]
        return Report(
            summary={
                "planned_clock_error_ns": planned_ns,
                "switches": self.description.switches,
                "points": [point.document() for point in points],
                "clock": platform.clock,
                "wake_up_error_ns": asdict(wake_up),
            },
            sheets=[_table(points, planned_ns)],
            pictures=clock_error_pictures(points, planned_ns),
            disagreements=wrong if platform.exact else [],
            remarks=[
                *_cliffs(points),
                self._reserves(),
                _beside(platform, wake_up),
            ],
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _reserves(self) -> str:
        """Why frames are not late as soon as clocks are worse than planned for."""
        intent, network = self.plan.intent, self.plan.intent.network
        kept_ns = max(control_ns(intent, link) for link in network.links.values())
        return (
            f"The network is planned for {duration(network.clock_error_ns)}. More does no harm "
            "yet, for the plan keeps more: at every gate, and again at the end of the way, that "
            f"error and up to {duration(kept_ns)} for control frames; and none were "
            "sent. About what is kept at two places has to be used up before a frame is late. A "
            "frame that comes too late for its window leaves in the next that is open for its "
            "class: another frame's, or its own a period later. So from there on more error may "
            "well mean fewer frames that are late."
        )


def _cliffs(points: Sequence[Point]) -> list[str]:
    """Between which errors frames begin to be late, for clocks behind and for clocks ahead."""
    remarks = []
    for sign, where in ((-1, "behind"), (1, "ahead")):
        side = sorted((p for p in points if p.error_ns * sign >= 0), key=lambda p: abs(p.error_ns))
        good = list(takewhile(lambda point: not point.late + point.lost, side))
        if good and len(good) < len(side):
            last, first = abs(good[-1].error_ns), side[len(good)]
            remarks.append(
                f"Clocks {where}: no frame is late up to {duration(last)}; at "
                f"{duration(abs(first.error_ns))} {first.late} of {first.frames} are."
            )
        elif good:
            remarks.append(f"Clocks {where}: no frame is late.")
    return remarks


def _beside(platform: Platform, wake_up: Spread) -> str:
    if not platform.exact:
        return sending.not_exact(wake_up)
    return (
        "Every switch takes as long as it may to hand a frame on. Talkers, listeners and the other "
        "switches keep the right time. "
        f"Talkers woke {duration(wake_up.max_ns)} late at worst, which counts as latency: frames "
        "are late by that much sooner than on a network."
    )


def early(gates: GateControlList, ahead_ns: int, interval_min_ns: int) -> GateControlList:
    """The list of a switch whose clock is ahead, as the right clock sees it; below 0, behind.

    The gates' states at an instant are those of `gates` at that instant plus `ahead_ns`. The entry
    that is under way at the cycle's begin is cut in two, and a piece that is shorter than the port
    takes (`interval_min_ns`) joins its neighbour: one change of gates is off by that piece.
    """
    left_ns = ahead_ns % gates.cycle_ns
    before: list[GateEntry] = []
    after: list[GateEntry] = []
    for entry in gates.entries:
        passed_ns = min(left_ns, entry.interval_ns)
        left_ns -= passed_ns
        before.append(GateEntry(entry.gate_states, passed_ns))
        after.append(GateEntry(entry.gate_states, entry.interval_ns - passed_ns))
    entries = [entry for entry in (*after, *before) if entry.interval_ns]
    for piece, neighbour in ((0, 1), (-1, -2)):
        if len(entries) > 1 and entries[piece].interval_ns < interval_min_ns:
            longer_ns = entries[neighbour].interval_ns + entries[piece].interval_ns
            entries[neighbour] = replace(entries[neighbour], interval_ns=longer_ns)
            del entries[piece]
    return replace(gates, entries=tuple(entries))


def at_their_slowest(intent: Intent) -> Intent:
    """The same network, of switches that take the most time to hand a frame on."""
    bridges = {
        name: replace(bridge, processing_min_ns=bridge.processing_max_ns)
        for name, bridge in intent.network.bridges.items()
    }
    return replace(intent, network=replace(intent.network, bridges=bridges))


def _table(points: Sequence[Point], planned_ns: int) -> Sheet:
    def us(time_ns: int | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / 1000:.1f}"

    return Sheet(
        "All streams over the error of the clock: below 0 it is behind, and gates are late",
        [
            *(">error, µs", "planned for", ">frames", ">late", ">late, %", ">lost"),
            *(">greatest latency, µs", ">worst beyond bound, µs", "streams with late frames"),
        ],
        [
            [
                *(us(point.error_ns), "yes" if abs(point.error_ns) <= planned_ns else "no"),
                *(str(point.frames), str(point.late), f"{100 * point.late / point.frames:.1f}"),
                *(str(point.lost), us(point.max_ns), us(point.worst_over_bound_ns)),
                ", ".join(s.flow.name for s in point.streams if s.late) or _NOTHING,
            ]
            for point in points
        ],
    )
