"""What a subscription asks for (RFC 8639, RFC 8641)."""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from agent.netconfd.session.notifications import Filter

# The unit of periods in RFC 8641.
CENTISECOND_NS = 10_000_000


@dataclass(frozen=True)
class Periodic:
    """Updates at each period, at multiples of it from the anchor time if there is one.

    `anchor_ns` is in ns since 1970.
    """

    period_cs: int
    anchor_ns: int | None = None


@dataclass(frozen=True)
class OnChange:
    """An update after each change, two of them at least the dampening period apart."""

    dampening_cs: int = 0
    sync_on_start: bool = True
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StreamTerms:
    """The part of the stream, and until when; fields as in `Terms` (RFC 8639)."""

    filter_: Filter
    given_filter: str = ""
    stop_ns: int | None = None


@dataclass(frozen=True)
class Terms:
    """The datastore, the part of it, and when. `filter_` is as the <filter> of RFC 6241.

    `given_filter` is the same as the client wrote it. `stop_ns` is in ns since 1970.
    """

    datastore: str
    trigger: Periodic | OnChange
    filter_: etree._Element | None = None
    given_filter: str = ""
    stop_ns: int | None = None
