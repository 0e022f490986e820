"""How long the bursts of a talker's streams may wait for each other on its link, and how close
together they come by it to the first switch.

A talker with streams of a cyclic class keeps to no offset there: in each period of a stream it has
one burst to send, the next one a period later. In the worst case all its streams have one at once,
and the link is busy with them from then on (busy period, Lehoczky 1990): each has left by the end
of that, in whatever order they go. Lateness of the talker counts before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cnc.mechanisms.terms import client_octets, control_ahead, interference_ns
from cnc.model import NS_PER_S, RATE_TOLERANCE_PPM, Intent, Link, Network, Stream

_ROUNDS_MAX = 1_000
_MILLION = 1_000_000


def burst_ns(intent: Intent, stream: Stream, link: Link) -> int:
    """How long the frames of one period keep a link busy."""
    octets = client_octets(intent.network, stream, link)
    return stream.frames * intent.network.occupation_max_ns(link, octets)


class TalkerLink:
    """The link of a talker, with the streams that leave by it."""

    def __init__(self, intent: Intent, link: Link) -> None:
        self._control = control_ahead(intent, link)
        self.lateness_ns = intent.network.lateness_ns(link.source.node)
        self._held_up_ns = self.lateness_ns + interference_ns(intent, link)
        self._work_ns: Counter[int] = Counter()  # by period

    def add(self, period_ns: int, work_ns: int) -> None:
        """Count the bursts of a stream; of one that is gone with negative work."""
        self._work_ns[period_ns] += work_ns

    def access_ns(self, reserve_ns: int = 0) -> int | None:
        """By when a burst has left, from the instant at which its talker is to have it, if so much
        more is sent meanwhile; None: there may be more and more of them."""
        return _busy_ns(self._work_ns, self._held_up_ns + reserve_ns, self._control.ns)


def access_ns(intent: Intent, first: Link, sends: Iterable[tuple[Stream, int]]) -> int | None:
    """`TalkerLink.access_ns` on the link of a talker that sends so many times the frames of a
    period of each of these streams."""
    link = TalkerLink(intent, first)
    for stream, times in sends:
        link.add(stream.period_ns, times * burst_ns(intent, stream, first))
    return link.access_ns()


def bursts_in_interval(
    network: Network, first: Link, period_ns: int, interval_ns: int, spread_ns: int
) -> int:
    """How many bursts of a stream may come to its first switch in one interval: each of them up to
    `spread_ns` and a processing time later than the earliest that it may."""
    if bridge := network.bridges.get(first.target.node):
        spread_ns += bridge.processing_max_ns
    return -(-(interval_ns + spread_ns) // period_ns)


def fastest_bps(link: Link) -> int:
    """The rate of a link at its fastest."""
    return -(-link.rate_bps * (_MILLION + RATE_TOLERANCE_PPM) // _MILLION)


class Entry(NamedTuple):
    """No more of a stream comes to its first switch in any time than `burst_bits`, and `rate_bps`
    for as long as that lasts, with preambles and gaps."""

    burst_bits: int
    rate_bps: int


def sent(network: Network, stream: Stream) -> Entry:
    """What a talker sends of a stream by its own clock: the frames of a period at once."""
    burst_bits = stream.frames * 8 * network.wire_octets(stream.payload_octets)
    return Entry(burst_bits, -(-burst_bits * NS_PER_S // stream.period_ns))


def entry(intent: Intent, stream: Stream, first: Link, access_ns: int) -> Entry:
    """What comes of a stream over the link of its talker, whose bursts have left by `access_ns`:
    of two bursts the first may have waited, and the second not."""
    network, (burst_bits, rate_bps) = intent.network, sent(intent.network, stream)
    bridge = network.bridges[first.target.node]
    frame_bits = burst_bits // stream.frames
    varies_ns = access_ns - frame_bits * NS_PER_S // fastest_bps(first)
    varies_ns += bridge.processing_max_ns - bridge.processing_min_ns + 2 * network.clock_error_ns
    return Entry(burst_bits - (-rate_bps * varies_ns // NS_PER_S), rate_bps)


def _busy_ns(
    work_ns: Mapping[int, int], held_up_ns: int, control_ns: Callable[[int], int]
) -> int | None:
    found_ns = 1
    for _ in range(_ROUNDS_MAX):
        work = sum(-(-found_ns // period) * each for period, each in work_ns.items())
        needed_ns = held_up_ns + control_ns(held_up_ns + work) + work
        if needed_ns <= found_ns:
            return found_ns
        found_ns = needed_ns
    return None
