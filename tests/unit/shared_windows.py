"""Plans in which frames share windows, made by hand.

Time is cut into slots, one for each hop from the talker on: frames leave their talker in the first,
the first switch in the second, and so on. In a slot each class has a window at every port that its
frames cross then, one class after the other. So a frame has always come before the window begins in
which it goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import lcm
from pathlib import Path
from typing import Any

import yaml

from cnc import intent as intents
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    Hop,
    Intent,
    Link,
    Plan,
    PortRef,
    StreamPlan,
    Windows,
)
from cnc.planner import plan as compute

SCHEDULES = Path(__file__).parents[2] / "schedules"


def example(name: str, window_ns: int, slot_ns: int, **keys: Any) -> Plan:
    """An example of `schedules` with all streams in shared windows; `keys` are others of it."""
    document = yaml.safe_load((SCHEDULES / f"{name}.yaml").read_text()) | keys
    document["defaults"] |= {"recovery": "none", "windows": "shared"}
    for stream in document["streams"].values():
        stream["max-latency"] = "4ms"
    return sharing(intents.from_document(document, name), window_ns, slot_ns)


def sharing(wanted: Intent, window_ns: int, slot_ns: int) -> Plan:
    """A plan of the intent in which each window is `window_ns` long, and a slot `slot_ns`."""
    streams = {name: replace(its, windows=Windows.EXACT) for name, its in wanted.streams.items()}
    exact = compute(replace(wanted, streams=streams))
    numbers = sorted(c.number for c in wanted.classes_with(ClassRole.SCHEDULED))
    slots = _Slots(
        wanted, {each: n for n, each in enumerate(reversed(numbers))}, window_ns, slot_ns
    )
    placed = {name: slots.placed(name, its) for name, its in exact.streams.items()}
    return replace(exact, intent=wanted, streams=placed, gates=slots.gates(placed))


class _Slots:
    def __init__(
        self, wanted: Intent, order: Mapping[int, int], window_ns: int, slot_ns: int
    ) -> None:
        self._intent = wanted
        self._order = order
        self._window_ns = window_ns
        self._slot_ns = slot_ns

    def placed(self, name: str, exact: StreamPlan) -> StreamPlan:
        paths = tuple(self._path(path) for path in exact.paths)
        network = self._intent.network
        start_ns = min(path[0].offset_ns for path in paths)
        listeners = self._intent.streams[name].listeners
        ends_ns = [
            hop.offset_ns + hop.window_ns + network.links[hop.egress].propagation_ns
            for path in paths
            for hop in path
            if network.links[hop.egress].target.node in listeners
        ]
        return StreamPlan(paths, max(ends_ns) + network.clock_error_ns - start_ns)

    def _path(self, path: tuple[Hop, ...]) -> tuple[Hop, ...]:
        links = self._intent.network.links
        slot = {path[0].egress.node: 0}
        found = []
        for hop in path:
            its = slot[hop.egress.node]
            slot[links[hop.egress].target.node] = its + 1
            opens_ns = self._opens_ns(its, hop.traffic_class)
            found.append(Hop(hop.egress, opens_ns, hop.traffic_class, self._window_ns))
        return tuple(found)

    def _opens_ns(self, slot: int, traffic_class: int) -> int:
        turn_ns = self._slot_ns // len(self._order)
        return slot * self._slot_ns + self._order[traffic_class] * turn_ns

    def gates(self, placed: Mapping[str, StreamPlan]) -> dict[PortRef, GateControlList]:
        windows: defaultdict[PortRef, set[tuple[int, int, int]]] = defaultdict(set)
        for name, its in placed.items():
            period_ns = self._intent.streams[name].period_ns
            for hop in its.hops:
                if hop.egress.node in self._intent.network.bridges:
                    windows[hop.egress].add((hop.offset_ns, hop.traffic_class, period_ns))
        return {
            port: self._list(self._intent.network.links[port], its) for port, its in windows.items()
        }

    def _list(self, link: Link, windows: set[tuple[int, int, int]]) -> GateControlList:
        """Best effort between the windows, but for its longest frame before each."""
        control = sum(1 << c.number for c in self._intent.classes_with(ClassRole.CONTROL))
        (best_effort,) = self._intent.classes_with(ClassRole.BEST_EFFORT)
        guard_ns = self._intent.network.occupation_max_ns(link, best_effort.max_frame_octets)
        cycle_ns = lcm(*(period_ns for _, _, period_ns in windows))
        opened = sorted(
            {
                ((offset_ns + by_ns) % cycle_ns, number)
                for offset_ns, number, period_ns in windows
                for by_ns in range(0, cycle_ns, period_ns)
            }
        )
        first = opened[0][0]
        entries = []
        for (opens_ns, number), (then_ns, _) in zip(
            opened, [*opened[1:], (first + cycle_ns, 0)], strict=True
        ):
            entries.append(GateEntry(control | 1 << number, self._window_ns))
            pause_ns = then_ns - opens_ns - self._window_ns
            if pause_ns > guard_ns:
                entries.append(GateEntry(control | 1 << best_effort.number, pause_ns - guard_ns))
                entries.append(GateEntry(control, guard_ns))
            elif pause_ns:
                entries.append(GateEntry(control, pause_ns))
        return GateControlList(cycle_ns, tuple(_from(entries, first)))


def _from(entries: list[GateEntry], first_ns: int) -> list[GateEntry]:
    """The entries of a cycle, of which the first begins at `first_ns`, from its beginning on."""
    if not first_ns:
        return entries
    tail: list[GateEntry] = []
    left_ns = first_ns
    while left_ns:
        last = entries.pop()
        taken_ns = min(left_ns, last.interval_ns)
        left_ns -= taken_ns
        tail.insert(0, replace(last, interval_ns=taken_ns))
        if last.interval_ns > taken_ns:
            entries.append(replace(last, interval_ns=last.interval_ns - taken_ns))
    return [*tail, *entries]
