"""Terms of the time model, as plans, and what follows from them, allow for: octets of frames, how
much later than planned they may start, and what all mechanisms ask for.

The judge adds that up by itself (`cnc.account`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from cnc.mechanism import Admission, Admitted, Decided, Room
from cnc.mechanisms.loading import loaded
from cnc.model import (
    NS_PER_S,
    RATE_TOLERANCE_PPM,
    ClassRole,
    GateControlList,
    GivenWindow,
    Intent,
    Link,
    Network,
    Parts,
    Plan,
    PortRef,
    Stream,
    TalkerInterference,
    TrafficClass,
    transmission_max_ns,
)

# What of a preemptable frame cannot be interrupted, with `addFragSize` 0: no part of it may have
# less than 64 octets with its check (IEEE Std 802.3-2018, 99.4.4), so that one of 124 is the
# shortest that can be divided.
_FRAGMENT_MIN_OCTETS = 64
_CHECK_OCTETS = 4
UNDIVIDED_OCTETS = 2 * _FRAGMENT_MIN_OCTETS - _CHECK_OCTETS - 1


@cache
def _admissions() -> tuple[Admission, ...]:
    return tuple(each.admission for each in loaded())


@cache
def _adding() -> tuple[tuple[Callable[[Stream], int], str], ...]:
    found = ((each.added_octets, each.added_name) for each in _admissions())
    return tuple((octets, name) for octets, name in found if octets)


@cache
def _dropping() -> tuple[Callable[[Intent, str, Collection[str]], bool], ...]:
    return tuple(each.may_drop for each in _admissions() if each.may_drop)


@cache
def _refusing() -> tuple[Callable[[Intent, Stream, Link, int], str | None], ...]:
    return tuple(each.impossible for each in _admissions() if each.impossible)


@cache
def deciding() -> tuple[Decided[Any], ...]:
    """How mechanisms decide something of a plan."""
    return tuple(each.decided for each in loaded() if each.decided)


def client_octets(network: Network, stream: Stream, link: Link) -> int:
    """What a frame of a stream has between its VLAN tag and its frame check sequence on a link: the
    payload, and between bridges what mechanisms add, before which it is padded where it is
    short."""
    octets = added_octets(stream)
    bridges = network.bridges
    if not octets or link.source.node not in bridges or link.target.node not in bridges:
        return stream.payload_octets
    return max(stream.payload_octets, network.overhead.min_payload_octets) + octets


def added_octets(stream: Stream) -> int:
    """What the first switch puts before the payload of a stream's frames, and the last one takes
    away."""
    total = 0
    for octets, _ in _adding():
        total += octets(stream)
    return total


def added_names(stream: Stream) -> list[str]:
    """What that is."""
    return [name for octets, name in _adding() if octets(stream)]


def may_be_dropped(intent: Intent, stream: str, class_name: str | None = None) -> bool:
    """Whether the first switch may drop frames of a stream that come otherwise than planned, if it
    has a place in that class, or in any that it may have."""
    classes = intent.streams[stream].traffic_classes if class_name is None else (class_name,)
    return any(drops(intent, stream, classes) for drops in _dropping())


def impossible(intent: Intent, stream: Stream, link: Link, window_ns: int = 0) -> str | None:
    """Why what is asked for is impossible for frames of a stream that come over a link from its
    talker, within a window that they share there if it is longer than nothing; None if it is
    possible."""
    found = (refuses(intent, stream, link, window_ns) for refuses in _refusing())
    return next(filter(None, found), None)


def given_lists(intent: Intent) -> dict[PortRef, GateControlList]:
    """The gate control lists that an operator gives, by port."""
    return {port: its for each in _admissions() for port, its in each.lists(intent).items()}


def given_windows(intent: Intent) -> Mapping[PortRef, tuple[GivenWindow, ...]]:
    """By port, of those lists, the windows that classes have beside which streams may leave; ports
    by which none may have none."""
    return {port: its for each in _admissions() for port, its in each.windows(intent).items()}


def closed_ports(intent: Intent) -> Collection[PortRef]:
    """The ports of those lists by which no stream may leave."""
    return given_lists(intent).keys() - given_windows(intent).keys()


def refused(plan: Plan) -> dict[str, str]:
    """Why switches cannot do what follows from a plan; empty if they can."""
    return {where: why for each in _admissions() for where, why in each.refused(plan).items()}


def admitted(
    intent: Intent,
    ways: Mapping[str, Sequence[Sequence[PortRef]]],
    promised_ns: Mapping[str, int],
) -> Admitted:
    """Which streams of cyclic classes have a place on these ways, and why others have none; no
    bound rises of those to whom some latency is promised."""
    return _together(
        each.admits(intent, ways, promised_ns) for each in _admissions() if each.admits and ways
    )


def served(
    intent: Intent,
    ways: Mapping[str, Sequence[Sequence[PortRef]]],
    gates: Mapping[PortRef, GateControlList],
    promised_ns: Mapping[str, int],
    before: Parts,
) -> Admitted:
    """The same of streams of classes that have what these lists leave them; `before` is what was
    decided of the plan that runs."""
    return _together(
        each.serves(intent, ways, gates, promised_ns, before)
        for each in _admissions()
        if each.serves and ways
    )


def _together(parts: Iterable[Admitted]) -> Admitted:
    found = [*parts]
    return Admitted(
        {name: its for each in found for name, its in each.streams.items()},
        {name: why for each in found for name, why in each.refused.items()},
    )


def decided(plan: Plan) -> Plan:
    """The plan with what mechanisms decide of it, beside what it has of the one before."""
    return replace(plan, parts=Parts.of(*(each.decide(plan) for each in deciding())))


def rooms(intent: Intent, links: Collection[Link]) -> list[Room]:
    """What switches have room for; `links` in the order of their numbers."""
    return [each.room(intent, links) for each in _admissions() if each.room]


def start_delay_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start on the link.

    At a talker a best-effort frame may be under way, and control frames that come meanwhile go
    first. At a bridge a frame of another class that was early may outlast its gate.
    """
    return control_ahead_ns(intent, link) + held_up_ns(intent, link)


