"""What one plan changes for those who run by another: streams, ports, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from cnc.keys.contributed import KEYS
from cnc.model import (
    GateControlList,
    Intent,
    LoopDelay,
    Plan,
    PortRef,
    Stream,
    StreamAddress,
    StreamPlan,
)

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Change(Generic[V]):
    """Two values that differ; None where there is none."""

    before: V | None
    after: V | None


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """What differs between two plans, by name; what is the same is not in it.

    `kept` is how many streams have path, offsets and class of before. `wanted` are the requirements
    of streams, `placed` their paths, offsets, classes and bounds,
    `addresses` what their frames are sent to in a bridged network, `jitter_ns` the bounds of their
    jitter by listener, `loops` how long control loops take. `foundations` are what plans rest on:
    classes, switches, links and figures of the network; `macs` the addresses of end stations, which
    the last switch gives to frames.
    """

    kept: int
    wanted: Mapping[str, Change[Stream]]
    placed: Mapping[str, Change[StreamPlan]]
    foundations: Mapping[str, Change[object]]
    gates: Mapping[PortRef, Change[GateControlList]]
    addresses: Mapping[str, Change[StreamAddress]]
    jitter_ns: Mapping[str, Change[Mapping[str, int]]]
    loops: Mapping[str, Change[LoopDelay]]
    macs: Mapping[str, Change[str]]

    @property
    def same(self) -> bool:
        parts = (self.wanted, self.placed, self.foundations, self.gates)
        return not any((*parts, self.addresses, self.jitter_ns, self.loops, self.macs))

    @property
    def changes_streams(self) -> bool:
        """Whether a stream comes, goes, is wanted otherwise or has another place."""
        return bool(self.wanted or self.placed)

    @property
    def streams_summary(self) -> str:
        """How many streams come, go and are wanted otherwise: `+3 -2 ~1 streams`; or nothing."""
        wanted = [each for each in self.wanted.values() if each.before and each.after]
        numbers = len(self.added), len(self.removed), len(wanted)
        texts = [f"{sign}{its}" for sign, its in zip("+-~", numbers, strict=True) if its]
        return " ".join([*texts, "stream" if sum(numbers) == 1 else "streams"]) if texts else ""

    @property
    def added(self) -> list[str]:
        """The streams that get a place."""
        return [name for name, change in self.placed.items() if change.before is None]

    @property
    def removed(self) -> list[str]:
        """The streams that lose their place."""
        return [name for name, change in self.placed.items() if change.after is None]

    @property
    def refused(self) -> list[str]:
        """The streams that are new, and get no place."""
        return [
            name
            for name, change in self.wanted.items()
            if change.before is None and name not in self.placed
        ]


def difference(before: Plan, after: Plan) -> PlanDifference:
    """What `after` changes for those who run by `before`, each part in order of its names."""
    return PlanDifference(
        kept=sum(
            its.paths == before.streams[name].paths
            for name, its in after.streams.items()
            if name in before.streams
        ),
        wanted=_changes(before.intent.streams, after.intent.streams),
        placed=_changes(before.streams, after.streams),
        foundations=_changes(_foundations(before.intent), _foundations(after.intent)),
        gates=_changes(before.gates, after.gates),
        addresses=_changes(before.addresses, after.addresses),
        jitter_ns=_changes(before.jitter_ns, after.jitter_ns),
        loops=_changes(before.loops, after.loops),
        macs=_changes(_macs(before.intent), _macs(after.intent)),
    )


def differ_from_ns(one: GateControlList, other: GateControlList) -> int:
    """When in their cycles two lists first differ, in the state of a gate or in their length."""
    at_ns = 0
    for mine, its in zip(one.entries, other.entries, strict=False):
        if mine.gate_states != its.gate_states:
            break
        at_ns += min(mine.interval_ns, its.interval_ns)
        if mine.interval_ns != its.interval_ns:
            break
    return at_ns


def _foundations(intent: Intent) -> dict[str, object]:
    network = intent.network
    return {
        **{f"class {name}": its for name, its in intent.classes.items()},
        **{f"link {source}": link for source, link in network.links.items()},
        **{f"switch {name}": bridge for name, bridge in network.bridges.items()},
        **{name: intent[kind] for each in KEYS for name, kind in each.founding.items()},
        "network": replace(network, bridges={}, end_stations={}, links={}),
    }


def _macs(intent: Intent) -> dict[str, str]:
    return {name: its.mac for name, its in intent.network.end_stations.items() if its.mac}


def _changes(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, Change[V]]:
    names = sorted(before.keys() | after.keys(), key=str)
    pairs = ((name, Change(before.get(name), after.get(name))) for name in names)
    return {name: pair for name, pair in pairs if pair.before != pair.after}
