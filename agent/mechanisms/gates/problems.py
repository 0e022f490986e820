"""Why a port cannot run the gates that are asked of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.mechanisms.gates.diff import agrees
from agent.mechanisms.gates.frame_lengths import FACTOR_MAX
from agent.mechanisms.gates.hardware import software_gates_refused
from agent.mechanisms.gates.model import (
    GateConfig,
    GateLimits,
    GateOperation,
    GateSchedule,
    GateState,
    Taprio,
    TaprioMode,
)
from agent.mechanisms.gates.openings import SLOWEST_LINK_BPS, longest_opening_ns, octet_ps
from agent.model import Clock, EmulatedLink, PortConfig, PortState
from agent.root_qdisc import foreign_root
from agent.traffic_classes import SKB_PRIORITIES, queue_problems
from agent.wording import counted

MAX_CLASSES = 8  # 802.1Q; Linux would take 16
INT_MAX = 2**31 - 1  # the kernel's bound on a cycle
TENTHS = 10  # of a nanosecond

MIN_FRAME_OCTETS = 60  # ETH_ZLEN: what the kernel wants to fit into every interval
BITS_NS_PER_S = 8 * 1_000_000_000

MIN_SDU_OCTETS = 46  # IEEE 802.3 clause 3: a shorter payload is padded to this length

# Of an offloaded taprio the kernel shows one list, not two, in the space that
# agent.mechanisms.gates.limits explains.
OFFLOAD_LIST_SHOWN_MAX = 860


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """One line for each; the limits that count are those of the mode that is asked for.

    None of gates that run already: with the link down they could not be set now.
    """
    taprio = config[GateConfig].taprio
    if taprio is not None and not agrees(taprio, state):
        yield from _port_problems(taprio, state)


def _port_problems(taprio: Taprio, state: PortState) -> Iterator[str]:
    if state.foreign_qdisc:
        yield foreign_root(state.name, state.foreign_qdisc)
    yield from _class_problems(taprio)
    yield from queue_problems(taprio.queues, state.tx_queues)
    yield from _max_sdu_problems(taprio)
    yield from _schedule_problems(taprio.schedule, len(taprio.queues), state.link_speed_bps)
    yield from _limit_problems(taprio, state)
    yield from _operation_problems(taprio, state)
    if taprio.mode is TaprioMode.SOFTWARE:
        if reason := software_gates_refused(state, state[GateState].hardware_peers):
            yield reason
        device_bps = state.emulated.device_bps if state.emulated else state.link_speed_bps
        yield from _budget_problems(taprio.schedule, len(taprio.queues), device_bps)
        yield from _emulation_problems(state.emulated)
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
    if len(taprio.priority_map) != SKB_PRIORITIES:
        yield f"{len(taprio.priority_map)} priorities are mapped; Linux needs {SKB_PRIORITIES}"
    for priority, traffic_class in enumerate(taprio.priority_map):
        if not 0 <= traffic_class < classes:
            yield (
                f"priority {priority} leads to traffic class {traffic_class}; "
                f"the port has {classes} (0..{classes - 1})"
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
    schedule = taprio.schedule
    limits = state[GateState].limits_by_mode.get(taprio.mode, GateLimits())
    count = len(schedule.entries)
    by_driver = taprio.mode is TaprioMode.FULL_OFFLOAD and limits.list_max is not None
    list_max = limits.list_max or OFFLOAD_LIST_SHOWN_MAX
    if count > list_max:
        limit = f"the driver {state.driver} takes" if by_driver else "the kernel can show"
        yield (
            f"admin-control-list has {counted(count, 'entry')}; {limit} lists of at most "
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
    if taprio.mode is TaprioMode.FULL_OFFLOAD:
        yield from _driver_problems(schedule, limits, state.driver)


def _driver_problems(
    schedule: GateSchedule, limits: GateLimits, driver: str | None
) -> Iterator[str]:
    """What the standard has no leaf for; the driver refuses it, or cuts intervals to its tick."""
    tick_ns = (limits.tick_tenth_ns or TENTHS) // TENTHS
    for index, entry in enumerate(schedule.entries):
        lasts = f"gate control entry {index} lasts {entry.interval_ns} ns; the driver {driver}"
        if limits.interval_min_ns and entry.interval_ns < limits.interval_min_ns:
            yield f"{lasts} takes {limits.interval_min_ns} ns or more"
        elif entry.interval_ns % tick_ns:
            yield f"{lasts} counts in ticks of {tick_ns} ns"


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
    if state.mac_merge is None:
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
    schedule: GateSchedule, classes: int, link_speed_bps: int | None
) -> Iterator[str]:
    cycle_ns = schedule.cycle_time_ns
    if not 1 <= cycle_ns <= INT_MAX:
        yield f"cycle time {cycle_ns} ns is not within 1..{INT_MAX}"
    if not schedule.entries:
        yield "the gate control list is empty"
        return
    total_ns = sum(entry.interval_ns for entry in schedule.entries)
    if total_ns != cycle_ns:
        # Linux starts over when the list ends (a cycle shorter than asked for) and cuts a longer
        # list: either way the gates would not do what was written.
        kept = (
            "; a merge keeps entries of the previous list: send admin-control-list with "
            'operation="replace"'
        )
        yield (
            f"the gate control list lasts {total_ns} ns, the cycle {cycle_ns}; make them equal"
            f"{kept if total_ns > cycle_ns else ''}"
        )
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


def _budget_problems(schedule: GateSchedule, classes: int, device_bps: int | None) -> Iterator[str]:
    """The octets that fit an open gate, which the kernel counts in an int (taprio_set_budgets).

    An overflow is accepted and keeps the gate shut; a gate that never closes is not counted.
    """
    one_octet_ps = octet_ps(device_bps)
    for traffic_class in range(classes):
        open_ns = longest_opening_ns(schedule, traffic_class)
        if open_ns < schedule.cycle_time_ns and open_ns * 1000 // one_octet_ps >= INT_MAX:
            longest_ns = INT_MAX * one_octet_ps // 1000
            yield (
                f"the gate of traffic class {traffic_class} stays open for {open_ns} ns; at this "
                f"link's speed the kernel cannot count beyond {longest_ns} ns and would "
                "keep it shut; close it in between, or choose a shorter cycle"
            )


def _emulation_problems(emulated: EmulatedLink | None) -> Iterator[str]:
    """Beyond these a frame cannot count for as long as it takes (agent.mechanisms.gates
    .frame_lengths), nor would the kernel know which frames fit a window."""
    if emulated is None or 1 <= emulated.length_factor <= FACTOR_MAX:
        return
    least_bps = emulated.device_bps // FACTOR_MAX
    yield (
        f"its link of {emulated.rate_bps // 1_000_000} Mb/s is emulated, and gates can reckon with "
        f"{least_bps // 1_000_000} to {emulated.device_bps // 1_000_000} Mb/s there: the kernel "
        f"counts no frame for longer than 1 MiB at the {emulated.device_bps // 1_000_000} Mb/s of "
        "the device"
    )
