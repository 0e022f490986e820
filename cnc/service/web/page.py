"""What a browser asks for: `/`, the form that takes a token, and what the page is made of.

Who answers for which host, and that forms come from pages of ours, is the guard's.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from cnc.service import page
from cnc.service.calls import READERS, Role
from cnc.service.refused import CallRefused, Code
from cnc.service.web.api import refusal
from cnc.service.web.resources import token_of
from cnc.service.web.session import COOKIE, GOOD_S, Sessions

_FORM_MAX_OCTETS = 4096
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Their address changes with them (`page.version`).
_FOREVER = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}


class Ask(Protocol):
    """A call to the core, as `channel.Channel.call`. Raises CallRefused."""

    def __call__(
        self, call: str, arguments: Mapping[str, Any] | None = None, *, token: str, source: str
    ) -> Awaitable[Any]: ...


def routes(ask: Ask, sessions: Sessions) -> list[Route]:
    """Of the page; before those of `/api/v1`, of which it has one more."""
    its = _Page(ask, sessions)
    return [
        Route("/", its.main),
        Route("/login", its.form),
        Route("/login", its.sign_in, methods=["POST"]),
        Route("/logout", its.sign_out, methods=["POST"]),
        Route("/api/v1/page", its.plan),
        Route("/assets/page.js", _asset(page.script, "text/javascript")),
        Route("/assets/page.css", _asset(page.style, "text/css")),
    ]


def _asset(content: Callable[[], str], media_type: str) -> Callable[[Request], Response]:
    body = content()

    def answer(_: Request) -> Response:
        return Response(body, media_type=media_type, headers=_FOREVER)

    return answer


class _Page:
    def __init__(self, ask: Ask, sessions: Sessions) -> None:
        self._ask, self._sessions = ask, sessions
        self._main = page.main()

    async def main(self, request: Request) -> Response:
        if self._sessions.token(request.headers) is None:
            return _to("/login")
        return HTMLResponse(self._main, headers=_HEADERS)

    async def form(self, _: Request) -> Response:
        return HTMLResponse(page.login(), headers=_HEADERS)

    async def sign_in(self, request: Request) -> Response:
        """A token becomes a cookie, if the core knows it and the page is for its role."""
        token = await _token_in(request)
        if token is None:
            return _form_again("Type a token.", 400)
        try:
            found = await self._ask("who", token=token, source=_source(request))
        except CallRefused as refused:
            hint = "" if refused.code is Code.UNAUTHENTICATED else f" {refused.hint or ''}"
            return _form_again(f"Not signed in: {refused}.{hint}", refused.code.status)
        if Role(found["role"]) not in READERS:
            return _form_again(
                "The page is for viewers, operators and admins; a CUC reads its streams at "
                "/restconf/data.",
                403,
            )
        answer = _to("/")
        answer.set_cookie(
            COOKIE,
            self._sessions.seal(token),
            max_age=GOOD_S,
            secure=True,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def sign_out(self, _: Request) -> Response:
        answer = _to("/login")
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
        return answer

    async def plan(self, request: Request) -> Response:
        """The data of the page, which the core has packed already: they are large."""
        asked = {"name": "page"}
        token, source = token_of(request), _source(request)
        try:
            found = await self._ask("document.get", asked, token=token, source=source)
        except CallRefused as refused:
            return refusal(refused)
        octets = base64.b64decode(found["gzip"])
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(gzip.decompress(octets), media_type="application/json")
        coding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(octets, media_type="application/json", headers=coding)


async def _token_in(request: Request) -> str | None:
    """The token of the form; None where there is none, or what is no such form."""
    octets = b""
    async for chunk in request.stream():
        octets += chunk
        if len(octets) > _FORM_MAX_OCTETS:
            return None
    try:
        fields = parse_qs(octets.decode("ascii"), max_num_fields=4)
    except ValueError:
        return None
    return fields.get("token", [""])[0].strip() or None


def _form_again(trouble: str, status: int) -> Response:
    return HTMLResponse(page.login(trouble), status, headers=_HEADERS)


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, headers=_HEADERS)


def _source(request: Request) -> str:
    return request.client.host if request.client else ""
