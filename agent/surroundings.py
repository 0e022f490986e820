"""What makes a software schedule stand still: a link that went down, a clock that was set back.

Pure. sch_taprio.c moves the gates of a port by one timer, and that timer

* is cancelled when the link goes down and not started when it comes up again (taprio_reset, called
  by dev_deactivate): from then on no frame leaves but those of a class that is always open;
* expires at instants of the schedule's clock: after a step back the gates stay as they are until
  the old time has come again, also through a change in place, which waits for that timer.

A step ahead mends itself: the timer runs through the entries that were missed (advance_sched).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.model import Clock, PortState, TaprioMode

# Shorter ones, which a schedule outlasts, are left to the servo of the PTP daemon: what
# ptp4l(8) takes as first_step_threshold.
STEP_MIN_NS = 20_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What schedules were last seen to run in.

    `clock_offsets_ns`: how far each clock that can be set is ahead of CLOCK_MONOTONIC, which
    cannot. `carrier_losses` is by port: how often its link had gone down; None while it
    is down, or there is no such port.
    """

    clock_offsets_ns: Mapping[Clock, int] = field(default_factory=dict)
    carrier_losses: Mapping[str, int | None] = field(default_factory=dict)

    def steps_ns(self, now: Surroundings) -> dict[Clock, int]:
        """By how much clocks were set ahead since; only those that were set."""
        steps_ns = {
            clock: offset_ns - self.clock_offsets_ns.get(clock, offset_ns)
            for clock, offset_ns in now.clock_offsets_ns.items()
        }
        return {clock: step for clock, step in steps_ns.items() if abs(step) >= STEP_MIN_NS}


def surroundings(
    ports: Iterable[str],
    states: Mapping[str, PortState],
    clock_offsets_ns: Mapping[Clock, int],
    known: Surroundings,
) -> Surroundings:
    """What the schedules of `ports` run in now. A clock that was not set keeps its `known` offset:
    reading one takes a while, which differs."""
    now = Surroundings(
        clock_offsets_ns,
        {
            port: states[port].carrier_losses if _has_link(states.get(port)) else None
            for port in ports
        },
    )
    stepped = known.steps_ns(now)
    kept = {c: ns for c, ns in known.clock_offsets_ns.items() if c not in stepped}
    return replace(now, clock_offsets_ns={**clock_offsets_ns, **kept})


def _has_link(state: PortState | None) -> bool:
    return state is not None and state.link_is_up


def standing_still(
    states: Mapping[str, PortState], before: Surroundings, now: Surroundings
) -> list[str]:
    """The ports whose gates must be set anew, as they could move again only from now on."""
    steps_ns = before.steps_ns(now)
    return [
        name
        for name, state in states.items()
        if state.taprio is not None
        and state.taprio.mode is TaprioMode.SOFTWARE
        and state.link_is_up
        and (
            before.carrier_losses.get(name, state.carrier_losses) != state.carrier_losses
            or (state.running is not None and steps_ns.get(state.taprio.clock, 0) < 0)
        )
    ]
