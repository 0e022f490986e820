"""What the service refuses, and by which code: the web workers make an HTTP status of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from cnc.errors import CncError


class Code(StrEnum):
    """Why a call is refused; `status` is what HTTP calls it (RFC 9110, RFC 6585)."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    ABSENT = "absent"
    CONFLICT = "conflict"
    STALE = "stale"
    TOO_LARGE = "too-large"
    TOO_MANY = "too-many"
    UNAVAILABLE = "unavailable"

    @property
    def status(self) -> int:
        return _STATUS[self]


_STATUS = {
    Code.INVALID: 400,
    Code.UNAUTHENTICATED: 401,
    Code.FORBIDDEN: 403,
    Code.ABSENT: 404,
    Code.CONFLICT: 409,
    Code.STALE: 412,
    Code.TOO_LARGE: 413,
    Code.TOO_MANY: 429,
    Code.UNAVAILABLE: 503,
}


class CallRefused(CncError):
    """A call that was refused; nothing has changed. `details` are for programs: of a stream without
    a place its `failure_code` (802.1Q table 46-15), of a full quota `retry_after_s`."""

    def __init__(
        self,
        code: Code,
        text: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text, hint=hint)
        self.code, self.details = code, dict(details or {})

    def to_object(self) -> dict[str, Any]:
        """As it crosses the channel."""
        return {**self.details, "code": str(self.code), "text": str(self), "hint": self.hint}

    @classmethod
    def from_object(cls, found: Mapping[str, Any]) -> CallRefused:
        """What crossed the channel. Raises ValueError, KeyError for what is no refusal."""
        details = {k: v for k, v in found.items() if k not in {"code", "text", "hint"}}
        hint = found.get("hint")
        return cls(Code(found["code"]), str(found["text"]), hint=hint, details=details)
