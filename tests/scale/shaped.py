"""What streams with a shaper cost as they come and go in a plan that is held in memory, and how
many of them cannot go.

    python -m tests.scale.shaped
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan
from cnc.planner import Changes, Live, plan
from tests.scale.yardstick import timed
from tests.unit.planner_networks import with_streams
from tests.unit.shaped_networks import intent_of, random_intent, stream

_SIZES = ((100, 3), (300, 5))  # streams, switches
_MORE = 10  # that come, and go
_NETWORKS = range(2000, 2400)
_CREDIT = {"reserve": "90%", "shaping": {"by": "cbs", "idle-slope": "100Mbps"}}
_CLASSES = {"video": _CREDIT, "audio": _CREDIT, "events": {"reserve": "90%"}}


def events(streams: int, switches: int) -> tuple[float, float]:
    """CPU seconds of an event, and of the judge, beside so many streams of 100 octets at 1 Gb/s."""
    wanted = intent_of(
        switches=switches,
        talkers=50,
        classes=_CLASSES,
        defaults={"rate": "1Gbps"},
        streams={
            f"f{n}": stream(
                f"t{1 + n % 50}",
                ("l1", "l2")[n % 2],
                payload="100B",
                period="20ms",
                **{"class": [*_CLASSES][n % 3], "max-latency": "200ms"},
            )
            for n in range(streams + _MORE)
        },
    )
    every = [*wanted.streams.values()]
    live = Live(plan(with_streams(wanted, *every[:streams])))
    come, more = partial(_event, live, live.add), every[streams:]
    costs_s = [timed(partial(come, [its]))[0] for its in more]
    judge_s, found = timed(lambda: judge(live.plan))
    assert not found
    go = partial(_event, live, live.remove)
    costs_s += [timed(partial(go, [its.name]))[0] for its in more]
    return median(costs_s), judge_s


def _event(live: Live, change: Callable[[list[Any]], Changes], what: list[Any]) -> Plan:
    change(what)
    return live.plan


def kept() -> tuple[int, int]:
    """Of all streams of random networks, each of which is to go alone, those that cannot."""
    asked = refused = 0
    for seed in _NETWORKS:
        running = _running(random_intent(seed, axes=seed % 4))
        for name in running.streams:
            asked += 1
            try:
                Live(running).remove([name])
            except Unschedulable:
                refused += 1
    return refused, asked


def _running(wanted: Intent) -> Plan:
    made = plan(wanted, best_effort=True)
    intent = with_streams(wanted, *(wanted.streams[name] for name in made.streams))
    return replace(made, intent=intent, refused={})


def main() -> None:
    for streams, switches in _SIZES:
        event_s, judge_s = events(streams, switches)
        print(
            f"{streams} streams, {switches} switches: {event_s:.3f} s an event, {judge_s:.3f} s to "
            "judge"
        )
    print("{} of {} streams cannot go".format(*kept()))


if __name__ == "__main__":
    main()
