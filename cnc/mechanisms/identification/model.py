"""Streams whose frames talkers send untagged: how a switch knows them, and what it makes of them.

Terms are those of IEEE 802.1CB-2017 clause 6 and IEEE 802.1CBcv-2021: the first switch identifies a
stream passively, by what its talker puts into the frames, and then actively gives them an address,
a VLAN and a priority (6.6); the last switch gives them back the address of their listener.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cnc.model import Identification, StreamAddress


@dataclass(frozen=True, slots=True)
class Inward:
    """At the first switch: frames that come in by `port` and match `identification` get the address
    and VLAN of their stream, `pcp` as the code point of their tag, and the priority of that."""

    port: str
    identification: Identification
    pcp: int


@dataclass(frozen=True, slots=True)
class Outward:
    """At the last switch: frames of a stream that leave by `port` lose their tag, and get the
    address of the listener there."""

    port: str
    listener_mac: str


@dataclass(frozen=True, slots=True)
class Translation:
    """What a switch does with the frames of a stream whose talker sends them untagged.

    None: nothing, since the switch is not the first, or not the last.
    """

    inward: Inward | None = None
    outward: Outward | None = None


@dataclass(frozen=True, slots=True)
class Translations:
    """What a switch does with the frames of streams whose talkers send them untagged."""

    by_stream: Mapping[StreamAddress, Translation] = field(default_factory=dict)


class IdentityPart(StrEnum):
    """What an entry of a switch's table of stream identities does (802.1CB 9.1)."""

    NAME = "name"  # passive: by what a switch knows tagged frames, for its other tables
    IDENTIFY = "identify"  # passive: by what the first switch knows the frames
    INWARD = "inward"  # active: the address, VLAN and priority that it gives them
    OUTWARD = "outward"  # active: the address that the last switch gives them


def parts_of(translation: Translation) -> tuple[IdentityPart, ...]:
    """The entries that a switch needs for a translation, in their order."""
    inward = (IdentityPart.IDENTIFY, IdentityPart.INWARD) if translation.inward else ()
    return (*inward, IdentityPart.OUTWARD) if translation.outward else inward
