"""What a disturbance leaves at one port, and when that is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cnc.mechanisms.terms import control_backlog_ns, control_share, longest_unplanned_ns
from cnc.model import ClassRole
from cnc.planner.backlog import Ahead, Backlog, Clearing, Coming, openings

if TYPE_CHECKING:
    from cnc.planner.lateness.state import State


class Port(NamedTuple):
    """A port: the visits that cross it, and what becomes of what a disturbance leaves there.

    `disturbed` holds after a disturbance here, `calm` after one elsewhere that makes the frames be
    there later than on plan, by `later_ns` in the order of the visits.
    """

    visits: list[int]
    backlog: Backlog
    disturbed: Clearing
    calm: Clearing
    later_ns: Sequence[int]


def port_of(state: State, link: int) -> Port:
    """The queues of all classes of a port together; no frame comes late yet."""
    intent, its = state.intent, state.links[link]
    gates, numbers = state.gates[its.source], list(state.crossing[link])
    visits = [state.visits[number] for number in numbers]
    classes = {visit.traffic_class for visit in visits}
    best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
    opened = sum(1 << number for number in classes)
    shut = sum(1 << c.number for c in best_effort if c.number > min(classes))
    longest = max(visit.wire_ns for visit in visits)
    # One that its talker sent at any time; of those that are dropped then none comes here.
    odd = max((visit.wire_ns for visit in visits if not visit.is_dropped), default=0)
    once = odd + longest_unplanned_ns(intent, its)
    once += control_backlog_ns(intent, its) + intent.network.gate_margin_ns
    backlog = Backlog(
        gates.cycle_ns,
        openings(gates, opened, shut, its.gate_early_ns),
        [Coming(v.period_ns, v.earliest_ns, v.gone_ns, v.wire_ns) for v in visits],
        Ahead(
            once,
            *control_share(intent, its),
            unfit_ns=longest - odd,
        ),
    )
    disturbed = backlog.clearing(state.disturbance_ns)
    return Port(numbers, backlog, disturbed, disturbed, ())


def feeders_of(state: State, link: int) -> dict[int, int]:
    """Which ports feed one, and how long the way is."""
    ways: dict[int, int] = {}
    for number in state.crossing[link]:
        visit = state.visits[number]
        if visit.parent is not None:
            feeder = state.visits[visit.parent].link
            ways[feeder] = max(visit.way_ns, ways.get(feeder, visit.way_ns))
    return ways
