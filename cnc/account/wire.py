"""How long frames of a class keep a link busy, and those that wait for it."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from cnc.model import (
    NS_PER_S,
    RATE_TOLERANCE_PPM,
    ClassRole,
    Intent,
    Link,
    Plan,
    PortRef,
    TalkerInterference,
    TrafficClass,
    transmission_max_ns,
)

_CONTROL_FRAMES = 4  # what a control class may send in a row if it states no burst
_CONTROL_PARTS = 10  # what a control class may take of a link at most if it states no rate
_FOR_EVER_NS = 2**62
_MERGE_FRAGMENT_OCTETS = 64  # the least that a MAC Merge sends at once, 4 octets of check included
_MILLION = 1_000_000


def wire_ns(intent: Intent, link: Link, traffic_class: TrafficClass) -> int:
    """How long the largest frame of a class may keep a link busy."""
    octets = traffic_class.max_frame_octets + intent.network.overhead.physical_octets
    return transmission_max_ns(octets, link.rate_bps)


def blocking_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start.

    Control frames may be under way and in line, and the sender has the network's gate margin
    besides, or the lateness that is stated of it. At a talker, unless its port has gates, a frame
    of best effort may come before them; at a switch one of another class that its gate let go at
    the last instant.
    """
    return control_ns(intent, link) + held_up_ns(intent, link)


def held_up_ns(intent: Intent, link: Link) -> int:
    """How long a scheduled frame may be held up while control is not: what of `blocking_ns` is not
    for control."""
    sender = intent.network.end_stations.get(link.source.node)
    if sender is None or sender.lateness_ns is None:
        late = intent.network.gate_margin_ns
    else:
        late = sender.lateness_ns
    return late + best_effort_ns(intent, link) + _misjudged_ns(intent, link)


def _misjudged_ns(intent: Intent, link: Link) -> int:
    """How much later than its gate shuts a frame of another scheduled class may end: the gate knows
    the nominal rate, at which the frame still fitted."""
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    if link.source.node in intent.network.end_stations or len(scheduled) <= 1:
        return 0
    return max(_longer_ns(intent, link, c) for c in scheduled)


def _longer_ns(intent: Intent, link: Link, traffic_class: TrafficClass) -> int:
    """How much longer than at the nominal rate the largest frame of a class may keep a link
    busy."""
    octets = traffic_class.max_frame_octets + intent.network.overhead.physical_octets
    return transmission_max_ns(octets, link.rate_bps) - octets * 8 * NS_PER_S // link.rate_bps


def best_effort_ns(intent: Intent, link: Link) -> int:
    """How long a frame of best effort, or another that is not planned, may keep a talker's port
    from a scheduled one; or a switch's port, where it gives way."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None:
        return merged_ns(intent, link)
    if talker.interference is TalkerInterference.NONE:
        return 0
    return longest_unplanned_ns(intent, link)


def merged_ns(intent: Intent, link: Link) -> int:
    """How long an express frame waits for a preemptable one: that has just begun, or gone on, and
    neither what is sent of it nor what would be left may be shorter than a fragment."""
    sent = _MERGE_FRAGMENT_OCTETS - 4  # and its check, if it ends there
    left = _MERGE_FRAGMENT_OCTETS - 1  # one octet too few
    physical = intent.network.overhead.physical_octets
    return max(
        (
            transmission_max_ns(min(c.max_frame_octets, sent + left) + physical, link.rate_bps)
            for c in intent.preemptable_classes(link)
        ),
        default=0,
    )


def unplanned_best_effort_ns(intent: Intent, link: Link) -> int:
    """How long best effort may keep a talker's port from a frame that is sent at another time than
    planned, when gates of the talker itself keep none back."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or (talker.interference is TalkerInterference.NONE and not talker.gate_mode):
        return 0
    return longest_unplanned_ns(intent, link)


def control_ns(intent: Intent, link: Link, meanwhile_ns: int = 0) -> int:
    """How long control frames may keep a link from a frame whose turn it would be.

    When a frame of another class is under way, the whole burst may come right behind its start, and
    after that control at its rate: while that frame is sent, in `meanwhile_ns` in which frames of
    the same stream are sent or late, and while the link sends all that control.
    """
    return ControlOnLink.of(intent, link).keeps_ns(meanwhile_ns)


