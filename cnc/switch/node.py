"""A switch or an end station, as far as a session with it needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cnc.model import BridgeForwarding, EndStation, Management, PortSettings


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
    `translates`: it is asked whether it can translate frames that talkers send untagged.
    """

    name: str
    management: Management | None
    is_end_station: bool = False
    bridges: frozenset[str] = frozenset()
    translates: bool = False

    @classmethod
    def of(cls, node: ManagedNode, settings: Mapping[str, PortSettings | None]) -> Managed:
        """A node whose ports, and bridges, are to be configured with `settings`."""
        is_end_station = isinstance(node, EndStation)
        bridges, translates = bridges_in(settings), translates_by(settings)
        return cls(node.name, node.management, is_end_station, bridges, translates)


def bridges_in(settings: Mapping[str, PortSettings | None]) -> frozenset[str]:
    """Which of the configured are bridges, not ports."""
    return frozenset(name for name, each in settings.items() if isinstance(each, BridgeForwarding))


def translates_by(settings: Mapping[str, PortSettings | None]) -> bool:
    """Whether one of the configured is a bridge that is to translate frames."""
    bridges = (each for each in settings.values() if isinstance(each, BridgeForwarding))
    return any(each.translations for each in bridges)
