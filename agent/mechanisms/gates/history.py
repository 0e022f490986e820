"""What the kernel does not remember of a port's gate control lists: the state machine of 802.1Q.

The list configuration state machine of IEEE 802.1Q 8.6.9.3 keeps ConfigChangeTime and
ConfigChangeError; the kernel keeps neither. Pure functions, no clock and no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent.mechanisms.gates.model import GateConfig, GateSchedule, GateState, Taprio
from agent.model import Clock, PortConfig, PortState


@dataclass(frozen=True, slots=True)
class GateHistory:
    """The newest list asked for on one port, and what its change counted.

    `schedule` is as configured: the kernel may run it from another base time, whole cycles away.
    None: no gates are asked for. `change_time_ns` is when its first cycle starts: ConfigChangeTime.
    `change_errors` counts lists whose base time had passed while another ran: ConfigChangeError.
    """

    schedule: GateSchedule | None
    change_time_ns: int
    change_errors: int = 0

    def describes(self, state: GateState) -> bool:
        """Whether the kernel holds the list this was written for; else it is void."""
        if self.schedule is None:
            return state.taprio is None
        return state.moves_gates_as(self.schedule)


def history_after(
    history: Mapping[str, GateHistory],
    before: Mapping[str, PortState],
    desired: Mapping[str, PortConfig],
    now_ns: Callable[[Clock], int],
) -> dict[str, GateHistory]:
    """What to remember of each port in `before`, the kernel's words, once `desired` is in force.

    Only a list that differs from the one asked for last is a change: the same configuration once
    more, a draft, other rules or other classes are none.
    """
    after: dict[str, GateHistory] = {}
    for port, state in before.items():
        gates, past = state[GateState], history.get(port)
        if past is not None and not past.describes(gates):
            past = None
        taprio = desired[port][GateConfig].taprio if port in desired else None
        if taprio is not None:
            after[port] = _asked(past, gates, taprio, now_ns)
        elif past is not None:
            # The counter stays when the gates are removed.
            after[port] = replace(past, schedule=None)
    return after


def _asked(
    past: GateHistory | None, state: GateState, taprio: Taprio, now_ns: Callable[[Clock], int]
) -> GateHistory:
    asked, current = taprio.schedule, state.taprio
    if current is not None and current.clock is taprio.clock and state.moves_gates_as(asked):
        if past is None:
            # Set by an agent before this one; only the kernel saw when.
            return GateHistory(asked, current.schedule.base_time_ns)
        # A draft asks for nothing: `desired_ports` hands the kernel's own taprio back.
        if past.schedule == asked or taprio is current:
            return past
    now = now_ns(taprio.clock)
    # 802.1Q 8.6.9.3.1: only a list that has to take over from a running one can come too late.
    late = asked.base_time_ns < now and state.running is not None
    errors = past.change_errors if past else 0
    return GateHistory(asked, first_cycle_ns(asked, now), errors + late)


def first_cycle_ns(schedule: GateSchedule, now_ns: int) -> int:
    """When a schedule set at `now_ns` takes over: at its base time or the next cycle's start."""
    missed_cycles = -((schedule.base_time_ns - now_ns) // schedule.cycle_time_ns)
    return schedule.base_time_ns + max(0, missed_cycles) * schedule.cycle_time_ns