def held_up_ns(intent: Intent, link: Link) -> int:
    """How long a scheduled frame may be held up while control is not: what of `start_delay_ns` is
    not for control."""
    lateness = intent.network.lateness_ns(link.source.node)
    return lateness + _other_class_ns(intent, link) + interference_ns(intent, link)


def control_ahead_ns(intent: Intent, link: Link, meanwhile_ns: int = 0) -> int:
    """How long control frames may keep the link from a scheduled frame that is due; from the last
    of several frames if it has its turn `meanwhile_ns` later.

    What control keeps to is a token bucket as it comes into the queue (RFC 2697): it piles up
    while a frame of another class is on the link, and goes on coming while it is sent itself.
    Where control may take all of the link, the figure is beyond any period.
    """
    return control_ahead(intent, link).ns(meanwhile_ns)


class ControlAhead(NamedTuple):
    """What `control_ahead_ns` comes to on a link, for any time meanwhile: an arrival curve of
    `burst_ns` and then `share` of `whole`."""

    burst_ns: int
    held_ns: int
    share: int
    whole: int

    def ns(self, meanwhile_ns: int = 0) -> int:
        come = self.burst_ns * self.whole + (self.held_ns + meanwhile_ns) * self.share
        return -(-come // max(self.whole - self.share, 1))


def control_ahead(intent: Intent, link: Link) -> ControlAhead:
    """The same for who asks often."""
    burst_ns, held_ns = _control_burst_ns(intent, link), _others_longest_ns(intent, link)
    return ControlAhead(burst_ns, held_ns, *control_share(intent, link))


def control_backlog_ns(intent: Intent, link: Link) -> int:
    """How long the control frames keep the link that may wait for it at any one time."""
    share, whole = control_share(intent, link)
    held = _others_longest_ns(intent, link)
    return _control_burst_ns(intent, link) - (-held * share // whole)


def control_share(intent: Intent, link: Link) -> tuple[int, int]:
    """Which part of the slowest such link control takes on average, as numerator and
    denominator."""
    slowest_millionths = 1_000_000 - RATE_TOLERANCE_PPM
    return intent.control_rate_bps(link) * 1_000_000, link.rate_bps * slowest_millionths


def _control_burst_ns(intent: Intent, link: Link) -> int:
    return transmission_max_ns(intent.control_burst_octets(), link.rate_bps)


def _others_longest_ns(intent: Intent, link: Link) -> int:
    """How long a frame of another class may be on the link, for which control waits."""
    gives_way = intent.preemptable_classes(link)
    others = [
        c for c in intent.classes.values() if c.role is not ClassRole.CONTROL and c not in gives_way
    ]
    return max(longest_ns(intent, link, others), gives_way_ns(intent, link))


def _other_class_ns(intent: Intent, link: Link) -> int:
    """How long a scheduled frame may still be on the link when its gate has shut and that of
    another class opens: a port reckons at the nominal rate whether a frame ends before."""
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    if len(scheduled) <= 1 or link.source.node not in intent.network.bridges:
        return 0
    return outlasts_ns(intent, link, scheduled)


def outlasts_ns(intent: Intent, link: Link, classes: Iterable[TrafficClass]) -> int:
    """How much longer than at the nominal rate, at which a port reckons, the largest frame of some
    classes may be on the link."""
    octets = max((c.max_frame_octets for c in classes), default=None)
    if octets is None:
        return 0
    octets += intent.network.overhead.physical_octets
    nominal = octets * 8 * NS_PER_S // link.rate_bps
    return transmission_max_ns(octets, link.rate_bps) - nominal


def control_between_ns(intent: Intent, link: Link, stream: Stream) -> int:
    """How long control frames may keep the link between the frames of one period of a stream.

    Beside those ahead of the first frame these are the ones that come while the others wait for
    their turn, or for their sender.
    """
    if stream.frames == 1:
        return 0
    octets = client_octets(intent.network, stream, link)
    between_ns = (stream.frames - 1) * intent.network.occupation_max_ns(link, octets)
    between_ns += held_up_ns(intent, link)
    return control_ahead_ns(intent, link, between_ns) - control_ahead_ns(intent, link)


def interference_ns(intent: Intent, link: Link) -> int:
    """How long what the sender itself sends at any time, and no gate holds back, may keep the link
    from a scheduled frame."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None:  # a bridge shuts the gates of the others in time, or has them give way
        return gives_way_ns(intent, link)
    if talker.interference is TalkerInterference.NONE:
        return 0
    return longest_unplanned_ns(intent, link)


def gives_way_ns(intent: Intent, link: Link) -> int:
    """How long a preemptable frame may still keep the link when another is due; 0 where none is
    preemptable. It goes on whenever no other frame is there, whatever its gate does."""
    longest = (c.max_frame_octets for c in intent.preemptable_classes(link))
    octets = max((min(its, UNDIVIDED_OCTETS) for its in longest), default=None)
    if octets is None:
        return 0
    return transmission_max_ns(octets + intent.network.overhead.physical_octets, link.rate_bps)


def late_interference_ns(intent: Intent, link: Link) -> int:
    """How long that of a talker may keep its link from a frame that the talker sends at another
    time than planned: gates of its own do not expect that frame."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is not None and talker.gate_mode is not None:
        return longest_unplanned_ns(intent, link)
    return interference_ns(intent, link)


def longest_frame_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    """How long the largest frame of the classes with `role` may keep a link busy; 0 without such a
    class."""
    return longest_ns(intent, link, intent.classes_with(role))


def longest_unplanned_ns(intent: Intent, link: Link) -> int:
    """The same of the classes whose frames come at any time."""
    return longest_ns(intent, link, intent.unplanned_classes())


def longest_ns(intent: Intent, link: Link, classes: Iterable[TrafficClass]) -> int:
    """The same of these classes."""
    octets = max((c.max_frame_octets for c in classes), default=None)
    if octets is None:
        return 0
    return transmission_max_ns(octets + intent.network.overhead.physical_octets, link.rate_bps)
