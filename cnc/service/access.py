"""Who may what: tokens, their roles, and how much a CUC may have and ask for.

A token is 256 random bits, so that a SHA-256 of it is as hard to turn back as it is to guess the
token; of the token itself nothing is kept. The core looks at it with each call.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from cnc.service.calls import CALLS, Arguments, Role, TokenAdd
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Asker, Quota, TokenRecord

ADMIN = "admin"  # the name of the first token
_PREFIX = "cnc_"  # so that scanners find a token that was published
_TOKEN_OCTETS = 32
_DAYS = 365
_ROTATION = timedelta(minutes=5)
_BURST_S = 10  # a CUC may be so many seconds ahead of its rate
_BEHIND_S = 10  # until the second call of a request: its body has come by then


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def new_token(name: str, role: Role, cuc: str | None, days: int | None) -> tuple[str, TokenRecord]:
    """A token, told this once, and what is kept of it."""
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_OCTETS)
    now = datetime.now(UTC)
    expires = now + timedelta(days=days or _DAYS)
    return token, TokenRecord(name, role, cuc, digest_of(token), now, expires)


class Access:
    """The tokens and quotas of a service, as the store has them."""

    def __init__(self, tokens: Iterable[TokenRecord], quotas: Mapping[str, Quota]) -> None:
        self._spent: dict[str, float] = {}  # by CUC, until when its rate is used up
        # By CUC, when it made calls that are counted for the next one as well.
        self._first: defaultdict[str, deque[float]] = defaultdict(deque)
        self.reload(tokens, quotas)

    def reload(self, tokens: Iterable[TokenRecord], quotas: Mapping[str, Quota]) -> None:
        """All of them, as another controller may have changed them."""
        self._tokens = {its.name: its for its in tokens}
        self._by_digest: dict[str, TokenRecord] = {}
        for its in self._tokens.values():
            self._index(its)
        self._quotas = dict(quotas)

    @property
    def tokens(self) -> list[TokenRecord]:
        return [*self._tokens.values()]

    def asker(self, token: str, source: str) -> Asker:
        """Whose token it is. Raises CallRefused (UNAUTHENTICATED)."""
        digest, now = digest_of(token), datetime.now(UTC)
        its = self._by_digest.get(digest)
        if its is None or its.revoked or (digest != its.digest and _is_over(its.former_until, now)):
            raise CallRefused(
                Code.UNAUTHENTICATED,
                "no valid token" if token else "no token",
                hint="`cnc token add` makes one; send it as `Authorization: Bearer TOKEN`",
            )
        if _is_over(its.expires, now):
            raise CallRefused(
                Code.UNAUTHENTICATED,
                f"token {its.name} expired at {its.expires:%Y-%m-%d %H:%M} UTC",
                hint=f"an admin renews it: cnc token rotate {its.name}",
            )
        return Asker(its.name, its.role, its.cuc, source)

    def asker_named(self, name_and_key: str, source: str) -> Asker:
        """The same of who has logged in with an SSH key: the name of its token and, behind a blank,
        the fingerprint. Raises CallRefused (UNAUTHENTICATED), also where it has another key now."""
        name, _, seen = name_and_key.partition(" ")
        its, key = self._tokens.get(name), self.ssh_key(name)
        if its is None or key is None or fingerprint(key) != seen:
            raise CallRefused(
                Code.UNAUTHENTICATED,
                f"no valid token {name} with an SSH key",
                hint="an admin makes one: cnc token add NAME --ssh-key FILE",
            )
        return Asker(its.name, its.role, its.cuc, source)

    def ssh_key(self, name: str) -> str | None:
        """The key that logs in as a token; None of one that is none, or none any more."""
        its = self._tokens.get(name)
        if its is None or its.revoked or _is_over(its.expires, datetime.now(UTC)):
            return None
        return its.ssh_key

    def check(self, asker: Asker, call: str, arguments: Arguments) -> None:
        """Raises CallRefused: FORBIDDEN, or TOO_MANY with `retry_after_s`."""
        if asker.role not in CALLS[call].roles:
            raise CallRefused(
                Code.FORBIDDEN,
                f"{call} is not for tokens of the role {asker.role}",
                hint=f"roles that may: {', '.join(sorted(CALLS[call].roles))}",
            )
        if asker.role is not Role.CUC:
            return
        if any(cuc != asker.cuc for cuc in arguments.of_cucs):
            raise CallRefused(
                Code.FORBIDDEN, f"token {asker.name} is for the CUC {asker.cuc} alone"
            )
        self._spend(asker.cuc or "", comes_first=CALLS[call].comes_first)

    def check_still(self, asker: Asker) -> None:
        """Raises CallRefused where the token of who follows is none any more."""
        its = self.named(asker.name)
        if its.revoked or _is_over(its.expires, datetime.now(UTC)):
            raise CallRefused(Code.UNAUTHENTICATED, f"token {asker.name} is not valid any more")

    def quota(self, cuc: str) -> Quota:
        return self._quotas.get(cuc, Quota())

    def named(self, name: str) -> TokenRecord:
        """Raises CallRefused (ABSENT)."""
        if its := self._tokens.get(name):
            return its
        raise CallRefused(Code.ABSENT, f"there is no token {name}", hint="`cnc token list`")

    # --- changes: what the store is to have; `took` when it has it -----------------------------

    def added(self, wanted: TokenAdd) -> tuple[str, TokenRecord]:
        """A new token. Raises CallRefused."""
        if wanted.name in self._tokens:
            raise CallRefused(
                Code.CONFLICT,
                f"there is a token {wanted.name} already",
                hint="rotate it, or name another one: names stay for the audit log",
            )
        role = Role(wanted.role)
        if (role is Role.CUC) != (wanted.cuc is not None):
            raise CallRefused(Code.INVALID, "a token of the role cuc names its cuc, and no other")
        token, its = new_token(wanted.name, role, wanted.cuc, wanted.days)
        return token, replace(its, ssh_key=_checked(wanted.ssh_key))

    def rotated(self, name: str, days: int | None) -> tuple[str, TokenRecord]:
        """Another token in the place of one, which is good for some minutes more."""
        former = self.named(name)
        if former.revoked:
            raise _is_revoked(name)
        token, its = new_token(name, former.role, former.cuc, days)
        until = datetime.now(UTC) + _ROTATION
        return token, replace(
            its, former_digest=former.digest, former_until=until, ssh_key=former.ssh_key
        )

    def with_key(self, name: str, ssh_key: str | None) -> TokenRecord:
        """It with another SSH key, or without one. Raises CallRefused."""
        its = self.named(name)
        if its.revoked:
            raise _is_revoked(name)
        return replace(its, ssh_key=_checked(ssh_key))

    def revoked(self, name: str) -> TokenRecord:
        """It and what it was before its rotation are no token any more. Raises CallRefused where
        it is the last one that may make others."""
        its = self.named(name)
        others = (each for each in self.tokens if each.name != name and not each.revoked)
        now = datetime.now(UTC)
        if its.role is Role.ADMIN and not any(
            each.role is Role.ADMIN and not _is_over(each.expires, now) for each in others
        ):
            raise CallRefused(
                Code.CONFLICT,
                f"token {name} is the last one of an admin",
                hint="add another one first, or rotate it",
            )
        return replace(its, revoked=now)

    def took(self, its: TokenRecord) -> None:
        if before := self._tokens.get(its.name):
            for digest in (before.digest, before.former_digest):
                self._by_digest.pop(digest or "", None)
        self._tokens[its.name] = its
        self._index(its)

    def took_quota(self, cuc: str, its: Quota) -> None:
        self._quotas[cuc] = its

    def _index(self, its: TokenRecord) -> None:
        for digest in filter(None, (its.digest, its.former_digest)):
            self._by_digest[digest] = its

    def _spend(self, cuc: str, *, comes_first: bool) -> None:
        """One request of a CUC's rate, once for the call that came first and the one behind it."""
        first, now = self._first[cuc], time.monotonic()
        while first and now - first[0] > _BEHIND_S:
            first.popleft()
        if first and not comes_first:
            first.popleft()
            return
        most = self.quota(cuc).requests_per_minute
        if not most:
            raise CallRefused(Code.TOO_MANY, f"the CUC {cuc} may make no requests")
        begun, each_s = max(self._spent.get(cuc, 0.0), now), 60 / most
        if begun - now > max(_BURST_S, each_s):
            raise CallRefused(
                Code.TOO_MANY,
                f"the CUC {cuc} has made more than {most} requests a minute",
                hint="an admin sets its quota: `quota.set`",
                details={"retry_after_s": round(begun - now) or 1},
            )
        self._spent[cuc] = begun + each_s
        if comes_first:
            first.append(now)


