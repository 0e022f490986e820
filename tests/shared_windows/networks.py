"""Networks whose frames share windows or do not fit, as intents in documents.

Figures that a function does not take are those that `cnc init` writes: processing of 1 to 5 us, a
clock error of 1 us, cables of 20 m, control of 128 octets whose burst and rate are the defaults.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count, cycle, pairwise
from random import Random
from typing import Any

from tests import intent_documents as documents
from tests.intent_documents import DEFAULTS, class_of, stream

Document = dict[str, Any]

_CYCLE_PERIODS_MS = (1, 2, 4, 8)
_STATIONS = 3  # at each switch of the larger networks
_FRAME_WIRE_NS = 1136  # of 100 octets at 1 Gb/s, tag, preamble and gap included


def two_switches(talkers: int, *, rate: str, gate_margin: str, **defaults: Any) -> Document:
    """Each of `talkers` at s1 sends 100 octets each millisecond to a listener at s2."""
    ends = {f"t{number}": "s1" for number in range(talkers)} | {"l": "s2"}
    streams = {f"f{number}": _small(f"t{number}", "l") for number in range(talkers)}
    return _document(
        [("s1", "s2")],
        ends,
        streams,
        **{"rate": rate, "gates": "software", "gate-margin": gate_margin, **defaults},
    )


def line(switches: int) -> list[tuple[str, str]]:
    """The cables between switches in a line."""
    return list(pairwise(f"s{number}" for number in range(switches)))


def ring(switches: int) -> list[tuple[str, str]]:
    """The cables between switches in a ring."""
    return [*line(switches), (f"s{switches - 1}", "s0")]


def grid(width: int) -> list[tuple[str, str]]:
    """The cables between switches in a square."""
    along = [(n, n + 1) for n in range(width**2) if (n + 1) % width]
    across = [(n, n + width) for n in range(width * (width - 1))]
    return [(f"s{one}", f"s{other}") for one, other in along + across]


def loaded(
    joins: list[tuple[str, str]],
    *,
    load_percent: int,
    gate_entries_max: int = 0,
    seed: int = 1,
    **defaults: Any,
) -> Document:
    """Streams of 100 octets each 1, 2, 4 and 8 ms in turn between random stations, three at each
    switch, at 1 Gb/s, until the next would take the fullest link above `load_percent` of its time
    if every stream went a shortest way. Each may take 10 ms.
    """
    switches = sorted({node for join in joins for node in join})
    ends = {f"e{n}": switch for n, switch in enumerate(switches * _STATIONS)}
    ways = _Ways(joins)
    busy: Counter[tuple[str, str]] = Counter()  # ns in the common cycle, by link
    common_ms = math.lcm(*_CYCLE_PERIODS_MS)
    limit_ns = common_ms * 10**6 * load_percent // 100
    numbers = Random(seed)  # noqa: S311  not for secrets
    streams = {}
    for number, period_ms in zip(count(), cycle(_CYCLE_PERIODS_MS)):
        talker, listener = numbers.sample(list(ends), 2)
        way = [talker, *ways.shortest(ends[talker], ends[listener]), listener]
        taken_ns = _FRAME_WIRE_NS * (common_ms // period_ms)
        if any(busy[link] + taken_ns > limit_ns for link in pairwise(way)):
            break
        busy.update(dict.fromkeys(pairwise(way), taken_ns))
        period = f"{period_ms}ms"
        streams[f"f{number}"] = {**_small(talker, listener, period=period), "max-latency": "10ms"}
    document = _document(joins, ends, streams, **{"gates": "software", **defaults})
    if gate_entries_max:
        for switch in document["switches"].values():
            limits = {"gate-entries-max": gate_entries_max}
            switch["ports"] = {port: dict(limits) for port in switch["ports"]}
    return document


def synchronous(talkers: int, **defaults: Any) -> Document:
    """Each of `talkers` sends 64 octets to one controller, all at the start of the millisecond."""
    ends = {f"d{number}": "s1" for number in range(talkers)} | {"plc": "s1"}
    window = {"window": {"earliest": "0us", "latest": "0us"}}
    streams = {
        f"f{number}": _small(f"d{number}", "plc", octets=64, **window) for number in range(talkers)
    }
    return _document([], ends, streams, **defaults)


def picture(*, classes: int, **defaults: Any) -> Document:
    """A picture of 8 frames each 20 ms beside a stream of 64 octets each millisecond, at 100 Mb/s
    between the same two switches; with 2 `classes` the picture has the lower one."""
    ends = {"camera": "s1", "plc": "s1", "recorder": "s2", "drive": "s2"}
    streams = {
        "picture": stream(
            "camera",
            "recorder",
            octets=1500,
            frames=8,
            period="20ms",
            **{"max-latency": "20ms", "class": "slow" if classes > 1 else "cyclic"},
        ),
        "set-point": _small("plc", "drive", octets=64),
    }
    document = _document([("s1", "s2")], ends, streams, rate="100Mbps", **defaults)
    if classes > 1:
        document["classes"]["slow"] = class_of(5, "scheduled")
    return document


def short_period(*, fits_only: bool, **defaults: Any) -> Document:
    """353 octets each 250 us over two switches to a display at 100 Mb/s."""
    ends = {"head": "front", "display": "rear"}
    streams = {"view": stream("head", "display", octets=353, period="250us")}
    streams["view"]["max-latency"] = "10ms"
    document = _document([("front", "rear")], ends, streams, **{"gate-margin": "1us", **defaults})
    for switch in document["switches"].values():
        switch["fits-only"] = fits_only
    document["links"] = [
        {"ends": cable, "rate": "100Mbps"} if "rear/display" in cable else cable
        for cable in document["links"]
    ]
    return document


def bursts(*frames: int, octets: int, period: str, **defaults: Any) -> Document:
    """Streams of so many frames in each period, over two switches; `octets` from MAC addresses to
    FCS."""
    overhead = 22
    streams = {
        f"burst{number}": stream(
            "a", "b", octets=octets - overhead, frames=each, period=period, ip=4
        )
        for number, each in enumerate(frames)
    }
    for each in streams.values():
        each["max-latency"] = period
    ends = {"a": "s1", "b": "s2"}
    return _document([("s1", "s2")], ends, streams, **{"gate-margin": "1us", **defaults})


def cell(devices: int, switches: int, **defaults: Any) -> Document:
    """A controller and `devices` at 100 Mb/s, each with 64 octets either way each millisecond, with
    all that `cnc init` writes; the controller is at the first of one or two `switches`."""
    ends = {"plc": "s1"} | {f"d{n}": f"s{1 + n % switches}" for n in range(devices)}
    streams = {}
    for device in range(devices):
        streams[f"set-point-{device}"] = _small("plc", f"d{device}", octets=64)
        streams[f"position-{device}"] = _small(f"d{device}", "plc", octets=64)
    joins = [("s1", "s2")] if switches > 1 else []
    return _document(
        joins,
        ends,
        streams,
        **{
            "rate": "100Mbps",
            "gates": "software",
            "gate-margin": "50us",
            "talker-interference": "one-frame",
            **defaults,
        },
    )


def _small(talker: str, listener: str, *, octets: int = 100, **keys: Any) -> Document:
    return stream(talker, listener, octets=octets, **{"max-latency": "1ms", **keys})


def _document(
    joins: Iterable[tuple[str, str]],
    ends: Mapping[str, str],
    streams: Mapping[str, Document],
    **defaults: Any,
) -> Document:
    """A bridged network whose switches have room for the address of each stream."""
    switches = sorted({*ends.values(), *(node for join in joins for node in join)})
    addresses = {switch: f"192.0.2.{n}" for n, switch in enumerate(switches, 1)}
    topology = documents.topology(joins, ends, addresses)
    for switch in topology["switches"].values():
        switch["filtering-entries-max"] = len(streams)
    return {
        "name": "asked",
        "forwarding": "bridged",
        "defaults": {**DEFAULTS, **defaults},
        "classes": {
            "control": class_of(7, "control", **{"max-frame": "128B"}),
            "cyclic": class_of(6, "scheduled"),
            "best-effort": class_of(0, "best-effort"),
        },
        **topology,
        "streams": dict(streams),
    }


class _Ways:
    """Shortest ways between switches, the same one each time."""

    def __init__(self, joins: Iterable[tuple[str, str]]) -> None:
        self._beside: dict[str, list[str]] = {}
        for one, other in joins:
            self._beside.setdefault(one, []).append(other)
            self._beside.setdefault(other, []).append(one)

    def shortest(self, source: str, target: str) -> list[str]:
        """The switches from `source` to `target`, both included."""
        before = {source: source}
        waiting = [source]
        for node in waiting:
            for beside in self._beside[node]:
                if beside not in before:
                    before[beside] = node
                    waiting.append(beside)
        way = [target]
        while way[0] != source:
            way.insert(0, before[way[0]])
        return way
