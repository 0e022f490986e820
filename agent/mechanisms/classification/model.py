"""Classification by DSCP: what a port is asked to do, and what its rules do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DscpConfig:
    """`priorities[dscp]` is the skb priority that frames leaving by the port get (DSCP 0..63)."""

    priorities: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DscpState:
    """The priorities that are in force, for IPv4 and IPv6 alike."""

    priorities: Mapping[int, int] = field(default_factory=dict)
