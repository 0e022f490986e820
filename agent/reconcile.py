"""Desired minus actual: what a switch cannot take, and the steps to what it should do.

Pure functions; the kernel's words come in as `PortState`, the steps go out to `agent.kernel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf

from agent.model import (
    AgentError,
    Clock,
    GateOperation,
    PortConfig,
    PortState,
    Schedule,
    Taprio,
    TaprioMode,
)
from agent.wording import counted

PRIORITIES = 16  # Linux maps skb priorities 0..15 to traffic classes
MAX_CLASSES = 8  # 802.1Q; Linux would take 16
MAX_DSCP = 63
INT_MAX = 2**31 - 1  # the kernel's bound on a cycle
INT64_MAX = 2**63 - 1  # and on a time

MIN_FRAME_OCTETS = 60  # ETH_ZLEN: what the kernel wants to fit into every interval
SLOWEST_LINK_BPS = 10_000_000  # what the kernel assumes where it does not know the speed
BITS_NS_PER_S = 8 * 1_000_000_000
PS_PER_S = 1_000_000_000_000

MIN_SDU_OCTETS = 46  # IEEE 802.3 clause 3: a shorter payload is padded to this length
MAC_HEADER_OCTETS = 14
WIRE_OVERHEAD_OCTETS = 24  # preamble and delimiter 8, frame check sequence 4, gap 12 (clause 3)

# Of an offloaded taprio the kernel shows one list, not two, in the space that
# agent.kernel.limits explains.
OFFLOAD_LIST_SHOWN_MAX = 860


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
            f"{counted(len(schedule.entries), 'entry')}, cycle {schedule.cycle_time_ns} ns, "
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

    Frame size limits that the gates imply already ask for nothing.
    """
    if wanted is None or state.taprio is None:
        return wanted is state.taprio
    wanted = _without_idle_limits(wanted, state.link_speed_bps)
    current = _without_idle_limits(state.taprio, state.link_speed_bps)
    same_schedule = state.moves_gates_as(wanted.schedule)
    return same_schedule and replace(wanted, schedule=current.schedule) == current


def _without_idle_limits(taprio: Taprio, link_speed_bps: int | None) -> Taprio:
    limits = binding_max_sdu_octets(taprio.max_sdu_octets, taprio.schedule, link_speed_bps)
    return replace(taprio, max_sdu_octets=limits)


def binding_max_sdu_octets(
    max_sdu_octets: tuple[int, ...], schedule: Schedule, link_speed_bps: int | None
) -> tuple[int, ...]:
    """The limits that the gates do not imply, 0 for the others; empty when all are 0.

    The kernel drops what fits no opening of its class's gate, and shows the stricter of that length
    and the limit it was given (taprio_update_queue_max_sdu): which of both only this tells.
    """
    binding = tuple(
        octets
        if octets and octets < _longest_sdu_octets(schedule, traffic_class, link_speed_bps)
        else 0
        for traffic_class, octets in enumerate(max_sdu_octets)
    )
    return binding if any(binding) else ()


def _longest_sdu_octets(
    schedule: Schedule, traffic_class: int, link_speed_bps: int | None
) -> float:
    """What fits the longest opening of a gate, rounded as the kernel does; inf: it never closes."""
    open_ns = longest_opening_ns(schedule, traffic_class)
    if open_ns == schedule.cycle_time_ns:
        return inf
    frame_octets = open_ns * 1000 // _octet_ps(link_speed_bps) - WIRE_OVERHEAD_OCTETS
    return max(frame_octets - MAC_HEADER_OCTETS, 1)


def _octet_ps(link_speed_bps: int | None) -> int:
    """The time of one octet as the kernel counts it, in whole picoseconds."""
    return 8 * PS_PER_S // (link_speed_bps or SLOWEST_LINK_BPS)


