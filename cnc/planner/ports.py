"""What the gate control lists of ports are limited to."""

from __future__ import annotations

from collections.abc import Collection

from cnc.mechanisms.terms import longest_frame_ns, longest_ns, outlasts_ns
from cnc.model import (
    ClassRole,
    Intent,
    Link,
    TrafficClass,
    transmission_max_ns,
    transmission_ns,
)

SHORTEST_FRAME_OCTETS = 60  # the kernel's taprio refuses an interval that cannot hold one
CYCLE_MAX_NS = 2**31 - 1  # the kernel keeps a cycle in a signed 32-bit number


def guard_ns(intent: Intent, link: Link, classes: Collection[TrafficClass] | None = None) -> int:
    """How long classes whose frames come at any time, best effort if none are named, must be shut
    before a scheduled window opens.

    Their last frame may start as late as any other for reasons of its sender. A port that starts
    only what fits has sent its last bit when the gate closes, and the gap follows (802.1Q 8.6.8.4);
    but the port reckons at its nominal rate, and the link may be slower. A preemptable frame need
    not end: how long it takes to give way delays each frame (`gives_way_ns`).
    """
    network = intent.network
    if classes is None:
        classes = intent.classes_with(ClassRole.BEST_EFFORT)
    preemptable = intent.preemptable_classes(link)
    classes = [each for each in classes if each not in preemptable]
    if link.fits_only:
        last_ns = transmission_max_ns(network.overhead.gap_octets, link.rate_bps)
        last_ns += outlasts_ns(intent, link, classes)
    else:
        last_ns = longest_ns(intent, link, classes)
    return last_ns + network.gate_margin_ns


def guard_band_ns(
    intent: Intent, link: Link, classes: Collection[TrafficClass] | None = None
) -> int:
    """The same as an interval that the port can run: of whole ticks, and none too short."""
    guard = round_up(guard_ns(intent, link, classes), link.gate_tick_ns)
    return max(guard, interval_min_ns(link))


def seam_ns(intent: Intent, link: Link) -> int:
    """How long before the frames of another class a gate shuts that may let early frames through:
    one of these may start so much later for reasons of its sender."""
    margin_ns = round_up(intent.network.gate_margin_ns, link.gate_tick_ns)
    return max(margin_ns, interval_min_ns(link))


def slot_ns(intent: Intent, link: Link) -> int:
    """How long best effort must be open at once for its largest frame to leave.

    Its gate may open late. Where a port starts only what fits, there must be time for it even then;
    where it does not, the guard band has it. The gate may also close early.
    """
    frame_ns = longest_frame_ns(intent, link, ClassRole.BEST_EFFORT)
    late_ns = intent.network.gate_margin_ns if link.fits_only else 0
    return frame_ns + late_ns + link.gate_early_ns


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
