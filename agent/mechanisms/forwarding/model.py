"""How a Linux bridge forwards the frames of streams: what it is asked to do, and what it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from agent.mac_addresses import is_group

FORWARDED_VLANS = range(1, 4095)  # IEEE Std 802.1Q-2022, table 9-2: 0 and 4095 name no VLAN


class Address(NamedTuple):
    """A destination: a MAC address, written 02-00-00-00-00-0A, and the VLAN that it is in."""

    mac: str
    vlan_id: int

    @property
    def is_group(self) -> bool:
        """Whether several stations may listen."""
        return is_group(self.mac)

    def __str__(self) -> str:
        return f"{self.mac} in VLAN {self.vlan_id}"


class Entry(NamedTuple):
    """Frames to this address leave by this port."""

    address: Address
    port: str


class Member(NamedTuple):
    """The port is a member of the VLAN; frames of the VLAN are tagged there."""

    vlan_id: int
    port: str


@dataclass(frozen=True, slots=True)
class ForwardingTable:
    """Static filtering entries and VLAN registrations of one bridge."""

    entries: frozenset[Entry] = frozenset()
    members: frozenset[Member] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.entries or self.members)

    @property
    def ports_by_address(self) -> Mapping[Address, list[str]]:
        """The ports by which the frames to each address leave, sorted."""
        return _grouped((each.address, each.port) for each in self.entries)

    @property
    def ports_by_vlan(self) -> Mapping[int, list[str]]:
        """The members of each VLAN, sorted."""
        return _grouped((each.vlan_id, each.port) for each in self.members)

    @property
    def vlans_by_port(self) -> Mapping[str, list[int]]:
        """The VLANs that each port is a member of, sorted."""
        vlans: dict[str, list[int]] = {}
        for each in sorted(self.members):
            vlans.setdefault(each.port, []).append(each.vlan_id)
        return vlans

    @property
    def vlans_by_place(self) -> Mapping[tuple[str, str], list[int]]:
        """By MAC address and port the VLANs in which frames to it leave there, sorted."""
        vlans: dict[tuple[str, str], list[int]] = {}
        for (mac, vlan_id), port in sorted(self.entries):
            vlans.setdefault((mac, port), []).append(vlan_id)
        return vlans


@dataclass(frozen=True, slots=True)
class ForwardingConfig:
    """What the bridge is to have; without anything it keeps to its ordinary behaviour."""

    table: ForwardingTable = field(default_factory=ForwardingTable)


@dataclass(frozen=True, slots=True)
class ForwardingState:
    """`table` is what the agent has made and the kernel acts on, `foreign` what others have made:
    static entries of the filtering database, and members of VLANs."""

    table: ForwardingTable = field(default_factory=ForwardingTable)
    foreign: ForwardingTable = field(default_factory=ForwardingTable)


_Key = TypeVar("_Key", Address, int)


def _grouped(rows: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    grouped: dict[_Key, list[str]] = {}
    for key, port in sorted(rows):
        grouped.setdefault(key, []).append(port)
    return grouped
