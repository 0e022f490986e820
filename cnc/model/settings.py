"""What a rollout configures on a port or a bridge, and what is stored there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cnc.model.network import GateMode
from cnc.model.parts import NO_PARTS, Parts, PlaceParts
from cnc.model.plan import GateControlList
from cnc.model.streams import StreamAddress

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class PortConfiguration:
    """All that a port with a gate control list is configured with, but the base time.

    `priority_map[p]` is the traffic class of priority p (8 entries); `dscp_priorities` the priority
    frames leaving by this port get for their DSCP.
    """

    number_of_classes: int
    priority_map: tuple[int, ...]
    mode: GateMode
    gates: GateControlList
    dscp_priorities: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TalkerStream:
    """What a talker is told of one stream: see `cnc.model.transmissions.Transmission`.

    `dscp` is None where the class has none, `address` in a routed network; in a bridged one
    `priority` is the PCP.
    """

    name: str
    path: int
    period_ns: int
    offset_ns: int
    payload_octets: int
    priority: int
    dscp: int | None
    listeners: tuple[str, ...]
    address: StreamAddress | None = None
    frames: int = 1


@dataclass(frozen=True, slots=True)
class PortGates:
    """The gates that a port is asked for; None: no gate control list."""

    configuration: PortConfiguration | None = None


@dataclass(frozen=True, slots=True)
class TalkerStreams:
    """The streams that leave by a port of an end station, by name and path, as talkers are told."""

    streams: tuple[TalkerStream, ...] = ()


@dataclass(frozen=True, slots=True)
class TalkerTable:
    """A talker's configuration that applies to periods that begin at `base_time_ns` or later."""

    base_time_ns: int
    configuration: TalkerStreams


@dataclass(frozen=True, slots=True)
class BridgeForwarding:
    """How the Linux bridge of a switch forwards the frames of streams: what a rollout sets there.

    `entries` are the static filtering entries: the ports by which frames to an address leave.
    `vlans` are the VLANs of streams, each with the ports that are members, where frames are tagged.
    Ports in `trusting` give a tagged frame the priority of its PCP (802.1Q 6.9.3). All ports are
    sorted by name. A VLAN without a member is one that streams have left: nothing of it stays.
    `names` are the streams of the addresses, as far as they are known, for messages. `parts` are
    what mechanisms do with the frames beside (`cnc.mechanisms`).
    """

    entries: Mapping[StreamAddress, tuple[str, ...]] = field(default_factory=dict)
    vlans: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    trusting: tuple[str, ...] = ()
    names: Mapping[StreamAddress, str] = field(default_factory=dict, compare=False)
    parts: Parts = NO_PARTS

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of a mechanism; what asks for nothing where there is none."""
        return self.parts[kind]

    def having(self, *parts: object) -> BridgeForwarding:
        """The same with these parts in place of those of their types."""
        return replace(self, parts=self.parts.having(*parts))

    @property
    def members(self) -> set[str]:
        """The ports that are members of a VLAN of streams."""
        return {port for ports in self.vlans.values() for port in ports}


NO_FORWARDING = BridgeForwarding()


@dataclass(frozen=True, slots=True)
class PortSettings(PlaceParts):
    """What is asked at a port of a switch or an end station, or at a bridge: a part of each
    mechanism that a rollout sets there, also one that asks for nothing.

    What belongs to a mechanism of which there is no part is another client's, and stays.
    """


NO_GATES = PortSettings.of(PortGates())
"""A port that is to run no gate control list: none is planned or given for it."""


def gated_port(settings: PortSettings | None) -> PortConfiguration | None:
    """What the gates of a port are configured with; None where a rollout sets none."""
    return settings[PortGates].configuration if settings else None


def gates_of(settings: PortSettings | None) -> GateControlList | None:
    """The gate control list of a port; None where a rollout sets none."""
    port = gated_port(settings)
    return port.gates if port else None


@dataclass(frozen=True, slots=True)
class StoredGates:
    """The gates of a port as the running datastore has them.

    `configuration` is None where gates are off, or where they are on and what is stored is no
    schedule in force: `is_draft`. `has_interface_gates`: there are gates outside its bridge port,
    in the table of IEEE 802.1DC, which no rollout sets. `dscps` are those of the stored rules,
    whatever else is there. `extras` says in words what is set that no rollout sets, and that
    changes what the port does with frames.
    """

    configuration: PortConfiguration | None = None
    base_time_ns: int = 0
    dscps: frozenset[int] = frozenset()
    extras: tuple[str, ...] = ()
    is_draft: bool = False
    has_interface_gates: bool = False

    @property
    def are_on(self) -> bool:
        """Whether gates are on."""
        return self.is_draft or self.has_interface_gates or self.configuration is not None


@dataclass(frozen=True, slots=True)
class StoredBridge:
    """A bridge as the running datastore has it: how it forwards, None where it has no component,
    and the `tables` of mechanisms, whole, whoever set their entries: an edit keeps to numbers that
    are free."""

    forwarding: BridgeForwarding | None = None
    tables: Parts = NO_PARTS


@dataclass(frozen=True, slots=True)
class StoredPort(PlaceParts):
    """What the running datastore has of a port, or of a bridge: a part of each mechanism, of a type
    of its own."""


NOTHING_STORED = StoredPort()