class ControlOnLink(NamedTuple):
    """What `control_ns` depends on beside the time meanwhile, for who asks often."""

    burst_ns: int
    behind_ns: int  # for how long a frame of another class is under way
    part: int
    whole: int

    @classmethod
    def of(cls, intent: Intent, link: Link) -> ControlOnLink:
        burst_ns, behind_ns = _control_burst_ns(intent, link), _longest_below_ns(intent, link)
        return cls(burst_ns, behind_ns, *control_part(intent, link))

    def keeps_ns(self, meanwhile_ns: int) -> int:
        """`control_ns`."""
        burst_ns, behind_ns, part, whole = self
        if part >= whole:
            return _FOR_EVER_NS
        # What is solved for: x equals burst plus part / whole of behind plus x.
        return -(-(burst_ns * whole + (behind_ns + meanwhile_ns) * part) // (whole - part))


def control_waiting_ns(intent: Intent, link: Link) -> int:
    """How long a link sends what control may have in line when a frame of another class ends."""
    part, whole = control_part(intent, link)
    come_ns = -(-_longest_below_ns(intent, link) * part // whole)
    return _control_burst_ns(intent, link) + come_ns


def control_part(intent: Intent, link: Link) -> tuple[int, int]:
    """What control takes of a link of the slowest rate on average, and the whole of it."""
    slowest = link.rate_bps * (_MILLION - RATE_TOLERANCE_PPM)
    return control_rate_bps(intent, link) * _MILLION, slowest


def _longest_below_ns(intent: Intent, link: Link) -> int:
    """The longest frame of any class but control, for which control has to wait."""
    merged = intent.preemptable_classes(link)
    others = (c for c in intent.classes.values() if c.role is not ClassRole.CONTROL)
    whole = [wire_ns(intent, link, c) for c in others if c not in merged]
    return max([*whole, merged_ns(intent, link)])


def _control_burst_ns(intent: Intent, link: Link) -> int:
    physical = intent.network.overhead.physical_octets
    octets = sum(
        (c.burst_frames or _CONTROL_FRAMES) * (c.max_frame_octets + physical)
        for c in intent.classes_with(ClassRole.CONTROL)
    )
    return transmission_max_ns(octets, link.rate_bps)


def control_between_ns(intent: Intent, link: Link, meanwhile_ns: int) -> int:
    """How long control frames may keep a link busy after the first of several frames of a stream
    has had its turn and before the last has, beside those that `blocking_ns` has.

    The last has it `meanwhile_ns` after the first. Control comes at its rate in that time, and in
    that for which the sender, or best effort of a talker, holds the frames up.
    """
    meanwhile_ns += held_up_ns(intent, link)
    return control_ns(intent, link, meanwhile_ns) - control_ns(intent, link)


def control_rate_bps(intent: Intent, link: Link) -> int:
    """What control takes of a link on average: what its classes state, or a part of the link."""
    return sum(
        link.rate_bps // _CONTROL_PARTS if c.rate_bps is None else c.rate_bps
        for c in intent.classes_with(ClassRole.CONTROL)
    )


def longest_unplanned_ns(intent: Intent, link: Link) -> int:
    """How long the largest frame of best effort, or of another class of which nothing is planned,
    may keep a link busy; 0 without such a class."""
    return max((wire_ns(intent, link, c) for c in intent.unplanned_classes()), default=0)


def guard_ns(intent: Intent, link: Link, unplanned: TrafficClass) -> int:
    """How long after its gate closes a class of which nothing is planned may still keep the link
    busy.

    A frame that was let through may start the network's gate margin later. Where only what ends
    before its gate closes is let through, it is that margin, the gap after the frame, and what the
    frame takes longer than at the nominal rate, at which it fitted. One that gives way counts with
    the frames that it delays (`merged_ns`).
    """
    if unplanned in intent.preemptable_classes(link):
        return intent.network.gate_margin_ns
    if link.fits_only:
        gap = transmission_max_ns(intent.network.overhead.gap_octets, link.rate_bps)
        return gap + _longer_ns(intent, link, unplanned) + intent.network.gate_margin_ns
    return wire_ns(intent, link, unplanned) + intent.network.gate_margin_ns


def slot_ns(intent: Intent, link: Link, best_effort: TrafficClass) -> int:
    """How long the gate of a best-effort class must be open at once to let its largest frame out,
    which must end before it closes where the port starts nothing else, also if it opens late. It
    may close early."""
    late = intent.network.gate_margin_ns if link.fits_only else 0
    return wire_ns(intent, link, best_effort) + late + link.gate_early_ns


def access_ns(plan: Plan, port: PortRef) -> int | None:
    """Until when a talker has sent a burst that it is to have, if those of all its streams come
    together (busy period); None: never."""
    intent = plan.intent
    link = intent.network.links[port]
    bursts: defaultdict[int, int] = defaultdict(int)  # how long those of a period take
    for name, planned in plan.streams.items():
        if (stream := intent.streams.get(name)) is None:
            continue
        octets = intent.network.wire_octets(stream.payload_octets)
        frames = stream.frames * sum(path[0].egress == port for path in planned.paths)
        bursts[stream.period_ns] += frames * transmission_max_ns(octets, link.rate_bps)
    if sum(NS_PER_S * busy_ns // period_ns for period_ns, busy_ns in bursts.items()) >= NS_PER_S:
        return None
    held_ns, until_ns = held_up_ns(intent, link), 1
    while until_ns < 1 << 50:
        work_ns = sum(-(-until_ns // period_ns) * busy_ns for period_ns, busy_ns in bursts.items())
        needed_ns = held_ns + work_ns
        needed_ns += control_ns(intent, link, needed_ns)
        if needed_ns <= until_ns:
            return until_ns
        until_ns = needed_ns
    return None
