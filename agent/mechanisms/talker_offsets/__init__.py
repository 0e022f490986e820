"""Talker offsets: when a station's own programs send the frames of each stream."""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import ByClock, Mechanism, MemoryAdapter
from agent.mechanisms.talker_offsets import tables
from agent.mechanisms.talker_offsets.file import OffsetFile
from agent.mechanisms.talker_offsets.model import OffsetConfig, OffsetState


def talker_offsets(file: Path) -> Mechanism:
    """The mechanism, with this file for the programs of the station."""
    return Mechanism(
        name=tables.NAME,
        subtrees=(tables.TALKER,),
        configured=tables.configured,
        as_is=tables.as_is,
        contributions=tables.contributions,
        diff=tables.diff,
        problems=tables.problems,
        operational=tables.operational,
        memory=MemoryAdapter(tables.applied, tables.at),
        kernel=lambda _ipr: OffsetFile(file),
        # By a wrong clock talkers would send in the windows of others; untold they wait.
        by_clock=ByClock(
            asked=lambda config: config[OffsetConfig].table,
            is_in_force=lambda state: state[OffsetState].newest is not None,
            without=lambda _config: OffsetConfig(),
        ),
    )
