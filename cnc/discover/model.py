"""A network as far as it is known: what is drafted of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cnc.gate_lists.listed import Listed
from cnc.model import ClassRole, Forwarding, GateMode, Management, PortRef


@dataclass(frozen=True, slots=True)
class DraftClass:
    """A traffic class as switches have it; `max_frame_octets` is None where the default is kept."""

    name: str
    number: int
    priority: int
    dscps: tuple[int, ...]
    role: ClassRole
    max_frame_octets: int | None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftList:
    """A gate control list that a port runs; `obstacle` is why an intent with it is refused."""

    listed: Listed
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A switch or an end station; only a switch has `management`, and a `bridge` if it bridges.

    `lists` are the gate control lists that its ports run, by port; `mode` is how they do, None: as
    those of the network. `profile` has the keys of that of a switch that runs no agent.
    """

    name: str
    ports: tuple[str, ...]
    remarks: tuple[str, ...]
    management: Management | None = None
    bridge: str | None = None
    lists: Mapping[str, DraftList] = field(default_factory=dict)
    mode: GateMode | None = None
    profile: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DraftLink:
    """A cable; `rate_bps` is None where no end tells its speed."""

    ends: tuple[PortRef, PortRef]
    rate_bps: int | None
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A network as far as it is known; `remarks` say what is missing from it.

    `user` logs in on the switches; None: the user that runs `cnc`. `classes` are those of the gate
    control lists that switches run, the highest first; without any there are none, and `mode` is
    the default.
    """

    name: str
    user: str | None
    switches: tuple[Node, ...]
    end_stations: tuple[Node, ...]
    links: tuple[DraftLink, ...]
    remarks: tuple[str, ...]
    classes: tuple[DraftClass, ...] = ()
    mode: GateMode = GateMode.SOFTWARE

    @property
    def forwarding(self) -> Forwarding:
        """Bridged as soon as one switch bridges, as one with a profile does; `remarks` say so if
        another one does not."""
        bridges = any(switch.bridge or switch.profile for switch in self.switches)
        return Forwarding.BRIDGED if bridges else Forwarding.ROUTED

    @property
    def default_rate_bps(self) -> int | None:
        """The rate that most links have; None if none is known."""
        rates = Counter(link.rate_bps for link in self.links if link.rate_bps)
        return max(rates, key=lambda rate: (rates[rate], rate), default=None)
