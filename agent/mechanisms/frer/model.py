"""Replication and elimination of frames at a port: what it is asked to do, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

VECTOR, MATCH = "vector", "match"
HISTORY_LENGTHS = range(2, 65)  # bits of a register; IEEE Std 802.1CB-2017, 10.4.1.6: 2 at least


class Address(NamedTuple):
    """By what the frames of a stream are known: a destination, 02-00-00-00-00-0A, and a VLAN."""

    mac: str
    vlan_id: int

    def __str__(self) -> str:
        return f"{self.mac} in VLAN {self.vlan_id}"


@dataclass(frozen=True, slots=True)
class Generated:
    """Frames of this stream that come in get the next sequence number (7.4.1).

    `entry` is the index of the Sequence generation table, whose streams share one sequence.
    `reset` is the leaf of that name: the sequence begins anew where it becomes true.
    """

    handle: int
    address: Address
    entry: int
    reset: bool = False


@dataclass(frozen=True, slots=True)
class LatentErrorDetection:
    """How it is watched that copies come by all `paths` (7.4.4, 10.4.1.12).

    For each frame that passes, all paths but one are to bring a copy that is discarded. By more
    than `difference` their number must not be another one, counted anew each reset period.
    """

    difference: int
    period_ms: int
    paths: int
    reset_period_ms: int


@dataclass(frozen=True, slots=True)
class LatentErrors:
    """What that has found since the agent was started: `difference` is that of the newest test,
    `errors` counts the tests in which it was too great, `resets` how often counting began."""

    detected: bool = False
    difference: int = 0
    errors: int = 0
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovery function (7.4.3); `entry` is its index in the Sequence recovery table.

    All streams and ports of an entry feed one function. `history_length` is 0 where the algorithm
    has no history. Without a frame that passes for `reset_timeout_ms` any sequence number is
    taken next. Latent errors are looked for in functions that have all paths.
    """

    entry: int
    algorithm: str
    history_length: int
    reset_timeout_ms: int
    take_no_sequence: bool = False
    reset: bool = False
    latent_errors: LatentErrorDetection | None = None


@dataclass(frozen=True, slots=True)
class Recovered:
    """Of the frames of this stream that come in each sequence number passes once.

    First through the function for this port alone (7.5), then through that for all (7.4.2); at
    least one of them is there.
    """

    handle: int
    address: Address
    combined: Recovery | None = None
    individual: Recovery | None = None

    @property
    def functions(self) -> tuple[Recovery, ...]:
        return tuple(each for each in (self.individual, self.combined) if each)


@dataclass(frozen=True, slots=True)
class FrerConfig:
    """What the port is to do; without anything frames pass as they are."""

    generated: frozenset[Generated] = frozenset()
    recovered: frozenset[Recovered] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.streams)

    @property
    def streams(self) -> tuple[Generated | Recovered, ...]:
        return (*self.generated, *self.recovered)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a port has done with the frames of one stream (IEEE Std 802.1CB-2017, 10.8).

    `passed` counts those that got a number, where numbers are generated.
    """

    passed: int = 0
    discarded: int = 0
    out_of_order: int = 0
    rogue: int = 0
    lost: int = 0
    tagless: int = 0
    resets: int = 0
    errored: int = 0


@dataclass(frozen=True, slots=True)
class FrerState:
    """What the port does. `foreign` names an XDP program on it that is not the agent's;
    `latent_errors` are those of its recovery functions, by their entries, where that is watched."""

    generated: frozenset[Generated] = frozenset()
    recovered: frozenset[Recovered] = frozenset()
    counts: Mapping[Address, Counts] = field(default_factory=dict)
    latent_errors: Mapping[int, LatentErrors] = field(default_factory=dict)
    foreign: str | None = None
