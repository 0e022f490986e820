"""The cell of schedules/cell.yaml, with any number of switches, and what CUCs ask of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import yaml

from cnc.model import NS_PER_S
from tests.intent_documents import topology

CELL = Path(__file__).parents[2] / "schedules" / "cell.yaml"
SWITCHES = 6  # of the file
STATIONS_A_SWITCH = 2
PCP = 6
_ACTIVE_DESTINATION = 0x80C203  # IEEE 802.1CB: active destination MAC and VLAN
_CAPABLE = {"vlan-tag-capable": True, "cb-stream-iden-type-list": [_ACTIVE_DESTINATION]}
_OCTETS = (46, 64, 100, 200, 400)


def mac(station: int) -> str:
    """The address of station e1, e2, …, as an intent writes it."""
    return f"02:00:00:00:06:{station:02x}"


def written(switches: int, directory: Path, name: str = "cell") -> Path:
    """The intent file of a cell with so many switches, at least two, and this name: that of
    schedules/ where it is the same."""
    document = yaml.safe_load(CELL.read_text())
    if (switches, name) == (SWITCHES, document["name"]):
        return CELL
    document["name"] = name
    stations = range(1, switches * STATIONS_A_SWITCH + 1)
    names = [f"s{number}" for number in range(1, switches + 1)]
    ends = {f"e{its}": names[(its - 1) // STATIONS_A_SWITCH] for its in stations}
    addresses = {name: f"10.99.0.{number}" for number, name in enumerate(names, 1)}
    document |= topology(pairwise(names), ends, addresses)
    document["end-stations"] = {f"e{its}": {"mac": mac(its)} for its in stations}
    document["streams"]["watchdog"]["listeners"] = [f"e{stations[-1]}"]
    file = directory / "cell.json"
    file.write_text(json.dumps(document))  # which is YAML, too
    return file


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream that a CUC asks for: of one frame in each period, which is to be there by its end.

    `number` is its own in the network, stations are e1, e2, …
    """

    number: int
    talker: int
    listeners: tuple[int, ...]
    period_ns: int
    octets: int

    @classmethod
    def drawn(cls, number: int, chance: Random, *, switches: int, period_ns: int) -> Asked:
        """One between stations that chance draws; every fourth has two listeners."""
        stations = range(1, switches * STATIONS_A_SWITCH + 1)
        talker, *listeners = chance.sample(stations, 3 if number % 4 == 0 else 2)
        return cls(number, talker, tuple(listeners), period_ns, chance.choice(_OCTETS))

    @property
    def stream_id(self) -> str:
        first, second = divmod(self.number, 256)
        return f"{_written(self.talker)}:{first:02X}-{second:02X}"

    def body(self) -> dict[str, Any]:
        """As 802.1Qdj has it, by RFC 7951."""
        listeners = [
            {"index": index, **_end(station)} for index, station in enumerate(self.listeners)
        ]
        return {
            "stream-id": self.stream_id,
            "talker": {
                **_end(self.talker),
                "data-frame-specification": [
                    {"index": 0, "ieee802-vlan-tag": {"priority-code-point": PCP, "vlan-id": 0}}
                ],
                "traffic-specification": {
                    "interval": {"numerator": self.period_ns, "denominator": NS_PER_S},
                    "max-frames-per-interval": 1,
                    "max-frame-size": self.octets,
                    "time-aware": {},
                },
                "user-to-network-requirements": {"max-latency": self.period_ns},
            },
            "listener": listeners,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What a CUC is told of its stream: when and to what its talker sends, and by when the first
    bit of each frame is at each listener, from the start of the interval."""

    offset_ns: int
    destination_mac: str
    vlan_id: int
    pcp: int
    latencies_ns: tuple[int, ...]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Told:
        """Of a stream as the service answers it."""
        (interface,) = answer["talker"]["interface-configuration"]["interface-list"]
        leaves: dict[str, Any] = {}
        for each in interface["config-list"]:
            leaves |= each
        tag = leaves["ieee802-vlan-tag"]
        address = leaves["ieee802-mac-addresses"]["destination-mac-address"]
        return cls(
            offset_ns=int(leaves["time-aware-offset"]),
            destination_mac=address.replace("-", ":").lower(),
            vlan_id=tag["vlan-id"],
            pcp=tag["priority-code-point"],
            latencies_ns=tuple(int(each["accumulated-latency"]) for each in answer["listener"]),
        )


def _written(station: int) -> str:
    """A station's address as 802.1Q writes it."""
    return mac(station).replace(":", "-").upper()


def _end(station: int) -> dict[str, Any]:
    interface = {"mac-address": _written(station), "interface-name": ""}
    return {"end-station-interfaces": [interface], "interface-capabilities": _CAPABLE}
