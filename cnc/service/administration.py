"""The calls about tokens and quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cnc.service.access import token_shown
from cnc.service.calls import OfToken, QuotaSet, TokenAdd, TokenKey, TokenRotate
from cnc.service.deciding import Deciding
from cnc.service.store import Quota, TokenRecord


def _token_add(deciding: Deciding, arguments: TokenAdd) -> dict[str, Any]:
    return _told_once(deciding, *deciding.access.added(arguments))


def _token_rotate(deciding: Deciding, arguments: TokenRotate) -> dict[str, Any]:
    return _told_once(deciding, *deciding.access.rotated(arguments.name, arguments.days))


def _told_once(deciding: Deciding, token: str, its: TokenRecord) -> dict[str, Any]:
    _keep(deciding, its)
    return {"token": token, **token_shown(its)}


def _token_revoke(deciding: Deciding, arguments: OfToken) -> dict[str, Any]:
    _keep(deciding, deciding.access.revoked(arguments.name))
    return {"name": arguments.name}


def _token_key(deciding: Deciding, arguments: TokenKey) -> dict[str, Any]:
    its = deciding.access.with_key(arguments.name, arguments.ssh_key)
    shown = token_shown(its)
    _keep(deciding, its, f"key: {shown['ssh_key'] or 'none'}")
    return shown


def _keep(deciding: Deciding, its: TokenRecord, outcome: str = "done") -> None:
    with deciding.decision(its.name, outcome) as made:
        made.put_token(its)
    deciding.access.took(its)


def _quota_set(deciding: Deciding, arguments: QuotaSet) -> dict[str, Any]:
    now = deciding.access.quota(arguments.cuc)
    its = Quota(
        now.streams if arguments.streams is None else arguments.streams,
        now.requests_per_minute
        if arguments.requests_per_minute is None
        else arguments.requests_per_minute,
    )
    with deciding.decision(arguments.cuc) as made:
        made.put_quota(arguments.cuc, its)
    deciding.access.took_quota(arguments.cuc, its)
    return {
        "cuc": arguments.cuc,
        "streams": its.streams,
        "requests_per_minute": its.requests_per_minute,
    }


DECISIONS: Mapping[str, Callable[[Deciding, Any], Any]] = {
    "token.add": _token_add,
    "token.rotate": _token_rotate,
    "token.key": _token_key,
    "token.revoke": _token_revoke,
    "quota.set": _quota_set,
}
