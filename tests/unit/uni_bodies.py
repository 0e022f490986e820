"""Streams as CUCs ask for them, and the networks that they are asked of: for tests of the UNI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from cnc import app, intent
from cnc.intent.beside import Beside
from cnc.model import Intent, Plan
from cnc.planner import Live
from cnc.planner.live import with_room

SCHEDULES = Path(__file__).resolve().parents[2] / "schedules"
STREAM_ID = "02-00-00-00-01-01:00-01"
ACTIVE = 0x0080C203

_STEP_NS = 2_000_000


def mac(number: int) -> str:
    """The address of a station as 802.1Q writes it."""
    return f"02-00-00-00-01-{number:02X}"


def network(file: str, **changes: Any) -> Intent:
    """The intent of a file of `schedules` without streams: its end stations have the addresses
    `mac(1)` and so on, in their order, and each of `changes` the keys given."""
    document = yaml.safe_load((SCHEDULES / file).read_text())
    for key, value in changes.items():
        part = document
        *above, last = key.split("__")
        for each in above:
            part = part[each.replace("_", "-")]
        part[last.replace("_", "-")] = value
    stations = document["end-stations"]
    named = stations if isinstance(stations, dict) else dict.fromkeys(stations)
    document["end-stations"] = {
        name: {**(its or {}), "mac": mac(number).replace("-", ":").lower()}
        for number, (name, its) in enumerate(named.items(), 1)
    }
    document["streams"] = {}
    document["defaults"]["recovery"] = "none"
    document.pop("loops", None)
    return intent.from_document(document, file)


def body(
    talker: int,
    listeners: list[int],
    frames: list[Mapping[str, Any]],
    *,
    interval: tuple[int, int] = (1, 1000),
    max_latency: int = 200_000,
    **traffic: Any,
) -> dict[str, Any]:
    """A stream as a CUC writes it; `traffic` has leaves of traffic-specification."""
    return copy.deepcopy(
        {
            "stream-id": STREAM_ID,
            "talker": {
                "end-station-interfaces": [{"mac-address": mac(talker), "interface-name": ""}],
                "data-frame-specification": [
                    {"index": number, **its} for number, its in enumerate(frames)
                ],
                "traffic-specification": {
                    "interval": {"numerator": interval[0], "denominator": interval[1]},
                    "max-frames-per-interval": 1,
                    "max-frame-size": 100,
                    "time-aware": {},
                    **{key.replace("_", "-"): value for key, value in traffic.items()},
                },
                "user-to-network-requirements": {"max-latency": max_latency},
            },
            "listener": [
                {
                    "index": number,
                    "end-station-interfaces": [{"mac-address": mac(its), "interface-name": ""}],
                }
                for number, its in enumerate(listeners)
            ],
        }
    )


def planned(asked: Intent) -> Plan:
    return app.plan(asked)


def with_stream(plan: Plan, name: str, keys: Mapping[str, Any]) -> Plan:
    """The plan with one stream more, as the service places it."""
    found = Beside(plan.intent).having(plan.intent, {name: keys}, "a CUC")
    live = Live(with_room(plan, _STEP_NS), recovery_step_ns=_STEP_NS)
    live.add([found.streams[name]])
    return replace(live.plan, intent=found)
