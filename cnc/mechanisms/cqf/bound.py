"""What a port has to send in an interval, and how long a frame takes at most (802.1Q-2022 annex T).

With h switches on the way of a frame, intervals of T, windows that end `end` into each (lead and
window), and a talker whose burst has left after `access`:

    bound = access + propagation + processing of the first switch     in some interval i there
          + h T + end                                                 it leaves the last in i + h
          + propagation + 2 clock errors                              by any two clocks

which lies below (h + 1) T and what wires and clocks add, as windows end a dead time before T. A
window is long enough for all frames of an interval where

    wait + control + work <= window     wait: the gate opens late, or a frame that was let go before
                                        is on the link, or the last one is not in its queue yet
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cnc.mechanisms.cqf.model import Cyclic
from cnc.mechanisms.cqf.windows import lead_ns
from cnc.mechanisms.terms import control_ahead, longest_ns
from cnc.model import FRAMES_IN_ONE_GO, ClassRole, Intent, Link, PortRef


class Load(NamedTuple):
    """What a port may have to send in one interval: frames, and how long they keep its link."""

    frames: int = 0
    work_ns: int = 0

    def plus(self, other: Load, bursts: int = 1) -> Load:
        """With so many bursts more."""
        return Load(self.frames + bursts * other.frames, self.work_ns + bursts * other.work_ns)


class Branch(NamedTuple):
    """The way of frames to a listener: how many switches it crosses, and its last link."""

    switches: int
    last: PortRef


class PortWindow:
    """The window of a port: whether all frames of an interval leave in it."""

    def __init__(self, intent: Intent, link: Link, cyclic: Cyclic) -> None:
        network = intent.network
        self._margin_ns = network.gate_margin_ns
        others = intent.classes_with(ClassRole.BEST_EFFORT) + intent.planned_classes()
        let_go_ns = self._margin_ns + longest_ns(intent, link, others)
        last_in_ns = network.bridges[link.source.node].processing_max_ns - lead_ns(network)
        self._wait_ns = max(let_go_ns, last_in_ns)
        self._control = control_ahead(intent, link)
        self.open_ns = cyclic.queuing.open_ns - link.gate_early_ns

    def needed_ns(self, load: Load) -> int:
        """How long the window has to be for so much."""
        again = max(load.frames - 1, 0) // FRAMES_IN_ONE_GO
        waits_ns = self._wait_ns + again * self._margin_ns
        return waits_ns + self._control.ns(load.work_ns) + load.work_ns


def branches(
    intent: Intent, ways: Sequence[Sequence[PortRef]], listeners: Sequence[str]
) -> Iterator[Branch]:
    """Those of a stream, whose ways are trees of ports, parents before children."""
    links = intent.network.links
    for ports in ways:
        crossed: dict[str, int] = {}  # by node, how many switches frames have left
        for port in ports:
            target = links[port].target.node
            crossed[target] = crossed.get(port.node, 0) + (port.node in intent.network.bridges)
            if target in listeners:
                yield Branch(crossed[target], port)


def beyond_talker_ns(
    intent: Intent, cyclic: Cyclic, branch: Branch, first: Link, end_ns: int
) -> int:
    """How long a frame takes to a listener at most, from when it has left its talker, if windows
    end `end_ns` into each interval."""
    network = intent.network
    last = network.links[branch.last]
    apart_ns = 2 * network.clock_error_ns
    if not branch.switches:
        return last.propagation_ns + apart_ns
    arrives_ns = first.propagation_ns + network.bridges[first.target.node].processing_max_ns
    intervals_ns = branch.switches * cyclic.interval_ns
    return arrives_ns + intervals_ns + end_ns + last.propagation_ns + apart_ns
