"""Streams with two paths whose second copies the last switch takes out: what switches do for that.

Terms are those of IEEE 802.1CB-2017 clause 7: the first switch gives each frame a number (sequence
generation, 7.4.1) and writes it into a redundancy tag (R-TAG, 7.8); the last switch passes the
first copy of each number, drops the others (sequence recovery, 7.4.2) and takes the tag away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cnc.model import StreamAddress

SEQUENCE_TAG_OCTETS = 6  # R-TAG: EtherType 2, reserved 2, sequence number 2 (802.1CB 7.8)
HISTORY_LENGTH_MIN = 2  # 802.1CB 10.4.1.6
HISTORY_LENGTH_MAX = 64  # how many numbers a switch remembers: bits of a machine word


@dataclass(frozen=True, slots=True)
class Generation:
    """At the first switch: frames that come in by `port`, from their talker, get a number."""

    port: str


@dataclass(frozen=True, slots=True)
class LatentErrorDetection:
    """How a last switch watches that copies come by all `paths` (7.4.4).

    Each `period_ms` it compares how many it has dropped with those that were to be dropped, `paths`
    - 1 for each frame. More than `difference` are an error. Each `reset_period_ms` it begins anew.
    """

    difference: int
    paths: int
    period_ms: int = 2_000  # 802.1CB 10.4.1.12.2
    reset_period_ms: int = 30_000  # 802.1CB 10.4.1.12.4


@dataclass(frozen=True, slots=True)
class Recovery:
    """At a last switch: of the frames that come in by any of `ports`, sorted by name, the first
    with each number goes on, without its tag.

    A frame whose number differs from the highest one so far by `history_length` or more is
    dropped as rogue; after `reset_timeout_ms` without a frame that went on any number is taken.
    `latent_errors` is how it is watched that copies come by all ways; None: it is not.
    """

    ports: tuple[str, ...]
    history_length: int
    reset_timeout_ms: int
    latent_errors: LatentErrorDetection | None = None


SequenceFunction = Generation | Recovery
"""What a switch does for a stream: it is its first switch, or one of its last."""


def ports_of(function: SequenceFunction) -> tuple[str, ...]:
    """The ports by which the frames of the stream come in."""
    return (function.port,) if isinstance(function, Generation) else function.ports


@dataclass(frozen=True, slots=True)
class SequenceFunctions:
    """What a switch does with the copies of the frames of streams."""

    by_stream: Mapping[StreamAddress, SequenceFunction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSequencing:
    """Which entries a switch has in its tables for numbered frames (802.1CB clause 10), by index,
    or by port and whether out-facing, and the handles of their streams."""

    generations: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    recoveries: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    identifications: Mapping[tuple[str, bool], tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LatentErrors:
    """Whether copies of a stream come by all its ways, as the switch has found (802.1CB 7.4.4).

    `is_detected` from the first test with an error until a reset period has passed in which none
    had one; `difference` is by how many copies the newest test found too few or too many, `tests`
    how many had an error since the agent started.
    """

    is_detected: bool
    difference: int
    tests: int


@dataclass(frozen=True, slots=True)
class FoundErrors:
    """What a bridge has found where it watches the copies of a stream."""

    by_stream: Mapping[StreamAddress, LatentErrors] = field(default_factory=dict)
