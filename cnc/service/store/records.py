"""What the store keeps, as typed records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from cnc.service.calls import Role


class State(StrEnum):
    """Where the stream of a CUC is on its way to the switches. The values are stored."""

    PLANNED = "planned"  # no switch has it yet
    MODIFIED = "modified"  # switches have what it was before
    CONFIGURED = "configured"  # read back from the kernels
    REMOVING = "removing"  # not in the plan any more; switches may still have it


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream of a CUC as it was put. `decision` is the number of the last decision about it."""

    cuc: str
    stream_id: str
    name: str
    body: Mapping[str, Any]
    state: State
    placed: bool
    decision: int
    reason: str | None = None
    failure_code: int = 0
    rollout: int | None = None

    @property
    def etag(self) -> str:
        return str(self.decision)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """Who a token is for; of the token itself only a digest is kept. `ssh_key`: algorithm and key
    as a line of an authorized_keys file has them."""

    name: str
    role: Role
    cuc: str | None
    digest: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    former_digest: str | None = None
    former_until: datetime | None = None
    ssh_key: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """What a CUC may have, and ask for."""

    streams: int = 1000
    requests_per_minute: int = 600


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with an Idempotency-Key `key` of the asker `who`; `digest` is of what it asks."""

    who: str
    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, by its token, and from where, as the worker says."""

    name: str
    role: Role
    cuc: str | None
    source: str
