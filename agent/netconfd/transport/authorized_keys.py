"""The lines of an authorized_keys file that let somebody in, judged as sshd(8) judges them.

asyncssh obeys a few options and ignores all others, so that a key restricted by one of those would
be unrestricted. Here a line has only options that are understood, or it is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncssh

LOG = logging.getLogger(__name__)

# What these allow or forbid does not exist in this server, or is so anyway.
_SERVICES = ("agent-forwarding", "port-forwarding", "pty", "user-rc", "x11-forwarding")
_FLAGS_WITHOUT_EFFECT = {
    "restrict",
    "touch-required",
    "no-verify-required",
    *_SERVICES,
    *(f"no-{service}" for service in _SERVICES),
}
_VALUES_WITHOUT_EFFECT = {"environment", "permitlisten", "permitopen", "tunnel"}
# asyncssh obeys these, if they are in small letters.
_FLAGS_OBEYED = {"cert-authority", "no-touch-required"}
_VALUES_OBEYED = {"command", "from", "principals"}

_QUOTED = r'"((?:\\"?+|[^"\\])*+)"'
_OPTION = re.compile(rf"([A-Za-z0-9-]++)(?:={_QUOTED})?+(?:,(?!$)|$)")
# Options, then a key: blanks end the options unless they are in quotes.
_LINE = re.compile(r'((?:"(?:\\"?+|[^"\\])*+"|\\"?+|[^ \t"\\])++)[ \t]++(.+)')
_TIME = re.compile(r"(\d{8})(\d{4})?(\d{2})?(Z|UTC)?", re.ASCII | re.IGNORECASE)


class _Refused(Exception):
    """This line lets nobody in; the text says why."""


def accepted_lines(text: str, path: Path, now_s: float) -> Iterator[str]:
    """The lines that let somebody in at `now_s` (Unix time), as asyncssh reads them.

    A key whose options are not understood, or do not hold now, is logged with its line and left
    out; what is no key is left out.
    """
    for number, line in enumerate(text.split("\n"), 1):
        options, key = _split(line.strip())
        if key is None:
            continue
        try:
            yield _obeyed(options, key, now_s)
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


def _obeyed(options: str, key: str, now_s: float) -> str:
    obeyed: dict[str, str] = {}
    for name, value in _parsed(options):
        if name == "expiry-time" and value is not None:
            if _time_s(value) < now_s:
                raise _Refused(f'expiry-time="{value}" is past')
        elif name in (_FLAGS_OBEYED if value is None else _VALUES_OBEYED):
            if name in obeyed and value is not None:
                raise _Refused(f"the option {name} is given twice")
            obeyed[name] = name if value is None else f'{name}="{_escaped(value)}"'
        elif name not in (_FLAGS_WITHOUT_EFFECT if value is None else _VALUES_WITHOUT_EFFECT):
            raise _Refused(
                f"this server does not support the option {name}"
                f"{'' if value is None else '=…'}; remove the option, or the line"
            )
    if "principals" in obeyed and "cert-authority" not in obeyed:
        raise _Refused("the option principals is for a cert-authority, and this key is none")
    line = f"{','.join(obeyed.values())} {key}\n"
    # To asyncssh each of Unicode's line separators ends a line; what follows could be a key.
    if len(line.splitlines()) > 1:
        raise _Refused(f"options {options!r}: a line separator within a value")
    try:
        asyncssh.import_authorized_keys(line)
    except ValueError as error:
        raise _Refused(f"options {options!r}: {error}") from None
    return line


def _parsed(options: str) -> Iterator[tuple[str, str | None]]:
    """Names in small letters with the values of those that have one."""
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
        raise _Refused(f"expiry-time={text!r} is no time, expected YYYYMMDD[HHMM[SS]][Z]") from None
