"""Refusals as RFC 8040 section 7 has them: error-tag, error-path, error-message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from cnc.service.refused import CallRefused, Code

YANG_JSON = "application/yang-data+json"
# RFC 6241 appendix A, which RESTCONF shares with NETCONF.
BY_CODE = {
    Code.INVALID: "invalid-value",
    Code.UNAUTHENTICATED: "access-denied",
    Code.FORBIDDEN: "access-denied",
    Code.ABSENT: "invalid-value",
    Code.CONFLICT: "operation-failed",
    Code.STALE: "operation-failed",
    Code.TOO_LARGE: "too-big",
    Code.TOO_MANY: "resource-denied",
    Code.UNAVAILABLE: "operation-failed",
}
PROTOCOL = frozenset({Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.TOO_LARGE})


class RestconfError(Exception):
    """A request that RFC 8040 refuses; `allow` are the methods that the resource has (405). With
    `end` its connection ends, too."""

    def __init__(
        self,
        status: int,
        tag: str,
        message: str,
        *,
        path: str | None = None,
        allow: str | None = None,
        kind: str = "application",
        info: Mapping[str, Any] | None = None,
        end: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.tag, self.path, self.allow = status, tag, path, allow
        self.kind, self.info, self.end = kind, info, end

    def response(self) -> Response:
        error: dict[str, Any] = {"error-type": self.kind, "error-tag": self.tag}
        if self.path:
            error["error-path"] = self.path
        error["error-message"] = str(self)
        if self.info:
            error["error-info"] = self.info
        headers = {"Allow": self.allow} if self.allow else {}
        if self.end:
            headers["Connection"] = "close"
        body = {"ietf-restconf:errors": {"error": [error]}}
        return JSONResponse(body, self.status, headers=headers, media_type=YANG_JSON)


def refused(its: CallRefused) -> Response:
    """The core's refusal. Of a stream without a place `error-info` has the code of table 46-15
    beside our sentence."""
    message = f"{its}" if its.hint is None else f"{its}; {its.hint}"
    info = None
    if code := its.details.get("failure_code"):
        info = {"tsn-cnc:failure-code": code, "tsn-cnc:reason": str(its)}
    kind = "protocol" if its.code in PROTOCOL else "application"
    error = RestconfError(its.code.status, BY_CODE[its.code], message, kind=kind, info=info)
    response = error.response()
    add_headers(response, its)
    return response


def add_headers(response: Response, its: CallRefused) -> None:
    """What HTTP says beside the code of a refusal."""
    if its.code is Code.UNAUTHENTICATED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="tsn-cnc"'
    if (wait_s := its.details.get("retry_after_s")) is not None:
        response.headers["Retry-After"] = str(wait_s)


def not_allowed(method: str, what: str, allow: str, hint: str = "") -> RestconfError:
    message = f"{method} of {what} is not supported" + (f": {hint}" if hint else "")
    return RestconfError(405, "operation-not-supported", message, allow=allow)
