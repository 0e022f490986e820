"""Gates that were stored before the agent started, and wait until the clock has settled. Pure.

A switch that boots has its stored gate control lists long before its clock agrees with those of the
others. Gates by a wrong clock hold up every frame; without gates frames at least leave. Only what
the kernel does not run yet waits, and never what a client asks for while the agent runs: a push is
refused beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agent.mechanisms.gates.model import GateConfig, GateState
from agent.model import PortConfig, PortState

# What a rollout edits beside the ports; so an edit of it shows that gates are pushed.
ROLLOUT_MODULE = "tsn-linux"


def stored_gates(
    desired: Mapping[str, PortConfig], states: Mapping[str, PortState]
) -> frozenset[str]:
    """The ports with stored gates of which the kernel runs none, or that are not there yet."""
    return frozenset(
        name
        for name, config in desired.items()
        if config[GateConfig].taprio is not None
        and (name not in states or states[name][GateState].taprio is None)
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
        if name in before
        and name in desired
        and before[name][GateConfig] == desired[name][GateConfig]
    )


def without_gates(
    desired: Mapping[str, PortConfig], waiting: Collection[str]
) -> dict[str, PortConfig]:
    """What ports are to do while the gates of these wait."""
    return {
        name: _without_gates(config) if name in waiting else config
        for name, config in desired.items()
    }


def _without_gates(config: PortConfig) -> PortConfig:
    others = (part for part in config.parts if not isinstance(part, GateConfig))
    return PortConfig(config.name, (*others, GateConfig()))
