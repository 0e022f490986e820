"""Networks with classes that have a shaper."""

from __future__ import annotations

from typing import Any

from cnc import intent as intents
from cnc.model import Intent
from tests.unit.cyclic_networks import document as line
from tests.unit.planner_networks import seeded

CLASSES = {
    "control": {
        "traffic-class": 7,
        "priority": 7,
        "role": "control",
        "max-frame": "128B",
        "burst": 1,
        "rate": "1Mbps",
    },
    "axes": {"traffic-class": 6, "priority": 6, "role": "scheduled", "max-frame": "256B"},
    "video": {"traffic-class": 5, "priority": 5, "role": "best-effort", "shaping": "cbs"},
    "audio": {"traffic-class": 4, "priority": 4, "role": "best-effort", "shaping": "cbs"},
    "events": {"traffic-class": 3, "priority": 3, "role": "best-effort", "shaping": "strict"},
    "best-effort": {"traffic-class": 0, "priority": 0, "role": "best-effort"},
}


def stream(talker: str = "t1", *listeners: str, **keys: Any) -> dict[str, Any]:
    return {
        "talker": talker,
        "listeners": list(listeners) or ["l1"],
        "class": "video",
        "period": "4ms",
        "payload": "1200B",
        "max-latency": "40ms",
        **keys,
    }


def document(**keys: Any) -> dict[str, Any]:
    """A line of switches with talkers at the first and two listeners at the last."""
    changed = keys.pop("classes", {})
    defaults = {"rate": "100Mbps", "gate-margin": "0us", **keys.pop("defaults", {})}
    streams = keys.pop("streams", None)
    found = line(streams={"a": stream()} if streams is None else streams, defaults=defaults, **keys)
    found["classes"] = {name: {**its, **changed.get(name, {})} for name, its in CLASSES.items()}
    return {**found, "name": "shaped"}


def intent_of(*, best_effort: bool = False, **keys: Any) -> Intent:
    return intents.from_document(document(**keys), "shaped", best_effort=best_effort)


def ring_of(switches: int, frames: int, **keys: Any) -> Intent:
    """A ring of an odd number of switches, each with a talker whose stream goes almost half the way
    around, all in the same direction."""
    ports: dict[str, list[str]] = {f"s{n}": ["up", "down", "t", "l"] for n in range(switches)}
    links = [[f"s{n}/up", f"s{(n + 1) % switches}/down"] for n in range(switches)]
    links += [[f"{end}{n}/eth0", f"s{n}/{end}"] for n in range(switches) for end in "tl"]
    found = document(
        streams={
            f"f{n}": stream(f"t{n}", f"l{(n + switches // 2) % switches}", frames=frames, **keys)
            for n in range(switches)
        }
    )
    found["switches"] = {
        name: {"management": f"10.99.0.{n}", "ports": its}
        for n, (name, its) in enumerate(ports.items(), 1)
    }
    stations = [f"{end}{n}" for n in range(switches) for end in "tl"]
    found |= {"end-stations": stations, "links": links}
    return intents.from_document(found, "ring")


def one_class(seed: int, hops: int) -> Intent:
    """A line of switches, by which streams of one class with a shaper go beside best effort and
    control; where there are several switches, beside planned frames, too."""
    random = seeded(seed)
    shaped = random.choice(("video", "events"))
    streams = {
        f"f{n}": stream(
            f"t{1 + n}",
            payload=f"{random.randrange(400, 1400)}B",
            frames=random.randrange(1, 4),
            period=random.choice(("2ms", "4ms")),
            **{"class": shaped},
        )
        for n in range(random.randrange(3, 7))
    }
    if hops > 1 and random.random() < 0.5:
        axes = {"class": "axes", "payload": "100B", "period": "1ms", "max-latency": "1ms"}
        streams["axis"] = stream("t7", **axes)
    return intent_of(switches=hops, talkers=7, streams=streams)


def random_intent(seed: int, *, axes: int | None = None, reserve: str | None = None) -> Intent:
    """A line of 1 to 5 switches, with streams of all classes, maybe more than fit. `axes` is how
    many are planned, by default one or none, and `reserve` that of the classes with a shaper."""
    random = seeded(seed)
    streams = {}
    for number in range(random.randint(2, 16)):
        shaped = random.choice(("video", "video", "audio", "events"))
        streams[f"f{number}"] = stream(
            f"t{random.randint(1, 3)}",
            *random.choice((["l1"], ["l2"], ["l1", "l2"])),
            payload=f"{random.randint(64, 1400)}B",
            frames=random.choice((1, 1, 2, 4)),
            period=random.choice(("2ms", "4ms", "5ms", "8ms")),
            **{"class": shaped, "max-latency": random.choice(("10ms", "40ms"))},
        )
    if random.random() < 0.6 and axes is None:
        axis = {"class": "axes", "payload": "150B", "period": "1ms", "max-latency": "1ms"}
        streams["axis"] = stream("t4", **axis)
    for number in range(axes or 0):
        streams[f"axis{number}"] = stream(
            f"t{random.randint(1, 5)}",
            random.choice(("l1", "l2")),
            payload=f"{random.randint(50, 150)}B",
            period=random.choice(("1ms", "2ms")),
            **{"class": "axes", "max-latency": "1ms"},
        )
    shaped = ("video", "audio", "events") if reserve else ()
    return intent_of(
        best_effort=True,
        switches=random.randint(1, 5),
        talkers=4 if axes is None else 5,
        streams=streams,
        classes={name: {"reserve": reserve} for name in shaped},
        defaults={
            "propagation": random.choice(("100ns", "5us")),
            "clock-error": random.choice(("0ns", "1us")),
            "gate-margin": random.choice(("0ns", "20us")),
        },
    )
