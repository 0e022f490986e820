"""Checks that cables are where the intent has them, by what switches hear over LLDP (802.1AB).

A moved cable changes no gate and no entry, and every frame of its streams is lost. LLDP is not
authenticated, and a neighbour is remembered for two minutes: what it says is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cnc.data_tree.mac_addresses import from_tree
from cnc.discover.cables import find
from cnc.finding import Check, Finding, Verdict
from cnc.model import Network, PortRef
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
    stations = {from_tree(its.mac): name for name, its in network.end_stations.items() if its.mac}
    for ref in sorted(port for port in network.links if port.node in reports):
        planned = network.links[ref].target
        if ref in heard:
            if heard[ref] != planned:
                yield _elsewhere(ref, str(heard[ref]), planned)
            elif planned.node in network.bridges:
                yield Finding(*ref, Check.CABLING, Verdict.OK, f"connected to {planned}")
        elif ref in attached:
            neighbor = attached[ref].neighbor
            if planned.node in network.bridges:
                name = _stranger(neighbor, planned.node, reports.get(planned.node))
            else:
                name = _other_station(network, stations, neighbor, planned.node)
            if name:
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


def _stranger(neighbor: NeighborReport, switch: str, report: TopologyReport | None) -> str | None:
    """Who a neighbour is that is not the switch, of which the report is; None: it may be that."""
    if report is None or report.lldp is None:  # its identity is not known
        return None
    return f"{_called(neighbor)}, which is not {switch},"


def _other_station(
    network: Network, by_mac: Mapping[str, str], neighbor: NeighborReport, planned: str
) -> str | None:
    """The end station that a neighbour is, unless that is the planned one, or is not known: by the
    MAC address that the intent states of it, else by the name that it gives itself."""
    addresses = [
        from_tree(each.text)
        for each in (neighbor.port_id, neighbor.chassis_id)
        if each and each.subtype == "mac-address"
    ]
    name = next((by_mac[each] for each in addresses if each in by_mac), None)
    if name is None:
        called = neighbor.system_name.partition(".")[0]
        known = network.end_stations.get(called)
        name = called if known and not known.mac else None
    return None if name in {None, planned} else f"end station {name}"


def _called(neighbor: NeighborReport) -> str:
    return neighbor.system_name or (neighbor.chassis_id.text if neighbor.chassis_id else "a device")
