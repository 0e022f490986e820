"""Checks that cables are where the intent has them, by what switches hear over LLDP (802.1AB).

A moved cable changes no gate and no entry, and every frame of its streams is lost. LLDP is not
authenticated, and a neighbour is remembered for two minutes: what it says is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cnc.discover.cables import Attachment, find
from cnc.model import Network, PortRef
from cnc.rollout.preflight.finding import Check, Finding, Verdict
from cnc.switch.mac_addresses import from_tree
from cnc.switch.topology import NeighborReport, TopologyReport

_HINT = (
    "put the cable where `links` has it, or correct `links`; `cnc discover` drafts what is heard"
)
_UNHEARD = "run lldpd there and at what is connected: a moved cable is seen by nothing else"


def examine_cabling(network: Network, reports: Mapping[str, TopologyReport]) -> Iterator[Finding]:
    """A warning for each port whose neighbour is another one than the intent's; one remark for all
    switches that hear nothing over LLDP."""
    names = sorted(reports)
    found = find([reports[name] for name in names])
    heard: dict[PortRef, PortRef] = {}
    for cable in found.cables:
        ends = [PortRef(names[end.switch], end.port) for end in cable.ends]
        heard |= zip(ends, reversed(ends), strict=True)
    attached = {PortRef(names[its.port.switch], its.port.port): its for its in found.attachments}
    for ref in sorted(port for port in network.links if port.node in reports):
        planned = network.links[ref].target
        if ref in heard:
            if heard[ref] != planned:
                yield _elsewhere(ref, str(heard[ref]), planned)
            elif planned.node in network.bridges:
                yield Finding(*ref, Check.CABLING, Verdict.OK, f"connected to {planned}")
        elif ref in attached and (name := _stranger(network, reports, attached[ref], planned)):
            yield _elsewhere(ref, name, planned)
    silent = [name for name in names if not _neighbors(reports[name])]
    if silent:
        text = f"not checked at {', '.join(silent)}: no neighbour is heard over LLDP"
        yield Finding(None, None, Check.CABLING, Verdict.UNKNOWN, text, _UNHEARD)


def _neighbors(report: TopologyReport) -> Sequence[NeighborReport]:
    return report.lldp.neighbors if report.lldp else ()


def _elsewhere(ref: PortRef, heard: str, planned: PortRef) -> Finding:
    text = f"LLDP hears {heard} there, the intent has {planned}"
    return Finding(*ref, Check.CABLING, Verdict.WARNING, text, _HINT)


def _stranger(
    network: Network,
    reports: Mapping[str, TopologyReport],
    attachment: Attachment,
    planned: PortRef,
) -> str | None:
    """Who a neighbour is that the intent has elsewhere; None of one that may be the planned one."""
    neighbor = attachment.neighbor
    if planned.node in network.bridges:
        report = reports.get(planned.node)
        if report is None or report.lldp is None:  # who that switch is, is not known
            return None
        return f"{_called(neighbor)}, which is not {planned.node},"
    owner = _station(network, neighbor)
    return None if owner in {None, planned.node} else f"end station {owner}"


def _station(network: Network, neighbor: NeighborReport) -> str | None:
    """The end station that a neighbour is: by the MAC address that the intent states of it, else by
    the name that it gives itself."""
    addresses = {
        from_tree(each.text)
        for each in (neighbor.port_id, neighbor.chassis_id)
        if each and each.subtype == "mac-address"
    }
    for name, station in network.end_stations.items():
        if station.mac and from_tree(station.mac) in addresses:
            return name
    name = neighbor.system_name.partition(".")[0]
    known = network.end_stations.get(name)
    return name if known and not known.mac else None


def _called(neighbor: NeighborReport) -> str:
    return neighbor.system_name or (neighbor.chassis_id.text if neighbor.chassis_id else "a device")
