"""When the two queues of a cyclic class are open, on all ports of switches alike.

    interval   0                                   1                                   2
    even queue |lead|▓▓▓▓▓ window ▓▓▓▓▓|  dead time  |                                   |lead|▓▓▓▓
    odd queue  |                                   |lead|▓▓▓▓▓ window ▓▓▓▓▓|  dead time  |

A frame belongs to the interval in which the next switch looks at it, by the clock of that switch.
So that this is the interval in which it was sent (802.1Q-2022 annex T), no window opens before the
fastest frame is there by the latest clock (`lead_ns`), and each shuts before the slowest one is by
the fastest clock (`dead_ns`). The dead time also has the gate shut, however late, when frames come
to its queue again.
"""

from __future__ import annotations

from math import lcm

from cnc.mechanisms.cqf.model import Cyclic, cyclic_of
from cnc.mechanisms.terms import outlasts_ns
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    GivenWindow,
    Intent,
    Link,
    Network,
    PortRef,
    transmission_ns,
)
from cnc.model.clock_error import ClockErrors

_SHORTEST_OCTETS = 60  # an entry of the kernel's taprio holds such a frame at least


def switch_ports(network: Network) -> list[Link]:
    """The links that leave switches."""
    return [link for link in network.links.values() if link.source.node in network.bridges]


def tick_ns(network: Network) -> int:
    """What all times of windows are multiples of."""
    return lcm(1, *(link.gate_tick_ns for link in switch_ports(network)))


def lead_ns(network: Network) -> int:
    """How long after the beginning of an interval windows open: a switch whose clock is behind may
    look at no frame of an interval before that begins."""
    clocks, octets = ClockErrors(network), network.overhead.min_payload_octets
    needed_ns = max(
        (
            clocks.between_ns(link.source.node, link.target.node)
            + link.gate_early_ns
            - link.propagation_ns
            - network.reception_min_ns(link, octets)
            for link in switch_ports(network)
            if link.target.node in network.bridges
        ),
        default=0,
    )
    if needed_ns <= 0:
        return 0
    shortest_ns = max(
        max(link.gate_interval_min_ns, transmission_ns(_SHORTEST_OCTETS, link.rate_bps))
        for link in switch_ports(network)
    )
    return _round_up(max(needed_ns, shortest_ns), tick_ns(network))


def dead_ns(intent: Intent, link: Link, clocks: ClockErrors) -> int:
    """How long before the end of an interval a window shuts at the latest: its last frame may start
    late by the gate margin, and the next switch, whose clock may be ahead, look at it late."""
    network, target = intent.network, link.target.node
    late_ns = network.gate_margin_ns + outlasts_ns(intent, link, intent.classes.values())
    if target not in network.bridges:
        return late_ns
    apart_ns = clocks.between_ns(link.source.node, target)
    on_way_ns = link.propagation_ns + network.bridges[target].processing_max_ns
    return late_ns + on_way_ns + apart_ns + 1


def longest_dead_ns(intent: Intent) -> int:
    """The longest dead time of any port of a switch."""
    clocks = ClockErrors(intent.network)
    ports = switch_ports(intent.network)
    return max((dead_ns(intent, link, clocks) for link in ports), default=0)


def windows(intent: Intent) -> dict[PortRef, tuple[GivenWindow, ...]]:
    """Those of both queues, by port of a switch."""
    cyclic = cyclic_of(intent)
    if cyclic is None:
        return {}
    begin_ns, interval_ns = lead_ns(intent.network), cyclic.interval_ns
    both = tuple(
        GivenWindow(its.number, begin_ns + later_ns, cyclic.queuing.open_ns, 2 * interval_ns)
        for its, later_ns in ((cyclic.even, 0), (cyclic.odd, interval_ns))
    )
    return {link.source: both for link in switch_ports(intent.network)}


def lists(intent: Intent) -> dict[PortRef, GateControlList]:
    """By port of a switch, its list where no planned frame leaves by it."""
    cyclic = cyclic_of(intent)
    if cyclic is None:
        return {}
    its = _list(intent, cyclic)
    return {link.source: its for link in switch_ports(intent.network)}


def _list(intent: Intent, cyclic: Cyclic) -> GateControlList:
    control = _mask(intent, ClassRole.CONTROL)
    others = control | _mask(intent, ClassRole.BEST_EFFORT)
    begin_ns, open_ns = lead_ns(intent.network), cyclic.queuing.open_ns
    rest_ns = cyclic.interval_ns - begin_ns - open_ns
    entries = [
        GateEntry(states, lasts_ns)
        for its in (cyclic.even, cyclic.odd)
        for states, lasts_ns in (
            (others, begin_ns),
            (control | 1 << its.number, open_ns),
            (others, rest_ns),
        )
        if lasts_ns > 0
    ]
    return GateControlList(2 * cyclic.interval_ns, tuple(entries))


def _mask(intent: Intent, role: ClassRole) -> int:
    return sum(1 << its.number for its in intent.classes_with(role))


def _round_up(time_ns: int, unit_ns: int) -> int:
    return -(-time_ns // unit_ns) * unit_ns
