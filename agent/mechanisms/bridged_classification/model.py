"""Classification of bridged frames: what a port is asked to do, and what its filters do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BridgedConfig:
    """`priorities[dscp]` is the skb priority that bridged frames get, while the port is a member of
    a bridge (DSCP 0..63)."""

    priorities: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BridgedState:
    """The priorities that are in force for IPv4 and IPv6, untagged and with a VLAN tag alike."""

    priorities: Mapping[int, int] = field(default_factory=dict)
