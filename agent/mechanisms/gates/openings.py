"""How long gates stay open, and the longest frame that fits. Pure."""

from __future__ import annotations

from math import inf

from agent.mechanisms.gates.frame_lengths import WIRE_OVERHEAD_OCTETS
from agent.mechanisms.gates.model import GateSchedule

SLOWEST_LINK_BPS = 10_000_000  # what the kernel assumes where it does not know the speed
PS_PER_S = 1_000_000_000_000

MAC_HEADER_OCTETS = 14
MAX_MTU_OCTETS = 65_535  # ETH_MAX_MTU, that of a veth: sch_taprio takes no limit beyond it


def binding_max_sdu_octets(
    max_sdu_octets: tuple[int, ...], schedule: GateSchedule, link_speed_bps: int | None
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
    schedule: GateSchedule, traffic_class: int, link_speed_bps: int | None
) -> float:
    """What fits the longest opening of a gate, rounded as the kernel does; inf: it never closes."""
    open_ns = longest_opening_ns(schedule, traffic_class)
    if open_ns == schedule.cycle_time_ns:
        return inf
    frame_octets = open_ns * 1000 // octet_ps(link_speed_bps) - WIRE_OVERHEAD_OCTETS
    return max(frame_octets - MAC_HEADER_OCTETS, 1)


def fitting_sdu_octets(
    schedule: GateSchedule, classes: int, link_speed_bps: int | None
) -> tuple[int, ...]:
    """The longest service data unit that fits the gate of each class; 0 where every one does."""
    longest = (_longest_sdu_octets(schedule, each, link_speed_bps) for each in range(classes))
    return tuple(0 if octets > MAX_MTU_OCTETS else int(octets) for octets in longest)


def octet_ps(link_speed_bps: int | None) -> int:
    """The time of one octet as the kernel counts it, in whole picoseconds."""
    return 8 * PS_PER_S // (link_speed_bps or SLOWEST_LINK_BPS)


def longest_opening_ns(schedule: GateSchedule, traffic_class: int) -> int:
    """The longest time a gate is open without a break, across the cycle's end too (ns)."""
    longest_ns = current_ns = 0
    for entry in (*schedule.entries, *schedule.entries):
        current_ns = current_ns + entry.interval_ns if entry.gate_states >> traffic_class & 1 else 0
        longest_ns = max(longest_ns, current_ns)
    return min(longest_ns, schedule.cycle_time_ns)
