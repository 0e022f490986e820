"""Whose port is at the other end of whose: what switches say of their neighbours, put together.

Pure. Switches are numbers here, in the order they were asked: names are the draft's.

A neighbour is one of the switches if it has the chassis of one, or the MAC address of one of its
ports. Names are not trusted: two devices may have the same, and any device can send any name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cnc.data_tree.mac_addresses import from_tree
from cnc.switch.topology import Identifier, NeighborReport, TopologyReport


class SwitchPort(NamedTuple):
    """An interface of the switch that was asked as number `switch`."""

    switch: int
    port: str


@dataclass(frozen=True, slots=True)
class Cable:
    """Two connected switches. `said_by` is the only end that reports it; None: both do."""

    ends: tuple[SwitchPort, SwitchPort]
    said_by: int | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A neighbour at a port of a switch that was not queried itself."""

    port: SwitchPort
    neighbor: NeighborReport


class Reason(StrEnum):
    """Why the other end of a port is not known; {other} stands for the port it names."""

    SEVERAL = "several neighbours: something between them forwards LLDP"
    NO_INTERFACE = "a neighbour at an interface that the switch does not report"
    ITSELF = "it hears its own switch: a loop"
    PORT_UNKNOWN = "a switch of this draft, at a port that it does not report"
    CONTRADICTED = "it hears {other}, which is connected to another port"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A port whose other end is not drafted, and whom it hears; `other` is the port it names."""

    port: SwitchPort
    reason: Reason
    heard: tuple[NeighborReport, ...]
    other: SwitchPort | None = None


@dataclass(frozen=True, slots=True)
class Cables:
    """All that is known of the cables at the ports of the switches."""

    cables: tuple[Cable, ...]
    attachments: tuple[Attachment, ...]
    doubts: tuple[Doubt, ...]


def find(reports: Sequence[TopologyReport]) -> Cables:
    """The cables between and at these switches."""
    heard = _heard(reports)
    doubts = [
        Doubt(port, Reason.SEVERAL, neighbors)
        for port, neighbors in heard.items()
        if len(neighbors) > 1
    ]
    attachments: list[Attachment] = []
    claims: dict[SwitchPort, SwitchPort] = {}
    identities = _Identities(reports)
    by_mac = [_ports_by_mac(report) for report in reports]
    for port, neighbors in heard.items():
        if len(neighbors) > 1:
            continue
        (neighbor,) = neighbors
        switch = identities.switch(neighbor)
        if port.port not in reports[port.switch].interfaces:
            doubts.append(Doubt(port, Reason.NO_INTERFACE, neighbors))
        elif switch is None:
            attachments.append(Attachment(port, neighbor))
        elif switch == port.switch:
            doubts.append(Doubt(port, Reason.ITSELF, neighbors))
        elif (name := _port_name(neighbor, reports[switch], by_mac[switch])) is None:
            doubts.append(Doubt(port, Reason.PORT_UNKNOWN, neighbors))
        else:
            claims[port] = SwitchPort(switch, name)
    cables = list(_agreed(claims))
    used = {end for cable in cables for end in cable.ends}
    for port, other in claims.items():
        if port in used:
            continue
        if other in heard or other in used:  # it hears another device, or has another cable
            doubts.append(Doubt(port, Reason.CONTRADICTED, heard[port], other))
        else:
            cables.append(Cable((port, other), said_by=port.switch))
            used |= {port, other}
    return Cables(tuple(sorted(cables, key=lambda c: c.ends)), tuple(attachments), tuple(doubts))


def _heard(
    reports: Sequence[TopologyReport],
) -> dict[SwitchPort, tuple[NeighborReport, ...]]:
    heard: dict[SwitchPort, list[NeighborReport]] = {}
    for number, report in enumerate(reports):
        for neighbor in report.lldp.neighbors if report.lldp else ():
            heard.setdefault(SwitchPort(number, neighbor.interface), []).append(neighbor)
    return {port: tuple(neighbors) for port, neighbors in heard.items()}


def _agreed(claims: Mapping[SwitchPort, SwitchPort]) -> Iterator[Cable]:
    """The cables that both ends report, each once."""
    for port, other in claims.items():
        if port < other and claims.get(other) == port:
            yield Cable((port, other))


class _Identities:
    """Which switch a neighbour is."""

    def __init__(self, reports: Sequence[TopologyReport]) -> None:
        self._by_chassis = _unambiguous(
            (report.lldp.chassis_id, number)
            for number, report in enumerate(reports)
            if report.lldp and report.lldp.chassis_id
        )
        self._by_mac = _unambiguous(
            (from_tree(interface.phys_address), number)
            for number, report in enumerate(reports)
            for interface in report.interfaces.values()
            if interface.phys_address
        )

    def switch(self, neighbor: NeighborReport) -> int | None:
        """Its number, or None if it is none that was asked."""
        number = self._by_chassis.get(neighbor.chassis_id)
        if number is None and neighbor.port_id and neighbor.port_id.subtype == "mac-address":
            number = self._by_mac.get(from_tree(neighbor.port_id.text))
        return number


def _unambiguous(owners: Iterator[tuple[object, int]]) -> dict[object, int]:
    """What belongs to one switch only, however often."""
    distinct = set(owners)
    times = Counter(key for key, _ in distinct)
    return {key: number for key, number in distinct if times[key] == 1}


def _ports_by_mac(report: TopologyReport) -> dict[str, list[str]]:
    """The interfaces of `report` by MAC address; a bridge, which has that of a port, is none."""
    ports: dict[str, list[str]] = {}
    for name, interface in report.interfaces.items():
        if name not in report.bridges:
            ports.setdefault(from_tree(interface.phys_address), []).append(name)
    return ports


def _port_name(
    neighbor: NeighborReport, report: TopologyReport, ports_by_mac: Mapping[str, Sequence[str]]
) -> str | None:
    """The interface of `report` that `neighbor` names as its own."""
    port_id = neighbor.port_id or Identifier("")
    if port_id.subtype == "mac-address":
        same = ports_by_mac.get(from_tree(port_id.text), ())
        if len(same) == 1:
            return same[0]
        # A VLAN has the MAC address of its port: the description tells them apart.
        return neighbor.port_description if neighbor.port_description in same else None
    return next(
        (t for t in (port_id.text, neighbor.port_description) if t in report.interfaces), None
    )
