"""What `cnc path` prints."""

from __future__ import annotations

from pydantic import AliasPath, Field

from cnc.cli.json_output.document import Document, is_none


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
    translation: str | None = Field(None, exclude_if=is_none)
    """What becomes of their address and tag, in words; left out where nothing does."""
    sequencing: str | None = Field(None, exclude_if=is_none)
    """What is done with their numbers and copies, in words; left out where nothing is."""
    filters: str | None = Field(None, exclude_if=is_none)
    """What the stream filter does that their first switch has for them, in words; left out where it
    has none."""


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
