"""A line of switches of any length whose every switch has the same work to do.

    head ── s1 ── s2 ── … ── sN ── tail      and at each switch a station: h1, h2, … hN

Each station sends to the next one on either side, so that all three ports of every switch get a
gate control list, each with streams of its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from cnc import intent as intents
from cnc.model import Intent

PORTS = ("left", "right", "station")


def line(
    addresses: Mapping[str, str],
    *,
    port: int,
    user: str,
    payload_octets: int,
    without: Collection[str] = (),
) -> Intent:
    """The switches s1, s2, … managed at `addresses`, and all streams but those in `without`.

    A stream is called TALKER-LISTENER. With another payload all lists of all ports are others.
    """
    count = len(addresses)
    stations = ["head", *(f"h{number}" for number in range(1, count + 1)), "tail"]
    document: dict[str, Any] = {
        "name": f"line{count}",
        "defaults": {
            "rate": "1Gbps",
            "propagation": "100ns",
            "processing": {"min": "1us", "max": "5us"},
            "clock-error": "1us",
            "gate-margin": "0ns",
            "talker-interference": "none",
            "user": user,
            "netconf-port": port,
        },
        "classes": {
            "control": _class(7, 48, "control", "128B"),
            "cyclic": _class(6, 46, "scheduled"),
            "best-effort": _class(0, 0, "best-effort"),
        },
        "switches": {
            name: {"management": address, "ports": list(PORTS)}
            for name, address in addresses.items()
        },
        "end-stations": stations,
        "links": [
            ["head/eth0", "s1/left"],
            *([f"s{i}/right", f"s{i + 1}/left"] for i in range(1, count)),
            [f"s{count}/right", "tail/eth0"],
            *([f"s{i}/station", f"h{i}/eth0"] for i in range(1, count + 1)),
        ],
        "streams": {
            f"{talker}-{listener}": {
                "talker": talker,
                "listeners": [listener],
                "class": "cyclic",
                "period": "1ms",
                "payload": f"{payload_octets}B",
                "max-latency": "200us",
            }
            for here, there in pairwise(stations)
            for talker, listener in ((here, there), (there, here))
            if f"{talker}-{listener}" not in without
        },
    }
    return intents.from_document(document, document["name"])


def _class(number: int, dscp: int, role: str, max_frame: str = "1522B") -> dict[str, object]:
    return {
        "traffic-class": number,
        "priority": number,
        "dscp": dscp,
        "role": role,
        "max-frame": max_frame,
    }
