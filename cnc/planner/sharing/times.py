"""How long frames take on links where they share windows, all in ns."""

from __future__ import annotations

from typing import NamedTuple

from cnc.mechanisms.terms import (
    ControlAhead,
    added_octets,
    client_octets,
    control_ahead,
    held_up_ns,
    interference_ns,
)
from cnc.model import FRAMES_IN_ONE_GO, GateMode, Stream
from cnc.planner.ports import guard_ns, interval_min_ns, slot_ns
from cnc.planner.problem import Problem


class FrameTimes(NamedTuple):
    """A frame keeps the link busy for that long at most and at least, and is received at the least
    after that."""

    busy_ns: int
    busy_min_ns: int
    received_min_ns: int


class LinkTimes(NamedTuple):
    """Of a link: `late_ns` is for how long frames may be held up while control is not, in which
    `ahead_ns` is for best effort of a talker. A frame that has left, the gap behind it included, is
    in the next queue up to `arrives_ns` later; one that starts, after its reception and
    `flies_min_ns`, by one clock; the gap takes `gap_min_ns`. A gate may change `early_ns` too soon,
    at multiples of `tick_ns`, no entry of its list lasts less than `shortest_ns`, and after each
    go of the kernel it is late by `margin_ns` once more. Its switch takes up to `varies_ns` longer
    for one frame than for another. Best effort's turn and guard band take `beside_ns` of a slot.
    The link `is_talkers`, or a switch's."""

    late_ns: int
    ahead_ns: int
    arrives_ns: int
    flies_min_ns: int
    gap_min_ns: int
    early_ns: int
    varies_ns: int
    beside_ns: int
    shortest_ns: int
    tick_ns: int
    is_talkers: bool
    margin_ns: int
    control: ControlAhead


class Times:
    """The times of a problem's links and frames."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._links: dict[int, LinkTimes] = {}
        self._frames: dict[tuple[int, int, int], FrameTimes] = {}

    def of_link(self, number: int) -> LinkTimes:
        if number not in self._links:
            self._links[number] = self._compute(number)
        return self._links[number]

    def of_frame(self, number: int, stream: Stream) -> FrameTimes:
        key = number, stream.payload_octets, added_octets(stream)
        if key not in self._frames:
            network, link = self._problem.intent.network, self._problem.links[number]
            octets = client_octets(network, stream, link)
            self._frames[key] = FrameTimes(
                network.occupation_max_ns(link, octets),
                network.occupation_min_ns(link, octets),
                network.reception_min_ns(link, octets),
            )
        return self._frames[key]

    def left_ns(self, number: int, since_ns: int, work_ns: int, shortest_ns: int) -> int:
        """When frames have left a link that is theirs and control's from some instant on, if they
        are `work_ns` in all and the shortest of them is the last."""
        its = self.of_link(number)
        again_ns = (work_ns // shortest_ns - 1) // FRAMES_IN_ONE_GO * its.margin_ns
        # What comes of control while the gate is late is sent meanwhile.
        meanwhile_ns = again_ns + work_ns - shortest_ns
        return since_ns + its.ahead_ns + its.control.ns(meanwhile_ns) + again_ns + work_ns

    def apart_ns(self, one: int, other: int) -> int:
        """How far the clocks of those that send by two links may differ."""
        links = self._problem.links
        return self._problem.clocks.between_ns(links[one].source.node, links[other].source.node)

    def sooner_ns(self, number: int, stream: Stream) -> int:
        """How much sooner than other frames those of a stream may be in the queue behind its
        talker's link: without a tag; and as soon as a filter opens that drops what is not."""
        return self._problem.ahead_of_talker_ns(number, stream)

    def _compute(self, number: int) -> LinkTimes:
        intent, link = self._problem.intent, self._problem.links[number]
        network = intent.network
        bridge = network.bridges.get(link.target.node)
        sender = network.bridges.get(link.source.node)
        gap_ns = network.gap_min_ns(link)
        is_software = network.gate_mode(link.source.node) is GateMode.SOFTWARE
        return LinkTimes(
            late_ns=held_up_ns(intent, link),
            ahead_ns=interference_ns(intent, link),
            arrives_ns=link.propagation_ns - gap_ns + (bridge.processing_max_ns if bridge else 0),
            flies_min_ns=link.propagation_ns + (bridge.processing_min_ns if bridge else 0),
            gap_min_ns=gap_ns,
            early_ns=link.gate_tick_ns - 1 + link.gate_early_ns,
            varies_ns=sender.processing_max_ns - sender.processing_min_ns if sender else 0,
            beside_ns=guard_ns(intent, link) + slot_ns(intent, link),
            shortest_ns=interval_min_ns(link),
            tick_ns=link.gate_tick_ns,
            is_talkers=sender is None,
            margin_ns=network.gate_margin_ns if is_software else 0,
            control=control_ahead(intent, link),
        )
