"""Entries of the Stream identity table that only say which tagged frames are those of a stream.

They are null stream identification with VLAN tags (IEEE Std 802.1CB-2017, 6.4 and 9.1), in the tree
of ieee802-dot1cb-stream-identification. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from agent.mechanism import Tree

NULL, ACTIVE = (f"{kind}-stream-identification" for kind in ("null", "dmac-vlan"))


class TaggedFrames(NamedTuple):
    """Frames to this destination, written 02-00-00-00-00-0A, with a tag of this VLAN."""

    mac: str
    vlan_id: int


def is_naming(entry: Tree) -> bool:
    """Whether the entry only says which tagged frames are those of a stream."""
    return bool(entry.get(NULL, {}).get("tagged") == "tagged")


def named_frames(entry: Tree) -> TaggedFrames | None:
    """The frames of the stream; None for an entry of another kind, or that lacks a leaf."""
    return tagged_frames(entry[NULL]) if is_naming(entry) else None


def tagged_frames(parameters: Tree) -> TaggedFrames | None:
    """What the leaves destination-mac and vlan say; None where one is missing."""
    if not {"destination-mac", "vlan"} <= parameters.keys():
        return None
    return TaggedFrames(parameters["destination-mac"].upper(), parameters["vlan"])


def input_ports(entry: Tree) -> Collection[str]:
    """The ports by which frames of the stream come in, from the wire or from the relay."""
    return {
        port
        for facing in ("out-facing", "in-facing")
        for port in entry.get(facing, {}).get("input-port", ())
    }
