"""The valid lines of an authorized_keys file, with the meaning of sshd(8).

asyncssh applies a few options and ignores all others, so that a key restricted by one of the others
would be unrestricted. Here a line with an unsupported option is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncssh

LOG = logging.getLogger(__name__)

# This server lacks what these allow or forbid, or always behaves so.
_SERVICES = ("agent-forwarding", "port-forwarding", "pty", "user-rc", "x11-forwarding")
_FLAGS_WITHOUT_EFFECT = {
    "restrict",
    "touch-required",
    "no-verify-required",
    *_SERVICES,
    *(f"no-{service}" for service in _SERVICES),
}
_VALUES_WITHOUT_EFFECT = {"environment", "permitlisten", "permitopen", "tunnel"}
# asyncssh applies these, if they are in lower case.
_APPLIED_FLAGS = {"cert-authority", "no-touch-required"}
_APPLIED_VALUES = {"command", "from", "principals"}

_QUOTED = r'"((?:\\"?+|[^"\\])*+)"'
_OPTION = re.compile(rf"([A-Za-z0-9-]++)(?:={_QUOTED})?+(?:,(?!$)|$)")
# Options, then a key: blanks end the options unless they are in quotes.
_LINE = re.compile(r'((?:"(?:\\"?+|[^"\\])*+"|\\"?+|[^ \t"\\])++)[ \t]++(.+)')
_PATTERN = re.compile(r"[*?!]")
_TIME = re.compile(r"(\d{8})(\d{4})?(\d{2})?(Z|UTC)?", re.ASCII | re.IGNORECASE)


class AuthorizedKeys(asyncssh.SSHAuthorizedKeys):  # type: ignore[misc]
    """The keys of a user.

    To asyncssh a certificate without principals is for everybody; to sshd, since OpenSSH 10.3, for
    nobody.
    """

    def validate(
        self,
        key: asyncssh.SSHKey,
        client_host: str,
        client_addr: str,
        cert_principals: Sequence[str] | None = None,
        ca: bool = False,
    ) -> Mapping[str, object] | None:
        """The options of the line with this key; None if it may not log in."""
        if ca and not cert_principals:
            return None
        options: Mapping[str, object] | None = super().validate(
            key, client_host, client_addr, cert_principals, ca
        )
        return options


class _Refused(Exception):
    """The line is refused; the text gives the reason."""


def accepted_lines(text: str, path: Path, now_s: float) -> Iterator[str]:
    """The lines that are valid at `now_s` (Unix time), as asyncssh reads them.

    A key with unsupported or expired options is logged with its line and left out, and so is a line
    without a key.
    """
    for number, line in enumerate(text.split("\n"), 1):
        options, key = _split(line.strip())
        if key is None:
            continue
        try:
            yield _checked(options, key, now_s)
        except _Refused as reason:
            LOG.warning("%s:%d: key refused: %s", path, number, reason)


def _split(line: str) -> tuple[str, str | None]:
    """The options and the key of a line, without its comment."""
    if line.startswith("#"):
        return "", None
    key = _key(line)
    if key is not None:
        return "", key
    parts = _LINE.fullmatch(line)
    return (parts[1], _key(parts[2])) if parts else ("", None)


def _key(text: str) -> str | None:
    key = " ".join(text.split(maxsplit=2)[:2])
    try:
        asyncssh.import_public_key(key)
    except ValueError:
        return None
    return key


def _checked(options: str, key: str, now_s: float) -> str:
    applied: dict[str, str] = {}
    for name, value in _parsed(options):
        if name == "expiry-time" and value is not None:
            if _time_s(value) < now_s:
                raise _Refused(f'expiry-time="{value}" is past')
        elif name in (_APPLIED_FLAGS if value is None else _APPLIED_VALUES):
            if name in applied and value is not None:
                raise _Refused(f"the option {name} is given twice")
            applied[name] = name if value is None else f'{name}="{_escaped(value)}"'
        elif name not in (_FLAGS_WITHOUT_EFFECT if value is None else _VALUES_WITHOUT_EFFECT):
            raise _Refused(
                f"this server does not support the option {name}"
                f"{'' if value is None else '=…'}; remove the option, or the line"
            )
    _check_principals(applied)
    line = f"{','.join(applied.values())} {key}\n"
    # To asyncssh each of Unicode's line separators ends a line; what follows could be a key.
    if len(line.splitlines()) > 1:
        raise _Refused(f"options {options!r}: a line separator within a value")
    try:
        asyncssh.import_authorized_keys(line)
    except ValueError as error:
        raise _Refused(f"options {options!r}: {error}") from None
    return line


def _check_principals(applied: Mapping[str, str]) -> None:
    if "principals" not in applied:
        return
    if "cert-authority" not in applied:
        raise _Refused("the option principals is for a cert-authority, and this key is not one")
    # To sshd these are names, to asyncssh patterns: "*" would be everybody.
    if _PATTERN.search(applied["principals"]):
        raise _Refused("principals are names; this server does not support *, ? and ! in them")


def _parsed(options: str) -> Iterator[tuple[str, str | None]]:
    """Names in lower case with the values of those that have one."""
    at = 0
    while at < len(options):
        option = _OPTION.match(options, at)
        if option is None:
            raise _Refused(f'expected an option or OPTION="VALUE", found {options[at:]!r}')
        name, value = option.groups()
        yield name.lower(), None if value is None else value.replace('\\"', '"')
        at = option.end()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _time_s(text: str) -> float:
    """Unix time of YYYYMMDD[HHMM[SS]], which is local time without the Z at the end."""
    parts = _TIME.fullmatch(text)
    try:
        if parts is None:
            raise ValueError
        day, minute, second, is_utc = parts.groups(default="")
        digits = day + (minute or "0000") + (second or "00")
        when = datetime.strptime(digits, "%Y%m%d%H%M%S")  # noqa: DTZ007  sshd(8): local time
        return (when.replace(tzinfo=UTC) if is_utc else when).timestamp()
    except (ValueError, OverflowError):
        raise _Refused(
            f"expiry-time={text!r} is not a time, expected YYYYMMDD[HHMM[SS]][Z]"
        ) from None
