"""Bridged networks for tests: a line of three switches, and a ring of five."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnc import intent as intents
from cnc.model import Intent
from tests import intent_documents as documents
from tests.intent_documents import CLASSES, DEFAULTS, class_of

_COMMON: dict[str, Any] = {
    "forwarding": "bridged",
    "defaults": {**DEFAULTS, "gates": "software"},
    "classes": {
        "control": CLASSES["control"],
        "fast": class_of(6, "scheduled"),
        "slow": class_of(5, "scheduled"),
        "best-effort": CLASSES["best-effort"],
    },
}


def line(**streams: Mapping[str, Any]) -> Intent:
    """t1 and t2 at s1, l3 at s2, l1 and l2 at s3."""
    ends = {"t1": "s1", "t2": "s1", "l3": "s2", "l1": "s3", "l2": "s3"}
    return _network("bridged-line", "10.99.1", [("s1", "s2"), ("s2", "s3")], ends, streams)


def ring(*managed: str, without: str = "", **streams: Mapping[str, Any]) -> Intent:
    """s1 to s5, with a talker t1 to t5 and a listener l1 to l5 at each.

    `managed` end stations have an agent. The cable "s1-s2" may be one that the intent is `without`.
    """
    joins = [("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s5"), ("s5", "s1")]
    joins = [join for join in joins if "-".join(join) != without]
    ends = {f"{kind}{number}": f"s{number}" for kind in "tl" for number in range(1, 6)}
    return _network("bridged-ring", "10.99.2", joins, ends, streams, managed=managed)


def stream(talker: str, *listeners: str, **keys: Any) -> dict[str, Any]:
    """A stream of a millisecond's period that may take 300 µs."""
    return documents.stream(talker, *listeners, **{"class": "fast", "max-latency": "300us", **keys})


def _network(
    name: str,
    management: str,
    joins: list[tuple[str, str]],
    ends: Mapping[str, str],
    streams: Mapping[str, Mapping[str, Any]],
    *,
    managed: Sequence[str] = (),
) -> Intent:
    switches = sorted({switch for join in joins for switch in join})
    addresses = {name: f"{management}.{number}" for number, name in enumerate(switches, start=1)}
    for number, end in enumerate(ends, start=101):
        if end in managed:
            addresses[end] = f"{management}.{number}"
    document = {
        "name": name,
        **_COMMON,
        **documents.topology(joins, ends, addresses),
        "streams": streams,
    }
    return intents.from_document(document, name)
