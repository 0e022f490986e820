"""Networks with a class that is forwarded once each interval."""

from __future__ import annotations

from typing import Any

from cnc import intent as intents
from cnc.model import Intent
from tests.unit.planner_networks import seeded

CLASSES = {
    "control": {
        "traffic-class": 7,
        "priority": 7,
        "role": "control",
        "max-frame": "128B",
        "burst": 1,
    },
    "axes": {"traffic-class": 6, "priority": 6, "role": "scheduled", "max-frame": "256B"},
    "sensors": {
        "traffic-class": 5,
        "priority": 5,
        "role": "scheduled",
        "max-frame": "512B",
        "shaping": "cqf",
    },
    "sensors-odd": {
        "traffic-class": 4,
        "priority": 4,
        "role": "scheduled",
        "max-frame": "512B",
        "shaping": {"odd-of": "sensors"},
    },
    "best-effort": {"traffic-class": 0, "priority": 0, "role": "best-effort"},
}


def stream(talker: str = "t1", *listeners: str, **keys: Any) -> dict[str, Any]:
    return {
        "talker": talker,
        "listeners": list(listeners) or ["l1"],
        "class": "sensors",
        "period": "4ms",
        "payload": "200B",
        "max-latency": "20ms",
        **keys,
    }


def document(
    switches: int = 3,
    talkers: int = 2,
    streams: dict[str, dict[str, Any]] | None = None,
    shaping: Any = None,
    **keys: Any,
) -> dict[str, Any]:
    """A line of switches with talkers at the first and two listeners at the last."""
    ports: dict[str, list[str]] = {f"s{n}": [] for n in range(1, switches + 1)}
    links = []
    for n in range(1, switches):
        ports[f"s{n}"].append("up")
        ports[f"s{n + 1}"].append("down")
        links.append([f"s{n}/up", f"s{n + 1}/down"])
    stations = [f"t{n}" for n in range(1, talkers + 1)]
    for name, switch in [
        *((t, "s1") for t in stations),
        ("l1", f"s{switches}"),
        ("l2", f"s{switches}"),
    ]:
        ports[switch].append(name)
        links.append([f"{name}/eth0", f"{switch}/{name}"])
    classes = {name: dict(its) for name, its in CLASSES.items()}
    if shaping is not None:
        classes["sensors"]["shaping"] = shaping
    for name, changed in keys.pop("classes", {}).items():
        classes[name] = {**classes.get(name, {}), **changed}
    return {
        "name": "cyclic",
        "forwarding": "bridged",
        "defaults": {
            "rate": "1Gbps",
            "propagation": "500ns",
            "processing": {"min": "1us", "max": "10us"},
            "clock-error": "1us",
            "gates": "software",
            "gate-margin": "20us",
            "talker-interference": "one-frame",
            "recovery": "none",
            **keys.pop("defaults", {}),
        },
        "classes": classes,
        "switches": {
            name: {"management": f"10.99.0.{n}", "ports": its}
            for n, (name, its) in enumerate(ports.items(), 1)
        },
        "end-stations": [*stations, "l1", "l2"],
        "links": links,
        "streams": {"a": stream()} if streams is None else streams,
        **keys,
    }


def intent_of(*, best_effort: bool = False, **keys: Any) -> Intent:
    return intents.from_document(document(**keys), "cyclic", best_effort=best_effort)


def random_intent(seed: int, *, beside: bool | None = None) -> Intent:
    """A line of 1 to 5 switches, with streams that fill it more or less, or too much."""
    random = seeded(seed)
    switches, talkers = random.randint(1, 5), random.randint(1, 4)
    rate = random.choice(("100Mbps", "1Gbps"))
    interval_us = random.choice((250, 500, 1000, 2000) if rate == "1Gbps" else (1000, 2000, 4000))
    streams = {}
    for number in range(random.randint(1, 60)):
        listeners = random.choice((["l1"], ["l2"], ["l1", "l2"]))
        streams[f"f{number}"] = stream(
            f"t{random.randint(1, talkers)}",
            *listeners,
            period=f"{random.choice((1, 2, 4, 5, 8))}ms",
            payload=f"{random.randint(48, 480)}B",
            frames=random.choice((1, 1, 1, 2, 4)),
            **{"max-latency": f"{random.choice((5, 10, 40))}ms"},
        )
    if beside if beside is not None else random.random() < 0.3:
        streams["axis"] = stream(
            "t1", "l1", **{"class": "axes", "period": "8ms", "payload": "100B"}
        )
    return intent_of(
        best_effort=True,
        switches=switches,
        talkers=talkers,
        streams=streams,
        shaping={
            "by": "cqf",
            "cycle": f"{interval_us}us",
            "share": f"{random.choice((30, 50, 70))}%",
        },
        defaults={
            "rate": rate,
            "propagation": random.choice(("100ns", "500ns", "5us")),
            "clock-error": random.choice(("0ns", "1us", "10us")),
            "gate-margin": random.choice(("0ns", "5us", "20us")),
        },
    )
