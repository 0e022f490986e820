"""A request that only the controller which leads can answer goes there, by the core, once."""

from __future__ import annotations

from typing import get_args

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cnc.service.calls import VIA, ForwardedHeader
from cnc.service.refused import CallRefused
from cnc.service.web.api import PREFIX, refusal
from cnc.service.web.asking import Asking, Elsewhere
from cnc.service.web.errors import refused
from cnc.service.web.resources import source, token_of


class Forwarding:
    """Middleware, next to what answers: what comes here has passed all other checks."""

    def __init__(self, app: ASGIApp, asking: Asking) -> None:
        self._app, self._asking = app, asking

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        chunks: list[bytes] = []

        async def kept() -> Message:
            message = await receive()
            chunks.append(message.get("body", b""))
            return message

        try:
            await self._app(scope, kept, send)
        except Elsewhere as its:
            request = Request(scope)
            try:
                if VIA in Headers(scope=scope).getlist("via"):
                    raise its.refused from its  # who leads has changed on the way
                response = await self._answer(request, b"".join(chunks))
            except CallRefused as error:
                make = refusal if request.url.path.startswith(f"{PREFIX}/") else refused
                response = make(error)
            await response(scope, receive, send)

    async def _answer(self, request: Request, body: bytes) -> Response:
        query = request.url.query
        asked = {
            "method": request.method,
            "path": request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
            "headers": {
                name: value
                for name in get_args(ForwardedHeader)
                if (value := request.headers.get(name)) is not None
            },
            "body": body.decode(),
        }
        found = await self._asking.call(
            "forward", asked, token=token_of(request), source=source(request)
        )
        return Response(found["body"], found["status"], found["headers"])
