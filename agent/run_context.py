"""What stalls a software schedule: a link that went down, a clock that was set back.

Pure. sch_taprio.c moves the gates of a port by one timer, and that timer

* is cancelled when the link goes down and not started when it comes up again (taprio_reset, called
  by dev_deactivate): from then on no frame leaves but those of a class that is always open;
* expires at instants of the schedule's clock: after a step back the gates stay as they are until
  the old time has come again, also through a change in place, which waits for that timer.

A step ahead needs nothing: the timer runs through the entries that were missed (advance_sched).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.mechanisms.gates.model import GateState, TaprioMode
from agent.model import Clock, PortState

# Shorter ones, which a schedule outlasts, are left to the servo of the PTP daemon: what
# ptp4l(8) takes as first_step_threshold.
STEP_MIN_NS = 20_000


@dataclass(frozen=True, slots=True)
class Link:
    """What a port's link was last seen to do to its schedule.

    `carrier_losses`: how often it had gone down when the schedule could still move; None once it
    was seen to go down. A port that has yet to get its first link keeps its number: nothing has
    stopped the timer of a list that was set before.
    """

    carrier_losses: int | None
    is_up: bool


@dataclass(frozen=True, slots=True)
class RunContext:
    """The clocks and carriers that schedules run by, as last seen.

    `clock_offsets_ns`: how far each clock that can be set is ahead of CLOCK_MONOTONIC, which
    cannot. `links` is by port.
    """

    clock_offsets_ns: Mapping[Clock, int] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)

    def steps_ns(self, now: RunContext) -> dict[Clock, int]:
        """By how much clocks were set ahead since; only those that were set."""
        steps_ns = {
            clock: offset_ns - self.clock_offsets_ns.get(clock, offset_ns)
            for clock, offset_ns in now.clock_offsets_ns.items()
        }
        return {clock: step for clock, step in steps_ns.items() if abs(step) >= STEP_MIN_NS}

    def stopped(self, ports: Iterable[str]) -> RunContext:
        """The same, but the schedules of these ports have stalled."""
        links = dict.fromkeys(ports, Link(None, is_up=False))
        return replace(self, links={**self.links, **links})


def assumed_context(states: Mapping[str, PortState]) -> RunContext:
    """What is assumed of schedules that an agent finds without knowing where they come from.

    They move, but for those of ports without a link: these may have had one, and lost it.
    """
    return RunContext(
        links={
            name: Link(None, is_up=False)
            for name, state in states.items()
            if state[GateState].taprio is not None and not state.link_is_up
        }
    )


def run_context(
    ports: Iterable[str],
    states: Mapping[str, PortState],
    clock_offsets_ns: Mapping[Clock, int],
    known: RunContext,
) -> RunContext:
    """The context that the schedules of `ports` run in now.

    A clock that was not set keeps its `known` offset: each reading of it differs a little.
    """
    now = RunContext(
        clock_offsets_ns,
        {port: _link(states.get(port), known.links.get(port)) for port in ports},
    )
    stepped = known.steps_ns(now)
    kept = {c: ns for c, ns in known.clock_offsets_ns.items() if c not in stepped}
    return replace(now, clock_offsets_ns={**clock_offsets_ns, **kept})


def _link(state: PortState | None, known: Link | None) -> Link:
    if state is None:
        return Link(None, is_up=False)
    if state.link_is_up or known is None:
        return Link(state.carrier_losses, state.link_is_up)
    return Link(None, is_up=False) if known.is_up else known


def stalled_ports(
    states: Mapping[str, PortState], before: RunContext, now: RunContext
) -> list[str]:
    """The ports whose schedules have stalled and must be set again."""
    steps_ns = before.steps_ns(now)
    return [
        name
        for name, state in states.items()
        if (taprio := state[GateState].taprio) is not None
        and taprio.mode is TaprioMode.SOFTWARE
        and state.link_is_up
        and (
            (name in before.links and before.links[name].carrier_losses != state.carrier_losses)
            or (state[GateState].running is not None and steps_ns.get(taprio.clock, 0) < 0)
        )
    ]
