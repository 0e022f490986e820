"""State and configuration of a switch as values: parsers of replies.

A leaf that the standard lets a server leave out may be missing. The absence of a mandatory node, or
a value that it cannot have, raises ValueError with the node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import (
    BRIDGE,
    DATASTORES,
    INTERFACES,
    NMDA,
    TSN_LINUX,
    AgentReport,
    ClockReport,
    ClockSource,
    KeptTerm,
    PortReport,
    PtpReport,
)
from cnc.mechanism import AtPlace
from cnc.mechanisms.composition import at_places
from cnc.model import PlaceParts, StoredPort

_NMDA = ElementMaker(namespace=NMDA, nsmap={None: NMDA, "ds": DATASTORES})
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)


def get_operational(filters: Iterable[Element]) -> Element:
    """The `<get-data>` (RFC 8526) of the operational datastore, which holds more than `<get>`
    returns.

    The port's limits are configuration in the standard's tree. A `<get>` reads such nodes from the
    running datastore, where they are not set; the operational datastore has the agent's values.
    """
    return _NMDA(
        "get-data", _NMDA("datastore", "ds:operational"), _NMDA("subtree-filter", *filters)
    )


def operational_data(message: str) -> Element:
    """The `<data>` of a reply to `get_operational`."""
    data = etree.fromstring(message.encode(), _PARSER).find(f"{{{NMDA}}}data")
    if data is None:
        raise ValueError("it has no data of ietf-netconf-nmda")
    return data


_NAMESPACES = {"b": BRIDGE, "if": INTERFACES, "t": TSN_LINUX}
_LEAVES = reply.Leaves(TSN_LINUX)
_INTERFACES = reply.Leaves(INTERFACES)


def stored_ports(data: Element, bridges: Collection[str] = ()) -> dict[str, StoredPort]:
    """Ports of switches and end stations, and these bridges, by name, from the reply to a
    get-config."""
    whole = Reply(data)
    found = _parts(lambda place: place.stored(whole, bridges))
    return {name: StoredPort.of(*parts) for name, parts in found.items()}


def port_reports(data: Element, bridges: Collection[str] = ()) -> dict[str, PortReport]:
    """Kernel state and limits by port name, and of these bridges, from the reply to a get."""
    whole = Reply(data)
    not_applied = _not_applied(data.find("t:agent", _NAMESPACES))
    found = _parts(lambda place: place.reported(whole, bridges))
    reports = {name: PortReport(not_applied=not_applied.get(name)) for name in bridges}
    for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
        kernel = interface.find("b:bridge-port/t:taprio/t:kernel", _NAMESPACES)
        name = _INTERFACES.required(interface, "name")
        # A bridge is an interface, too; what matters of it is how it forwards.
        if kernel is not None and name not in bridges:
            reports[name] = PortReport(
                oper_status=_INTERFACES.text(interface, "oper-status"),
                link_speed_bps=_LEAVES.optional_number(kernel, "link-speed-bps"),
                tx_queues=_LEAVES.optional_number(kernel, "tx-queues"),
                mtu_octets=_LEAVES.optional_number(kernel, "mtu"),
                not_applied=not_applied.get(name),
            )
    return {
        name: replace(report, parts=PlaceParts.of(*found[name]))
        for name, report in reports.items()
        if name in found
    }


def _parts(read: Callable[[AtPlace[Any]], Mapping[str, object]]) -> dict[str, list[object]]:
    """The parts of each port and bridge by name, as `read` has those of one mechanism."""
    of_ports: dict[str, list[object]] = {}
    of_bridges: dict[str, list[object]] = {}
    for place in at_places():
        for name, part in read(place).items():
            (of_bridges if place.of_bridges else of_ports).setdefault(name, []).append(part)
    # A bridge is an interface, too; what matters of it is how it forwards.
    return {**of_ports, **of_bridges}


def agent_report(data: Element) -> AgentReport | None:
    """The agent's state; None when no agent answers behind the NETCONF server."""
    agent = data.find("t:agent", _NAMESPACES)
    if agent is None or _LEAVES.text(agent, "pid") is None:
        return None
    return AgentReport(
        tai_offset_s=_LEAVES.optional_number(agent, "tai-offset"),
        last_change_us=_LEAVES.optional_number(agent, "last-change/duration-us"),
        classifier=_LEAVES.text(agent, "classifier"),
        ptp=_ptp_report(agent.find("t:ptp", _NAMESPACES)),
        refused=dict(_refused(agent)),
        clock=_clock_report(agent.find("t:clock", _NAMESPACES)),
        gates_wait=_LEAVES.text(agent, "gates-wait"),
        refuses_late_rollouts=_LEAVES.text(agent, "refuses-late-rollouts") == "true",
        keeps_terms=_LEAVES.text(agent, "keeps-terms") == "true",
        kept_term=_kept_term(agent.find("t:kept-term", _NAMESPACES)),
        not_applied=_not_applied(agent),
    )


def _kept_term(kept: Element | None) -> KeptTerm | None:
    if kept is None:
        return None
    return KeptTerm(
        _LEAVES.required(kept, "network"),
        reply.number(_LEAVES.required(kept, "term"), "term"),
        _LEAVES.text(kept, "controller") or "nobody",
        _LEAVES.text(kept, "taken") or "some time",
    )


def _refused(agent: Element) -> Iterator[tuple[str, str]]:
    """Why the kernel cannot run a mechanism, by its name: the leaves `NAME-refused`."""
    for leaf in agent.iterchildren(f"{{{TSN_LINUX}}}*"):
        name, _, rest = etree.QName(leaf).localname.rpartition("-refused")
        if name and not rest:
            yield name.replace("-", "_"), leaf.text or ""


def _not_applied(agent: Element | None) -> dict[str, str]:
    if agent is None:
        return {}
    return {
        _LEAVES.required(row, "interface"): _LEAVES.text(row, "reason") or "it does not say why"
        for row in reply.entries(agent, "t:not-applied", _NAMESPACES)
    }


def _clock_report(clock: Element | None) -> ClockReport | None:
    source = None if clock is None else _LEAVES.text(clock, "source")
    # Another agent may know other sources.
    if clock is None or source not in set(ClockSource):
        return None
    synchronised = _LEAVES.text(clock, "synchronised")
    return ClockReport(
        ClockSource(source),
        instance=_LEAVES.optional_number(clock, "instance"),
        offset_max_ns=_LEAVES.optional_number(clock, "offset-max-ns"),
        measured_s=_LEAVES.optional_number(clock, "measured-seconds") or 0,
        synchronised=None if synchronised is None else synchronised == "true",
        domain=_LEAVES.optional_number(clock, "domain"),
        others=tuple(
            (_LEAVES.number(each, "instance"), _LEAVES.number(each, "domain"))
            for each in reply.entries(clock, "t:other-instance", _NAMESPACES)
        ),
    )


def _ptp_report(ptp: Element | None) -> PtpReport | None:
    if ptp is None:
        return None
    return PtpReport(
        grandmaster=_LEAVES.text(ptp, "grandmaster-identity") or "unknown",
        is_grandmaster=_LEAVES.text(ptp, "is-grandmaster") == "true",
        offset_from_master_ns=_LEAVES.optional_number(ptp, "offset-from-master-ns"),
        port_states=tuple(
            _LEAVES.required(port, "state") for port in reply.entries(ptp, "t:port", _NAMESPACES)
        ),
        identity=_LEAVES.text(ptp, "clock-identity"),
        parent=_LEAVES.text(ptp, "parent-identity"),
    )
