"""Messages between a session of the server and its backend: two lengths, JSON, octets.

    message  two lengths of four octets in network order; a JSON object, the head; the body
    call     head {"call": name, "counters": [...], parameters...}
    answer   head {"reply": true} or {"errors": [ERROR, ...]} or {"other-modules": true}

Each call has its answer before the next, but those of `UNANSWERED`, which have none.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

_LENGTHS = struct.Struct("!II")
HEAD_MAX_OCTETS, BODY_MAX_OCTETS = 262_144, 4 << 20
UNANSWERED = frozenset({"greeted", "ended", "sent", "subscription-ended", "counters"})
OK: Mapping[str, Any] = {"reply": True}


class Broken(Exception):
    """The other end has sent what was not agreed."""


class Message(NamedTuple):
    head: Mapping[str, Any]
    body: bytes = b""

    def encoded(self) -> bytes:
        head = json.dumps(self.head, separators=(",", ":")).encode()
        return b"".join((_LENGTHS.pack(len(head), len(self.body)), head, self.body))


async def read(reader: asyncio.StreamReader) -> Message | None:
    """The next message, None at the end of the stream. Raises Broken."""
    try:
        head_octets, body_octets = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
        if head_octets > HEAD_MAX_OCTETS or body_octets > BODY_MAX_OCTETS:
            raise Broken(f"a message of {head_octets} and {body_octets} octets")
        head = object_of(await reader.readexactly(head_octets))
        return Message(head, await reader.readexactly(body_octets))
    except (asyncio.IncompleteReadError, OSError):
        return None


def object_of(octets: bytes) -> dict[str, Any]:
    """A JSON object. Raises Broken."""
    try:
        found = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise Broken("what is not JSON") from error
    if not isinstance(found, dict):
        raise Broken("what is no JSON object")
    return found
