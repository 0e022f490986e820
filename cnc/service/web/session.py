"""Signed in with a browser: a cookie that stands for a token, in the API as on the page.

The token is sealed in the cookie by the workers' secret, so that whoever reads the cookie cannot
use it as a token elsewhere, nor after `GOOD_S`. The core checks the token with every call all the
same: one that was revoked or has expired ends what was signed in with it.

A cookie counts where the browser says that a page of ours asks, and for what changes something
only with the header `X-CNC-Page`, which no form of another site can send.
"""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "__Host-cnc"  # only this host, only by TLS (RFC 6265bis 4.1.3.2)
GOOD_S = 12 * 3600
HEADER = "x-cnc-page"
_READS = frozenset({"GET", "HEAD"})
_OURS = frozenset({"same-origin", "none"})


class Sessions:
    """Makes cookies of tokens and back. `secret` is the same in all workers and after a restart,
    such as the private key of the certificate; what is derived from it serves nothing else."""

    def __init__(self, secret: bytes) -> None:
        derived = HKDF(SHA256(), 32, salt=None, info=b"cnc session cookie").derive(secret)
        self._fernet = Fernet(base64.urlsafe_b64encode(derived))

    def seal(self, token: str) -> str:
        return self._fernet.encrypt(token.encode()).decode()

    def token(self, headers: Headers) -> str | None:
        """Of the cookie of a request; None without one that is ours and still good."""
        if headers.get("sec-fetch-site", "none") not in _OURS:
            return None
        sealed = cookie_parser(headers.get("cookie", "")).get(COOKIE)
        if sealed is None:
            return None
        try:
            return self._fernet.decrypt(sealed.encode(), ttl=GOOD_S).decode()
        except InvalidToken:
            return None


class CookieAsToken:
    """Middleware: a request with the cookie is one with its token as `Authorization: Bearer`."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app, self._sessions = app, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            may = scope["method"] in _READS or HEADER in headers
            if may and "authorization" not in headers and (token := self._sessions.token(headers)):
                scope = {**scope, "headers": [*scope["headers"]]}
                MutableHeaders(scope=scope)["authorization"] = f"Bearer {token}"
        await self._app(scope, receive, send)
