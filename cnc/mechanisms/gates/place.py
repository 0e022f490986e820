"""The gates of a port of a switch or an end station."""

from __future__ import annotations

from cnc.data_tree.tree import PortReport
from cnc.mechanism import AtPlace
from cnc.mechanisms.gates.compare import (
    configured_difference,
    difference,
    difference_since,
    needs_change,
)
from cnc.mechanisms.gates.derive import derive, leaving
from cnc.mechanisms.gates.preflight import examine_limits, examine_node, examine_port
from cnc.mechanisms.gates.tree import edit, port_reports, stored_ports
from cnc.model import PortGates, StoredPort


def _does(its: PortGates) -> str | None:
    return "running" if its.configuration else None


def _waits(_its: PortGates, report: PortReport) -> bool:
    return report.newest is None


def _previous(_its: PortGates, stored: StoredPort | None) -> PortGates:
    return PortGates(stored.configuration if stored else None)


AT_PLACE = AtPlace(
    derive=derive,
    leaving=leaving,
    needs_change=needs_change,
    configured=configured_difference,
    differs=difference,
    since=difference_since,
    waits=_waits,
    does=_does,
    idle="no gates",
    previous=_previous,
    stored_base_time_ns=lambda stored: stored.base_time_ns,
    edit=edit,
    stored=stored_ports,
    reported=port_reports,
    examine=examine_port,
    examine_node=examine_node,
    examine_network=examine_limits,
)
