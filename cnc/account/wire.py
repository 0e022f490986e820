"""How long frames of a class keep a link busy, and those that wait for it."""

from __future__ import annotations

from cnc.model import ClassRole, Intent, Link, TalkerInterference, TrafficClass, transmission_ns

_CONTROL_PARTS = 10  # what a control class may take of a link at most if it states no rate
_FOR_EVER_NS = 2**62


def wire_ns(intent: Intent, link: Link, traffic_class: TrafficClass) -> int:
    """How long the largest frame of a class keeps a link busy."""
    octets = traffic_class.max_frame_octets + intent.network.overhead.physical_octets
    return transmission_ns(octets, link.rate_bps)


def blocking_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start.

    Control frames may be under way and in line, as many as the classes state to send in a row, and
    the sender has the network's gate margin besides, or the lateness that is stated of it. At a
    talker, unless its port has gates, a frame of best effort may come before them.
    """
    blocking = control_ns(intent, link)
    sender = intent.network.end_stations.get(link.source.node)
    if sender is None or sender.lateness_ns is None:
        blocking += intent.network.gate_margin_ns
    else:
        blocking += sender.lateness_ns
    return blocking + best_effort_ns(intent, link)


def best_effort_ns(intent: Intent, link: Link) -> int:
    """How long a frame of best effort may keep a talker's port from a scheduled one."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or talker.interference is TalkerInterference.NONE:
        return 0
    return _largest_ns(intent, link, ClassRole.BEST_EFFORT)


def unplanned_best_effort_ns(intent: Intent, link: Link) -> int:
    """How long best effort may keep a talker's port from a frame that is sent at another time than
    planned, when gates of the talker itself keep none back."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or (talker.interference is TalkerInterference.NONE and not talker.gate_mode):
        return 0
    return _largest_ns(intent, link, ClassRole.BEST_EFFORT)


def control_ns(intent: Intent, link: Link) -> int:
    """How long control frames in a row may keep a link busy.

    Unless a class states a burst, that is one frame of all control classes together.
    """
    control = intent.classes_with(ClassRole.CONTROL)
    if not any(c.burst_frames for c in control):
        return _largest_ns(intent, link, ClassRole.CONTROL)
    return sum(
        transmission_ns(
            (c.burst_frames or 1) * (c.max_frame_octets + intent.network.overhead.physical_octets),
            link.rate_bps,
        )
        for c in control
    )


def control_between_ns(intent: Intent, link: Link, meanwhile_ns: int) -> int:
    """How long control frames may keep a link busy after the first of several frames of a stream
    has had its turn and before the last has, beside those that `blocking_ns` has.

    The last has it `meanwhile_ns` after the first. Control comes at its rate in that time, in that
    of the blocking, and while control itself is sent.
    """
    rate_bps = control_rate_bps(intent, link)
    if rate_bps >= link.rate_bps:
        return _FOR_EVER_NS
    # x = rate * (blocking + meanwhile + x) / link rate
    waited_ns = blocking_ns(intent, link) + meanwhile_ns
    return -(-waited_ns * rate_bps // (link.rate_bps - rate_bps))


def control_rate_bps(intent: Intent, link: Link) -> int:
    """What control takes of a link on average: what its classes state, or a part of the link."""
    return sum(
        link.rate_bps // _CONTROL_PARTS if c.rate_bps is None else c.rate_bps
        for c in intent.classes_with(ClassRole.CONTROL)
    )


def _largest_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    return max((wire_ns(intent, link, c) for c in intent.classes_with(role)), default=0)


def guard_ns(intent: Intent, link: Link, best_effort: TrafficClass) -> int:
    """How long after its gate closes a best-effort class may still keep the link busy.

    A frame that was let through may start the network's gate margin later. Where only what ends
    before its gate closes is let through, it is that margin and the gap after the frame.
    """
    if link.fits_only:
        gap = transmission_ns(intent.network.overhead.gap_octets, link.rate_bps)
        return gap + intent.network.gate_margin_ns
    return wire_ns(intent, link, best_effort) + intent.network.gate_margin_ns


def slot_ns(intent: Intent, link: Link, best_effort: TrafficClass) -> int:
    """How long the gate of a best-effort class must be open at once to let its largest frame out,
    which must end before it closes where the port starts nothing else, also if it opens late. It
    may close early."""
    late = intent.network.gate_margin_ns if link.fits_only else 0
    return wire_ns(intent, link, best_effort) + late + link.gate_early_ns