def _is_revoked(name: str) -> CallRefused:
    return CallRefused(Code.CONFLICT, f"token {name} is revoked", hint="add another one")


def _checked(ssh_key: str | None) -> str | None:
    """Algorithm and key of a public key, without its comment. Raises CallRefused (INVALID)."""
    if ssh_key is None:
        return None
    line = " ".join(ssh_key.split()[:2])
    try:
        load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CallRefused(
            Code.INVALID,
            f"no public SSH key: {error}",
            hint="name the file ending in .pub that ssh-keygen has written",
        ) from error
    return line


def fingerprint(ssh_key: str) -> str:
    """Of a public key in one line, as ssh-keygen -l prints it."""
    octets = base64.b64decode(ssh_key.split()[1])
    digest = base64.b64encode(hashlib.sha256(octets).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"


def token_shown(its: TokenRecord) -> dict[str, Any]:
    """What may be read of a token."""
    return {
        "name": its.name,
        "role": str(its.role),
        "cuc": its.cuc,
        "created": its.created.isoformat(),
        "expires": its.expires.isoformat() if its.expires else None,
        "revoked": its.revoked.isoformat() if its.revoked else None,
        "ssh_key": fingerprint(its.ssh_key) if its.ssh_key else None,
    }


def _is_over(until: datetime | None, now: datetime) -> bool:
    return until is not None and until <= now
