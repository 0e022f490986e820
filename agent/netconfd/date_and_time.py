"""Times as YANG's date-and-time (RFC 6991)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# datetime takes more than the standard's date-and-time allows, which always has an offset.
_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def written(time_ns: int) -> str:
    """A time in ns since 1970, exact to the microsecond."""
    seconds, rest_ns = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06}Z"


def parsed(text: str) -> int:
    """The time in ns since 1970. Raises ValueError."""
    if not _PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} is no date-and-time")
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000
    except OverflowError as error:
        raise ValueError(str(error)) from None
