"""Which of the streams that could be in time by themselves a planner places in whole networks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, Plan
from cnc.planner import plan
from cnc.support.format import counted
from tests.shared_windows.floor import Floors

_DISTURBANCE_NS = 100_000  # the default of `recovery` in an intent
_PLACED_PERCENT, _RECOVERING_PERCENT, _EACH_PERCENT = 97, 92, 80
_OF_NONE_PERCENT = 95  # of what has a place without recovery, to be placed with the default


@dataclass(slots=True)
class Sum:
    """Streams: `feasible` are those whose floor is no more than their latency allows."""

    networks: int = 0
    feasible: int = 0
    placed: int = 0
    recovering: int = 0
    bounded: int = 0
    least_percent: float = 100.0

    def add(self, feasible: int, placed: int, recovering: int, bounded: int) -> None:
        self.networks += 1
        self.feasible += feasible
        self.placed += placed
        self.recovering += recovering
        self.bounded += bounded
        least = min(placed, recovering)
        self.least_percent = min(self.least_percent, percent(least, feasible))


def percent(part: int, whole: int) -> float:
    """Of nothing all is there."""
    return 100 * part / whole if whole else 100.0


_LINE = "{:32} {:>7} {:>8} {:>14} {:>14} {:>14} {:>8} {:>8} {:>7}  {}"


def show(intents: Iterable[Intent], gate_margin_ns: int, classes: int) -> bool:
    """Print what is placed of each network through gates that open so late, without recovery and
    with its default; True if there are any, and the bars are reached by sound plans.

    Streams may use the first so many of their classes.
    """
    head = ("network", "streams", "feasible", "placed", "recovering", "with a bound", "of those")
    print(_LINE.format(*head, "beyond", "CPU", "").rstrip())
    total, sound = Sum(), True
    for intent in intents:
        asked = _with(intent, gate_margin_ns, classes)
        floors = Floors(asked.network)
        feasible = {
            name
            for name, stream in asked.streams.items()
            if floors.floor_ns(stream) <= stream.max_latency_ns
        }
        begun = time.process_time()
        planned, faults = _planned(asked)
        placed = planned.streams.keys()
        network = replace(asked.network, disturbance_ns=_DISTURBANCE_NS)
        planned, more_faults = _planned(replace(asked, network=network))
        recovering, bounded = planned.streams.keys(), planned.recovery_ns.keys()
        faults += more_faults
        sound = sound and not faults
        those = (feasible, placed & feasible, recovering & feasible, bounded & feasible)
        counts = tuple(map(len, those))
        total.add(*counts)
        print(
            _LINE.format(
                asked.name,
                len(asked.streams),
                len(feasible),
                *(f"{its} {percent(its, len(feasible)):.1f}%" for its in counts[1:]),
                f"{percent(counts[2], counts[1]):.1f}%",
                len(placed - feasible),
                f"{time.process_time() - begun:.0f} s",
                f"{len(faults)} FAULTS: {faults[0]}" if faults else "",
            ).rstrip(),
            flush=True,
        )
    return _verdict(total, is_exact=not gate_margin_ns) and sound


def _verdict(total: Sum, *, is_exact: bool) -> bool:
    """Whether the bars are reached. Those for late gates do not hold where gates are exact: there a
    plan is not to place less than that of an earlier version."""
    placed = percent(total.placed, total.feasible)
    recovering = percent(total.recovering, total.feasible)
    of_none = percent(total.recovering, total.placed)
    bars = [("recovering, of those placed without", of_none, _OF_NONE_PERCENT)]
    if not is_exact:
        bars = [
            ("placed", placed, _PLACED_PERCENT),
            ("recovering", recovering, _RECOVERING_PERCENT),
            ("the network with the least", total.least_percent, _EACH_PERCENT),
        ]
    print(
        f"\n{counted(total.networks, 'network')}: of {total.feasible} feasible streams "
        f"{total.placed} are placed ({placed:.2f}%), "
        f"{total.recovering} with recovery ({recovering:.2f}%, {of_none:.2f}% of those), of which "
        f"{total.bounded} have a bound of it, in the "
        f"network with the least {total.least_percent:.1f}%"
    )
    for what, reached, bar in bars:
        print(f"{what}: {reached:.2f}%, bar {bar}%: {'met' if reached >= bar else 'NOT MET'}")
    return total.networks > 0 and all(reached >= bar for _, reached, bar in bars)


def _with(intent: Intent, gate_margin_ns: int, classes: int) -> Intent:
    streams = {
        name: replace(stream, traffic_classes=stream.traffic_classes[:classes])
        for name, stream in intent.streams.items()
    }
    return replace(intent.with_gate_margin(gate_margin_ns), streams=streams)


def _planned(intent: Intent) -> tuple[Plan, list[str]]:
    """The plan, with as many streams as have a place, and what the judge finds."""
    try:
        computed = plan(intent, best_effort=True)
    except Unschedulable as error:
        print(f"  {intent.name}: nothing is planned: {error}")
        computed = Plan(intent, {}, {}, "none")
    return computed, [str(violation) for violation in judge(computed)]
