"""Refusals as the <rpc-error> of RFC 6241 section 4.3 has them."""

from __future__ import annotations

from typing import Any

from cnc.service.refused import CallRefused
from cnc.service.web.asking import Elsewhere
from cnc.service.web.errors import BY_CODE, PROTOCOL, RestconfError


class RpcRefused(Exception):
    """An operation that is refused; nothing has changed. `tag` by RFC 6241 appendix A."""

    def __init__(self, tag: str, message: str) -> None:
        super().__init__(message)
        self.tag = tag


# What an operation is refused by. Elsewhere: this controller stands by, and another one leads.
REFUSED = (CallRefused, Elsewhere, RestconfError, RpcRefused)


def error_of(refused: CallRefused | Elsewhere | RestconfError | RpcRefused) -> dict[str, Any]:
    """One error of an answer. That of a stream without a place has `failure-code-` and the code of
    802.1Q table 46-15 for error-app-tag, and our sentence for error-message."""
    if isinstance(refused, RestconfError | RpcRefused):
        return {"tag": refused.tag, "message": str(refused)}
    if isinstance(refused, Elsewhere):
        refused = refused.refused
    error = {
        "tag": BY_CODE[refused.code],
        "message": f"{refused}" if refused.hint is None else f"{refused}; {refused.hint}",
        "layer": "protocol" if refused.code in PROTOCOL else "application",
    }
    if code := refused.details.get("failure_code"):
        error["app_tag"] = f"failure-code-{code}"
    return error
