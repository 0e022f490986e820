"""What the gate control lists of ports are limited to."""

from __future__ import annotations

from cnc.mechanisms.terms import longest_frame_ns
from cnc.model import ClassRole, Intent, Link, transmission_ns

SHORTEST_FRAME_OCTETS = 60  # the kernel's taprio refuses an interval that cannot hold one
CYCLE_MAX_NS = 2**31 - 1  # the kernel keeps a cycle in a signed 32-bit number


def guard_ns(intent: Intent, link: Link) -> int:
    """How long best effort must be shut before a scheduled window opens.

    Its last frame may start as late as any other for reasons of its sender.
    """
    return longest_frame_ns(intent, link, ClassRole.BEST_EFFORT) + intent.network.gate_margin_ns


def interval_min_ns(link: Link) -> int:
    """The shortest gate interval the port and the kernel accept, a multiple of the port's tick."""
    kernel_min = transmission_ns(SHORTEST_FRAME_OCTETS, link.rate_bps)
    return round_up(max(link.gate_interval_min_ns, kernel_min), link.gate_tick_ns)


def interval_max_ns(link: Link) -> int:
    """The longest gate interval the port accepts; 0 where a whole cycle may be one."""
    return link.gate_interval_max_ns if link.gate_interval_max_ns < CYCLE_MAX_NS else 0


def round_up(time_ns: int, tick_ns: int) -> int:
    """The next multiple of `tick_ns`."""
    return -(-time_ns // tick_ns) * tick_ns
