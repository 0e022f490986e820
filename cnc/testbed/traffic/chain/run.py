"""Messages through the components of a chain in a lab: their programs, and their record."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnc.model import NS_PER_S, ClassRole, Intent
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import recording
from cnc.testbed.traffic.chain import program, roles
from cnc.testbed.traffic.endpoint import FAMILIES, IP_AND_UDP_OCTETS
from cnc.testbed.traffic.flows import Flow, flow_of_class
from cnc.testbed.traffic.loop.stations import TURN
from cnc.testbed.traffic.sockets import PROBE
from cnc.testbed.traffic.station import Station

PORT = 5100  # and from there on: one for each flow of each component
PHASE_NS = 100_000  # from the first message of one flow to that of the next
DRAIN_NS = NS_PER_S
IP_VERSION = 4


@dataclass(frozen=True, slots=True)
class Component:
    """A component in its place; a message that has come leaves `work_ns` later."""

    role: str
    station: str
    work_ns: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """Of the messages that come to a component, `percent` are lost, drawn by seed."""

    at: str
    percent: int


@dataclass(frozen=True, slots=True)
class ChainFlow:
    """One of the flows: from the first component to the last, or `is_backward`.

    `functions` are those of the operator's own, by name. `predict_after_ns` is how long after its
    instant the edge intelligence sends a message, predicted where it has not come by then; None: it
    passes on what comes.
    """

    name: str
    is_backward: bool
    interval_ns: int
    packet_octets: int
    functions: Mapping[str, str] = field(default_factory=dict)
    predict_after_ns: int | None = None
    loss: Loss | None = None

    def way(self, chain: Sequence[Component]) -> list[Component]:
        """The components in the order in which its messages pass them."""
        return [*reversed(chain)] if self.is_backward else [*chain]

    def lost(self, role: str, messages: int, seed: int) -> list[int]:
        """The numbers of the messages that are lost where they come to a component."""
        if self.loss is None or self.loss.at != role:
            return []
        chance = random.Random(f"{seed} {self.name}")  # noqa: S311  repeatable, not a secret
        return [n for n in range(messages) if chance.random() * 100 < self.loss.percent]


@dataclass(frozen=True, slots=True)
class Chained:
    """What is sent: each flow through the chain for a duration. Functions of the operator's own are
    in the directory `modules`."""

    chain: Sequence[Component]
    flows: Sequence[ChainFlow]
    duration_ns: int
    seed: int
    modules: Path

    def messages(self, flow: ChainFlow) -> int:
        return self.duration_ns // flow.interval_ns

    def links(self, intent: Intent) -> list[Flow]:
        """What each flow sends from station to station; nothing where two components share one."""
        return [
            flow_of_class(
                intent,
                ClassRole.BEST_EFFORT,
                (one.station, other.station),
                flow.packet_octets,
                flow.interval_ns,
            )
            for flow in self.flows
            for one, other in pairwise(flow.way(self.chain))
            if one.station != other.station
        ]


@dataclass(frozen=True, slots=True)
class Passed:
    """A message at a component; instants count from the one at which its first component had it.
    None: it did not come, or did not leave."""

    flow: str
    role: str
    seq: int
    received_ns: int | None
    left_ns: int | None
    value: str


def run(lab: Lab, chained: Chained, directory: Path) -> list[Passed]:
    """Send all messages; blocks until the end. The programs leave their files in `directory`.

    Raises:
        CncError: a program failed.
    """
    programs = [*_programs(lab, chained)]
    stations = [each.station for each in programs]
    try:
        for station in stations:
            station.start(directory, {})
        for station in stations:
            station.await_ready()
        start_ns = recording.next_start_ns(NS_PER_S, stations)
        for station in stations:
            station.send_start(start_ns)
        expected_s = (2 * recording.START_AHEAD_NS + chained.duration_ns) / NS_PER_S
        for each in programs:
            if each.is_timed:
                each.station.finish(expected_s)
        # What has been sent is to arrive before the others are told that nothing more comes.
        time.sleep((DRAIN_NS + sum(its.work_ns for its in chained.chain)) / NS_PER_S)
        for each in programs:
            if not each.is_timed:
                each.station.finish()
    finally:
        for station in stations:
            station.end()
    return [passed for each in programs for passed in each.passed(start_ns)]


@dataclass(frozen=True, slots=True)
class _Program:
    """One component's part of one flow. `is_timed`: it ends by itself."""

    flow: ChainFlow
    role: str
    offset_ns: int
    station: Station
    is_timed: bool

    def passed(self, start_ns: int) -> Iterator[Passed]:
        begin_ns = start_ns + self.offset_ns
        for seq, received, left, value in self.station.rows():
            due_ns = begin_ns + int(seq) * self.flow.interval_ns
            yield Passed(
                self.flow.name,
                self.role,
                int(seq),
                int(received) - due_ns if received else None,
                int(left) - due_ns if left else None,
                value,
            )


def _programs(lab: Lab, chained: Chained) -> Iterator[_Program]:
    turn = TURN
    for number, flow in enumerate(chained.flows):
        way = flow.way(chained.chain)
        for place, component in enumerate(way):
            is_first, is_last = place == 0, place == len(way) - 1
            named = roles.steps(
                flow.name,
                component.role,
                is_first=is_first,
                is_last=is_last,
                predicts=flow.predict_after_ns is not None,
            )
            predicts = roles.PREDICT in named
            verb = "first" if is_first else "last" if is_last else "pass"
            functions = {**roles.DEFAULTS[flow.name], **flow.functions}
            messages = chained.messages(flow)
            spec = {
                "flow": flow.name,
                "number": number,
                "functions": [functions[step] for step in named],
                "modules": str(chained.modules.resolve()),
                "messages": messages,
                "interval_ns": flow.interval_ns,
                "offset_ns": number * PHASE_NS,
                "work_ns": component.work_ns,
                "after_ns": flow.predict_after_ns,
                "lost": flow.lost(component.role, messages, chained.seed),
                "turn": turn,
                "room_octets": flow.packet_octets - IP_AND_UDP_OCTETS[IP_VERSION] - PROBE.size,
                "listener": None if is_first else _heard(lab, chained, number, component),
                "behind": None if is_last else _sent(lab, chained, number, way[place + 1]),
            }
            turn += 1
            yield _Program(
                flow,
                component.role,
                number * PHASE_NS,
                Station(
                    lab,
                    "predict" if predicts else verb,
                    component.station,
                    turn,
                    spec,
                    file=program.__file__,
                ),
                is_timed=is_first or predicts,
            )


def _port(chained: Chained, number: int, component: Component) -> int:
    return PORT + chained.chain.index(component) * len(chained.flows) + number


def _heard(lab: Lab, chained: Chained, number: int, component: Component) -> Mapping[str, Any]:
    own = addresses(lab.intent)[component.station].of_version(IP_VERSION)
    port = _port(chained, number, component)
    return {"family": FAMILIES[IP_VERSION], "address": str(own), "port": port}


def _sent(lab: Lab, chained: Chained, number: int, to: Component) -> Mapping[str, Any]:
    """Messages to a component, as `cnc.testbed.traffic.endpoint.Outlet` is told."""
    flow = chained.flows[number]
    its = flow_of_class(lab.intent, ClassRole.BEST_EFFORT, ("", to.station), 0, flow.interval_ns)
    return {
        "ip_version": IP_VERSION,
        "dscp": its.dscp,
        "payload_octets": flow.packet_octets,
        "destination": str(addresses(lab.intent)[to.station].of_version(IP_VERSION)),
        "port": _port(chained, number, to),
        "source": None,
        "source_port": None,
    }
