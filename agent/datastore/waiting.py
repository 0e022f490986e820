"""What was stored before the agent started, and waits until the clock has settled. Pure.

A switch that boots has its stored gate control lists long before its clock agrees with those of the
others, and what is done by a wrong clock does harm. So what mechanisms do by the clock waits
(`agent.mechanism.ByClock`): only what is not in force yet, and never what a client asks for while
the agent runs, for a push is refused beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agent.mechanism import Mechanism
from agent.model import PortConfig, PortState


class Waiting:
    """What of the configuration waits where these mechanisms are."""

    def __init__(self, mechanisms: Collection[Mechanism]) -> None:
        self._by_clock = [each.by_clock for each in mechanisms if each.by_clock]

    def stored(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState]
    ) -> frozenset[str]:
        """The ports that are to do something by the clock and do nothing yet, or are not there."""
        return frozenset(
            name
            for name, config in desired.items()
            if any(its.asked(config) for its in self._by_clock)
            and not (name in states and self._does_any(states[name]))
        )

    def _does_any(self, state: PortState) -> bool:
        return any(its.is_in_force(state) for its in self._by_clock)

    def still(
        self,
        waiting: Collection[str],
        before: Mapping[str, PortConfig],
        desired: Mapping[str, PortConfig],
    ) -> frozenset[str]:
        """Those of the waiting ports that a change asks for nothing else by the clock."""
        return frozenset(
            name
            for name in waiting
            if name in before
            and name in desired
            and all(its.asked(before[name]) == its.asked(desired[name]) for its in self._by_clock)
        )

    def without(
        self, desired: Mapping[str, PortConfig], waiting: Collection[str]
    ) -> dict[str, PortConfig]:
        """What ports are to do while these wait."""
        return {
            name: self._without(config) if name in waiting else config
            for name, config in desired.items()
        }

    def _without(self, config: PortConfig) -> PortConfig:
        replaced = [its.without(config) for its in self._by_clock]
        kinds = tuple(map(type, replaced))
        others = (part for part in config.parts if not isinstance(part, kinds))
        return PortConfig(config.name, (*others, *replaced))
