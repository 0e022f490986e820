"""Meshes with thousands of streams, for measurements of the planner."""

from __future__ import annotations

import random
from typing import Any

from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateMode,
    Intent,
    Link,
    Network,
    PortRef,
    Stream,
    TrafficClass,
)

_IPV6_AND_UDP_OCTETS = 48  # an intent has nothing shorter
SCHEDULED = tuple(f"q{number}" for number in range(7, 0, -1))
# Nothing is asked of best effort. The class is there so that unused time is open to it.
CLASSES = {
    name: TrafficClass(name, number, number, (), ClassRole.SCHEDULED)
    for name, number in zip(SCHEDULED, range(7, 0, -1), strict=True)
} | {"be": TrafficClass("be", 0, 0, (), ClassRole.BEST_EFFORT, 64)}


def mesh(count: int, bridges: int) -> Intent:
    """`count` streams on a ring of `bridges` with chords, three stations at each."""
    numbers = random.Random(count)  # noqa: S311  not for secrets
    cables = {(n, (n + 1) % bridges) for n in range(bridges)}
    while len(cables) < 2 * bridges:
        one, other = sorted(numbers.sample(range(bridges), 2))
        if (other, one) not in cables:
            cables.add((one, other))
    names = [f"b{n}" for n in range(bridges)]
    stations = [f"e{n}" for n in range(3 * bridges)]
    ends = [(names[a], names[b]) for a, b in sorted(cables)]
    ends += [(station, names[n // 3]) for n, station in enumerate(stations)]
    links = {}
    for cable, pair in enumerate(ends):
        for source, target in (pair, pair[::-1]):
            port = PortRef(source, f"p{cable}")
            links[port] = Link(port, PortRef(target, f"p{cable}"), 10**9, 50)
    network = Network(
        {n: Bridge(n, 1600, 2000, gate_mode=GateMode.FULL_OFFLOAD) for n in names},
        {s: EndStation(s) for s in stations},
        links,
        clock_error_ns=100,
    )
    streams = {}
    for number in range(count):
        talker, listener = numbers.sample(stations, 2)
        period = numbers.choice((1, 2, 4, 8)) * 1_000_000
        payload = numbers.choice((46, 128, 256, 512, 1024, 1500))
        streams[f"s{number}"] = Stream(
            f"s{number}", talker, (listener,), SCHEDULED, period, payload, period
        )
    return Intent(f"mesh{bridges}", network, CLASSES, streams, {})


def document_of(intent: Intent, recovery: str) -> dict[str, Any]:
    """A mesh whose switches bridge, as an intent file has it: without its streams, and with this
    `recovery` as its default."""
    network = intent.network
    ports: dict[str, list[str]] = {name: [] for name in network.bridges}
    for port in network.links:
        if port.node in ports:
            ports[port.node].append(port.port)
    bridge = next(iter(network.bridges.values()))
    link = next(iter(network.links.values()))
    return {
        "name": intent.name,
        "forwarding": "bridged",
        "defaults": {
            "rate": f"{link.rate_bps}bps",
            "propagation": f"{link.propagation_ns}ns",
            "processing": {
                "min": f"{bridge.processing_min_ns}ns",
                "max": f"{bridge.processing_max_ns}ns",
            },
            "clock-error": f"{network.clock_error_ns}ns",
            "gate-margin": "0ns",
            "talker-interference": "none",
            "recovery": recovery,
            "windows": "exact",
            "gates": str(bridge.gate_mode),
        },
        "classes": {
            name: {
                "traffic-class": its.number,
                "priority": its.priority,
                "role": str(its.role),
            }
            for name, its in intent.classes.items()
        },
        "switches": {name: {"ports": its} for name, its in ports.items()},
        "end-stations": [*network.end_stations],
        "links": [
            [_end(network, link.source), _end(network, link.target)]
            for link in network.links.values()
            if str(link.source) < str(link.target)
        ],
        "streams": {},
    }


def _end(network: Network, port: PortRef) -> str:
    return str(port) if port.node in network.bridges else f"{port.node}/eth0"


def keys_of(stream: Stream) -> dict[str, Any]:
    """A stream as an intent file has it."""
    return {
        "talker": stream.talker,
        "listeners": [*stream.listeners],
        "period": f"{stream.period_ns}ns",
        "payload": f"{max(_IPV6_AND_UDP_OCTETS, stream.payload_octets)}B",
        "max-latency": f"{stream.max_latency_ns}ns",
    }
