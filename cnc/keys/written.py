"""A stream as an intent file has it: for streams that come from a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnc.keys.contributed import KEYS
from cnc.keys.units import DURATION, SIZE
from cnc.model import Stream


def keys_of(stream: Stream, document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys by which the stream is read as it is beside the others of `document`."""
    window = {"earliest": DURATION.format(stream.earliest_ns)}
    if stream.latest_ns is not None:
        window["latest"] = DURATION.format(stream.latest_ns)
    stated = {
        "max-jitter": _duration(stream.max_jitter_ns),
        "destination-mac": stream.destination_mac,
        "vlan": stream.vlan_id,
        "route": [[*route] for route in stream.routes] or None,
    }
    return {
        "talker": stream.talker,
        "listeners": [*stream.listeners],
        "class": [*stream.traffic_classes],
        "period": DURATION.format(stream.period_ns),
        "payload": SIZE.format(stream.payload_octets),
        "max-latency": DURATION.format(stream.max_latency_ns),
        "window": window,
        **(
            {"ip": stream.ip_version}
            if stream.ethertype is None
            else {"ethertype": stream.ethertype}
        ),
        "paths": stream.paths,
        "frames": stream.frames,
        "windows": str(stream.windows),
        **{key: value for key, value in stated.items() if value is not None},
        **{key: its for each in KEYS for key, its in each.written(stream, document).items()},
    }


def _duration(time_ns: int | None) -> str | None:
    return None if time_ns is None else DURATION.format(time_ns)
