"""What `cnc watch` prints."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from cnc.json_output.document import Document, Instant
from cnc.mechanisms.registry import FOLLOWED, MEASURED, WATCHED, noted
from cnc.watch import condition
from cnc.watch.condition import WHOLE, What

if TYPE_CHECKING:
    Kind = condition.Kind
    Note = condition.Note
else:
    _KINDS = [
        *condition.Kind,
        *(each.kind for each in MEASURED if each.kind),
        *(kind for each in WATCHED for kind in each.kinds),
        *(each.kind for each in FOLLOWED),
    ]
    Kind = StrEnum("Kind", {kind.name: kind.value for kind in _KINDS})
    Kind.__doc__ = "The kinds of conditions."
    _NOTES = [*condition.Note, *(kind for kind, _ in noted().values())]
    Note = StrEnum("Note", {note.name: note.value for note in _NOTES})
    Note.__doc__ = "The kinds of momentary events."


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
