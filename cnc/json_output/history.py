"""What `cnc history` prints of rollouts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from cnc.json_output.document import Document, ForwardingChange, Instant, Lists, is_none
from cnc.rollout.history import Outcome, Phase


class SwitchResult(Document):
    """The result of a rollout on a switch."""

    address: str
    """Address and port of its NETCONF server."""
    outcome: Outcome
    detail: str
    ports: Annotated[list[str] | dict[str, Lists], BeforeValidator(list)] = Field(
        validation_alias="after"
    )
    """Those that changed; of a single rollout with their lists."""
    forwarding: dict[str, ForwardingChange] | None = Field(None, exclude_if=is_none)
    """By bridge, of a single rollout; left out where none changed."""


class Rollout(Document):
    """`cnc history` prints a list of them, the newest first, `cnc history NUMBER` one."""

    number: int
    id: str
    """A UUID that the switches store with the rollout."""
    network: str
    operator: str
    what: str
    """The command that made it."""
    started: Instant
    """Times are ISO 8601 with an offset from UTC."""
    confirm_by: Instant
    """Until then the switches wait for their confirmation."""
    ended: Instant | None
    base_time_ns: int
    phase: Phase
    under_way: bool
    """A controller is working on it."""
    detail: str
    """What went wrong, or why the push was refused."""
    refused: bool
    """Nothing was sent to any switch. `phase` is "taken back" then."""
    switches: dict[str, SwitchResult]
