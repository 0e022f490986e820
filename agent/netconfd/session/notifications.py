"""Notifications on their way to the client (RFC 5277)."""

from __future__ import annotations

from typing import NamedTuple

from agent.netconfd import date_and_time

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"


class Filter(NamedTuple):
    """A subscription's filter; one that cannot select anything has no `xpath`."""

    xpath: str | None


def message(notification: str, time_ns: int) -> bytes:
    """The <notification> message; the time is in ns since 1970."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<notification xmlns="{NOTIFICATION}">'
        f"<eventTime>{date_and_time.written(time_ns)}</eventTime>{notification}</notification>"
    ).encode()
