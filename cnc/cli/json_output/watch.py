"""What `cnc watch` prints."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from cnc.cli.json_output.document import Document, Instant
from cnc.watch.condition import WHOLE, Kind, Note, What


def _none_if_whole(name: str) -> str | None:
    return None if name == WHOLE else name


_Name = Annotated[str | None, BeforeValidator(_none_if_whole)]


class Event(Document):
    """`cnc watch` prints one a line, for as long as it runs."""

    time: Instant = Field(validation_alias="at")
    """ISO 8601."""
    event: What = Field(validation_alias="what")
    """A trouble begins or ends, or something is noted."""
    kind: Kind | Note
    switch: _Name
    """null: the network as a whole."""
    port: _Name
    text: str
    since: Instant | None
    """When the trouble that ends had begun."""
