"""Desired minus actual: what a switch cannot take, and the steps to what it should do.

Pure functions; the kernel's words come in as `PortState`, the steps go out to `agent.kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from agent.model import AgentError, Clock, PortConfig, PortState, Schedule, Taprio, TaprioMode

PRIORITIES = 16  # Linux maps skb priorities 0..15 to traffic classes
MAX_CLASSES = 8  # 802.1Q; Linux would take 16
MAX_DSCP = 63
INT_MAX = 2**31 - 1  # the kernel's bound on a cycle
INT64_MAX = 2**63 - 1  # and on a time

MIN_FRAME_OCTETS = 60  # ETH_ZLEN: what the kernel wants to fit into every interval
SLOWEST_LINK_BPS = 10_000_000  # what the kernel assumes where it does not know the speed
BITS_NS_PER_S = 8 * 1_000_000_000
PS_PER_S = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class SetTaprio:
    """The port's gates: set, changed, or (`after` is None) opened for good."""

    port: str
    before: Taprio | None
    after: Taprio | None

    def describe(self) -> str:
        if self.after is None:
            return f"port {self.port}: remove the schedule"
        schedule = self.after.schedule
        return (
            f"port {self.port}: {'set' if self.before is None else 'change'} the schedule: "
            f"{len(schedule.entries)} entries, cycle {schedule.cycle_time_ns} ns, "
            f"base time {schedule.base_time_ns} ns"
        )


@dataclass(frozen=True, slots=True)
class SetDscpPriorities:
    """The skb priority that frames leaving by this port get by their DSCP."""

    port: str
    before: Mapping[int, int]
    after: Mapping[int, int]

    def describe(self) -> str:
        rules = ", ".join(f"DSCP {dscp} to {self.after[dscp]}" for dscp in sorted(self.after))
        return f"port {self.port}: priority by DSCP: {rules or 'no rule'}"


Step = SetTaprio | SetDscpPriorities


def plan_steps(desired: Mapping[str, PortConfig], actual: Mapping[str, PortState]) -> list[Step]:
    """The steps from `actual` to `desired`; none where they agree.

    Schedules go first, classification next, new schedules last: when gates begin to
    close, frames already are in their classes. A port absent from `desired` loses what we set.
    """
    removals: list[Step] = []
    rules: list[Step] = []
    settings: list[Step] = []
    for name, state in actual.items():
        config = desired.get(name) or PortConfig(name, None)
        if not _agrees(config.taprio, state):
            step = SetTaprio(name, state.taprio, config.taprio)
            (removals if config.taprio is None else settings).append(step)
        if dict(config.dscp_priorities) != dict(state.dscp_priorities):
            rules.append(SetDscpPriorities(name, state.dscp_priorities, config.dscp_priorities))
    return removals + rules + settings


def _agrees(wanted: Taprio | None, state: PortState) -> bool:
    """Whether the gates move as wanted already, now and for ever.

    A running schedule repeats, so a base time whole cycles away asks for nothing new, be it past
    or ahead. One that still waits must start exactly when wanted.
    """
    current = state.taprio
    if wanted is None or current is None:
        return wanted is current
    if state.pending is not None:
        return wanted == current
    shift_ns = wanted.schedule.base_time_ns - current.schedule.base_time_ns
    if shift_ns % current.schedule.cycle_time_ns:
        return False
    base_time_ns = current.schedule.base_time_ns
    return replace(wanted, schedule=replace(wanted.schedule, base_time_ns=base_time_ns)) == current


def validate(
    desired: Mapping[str, PortConfig],
    states: Mapping[str, PortState],
    *,
    gates_impossible: str | None = None,
    rules_impossible: str | None = None,
) -> list[str]:
    """Every reason why the switch cannot do what is desired, one line each; none when it can.

    `gates_impossible` and `rules_impossible` say why this kernel has no taprio, no classifier.
    """
    reasons: list[str] = []
    for name, config in desired.items():
        if config.taprio is None and not config.dscp_priorities:
            continue
        state = states.get(name)
        if state is None:
            known = ", ".join(sorted(states)) or "none"
            reasons.append(f"port {name}: no such interface; this switch has {known}")
            continue
        reasons += (f"port {name}: {problem}" for problem in _dscp_problems(config))
        if config.dscp_priorities and rules_impossible:
            reasons.append(f"port {name}: {rules_impossible}")
        if config.taprio is None:
            continue
        if gates_impossible:
            reasons.append(f"port {name}: {gates_impossible}")
        reasons += (f"port {name}: {problem}" for problem in _port_problems(config.taprio, state))
    return reasons


def _dscp_problems(config: PortConfig) -> Iterator[str]:
    for dscp, priority in sorted(config.dscp_priorities.items()):
        if not 0 <= dscp <= MAX_DSCP:
            hint = f"; the TOS byte {dscp:#x} holds DSCP {dscp >> 2}" if dscp % 4 == 0 else ""
            yield f"DSCP {dscp} is not within 0..{MAX_DSCP}{hint}"
        if not 0 <= priority < PRIORITIES:
            yield f"priority {priority} of DSCP {dscp} is not within 0..{PRIORITIES - 1}"


