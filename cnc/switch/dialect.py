"""How a switch is asked and told: in our tree, or in that of a device profile.

All other rooms know the tree of our agent alone: the modules in `yang/`. A dialect translates.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from cnc.data_tree.reply import Element
from cnc.data_tree.tree import AgentReport
from cnc.mechanisms.modules import module_filter
from cnc.switch import filters, readback
from cnc.switch.rollout_id import rollout_id_filter


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a switch is asked for: ports, bridges, and whether it is an end station; whether
    the YANG modules that not every switch needs are of interest."""

    ports: Collection[str]
    bridges: Collection[str] = ()
    talker: bool = False
    modules: bool = False


class Dialect(Protocol):
    """How one switch is asked and told."""

    def configuration(self, asked: Asked) -> list[Element]:
        """Subtree filters of what is configured."""
        ...

    def state(self, asked: Asked) -> list[Element]:
        """Subtree filters of what is reported."""
        ...

    def counters(self, asked: Asked) -> list[Element]:
        """Subtree filters of what is counted."""
        ...

    def clock(self, port: str) -> list[Element]:
        """Subtree filters of the time on a port."""
        ...

    def stored(self, data: Element) -> Element:
        """A reply to `configuration` in our tree."""
        ...

    def reported(self, data: Element) -> Element:
        """A reply to the other filters in our tree."""
        ...

    def agent(self, data: Element) -> AgentReport | None:
        """Who answers behind the server."""
        ...

    def edit(self, config: Element) -> Element:
        """An edit of ours in the tree of the switch. Raises ValueError: it has no words for it."""
        ...


class Ours:
    """The tree of our agent."""

    def configuration(self, asked: Asked) -> list[Element]:
        wanted = filters.configuration_filter(
            asked.ports, talker=asked.talker, bridges=asked.bridges
        )
        return [*wanted, rollout_id_filter()]

    def state(self, asked: Asked) -> list[Element]:
        wanted = filters.state_filter(asked.ports, talker=asked.talker, bridges=asked.bridges)
        return [*wanted, module_filter()] if asked.modules else wanted

    def counters(self, asked: Asked) -> list[Element]:
        return filters.counter_filter(asked.ports, asked.bridges)

    def clock(self, port: str) -> list[Element]:
        return filters.clock_filter(port)

    def stored(self, data: Element) -> Element:
        return data

    def reported(self, data: Element) -> Element:
        return data

    def agent(self, data: Element) -> AgentReport | None:
        return readback.agent_report(data)

    def edit(self, config: Element) -> Element:
        return config
