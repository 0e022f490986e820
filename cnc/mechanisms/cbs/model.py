"""What ports are asked of the credit-based shaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc.model import PortRef

SLOPE_UNIT_BPS = 1_000  # what the kernel counts slopes in (struct tc_cbs_qopt)


@dataclass(frozen=True, slots=True)
class IdleSlopes:
    """The idle slopes of a plan in bit/s on the wire, by port and traffic class."""

    by_port: Mapping[PortRef, Mapping[int, int]] = field(default_factory=dict)


class SlopeRow(NamedTuple):
    """An idle slope, in a plan file."""

    node: str
    port: str
    traffic_class: int
    idle_slope_bps: int


@dataclass(frozen=True, slots=True)
class PortSlopes:
    """The idle slopes in bit/s that a port is asked for, or has stored, by traffic class. Made
    without arguments: no class is shaped."""

    by_class: Mapping[int, int] = field(default_factory=dict)


class Row(NamedTuple):
    """An idle slope of a port, in the history."""

    traffic_class: int
    idle_slope_bps: int


@dataclass(frozen=True, slots=True)
class SlopeReport:
    """The idle slopes in bit/s that the kernel keeps to at a port, by traffic class."""

    by_class: Mapping[int, int] = field(default_factory=dict)
