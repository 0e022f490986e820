"""Chooses the interval of a cyclic class whose operator leaves it to periods and latencies.

A longer interval has room for more frames beside its lead, margins and dead time; a shorter one
gets them to their listeners sooner. So it is the longest that divides the periods of all streams
and has each stream of the class within its max-latency on a way of the fewest switches. Streams for
which none is short enough are left to the admission, which refuses them with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import gcd
from typing import NamedTuple

from cnc.mechanisms.cqf.model import CyclicClass
from cnc.mechanisms.cqf.windows import lead_ns, longest_dead_ns, switch_ports, tick_ns
from cnc.mechanisms.talker_link import TalkerLink, burst_ns
from cnc.mechanisms.terms import control_ahead_ns, longest_ns
from cnc.model import Intent, Link, Network, Stream

_WHOLE_PPB = 10**9


def open_ns(network: Network, stated: CyclicClass, interval_ns: int) -> int:
    """How long windows are in an interval: the share of it, in whole ticks."""
    tick = tick_ns(network)
    return stated.share_ppb * interval_ns // _WHOLE_PPB // tick * tick


def chosen_interval_ns(intent: Intent, stated: CyclicClass) -> int:
    """The interval. That of the greatest common divisor of the periods where no stream of the class
    has a way, or the time for any."""
    streams = [its for its in intent.streams.values() if stated.name in its.traffic_classes]
    common_ns = gcd(*(its.period_ns for its in intent.streams.values())) or 1_000_000
    least_ns = _least_ns(intent, stated)
    starts = {talker: _starts(intent, talker) for talker in {its.talker for its in streams}}
    most = (_most_ns(intent, stated, its, starts[its.talker]) for its in streams)
    longest = [each for each in most if each >= least_ns]
    most_ns, tick = min(longest, default=common_ns), tick_ns(intent.network)
    parts = range(max(-(-common_ns // max(most_ns, 1)), 1), common_ns // least_ns + 1)
    whole = (common_ns // n for n in parts if not common_ns % n and not common_ns // n % tick)
    return next(whole, common_ns)


def _least_ns(intent: Intent, stated: CyclicClass) -> int:
    """An interval that is long enough for its lead, its dead time and one frame everywhere."""
    network, its = intent.network, intent.classes[stated.name]
    others = [each for each in intent.classes.values() if each != its]
    frame_ns = max(
        (
            control_ahead_ns(intent, link)
            + longest_ns(intent, link, [its])
            + longest_ns(intent, link, others)
            for link in switch_ports(network)
        ),
        default=0,
    )
    window_ns = (network.gate_margin_ns + frame_ns) * _WHOLE_PPB // stated.share_ppb
    around_ns = lead_ns(network) + longest_dead_ns(intent)
    return max(window_ns, around_ns * _WHOLE_PPB // (_WHOLE_PPB - stated.share_ppb), 1)


def _most_ns(intent: Intent, stated: CyclicClass, stream: Stream, starts: list[_Start]) -> int:
    """The longest interval with which a stream is in time on a way of the fewest switches that
    begins so; 0: it has none."""
    network, found = intent.network, 0
    for first, access_ns, crossed in starts:
        if access_ns is None or not crossed.keys() >= {*stream.listeners}:
            continue
        most, last_ns = max(crossed[name] for name in stream.listeners)
        fixed_ns = (
            access_ns
            + first.propagation_ns
            + network.bridges[first.target.node].processing_max_ns
            + lead_ns(network)
            + last_ns
            + 2 * network.clock_error_ns
        )
        left_ns = stream.max_latency_ns - fixed_ns
        found = max(found, left_ns * _WHOLE_PPB // (most * _WHOLE_PPB + stated.share_ppb))
    return found


class _Start(NamedTuple):
    """A link of a talker to a switch, by when bursts have left by it, None: never, and by end
    station how many switches are behind it and the propagation on the last link."""

    first: Link
    access_ns: int | None
    crossed: Mapping[str, tuple[int, int]]


def _starts(intent: Intent, talker: str) -> list[_Start]:
    network = intent.network
    return [
        _Start(first, _access_ns(intent, first), _switches_crossed(network, first))
        for first in network.links.values()
        if first.source.node == talker and first.target.node in network.bridges
    ]


def _access_ns(intent: Intent, first: Link) -> int | None:
    link = TalkerLink(intent, first)
    for its in intent.streams.values():
        if its.talker == first.source.node:
            link.add(its.period_ns, its.paths * burst_ns(intent, its, first))
    return link.access_ns()


def _switches_crossed(network: Network, first: Link) -> Mapping[str, tuple[int, int]]:
    """By end station how many switches the shortest way there crosses that begins with a link, and
    the propagation on its last link."""
    onward: defaultdict[str, list[Link]] = defaultdict(list)
    for link in network.links.values():
        onward[link.source.node].append(link)
    crossed = {first.target.node: 1}
    found: dict[str, tuple[int, int]] = {}
    waiting = [first.target.node]
    for node in waiting:
        for link in onward[node] if node in network.bridges else ():
            target = link.target.node
            if target in network.end_stations:
                found.setdefault(target, (crossed[node], link.propagation_ns))
            elif target not in crossed:
                crossed[target] = crossed[node] + 1
                waiting.append(target)
    return found
