"""The gates of a port of a switch or an end station."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.data_tree.tree import GatesReport, PortReport
from cnc.mechanism import AtPlace
from cnc.mechanisms.gates.compare import (
    configured_difference,
    difference_since,
    differs,
    drifted,
    needs_change,
)
from cnc.mechanisms.gates.derive import derive, leaving
from cnc.mechanisms.gates.preflight import examine_limits, examine_node, examine_port
from cnc.mechanisms.gates.tree import edit, gates_reports, stored_gates
from cnc.model import PortGates, StoredGates, StoredPort


def _cycles_ns(its: PortGates) -> Iterator[int]:
    if its.configuration:
        yield its.configuration.gates.cycle_ns


def _does(its: PortGates) -> str | None:
    return "running" if its.configuration else None


def _waits(_its: PortGates, report: PortReport) -> bool:
    return report[GatesReport].newest is None


def _pends(report: PortReport) -> bool:
    return report[GatesReport].pending is not None


def _previous(_its: PortGates, stored: StoredPort) -> PortGates:
    return PortGates(stored[StoredGates].configuration)


AT_PLACE = AtPlace(
    part=PortGates,
    cycles_ns=_cycles_ns,
    derive=derive,
    leaving=leaving,
    needs_change=needs_change,
    configured=configured_difference,
    differs=differs,
    drifted=drifted,
    since=difference_since,
    waits=_waits,
    pends=_pends,
    does=_does,
    idle="no gates",
    previous=_previous,
    edit=edit,
    stored=stored_gates,
    reported=gates_reports,
    examine=examine_port,
    examine_node=examine_node,
    examine_network=examine_limits,
)
