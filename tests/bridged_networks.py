"""Bridged networks for tests: a line of three switches, and a ring of five."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnc import intent as intents
from cnc.model import Intent

_COMMON: dict[str, Any] = {
    "forwarding": "bridged",
    "defaults": {
        "rate": "1Gbps",
        "propagation": "100ns",
        "processing": {"min": "1us", "max": "5us"},
        "clock-error": "1us",
        "gate-margin": "0ns",
        "talker-interference": "none",
        "gates": "software",
    },
    "classes": {
        "control": {"traffic-class": 7, "priority": 7, "role": "control", "max-frame": "128B"},
        "fast": {"traffic-class": 6, "priority": 6, "role": "scheduled"},
        "slow": {"traffic-class": 5, "priority": 5, "role": "scheduled"},
        "best-effort": {"traffic-class": 0, "priority": 0, "role": "best-effort"},
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


def stream(talker: str, *listeners: str, octets: int = 200, **keys: Any) -> dict[str, Any]:
    """A stream of a millisecond's period that may take 300 µs."""
    return {
        "talker": talker,
        "listeners": [*listeners],
        "class": "fast",
        "period": "1ms",
        "payload": f"{octets}B",
        "max-latency": "300us",
        **keys,
    }


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
    cables = [[f"{one}/{other}", f"{other}/{one}"] for one, other in joins]
    cables += [[f"{end}/eth0", f"{switch}/{end}"] for end, switch in ends.items()]
    ports = [port.split("/") for cable in cables for port in cable]
    document = {
        "name": name,
        **_COMMON,
        "switches": {
            switch: {
                "management": f"{management}.{number}",
                "ports": [port for node, port in ports if node == switch],
            }
            for number, switch in enumerate(switches, start=1)
        },
        "end-stations": {
            end: {"management": f"{management}.{number}"} if end in managed else {}
            for number, end in enumerate(ends, start=101)
        },
        "links": cables,
        "streams": streams,
    }
    return intents.from_document(document, name)
