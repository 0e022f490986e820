"""What was stored before the agent started, and waits until the clock has settled. Pure.

A switch that boots has its stored gate control lists long before its clock agrees with those of the
others. By a wrong clock the gates of a port hold up every frame, and stream gates drop every frame;
without them frames at least get through. Talkers that sent by a wrong clock would take the windows
of others. So gates wait, and so do the offsets of talkers: only what is not in force yet, and never
what a client asks for while the agent runs, for a push is refused beforehand.

Without its list a stream gate stays in the state that it has before it (AdminGateStates, IEEE Std
802.1Q-2022, 8.6.10); what else its stream filter asks for is in force. Without a table of offsets a
talker waits until it is told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from agent.mechanisms.gates.model import GateConfig, GateState
from agent.mechanisms.stream_filters.model import StreamFilterConfig, StreamFilterState
from agent.mechanisms.talker_offsets.model import OffsetConfig, OffsetState
from agent.model import PortConfig, PortState

# What a rollout edits beside the ports; so an edit of it shows that gates are pushed.
ROLLOUT_MODULE = "tsn-linux"


def stored_gates(
    desired: Mapping[str, PortConfig], states: Mapping[str, PortState]
) -> frozenset[str]:
    """The ports with stored gates or offsets of talkers, and the bridges with stored lists of
    stream gates, where none are in force, or that are not there yet."""
    return frozenset(
        name
        for name, config in desired.items()
        if _has_gates(config) and not (name in states and _runs_gates(states[name]))
    )


def _has_gates(config: PortConfig) -> bool:
    stream_filters = config[StreamFilterConfig].filters
    return (
        config[GateConfig].taprio is not None
        or config[OffsetConfig].table is not None
        or any(each.gate.list for each in stream_filters)
    )


def _runs_gates(state: PortState) -> bool:
    stream_gates = state[StreamFilterState].table.gates
    return (
        state[GateState].taprio is not None
        or state[OffsetState].newest is not None
        or any(gate.list for gate in stream_gates)
    )


def still_waiting(
    waiting: Collection[str],
    before: Mapping[str, PortConfig],
    desired: Mapping[str, PortConfig],
) -> frozenset[str]:
    """Those of the waiting ports whose gates a change leaves as they were configured before."""
    return frozenset(
        name
        for name in waiting
        if name in before and name in desired and _gates(before[name]) == _gates(desired[name])
    )


def _gates(config: PortConfig) -> object:
    stream_gates = {each.gate for each in config[StreamFilterConfig].filters}
    return config[GateConfig], config[OffsetConfig], stream_gates


def without_gates(
    desired: Mapping[str, PortConfig], waiting: Collection[str]
) -> dict[str, PortConfig]:
    """What ports are to do while the gates of these wait."""
    return {
        name: _without_gates(config) if name in waiting else config
        for name, config in desired.items()
    }


def _without_gates(config: PortConfig) -> PortConfig:
    stream_filters = config[StreamFilterConfig]
    without_lists = frozenset(
        replace(each, gate=replace(each.gate, list=None)) for each in stream_filters.filters
    )
    replaced = (GateConfig(), OffsetConfig(), replace(stream_filters, filters=without_lists))
    others = (part for part in config.parts if not isinstance(part, tuple(map(type, replaced))))
    return PortConfig(config.name, (*others, *replaced))
