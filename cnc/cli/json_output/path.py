"""What `cnc path` prints."""

from __future__ import annotations

from pydantic import AliasPath, Field

from cnc.cli.json_output.document import Document, is_none, with_keys
from cnc.mechanisms.registry import SHOWN


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
        for _, its in SHOWN
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
