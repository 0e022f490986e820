"""What the talkers of a port of an end station are told."""

from __future__ import annotations

from cnc.data_tree.tree import PortReport
from cnc.mechanism import AtPlace
from cnc.mechanisms.talker_offsets.compare import (
    configured_difference,
    difference_since,
    previous,
    talker_difference,
    talker_needs_change,
)
from cnc.mechanisms.talker_offsets.tree import derive, edit, port_reports, stored_ports, told
from cnc.model import StoredPort, TalkerStreams


def _does(its: TalkerStreams) -> str:
    return "talkers know their offsets" if its.streams else "no talkers"


def _waits(_its: TalkerStreams, report: PortReport) -> bool:
    return report.newest is None and report.talker.newest is None


def _stored_base_time_ns(stored: StoredPort) -> int | None:
    return stored.talker.base_time_ns if stored.talker else None


AT_PLACE = AtPlace(
    derive=derive,
    needs_change=talker_needs_change,
    configured=configured_difference,
    differs=talker_difference,
    since=difference_since,
    waits=_waits,
    does=_does,
    idle="no talkers",
    previous=previous,
    stored_base_time_ns=_stored_base_time_ns,
    edit=edit,
    stored=stored_ports,
    reported=port_reports,
    told=told,
)
