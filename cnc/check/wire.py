"""How long frames of a class keep a link busy, and those that wait for it."""

from __future__ import annotations

from cnc.model import ClassRole, Intent, Link, TalkerInterference, TrafficClass, transmission_ns


def wire_ns(intent: Intent, link: Link, traffic_class: TrafficClass) -> int:
    """How long the largest frame of a class keeps a link busy."""
    octets = traffic_class.max_frame_octets + intent.network.overhead.physical_octets
    return transmission_ns(octets, link.rate_bps)


def blocking_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start.

    A control frame may be under way, and the sender has the network's gate margin besides. At a
    talker, whose port has no gates, a frame of best effort may come before the control frame.
    """
    blocking = intent.network.gate_margin_ns + _largest_ns(intent, link, ClassRole.CONTROL)
    sender = intent.network.end_stations.get(link.source.node)
    if sender and sender.interference is TalkerInterference.ONE_FRAME:
        blocking += _largest_ns(intent, link, ClassRole.BEST_EFFORT)
    return blocking


def _largest_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    return max((wire_ns(intent, link, c) for c in intent.classes_with(role)), default=0)


def guard_ns(intent: Intent, link: Link, best_effort: TrafficClass) -> int:
    """How long after its gate closes a best-effort class may still keep the link busy.

    A frame that was let through may start the network's gate margin later.
    """
    return wire_ns(intent, link, best_effort) + intent.network.gate_margin_ns