def validate(
    desired: Mapping[str, PortConfig],
    states: Mapping[str, PortState],
    *,
    gates_impossible: str | None = None,
    rules_impossible: str | None = None,
    max_sdu_impossible: str | None = None,
) -> list[str]:
    """Every reason why the switch cannot do what is desired, one line each; none when it can.

    The `limits` of a state are those of the mode that is desired. `gates_impossible`,
    `rules_impossible` and `max_sdu_impossible` say why this kernel has no taprio, no classifier, no
    frame size limits.
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
        if config.taprio.max_sdu_octets and max_sdu_impossible:
            reasons.append(f"port {name}: {max_sdu_impossible}")
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
    yield from _max_sdu_problems(taprio)
    yield from _schedule_problems(taprio.schedule, len(taprio.queues), state.link_speed_bps)
    yield from _limit_problems(taprio, state)
    yield from _operation_problems(taprio, state)
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
        yield f"{counted(classes, 'traffic class')}; 1..{MAX_CLASSES} are possible"
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
            f"needs {counted(needed, 'TX queue')}, has {tx_queues} "
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


def _max_sdu_problems(taprio: Taprio) -> Iterator[str]:
    classes = len(taprio.queues)
    if taprio.max_sdu_octets and len(taprio.max_sdu_octets) != classes:
        limited = counted(len(taprio.max_sdu_octets), "traffic class")
        yield f"queue-max-sdu of {limited}; the port has {classes}"
    for traffic_class, octets in enumerate(taprio.max_sdu_octets):
        if octets and octets < MIN_SDU_OCTETS:
            yield (
                f"queue-max-sdu of traffic class {traffic_class} is {counted(octets, 'octet')}, "
                f"but every Ethernet frame carries {MIN_SDU_OCTETS} or more: none would pass; 0 is "
                "no limit"
            )


def _limit_problems(taprio: Taprio, state: PortState) -> Iterator[str]:
    schedule, limits = taprio.schedule, state.limits
    count = len(schedule.entries)
    by_driver = taprio.mode is TaprioMode.FULL_OFFLOAD and limits.list_max is not None
    list_max = limits.list_max or OFFLOAD_LIST_SHOWN_MAX
    if count > list_max:
        who = f"the driver {state.driver} takes" if by_driver else "the kernel can show"
        yield (
            f"admin-control-list has {counted(count, 'entry')}; {who} lists of at most "
            f"{list_max} (supported-list-max)"
        )
    if limits.cycle_max_ns and limits.cycle_max_ns < schedule.cycle_time_ns <= INT_MAX:
        yield (
            f"cycle time {schedule.cycle_time_ns} ns is above the {limits.cycle_max_ns} of the "
            f"driver {state.driver} (supported-cycle-max)"
        )
    for index, entry in enumerate(schedule.entries):
        if limits.interval_max_ns and entry.interval_ns > limits.interval_max_ns:
            yield (
                f"gate control entry {index} lasts {entry.interval_ns} ns; the port takes at most "
                f"{limits.interval_max_ns} (supported-interval-max)"
            )


def _operation_problems(taprio: Taprio, state: PortState) -> Iterator[str]:
    """Hold and release speak to the MAC merge layer, which only hardware gates reach."""
    asking = [
        str(index)
        for index, entry in enumerate(taprio.schedule.entries)
        if entry.operation is not GateOperation.SET
    ]
    if not asking:
        return
    entries = f"gate control {'entry' if len(asking) == 1 else 'entries'} {', '.join(asking)}: "
    if not state.has_mac_merge:
        yield (
            f"{entries}frame preemption: the driver of {state.name} ({state.driver or 'unknown'}) "
            f"has no MAC merge layer, IEEE 802.3 clause 99; ethtool --show-mm {state.name}"
        )
    if taprio.mode is not TaprioMode.FULL_OFFLOAD:
        yield (
            f"{entries}set-and-hold-mac and set-and-release-mac need the mode "
            f"{TaprioMode.FULL_OFFLOAD}; in the mode {taprio.mode} the kernel ignores them"
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
    octet_ps = _octet_ps(link_speed_bps)
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
