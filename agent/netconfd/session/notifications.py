"""Notifications on their way to the client (RFC 5277)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"


class Filter(NamedTuple):
    """A subscription's filter; one that cannot select anything has no `xpath`."""

    xpath: str | None


def date_and_time(time_ns: int) -> str:
    """A time in ns since 1970 as YANG writes it, exact to the microsecond."""
    seconds, rest_ns = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06}Z"


def message(notification: str, time_ns: int) -> bytes:
    """The <notification> message."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<notification xmlns="{NOTIFICATION}">'
        f"<eventTime>{date_and_time(time_ns)}</eventTime>{notification}</notification>"
    ).encode()
