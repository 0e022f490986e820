"""Streams: by what a port knows their frames, and what becomes of those without a VLAN tag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

IP_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}  # of which the kernel looks at the ports
TAGGED_VLANS = range(1, 4095)  # IEEE Std 802.1Q-2022, table 9-2: 0 and 4095 name no VLAN


class Match(NamedTuple):
    """What the frames of a stream have while they have no VLAN tag; None: whatever it is.

    MAC addresses are written 02-00-00-00-00-0A, IP addresses in their shortest form.
    """

    destination_mac: str | None = None
    source_mac: str | None = None
    ip_source: str | None = None
    ip_destination: str | None = None
    dscp: int | None = None
    protocol: str | None = None
    source_port: int | None = None
    destination_port: int | None = None

    def __str__(self) -> str:
        """`ip-destination 192.0.2.1, protocol udp`, in the words of the standard's tree."""
        values = zip(self._fields, self, strict=True)
        return ", ".join(
            f"{name.replace('_', '-')} {value}" for name, value in values if value is not None
        )


@dataclass(frozen=True, slots=True)
class Incoming:
    """Frames that come in by the port and match get this destination, VLAN tag and priority.

    `handle` is that of the stream, `index` that of the entry of the Stream identity table that
    identifies, `active_index` that of the one that rewrites (IEEE Std 802.1CB-2017, 9.1).
    """

    handle: int
    index: int
    active_index: int
    match: Match
    mac: str
    vlan_id: int
    pcp: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Frames to `mac` in this VLAN that leave by the port get `restored_mac` and lose their tag."""

    handle: int
    index: int
    mac: str
    vlan_id: int
    restored_mac: str


@dataclass(frozen=True, slots=True)
class Named:
    """Frames to `mac` in this VLAN that come in by the port are those of the stream: they are
    counted, and pass as they are (null stream identification, 6.4).

    `is_out_facing`: the port is in the entry's list of out-facing input-ports, where the talker is;
    else in that of the in-facing ones.
    """

    handle: int
    index: int
    mac: str
    vlan_id: int
    is_out_facing: bool


Stream = Incoming | Outgoing | Named


@dataclass(frozen=True, slots=True)
class IdentificationTable:
    """What one port does with the frames of streams; no two of the same kind match one frame."""

    incoming: frozenset[Incoming] = frozenset()
    outgoing: frozenset[Outgoing] = frozenset()
    named: frozenset[Named] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.incoming or self.outgoing or self.named)


@dataclass(frozen=True, slots=True)
class IdentificationConfig:
    """What the port is to do; without anything frames pass as they are."""

    table: IdentificationTable = field(default_factory=IdentificationTable)


@dataclass(frozen=True, slots=True)
class IdentificationState:
    """What the port does. `frames` counts, since its filter was made, what each stream has met."""

    table: IdentificationTable = field(default_factory=IdentificationTable)
    frames: Mapping[Stream, int] = field(default_factory=dict)
