"""What the talkers of a port of an end station are told."""

from __future__ import annotations

from cnc.data_tree.tree import GatesReport, PortReport, TalkerReport
from cnc.mechanism import AtPlace, configured_or_drifted
from cnc.mechanisms.talker_offsets.compare import (
    configured_difference,
    difference_since,
    drifted,
    previous,
    talker_difference,
)
from cnc.mechanisms.talker_offsets.tree import derive, edit, stored_tables, talker_reports, told
from cnc.model import TalkerStreams


def _does(its: TalkerStreams) -> str:
    return "talkers know their offsets" if its.streams else "no talkers"


def _waits(_its: TalkerStreams, report: PortReport) -> bool:
    return report[GatesReport].newest is None and report[TalkerReport].newest is None


def _pends(report: PortReport) -> bool:
    return report[TalkerReport].pending is not None


AT_PLACE = AtPlace(
    part=TalkerStreams,
    cycles_ns=lambda its: (stream.period_ns for stream in its.streams),
    derive=derive,
    needs_change=configured_or_drifted("the station", configured_difference, drifted),
    configured=configured_difference,
    differs=talker_difference,
    drifted=drifted,
    since=difference_since,
    waits=_waits,
    pends=_pends,
    does=_does,
    idle="no talkers",
    previous=previous,
    edit=edit,
    stored=stored_tables,
    reported=talker_reports,
    told=told,
)
