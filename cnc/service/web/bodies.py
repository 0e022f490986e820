"""JSON from strangers: as long, as deep and as slow as allowed, and in a known media type."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from starlette.requests import ClientDisconnect, Request

from cnc.service.web.errors import YANG_JSON, RestconfError

BODY_MAX_OCTETS = 64 << 10
DEPTH_MAX = 32  # a stream of the UNI is 8 deep below its list
BODY_WITHIN_S = 10.0
_LONG = 256 << 10  # octets that hold up others while they are parsed
# Strings as a whole, also one without an end, so that it is looked at once.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_JSON = frozenset({YANG_JSON, "application/json"})


async def json_of(
    request: Request, *, at_most: int = BODY_MAX_OCTETS, within_s: float = BODY_WITHIN_S
) -> dict[str, Any]:
    """The body of a request, a JSON object of so many octets `at_most`. Raises RestconfError."""
    media = request.headers.get("content-type", YANG_JSON).partition(";")[0].strip().lower()
    if media not in _JSON:
        raise RestconfError(
            415,
            "operation-not-supported",
            f"bodies are {YANG_JSON}, by RFC 7951; XML is not supported",
            kind="protocol",
        )
    octets = await _octets(request, at_most, within_s)
    try:
        found = await asyncio.to_thread(_parsed, octets) if len(octets) > _LONG else _parsed(octets)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _malformed("the body is no JSON object")
    return found


def _parsed(octets: bytes) -> Any:
    text = octets.decode()
    _check_depth(text)
    return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)


def accept_json(request: Request, *others: str) -> None:
    """Raises RestconfError for who takes no JSON, nor any of the `others`."""
    accepted = request.headers.get("accept", "*/*").lower()
    good = ("*/*", "application/*", *_JSON, *others)
    kinds = [each.partition(";")[0].strip() for each in accepted.split(",")]
    if not any(kind in good for kind in kinds):
        raise RestconfError(
            406,
            "operation-not-supported",
            f"answers are {YANG_JSON}, by RFC 7951; XML is not supported",
            kind="protocol",
        )


async def _octets(request: Request, at_most: int, within_s: float) -> bytes:
    octets = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                octets += chunk
                if len(octets) > at_most:
                    raise RestconfError(
                        413,
                        "too-big",
                        f"a body has {at_most} octets at most here",
                        kind="transport",
                    )
    except TimeoutError:
        raise RestconfError(
            408, "operation-failed", f"no whole body in {within_s:g} s", kind="transport"
        ) from None
    except ClientDisconnect:
        raise _malformed("the body ends before its end") from None
    return bytes(octets)


def _check_depth(text: str) -> None:
    """Raises ValueError. Before the parser, whose stack grows with it."""
    depth = 0
    for its in _BRACKETS.finditer(text):
        if its[0] in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise ValueError(f"nested more than {DEPTH_MAX} deep")
        elif its[0] in "]}":
            depth -= 1


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member twice in one object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _malformed(message: str) -> RestconfError:
    return RestconfError(400, "malformed-message", message, kind="rpc")
