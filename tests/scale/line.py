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
from tests.intent_documents import DEFAULTS, ROUTED_CLASSES, stream

PORTS = ("left", "right", "station")


def line(
    addresses: Mapping[str, str],
    *,
    port: int,
    user: str,
    payload_octets: int,
    without: Collection[str] = (),
    period: str = "1ms",
) -> Intent:
    """The switches s1, s2, … managed at `addresses`, and all streams but those in `without`.

    A stream is called TALKER-LISTENER. With another payload all lists of all ports are others.
    """
    count = len(addresses)
    stations = ["head", *(f"h{number}" for number in range(1, count + 1)), "tail"]
    document: dict[str, Any] = {
        "name": f"line{count}",
        "defaults": {
            **DEFAULTS,
            "user": user,
            "netconf-port": port,
        },
        "classes": ROUTED_CLASSES,
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
            f"{talker}-{listener}": stream(talker, listener, octets=payload_octets, period=period)
            for here, there in pairwise(stations)
            for talker, listener in ((here, there), (there, here))
            if f"{talker}-{listener}" not in without
        },
    }
    return intents.from_document(document, document["name"])
