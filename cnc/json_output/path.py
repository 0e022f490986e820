"""What `cnc path` prints."""

from __future__ import annotations

from pydantic import AliasPath, Field

from cnc.json_output.document import Document, is_none, with_keys
from cnc.mechanisms.registry import MECHANISMS


def _is_empty(value: list[HopWindow]) -> bool:
    return not value


class HopWindow(Document):
    """A window that frames of the stream are planned to share with others at a port."""

    port: str
    opens_ns: int
    """From the start of the stream's period."""
    closes_ns: int
    """All frames of the period have left by then."""
    streams: int
    """How many have frames in the window, at most."""


@with_keys(
    {
        its.hop_key: (
            str | None,
            Field(
                None,
                validation_alias=AliasPath("done", its.hop_key),
                exclude_if=is_none,
                description=its.hop_text,
            ),
        )
        for its in (each.shown for each in MECHANISMS)
    }
)
class PathHop(Document):
    """What a switch does with frames of the stream."""

    switch: str
    ingress: str
    """The port that they come in by."""
    leaves_by: list[str]
    """The ports that they leave by, as the kernel's entries and VLANs are."""
    planned: list[str]
    """The ports that the plan has them leave by."""
    deviation: str | None
    """How they leave the plan here, in words; null: they do not."""
    windows: list[HopWindow] = Field(default_factory=list, exclude_if=_is_empty)
    """It is there where frames of the stream share windows."""


class Path(Document):
    """`cnc path`. The exit code is 1 if there is a deviation."""

    stream: str
    destination_mac: str = Field(validation_alias=AliasPath("address", "destination_mac"))
    vlan_id: int = Field(validation_alias=AliasPath("address", "vlan_id"))
    talker: str
    listeners: list[str]
    """The end stations that frames reach."""
    hops: list[PathHop]
    """In the order in which frames reach the switches."""
    deviations: list[str]
    """Where the stream leaves the plan, each with its place; empty: all is as planned."""
