"""Detects starved scheduled classes: compares backlog and sent frames between two polls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import GatesReport, KernelSchedule, PortReport
from cnc.finding import Check
from cnc.mechanism import Followed
from cnc.mechanisms.gates.kinds import Kind
from cnc.model import NS_PER_S, ClassRole, Intent
from cnc.support.format import counted

STANDSTILL_MIN_NS = 2 * NS_PER_S
STANDSTILL_MIN_CYCLES = 3
# How long one look at a switch may take. The duration of a cycle is the switch's own word, and a
# list with a longer one needs `cnc watch`.
WAIT_MAX_NS = 30 * NS_PER_S

HINT = (
    "a frame leaves in a window that is long enough for it, and for how late the gate opens: plan "
    "with a larger `gate-margin` and push again; unplanned frames may wait indefinitely"
)


@dataclass(frozen=True, slots=True)
class _Standstill:
    """Start of the time in which a class with a backlog has sent nothing, and the list that
    runs."""

    since_ns: int
    sent_frames: int
    schedule: KernelSchedule

    @property
    def needed_ns(self) -> int:
        """The duration from which on it is starvation."""
        return max(STANDSTILL_MIN_NS, STANDSTILL_MIN_CYCLES * self.schedule.gates.cycle_ns)


class Starvation:
    """Compares the polls of one switch: a class with a backlog that sends nothing is starved.

    Only the classes that the intent schedules are judged, on ports where their gate closes. While a
    list waits for its base time all gates are open, and no class is starved.
    """

    def __init__(self, intent: Intent, _node: str) -> None:
        self._scheduled = {each.number for each in intent.classes_with(ClassRole.SCHEDULED)}
        self._standstills: dict[tuple[str, int], _Standstill] = {}

    def update(self, state: SwitchState) -> dict[str, str]:
        """After this poll: a description of the starved classes by port."""
        starved: dict[str, list[str]] = {}
        before, self._standstills = self._standstills, {}
        for port, number, schedule in _waiting(state.ports, self._scheduled):
            traffic = state.ports[port][GatesReport].traffic[number]
            now = _Standstill(state.answered_ns, traffic.sent_frames, schedule)
            standstill = before.get((port, number), now)
            # Frames were sent, or the counter restarted with the queueing discipline.
            if (standstill.sent_frames, standstill.schedule) != (now.sent_frames, now.schedule):
                standstill = now
            self._standstills[port, number] = standstill
            lasted_ns = state.asked_ns - standstill.since_ns
            if lasted_ns >= standstill.needed_ns:
                starved.setdefault(port, []).append(
                    f"class {number} has {counted(traffic.backlog_frames, 'frame')} waiting and "
                    f"sent none in {lasted_ns // NS_PER_S} s"
                )
        return {port: ", ".join(classes) for port, classes in starved.items()}

    @property
    def next_poll_s(self) -> float:
        """How long to wait for a poll that can decide; 0 where no scheduled class has a backlog,
        or it takes longer than WAIT_MAX_NS."""
        needed_ns = (each.needed_ns for each in self._standstills.values())
        return max((each for each in needed_ns if each <= WAIT_MAX_NS), default=0) / NS_PER_S


FOLLOWED = Followed(Check.STARVATION, Kind.STARVED, HINT, Starvation)
"""Scheduled classes whose frames wait for a window that is long enough."""


def _waiting(
    reports: Mapping[str, PortReport], scheduled: Collection[int]
) -> Iterator[tuple[str, int, KernelSchedule]]:
    """Port, class and list, wherever frames of a scheduled class wait for their gate."""
    for port, report in reports.items():
        gates = report[GatesReport]
        running = gates.running
        if running is None or gates.pending or report.link_fault:
            continue
        for number, traffic in gates.traffic.items():
            always_open = all(entry.gate_states >> number & 1 for entry in running.gates.entries)
            if number in scheduled and traffic.backlog_frames and not always_open:
                yield port, number, running
