"""What every request must be before anything reads it, and what every answer has."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cnc.service.refused import CallRefused, Code
from cnc.service.web.asking import token_was_good
from cnc.service.web.errors import RestconfError, refused
from cnc.service.web.guesses import Guesses
from cnc.service.web.guests import Guest
from cnc.service.web.pace import Pace

SEND_WITHIN_S = 30.0  # until a client has taken what was sent so far
HEAD_MAX_OCTETS = 16 << 10
_PATH_MAX, _QUERY_MAX = 2048, 1024
# Names by which tokens get into URLs, and from there into logs, histories and referrers.
_TOKENS = frozenset({"token", "access_token", "authorization", "api_key", "apikey", "key"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# What is refused for what was sent, or for how often, and not for what the network is.
_OF_STRANGERS = frozenset({400, 401, 403, 406, 408, 413, 414, 415, 421, 429, 431})
# Of a host; answers to more of them wait, and so does who sends one after the other.
_REFUSALS_PER_S, _REFUSALS_AT_ONCE, _TURN_S = 10, 50, 2.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Strict-Transport-Security": "max-age=31536000",
}


class Guard:
    """Middleware. `names` are what clients may call this host: those of its certificate, so that a
    name of a stranger that leads here (DNS rebinding) is none."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, frozenset(each.lower() for each in names)
        self._guesses = Guesses()
        self._pace = Pace(_REFUSALS_PER_S, at_once=_REFUSALS_AT_ONCE, wait_max_s=_TURN_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        guest: Guest | None = scope.get("state", {}).get("guest")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if guest and message["status"] in _OF_STRANGERS:
                    wait_s = self._pace.wait_s(guest.host)
                    await asyncio.sleep(self._pace.wait_max_s if wait_s is None else wait_s)
            async with asyncio.timeout(SEND_WITHIN_S):
                await send(message)

        if wrong := self._wrong(scope):
            await wrong.response()(scope, receive, guarded)
            return
        if guest and not guest.is_known and (wait_s := self._guesses.wait_s(guest.host)):
            await _too_many_guesses(wait_s)(scope, receive, guarded)
            return
        if guest:
            token_was_good.set(partial(self._learn, guest))
        try:
            await self._app(scope, receive, guarded)
        except TimeoutError:
            return  # a client that takes nothing: the server closes the connection

    def _learn(self, guest: Guest, *, is_good: bool) -> None:
        """What the core says of the token that a guest has sent."""
        if is_good:
            self._guesses.was_good(guest.host)
            guest.knows_a_token()
        else:
            self._guesses.was_bad(guest.host)

    def _wrong(self, scope: Scope) -> RestconfError | None:
        headers = Headers(scope=scope)
        host = headers.getlist("host")
        if len(host) != 1 or _name_in(host[0]) not in self._names:
            return _refused(421, "this host has another name: use one of its certificate")
        if "content-length" in headers and "transfer-encoding" in headers:
            # RFC 9112 6.1: proxies differ on where it ends, and so on who sent the next one.
            return _refused(
                400, "a length and chunks say two things of where the body ends", end=True
            )
        origin = headers.get("origin")
        if origin is not None and scope["method"] not in _READS and origin != f"https://{host[0]}":
            return _refused(403, "a page of another site may not change anything here")
        if too_long := _too_long(scope):
            return too_long
        query = scope["query_string"].decode("latin-1")
        if any(name.lower() in _TOKENS for name, _ in parse_qsl(query, keep_blank_values=True)):
            return _refused(
                400,
                "a token in a URL is read by many: send it as `Authorization: Bearer TOKEN`, and "
                "have this one rotated",
            )
        return None


def _too_long(scope: Scope) -> RestconfError | None:
    if len(scope["raw_path"]) > _PATH_MAX or len(scope["query_string"]) > _QUERY_MAX:
        return _refused(414, "the URL is longer than any resource here has")
    # The server limits what it waits for, not what comes at once.
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_MAX_OCTETS:
        return _refused(431, f"the headers have more than {HEAD_MAX_OCTETS} octets")
    return None


def _too_many_guesses(wait_s: int) -> Response:
    return refused(
        CallRefused(
            Code.TOO_MANY,
            "too many tokens that are none have come from this address",
            hint=f"wait {wait_s} s, and send a token that the service knows",
            details={"retry_after_s": wait_s},
        )
    )


def _refused(status: int, message: str, *, end: bool = False) -> RestconfError:
    return RestconfError(status, "access-denied", message, kind="transport", end=end)


def _name_in(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
