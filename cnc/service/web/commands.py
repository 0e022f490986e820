"""/api/v1/commands and /api/v1/intent: what `cnc --controller` asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from cnc.service.calls import Role
from cnc.service.packed import DOCUMENT_MAX_OCTETS, packed
from cnc.service.refused import CallRefused
from cnc.service.web.api import refusal
from cnc.service.web.asking import Asking, with_pauses
from cnc.service.web.bodies import BODY_MAX_OCTETS, json_of
from cnc.service.web.resources import key_of, source, token_of

# What commands are sent, by the role of the token; of a CUC, which may send none, no more than
# any body has.
_MOST_OCTETS = {
    Role.VIEWER: 768 << 10,
    Role.OPERATOR: DOCUMENT_MAX_OCTETS,
    Role.ADMIN: DOCUMENT_MAX_OCTETS,
}
_WITHIN_S = 60.0
_LINES = "application/x-ndjson"


class Commands:
    """Answers for a worker."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def run(self, request: Request) -> Response:
        """A line of JSON for each item of `command.run`; a refusal before the first is a status."""
        try:
            arguments = await self._arguments(request)
            items = self._asking.follow(
                "command.run", arguments, token=token_of(request), source=source(request)
            )
            first = await anext(items)
        except CallRefused as refused:
            return refusal(refused)
        return StreamingResponse(_lines(first, items), media_type=_LINES)

    async def put_intent(self, request: Request) -> Response:
        try:
            arguments = await self._arguments(request)
            arguments["idempotency_key"] = key_of(request)
            found = await self._asking.call(
                "intent.put", arguments, token=token_of(request), source=source(request)
            )
        except CallRefused as refused:
            return refusal(refused)
        return JSONResponse(found)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        asker = await self._asking.call("who", token=token_of(request), source=source(request))
        most = _MOST_OCTETS.get(Role(asker["role"]), BODY_MAX_OCTETS)
        arguments = await json_of(request, at_most=most, within_s=_WITHIN_S)
        if isinstance(text := arguments.pop("text", None), str):
            arguments["packed"] = await asyncio.to_thread(packed, text)
        return arguments


async def _lines(first: Any, items: AsyncGenerator[Any, None]) -> AsyncIterator[str]:
    async with aclosing(with_pauses(items)) as paced:
        try:
            yield _line(first)
            async for item in paced:
                yield _line(item) if item else "\n"
        except CallRefused as refused:
            yield _line({"error": refused.to_object()})


def _line(item: Any) -> str:
    return json.dumps(item, ensure_ascii=True, separators=(",", ":")) + "\n"
