"""Intents for tests as documents: parts that networks of several tests have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnc.testbed.lab.rehearsal import Rehearsal

LINE3 = Path(__file__).parents[1] / "schedules" / "line3.yaml"

DEFAULTS: dict[str, Any] = {
    "rate": "1Gbps",
    "propagation": "100ns",
    "processing": {"min": "1us", "max": "5us"},
    "clock-error": "1us",
    "gate-margin": "0ns",
    "talker-interference": "none",
}


def class_of(number: int, role: str, **keys: Any) -> dict[str, Any]:
    """A traffic class with the priority of its number."""
    return {"traffic-class": number, "priority": number, "role": role, **keys}


CLASSES: dict[str, dict[str, Any]] = {
    "control": class_of(7, "control", **{"max-frame": "128B", "burst": 1}),
    "cyclic": class_of(6, "scheduled"),
    "best-effort": class_of(0, "best-effort"),
}
# By DSCP, as switches that route need them.
ROUTED_CLASSES = {
    name: {**CLASSES[name], "dscp": dscp}
    for name, dscp in (("control", 48), ("cyclic", 46), ("best-effort", 0))
}


def line3_with(folder: Path, *changes: tuple[str, str]) -> Path:
    """A file with the text of line3 in which the first of each pair is replaced by the second."""
    text = LINE3.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "network.yaml"
    path.write_text(text)
    return path


def topology(
    joins: Iterable[tuple[str, str]], ends: Mapping[str, str], addresses: Mapping[str, str]
) -> dict[str, Any]:
    """The keys for switches that are joined, and for end stations by the switch each is at.

    A port has the name of the node at its other end, that of an end station is eth0. `addresses`
    are those of management; an end station may have none.
    """
    cables = [[f"{one}/{other}", f"{other}/{one}"] for one, other in joins]
    cables += [[f"{end}/eth0", f"{switch}/{end}"] for end, switch in ends.items()]
    ports = [port.split("/") for cable in cables for port in cable]
    switches = sorted({node for node, _ in ports if node not in ends})
    return {
        "switches": {
            switch: {
                "management": addresses[switch],
                "ports": [port for node, port in ports if node == switch],
            }
            for switch in switches
        },
        "end-stations": {
            end: {"management": addresses[end]} if end in addresses else {} for end in ends
        },
        "links": cables,
    }


def stream(talker: str, *listeners: str, octets: int = 200, **keys: Any) -> dict[str, Any]:
    """A stream of a millisecond's period that may take 200 µs."""
    return {
        "talker": talker,
        "listeners": [*listeners],
        "class": "cyclic",
        "period": "1ms",
        "payload": f"{octets}B",
        "max-latency": "200us",
        **keys,
    }


def addresses_of(running: Rehearsal) -> dict[str, str]:
    """Where the nodes of a rehearsal are managed."""
    return {name: management.address for name, management in running.managements.items()}


def defaults_of(running: Rehearsal) -> dict[str, Any]:
    """The defaults, with the user and the port by which its nodes are managed."""
    (user,) = {each.user for each in running.managements.values()}
    (port,) = {each.port for each in running.managements.values()}
    return {**DEFAULTS, "user": user, "netconf-port": port}
