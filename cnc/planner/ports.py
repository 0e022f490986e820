"""What the ports of a network cost a frame, and what their gate control lists are limited to."""

from __future__ import annotations

from cnc.model import (
    ClassRole,
    GateMode,
    Intent,
    Link,
    Stream,
    TalkerInterference,
    transmission_ns,
)
from cnc.sequencing import client_octets

SHORTEST_FRAME_OCTETS = 60  # the kernel's taprio refuses an interval that cannot hold one
CYCLE_MAX_NS = 2**31 - 1  # the kernel keeps a cycle in a signed 32-bit number
SOFTWARE_ENTRIES_MAX = 430  # measured: longer lists are lost from the kernel's dump, so refused


def start_delay_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start on the link.

    At a talker a best-effort frame may be under way, and control frames that come meanwhile go
    first.
    """
    control = transmission_ns(intent.control_burst_octets(), link.rate_bps)
    return control + intent.network.gate_margin_ns + interference_ns(intent, link)


def control_between_ns(intent: Intent, link: Link, stream: Stream) -> int:
    """How long control frames may keep the link between the frames of one period of a stream.

    Those of the burst go ahead of the first frame; while the others wait for their turn, no more
    comes than the rate of control allows (a token bucket, RFC 2697).
    """
    if stream.frames == 1:
        return 0
    rate_bps = intent.control_rate_bps(link)
    octets = client_octets(intent.network, stream, link)
    between_ns = (stream.frames - 1) * intent.network.occupation_ns(link, octets)
    span_ns = start_delay_ns(intent, link) + between_ns
    # What control takes makes the span longer, in which more of it comes. Where control may take
    # all of the link, the sum is beyond any period.
    return -(-rate_bps * span_ns // max(link.rate_bps - rate_bps, 1))


def interference_ns(intent: Intent, link: Link) -> int:
    """How long best effort of the sender itself may keep the link from a scheduled frame."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or talker.interference is TalkerInterference.NONE:
        return 0  # a bridge shuts the gates of best effort in time
    return longest_frame_ns(intent, link, ClassRole.BEST_EFFORT)


def guard_ns(intent: Intent, link: Link) -> int:
    """How long best effort must be shut before a scheduled window opens.

    Its last frame may start as late as any other for reasons of its sender.
    """
    return longest_frame_ns(intent, link, ClassRole.BEST_EFFORT) + intent.network.gate_margin_ns


def longest_frame_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    """Wire time of the largest frame of the classes with `role`; 0 without such a class."""
    octets = max((c.max_frame_octets for c in intent.classes_with(role)), default=None)
    if octets is None:
        return 0
    return transmission_ns(octets + intent.network.overhead.physical_octets, link.rate_bps)


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


def entries_max(intent: Intent, link: Link) -> int | None:
    """The longest gate control list the port takes; None where no limit is known."""
    limits = [link.gate_entries_max] if link.gate_entries_max else []
    if intent.network.bridges[link.source.node].gate_mode is not GateMode.FULL_OFFLOAD:
        limits.append(SOFTWARE_ENTRIES_MAX)
    return min(limits, default=None)
