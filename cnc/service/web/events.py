"""Event streams by server-sent events: the module's notifications (RFC 8040 section 6), and all
that the core tells, for the page and for `cnc`.

`Last-Event-ID` continues where a client was, as `?after=` does for browsers, which cannot send it
the first time; without it events count from now on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cnc.service.refused import CallRefused
from cnc.service.uni.shown import notification
from cnc.service.web.asking import Asking
from cnc.service.web.bodies import accept_json
from cnc.service.web.errors import RestconfError
from cnc.service.web.resources import Resources, source, token_of

EVENT_STREAM = "text/event-stream"
_ALIVE_EVERY_S = 15.0  # a comment, so that a client that has gone is found
_DIGITS_MAX = 15


class Events:
    """Answers for a worker."""

    def __init__(self, asking: Asking, resources: Resources) -> None:
        self._asking, self._resources = asking, resources

    async def notifications(self, request: Request) -> Response:
        """/restconf/streams/NETCONF. Raises RestconfError, CallRefused."""
        accept_json(request, EVENT_STREAM)
        if request.query_params:
            raise RestconfError(
                400, "invalid-value", "this stream has no query parameters: use Last-Event-ID"
            )
        domain = (await self._resources.call(request, "domain.get"))["name"]
        return self._following(request, lambda event: notification(event, domain))

    async def all(self, request: Request) -> Response:
        """/api/v1/events by server-sent events. Raises CallRefused, RestconfError."""
        await self._resources.call(request, "who")
        return self._following(request, lambda event: event)

    def _following(self, request: Request, shown: Callable[[Any], Any]) -> Response:
        return StreamingResponse(
            self._lines(request, _after(request), shown), media_type=EVENT_STREAM
        )

    async def _lines(
        self, request: Request, after: int | None, shown: Callable[[Any], Any]
    ) -> AsyncIterator[str]:
        arguments = {} if after is None else {"after": after}
        items = self._asking.follow(
            "events.follow", arguments, token=token_of(request), source=source(request)
        )
        yield ": events follow\n\n"
        coming = asyncio.ensure_future(anext(items, None))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=_ALIVE_EVERY_S)
                if not done:
                    yield ": alive\n\n"
                    continue
                event = coming.result()
                if event is None:
                    return
                if (told := shown(event)) is not None:
                    text = json.dumps(told, ensure_ascii=True, separators=(",", ":"))
                    yield f"id: {event['number']}\ndata: {text}\n\n"
                coming = asyncio.ensure_future(anext(items, None))
        except CallRefused as refused:
            yield f"event: end\ndata: {json.dumps(refused.to_object(), ensure_ascii=True)}\n\n"
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            await items.aclose()


def _after(request: Request) -> int | None:
    last = request.headers.get("last-event-id", request.query_params.get("after"))
    if last is None:
        return None
    if not (last.isascii() and last.isdigit() and len(last) <= _DIGITS_MAX):
        text = "Last-Event-ID, or after, is the number of an event"
        raise RestconfError(400, "invalid-value", text)
    return int(last)
