"""Preemptable priorities of a port: what it is asked for, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# A plan reckons with the shortest fragments, of 64 octets with their check (addFragSize 0).
FRAGMENT_OCTETS = 60


@dataclass(frozen=True, slots=True)
class PortPreemption:
    """The priorities, sorted, whose frames a port is asked to interrupt, or has stored. Made
    without arguments: none."""

    priorities: tuple[int, ...] = ()


class Row(NamedTuple):
    """A preemptable priority of a port, in the history."""

    priority: int


class MacMerge(NamedTuple):
    """What the MAC merge layer of a port does; the words of `verify_status` are those of
    tsn-linux."""

    tx_enabled: bool
    tx_active: bool
    verify_status: str
    tx_min_fragment_octets: int


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """The priorities, sorted, that the kernel has handed to a port as preemptable, and what its MAC
    merge layer does; None: it has none."""

    priorities: tuple[int, ...] = ()
    mac_merge: MacMerge | None = None