def _port_problems(taprio: Taprio, state: PortState) -> Iterator[str]:
    if state.foreign_qdisc:
        yield (
            f"its root qdisc {state.foreign_qdisc} was set by somebody else and is left alone; "
            f"remove it first (tc qdisc del dev {state.name} root)"
        )
    yield from _class_problems(taprio)
    yield from _queue_problems(taprio, state.tx_queues)
    yield from _schedule_problems(taprio.schedule, len(taprio.queues), state.link_speed_bps)
    if taprio.mode is TaprioMode.SOFTWARE:
        yield from _budget_problems(taprio.schedule, len(taprio.queues), state.link_speed_bps)
    if taprio.mode is TaprioMode.TXTIME_ASSIST:
        yield (
            f"mode {taprio.mode} needs an etf qdisc on every queue, which this agent does not set "
            f"up: frames would pass closed gates; use {TaprioMode.SOFTWARE} or "
            f"{TaprioMode.FULL_OFFLOAD}"
        )
    if taprio.mode is TaprioMode.FULL_OFFLOAD and taprio.clock is not Clock.TAI:
        yield (
            f"clock {taprio.clock} cannot be chosen with full-offload: the hardware's own runs the "
            "gates; leave the clock at tai"
        )


def _class_problems(taprio: Taprio) -> Iterator[str]:
    classes = len(taprio.queues)
    if not 1 <= classes <= MAX_CLASSES:
        yield f"{classes} traffic classes; 1..{MAX_CLASSES} are possible"
    if len(taprio.priority_map) != PRIORITIES:
        yield f"{len(taprio.priority_map)} priorities are mapped; Linux needs {PRIORITIES}"
    for priority, traffic_class in enumerate(taprio.priority_map):
        if not 0 <= traffic_class < classes:
            yield (
                f"priority {priority} leads to traffic class {traffic_class}; "
                f"the port has {classes} (0..{classes - 1})"
            )


def _queue_problems(taprio: Taprio, tx_queues: int) -> Iterator[str]:
    needed = max((queue.offset + queue.count for queue in taprio.queues), default=0)
    if needed > tx_queues:
        yield (
            f"needs {needed} TX queues, has {tx_queues} "
            "(the kernel: Multi-queue device is required); use an interface with more queues or "
            "fewer traffic classes"
        )
    for traffic_class, queue in enumerate(taprio.queues):
        if queue.count < 1:
            yield f"traffic class {traffic_class} has no queue"
    for (one, a), (other, b) in combinations(enumerate(taprio.queues), 2):
        if a.offset < b.offset + b.count and b.offset < a.offset + a.count:
            yield (
                f"traffic classes {one} and {other} share TX queues "
                f"({a.count}@{a.offset} and {b.count}@{b.offset})"
            )


def _schedule_problems(
    schedule: Schedule, classes: int, link_speed_bps: int | None
) -> Iterator[str]:
    cycle_ns = schedule.cycle_time_ns
    if not 1 <= cycle_ns <= INT_MAX:
        yield f"cycle time {cycle_ns} ns is not within 1..{INT_MAX}"
    if not 0 <= schedule.base_time_ns <= INT64_MAX - cycle_ns:
        yield f"base time {schedule.base_time_ns} ns is not within 0..{INT64_MAX - cycle_ns}"
    if not schedule.entries:
        yield "the gate control list is empty"
        return
    total_ns = sum(entry.interval_ns for entry in schedule.entries)
    if total_ns != cycle_ns:
        # Linux starts over when the list ends (a cycle shorter than asked for) and cuts a longer
        # list: either way the gates would not do what was written.
        yield f"the gate control list lasts {total_ns} ns, the cycle {cycle_ns}; make them equal"
    speed_bps = link_speed_bps or SLOWEST_LINK_BPS
    min_interval_ns = MIN_FRAME_OCTETS * BITS_NS_PER_S // speed_bps
    at_speed = f"{speed_bps // 1_000_000} Mb/s" + ("" if link_speed_bps else ", link down")
    for index, entry in enumerate(schedule.entries):
        if entry.interval_ns < min_interval_ns:
            yield (
                f"gate control entry {index} lasts {entry.interval_ns} ns; the kernel wants the "
                f"{min_interval_ns} ns that {MIN_FRAME_OCTETS} octets take ({at_speed})"
            )
        if absent := entry.gate_states & ~((1 << classes) - 1):
            yield (
                f"gate control entry {index} opens {entry.gate_states:#04x}: no traffic class "
                f"{', '.join(str(bit) for bit in range(absent.bit_length()) if absent >> bit & 1)}"
            )


def _budget_problems(schedule: Schedule, classes: int, link_speed_bps: int | None) -> Iterator[str]:
    """The octets that fit an open gate, which the kernel counts in an int (taprio_set_budgets).

    An overflow is accepted and keeps the gate shut; a gate that never closes is not counted.
    """
    octet_ps = 8 * PS_PER_S // (link_speed_bps or SLOWEST_LINK_BPS)
    for traffic_class in range(classes):
        open_ns = longest_opening_ns(schedule, traffic_class)
        if open_ns < schedule.cycle_time_ns and open_ns * 1000 // octet_ps >= INT_MAX:
            yield (
                f"the gate of traffic class {traffic_class} stays open for {open_ns} ns; at this "
                f"link's speed the kernel cannot count beyond {INT_MAX * octet_ps // 1000} ns and "
                "would keep it shut; close it in between, or choose a shorter cycle"
            )


def longest_opening_ns(schedule: Schedule, traffic_class: int) -> int:
    """The longest time a gate is open without a break, across the cycle's end too (ns)."""
    longest_ns = current_ns = 0
    for entry in (*schedule.entries, *schedule.entries):
        current_ns = current_ns + entry.interval_ns if entry.gate_states >> traffic_class & 1 else 0
        longest_ns = max(longest_ns, current_ns)
    return min(longest_ns, schedule.cycle_time_ns)


def refuse(reasons: list[str]) -> None:
    """Raise one error that holds all reasons, one a line."""
    if reasons:
        raise AgentError("\n".join(reasons))
