"""What a switch stores and reports of a port or a bridge, made for tests."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import BridgeReport, GatesReport, PortReport
from cnc.mechanisms.forwarding.tree import bridge_reports
from cnc.model import (
    NO_PARTS,
    BridgeForwarding,
    Parts,
    PlaceParts,
    PortConfiguration,
    StoredBridge,
    StoredGates,
    StoredPort,
)


def port_report(*parts: object, **reported: Any) -> PortReport:
    """A port with these parts; what else is `reported` is of its gates or of the port itself."""
    of_gates = {each.name for each in fields(GatesReport)}
    gates = GatesReport(**{name: its for name, its in reported.items() if name in of_gates})
    of_port = {name: its for name, its in reported.items() if name not in of_gates}
    return PortReport(PlaceParts.of(gates, *parts), **of_port)


def changed(report: PortReport, *parts: object, **reported: Any) -> PortReport:
    """The same with these parts, and this of its gates or of the port itself."""
    of_gates = {each.name for each in fields(GatesReport)} & reported.keys()
    gates = replace(report[GatesReport], **{name: reported.pop(name) for name in of_gates})
    return replace(report, parts=report.parts.having(gates, *parts), **reported)


def reported_bridge(data: Element) -> BridgeReport:
    """What a reply has of the bridge br0."""
    return bridge_reports(Reply(data), ["br0"])["br0"]


def bridge_report(its: BridgeReport) -> PortReport:
    """A bridge, which has no gates, no clock and no link of its own."""
    return PortReport(PlaceParts.of(its))


def stored_gates(
    configuration: PortConfiguration | None, base_time_ns: int = 0, **stored: Any
) -> StoredPort:
    """A port that stores this, and the rules of it unless others are given."""
    rules = configuration.dscp_priorities if configuration else ()
    dscps = frozenset(stored.pop("dscps", rules))
    return StoredPort.of(StoredGates(configuration, base_time_ns, dscps, **stored))


def stored_bridge(forwarding: BridgeForwarding | None, tables: Parts = NO_PARTS) -> StoredPort:
    """A bridge that stores this."""
    return StoredPort.of(StoredBridge(forwarding, tables))
