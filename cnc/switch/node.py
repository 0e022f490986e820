"""A switch or an end station, as far as a session with it needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cnc.mechanisms.composition import is_bridge
from cnc.mechanisms.modules import needs_modules
from cnc.model import EndStation, Management, PortSettings


class ManagedNode(Protocol):
    """A switch or an end station of a network, as far as a session needs to know it."""

    @property
    def name(self) -> str: ...
    @property
    def management(self) -> Management | None: ...


@dataclass(frozen=True, slots=True)
class Managed:
    """Name and management address of a node, without the rest of the network.

    `bridges` are its Linux bridges whose forwarding is configured; it is asked for no other.
    `needs_modules`: it is asked whether it has the YANG modules that not every switch needs.
    """

    name: str
    management: Management | None
    is_end_station: bool = False
    bridges: frozenset[str] = frozenset()
    needs_modules: bool = False

    @classmethod
    def of(cls, node: ManagedNode, settings: Mapping[str, PortSettings]) -> Managed:
        """A node whose ports, and bridges, are to be configured with `settings`."""
        is_end_station = isinstance(node, EndStation)
        bridges = bridges_in(settings)
        return cls(node.name, node.management, is_end_station, bridges, needs_modules(settings))


def bridges_in(settings: Mapping[str, PortSettings]) -> frozenset[str]:
    """Which of the configured are bridges, not ports."""
    return frozenset(name for name, each in settings.items() if is_bridge(each))
