"""What the latency bound of a stream is made of, and with which one change a stream has a place
that has none: the planner tries each beside all other streams as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cnc.errors import Unschedulable
from cnc.model import ClassRole, Hop, Intent, Plan, Stream, StreamPlan, Windows
from cnc.planner.floor import CLOCK_ERROR, Floor, Named, floor
from cnc.planner.incremental import planned_placements
from cnc.planner.problem import Problem
from cnc.support.format import counted, duration

Place = Callable[[Intent, Plan | None], Plan]
"""The plan for an intent, without the streams that have no place, around a plan that is kept."""

_LOOSE = 1000  # times the latency that is asked for: as good as none
_STEPS = 100  # in which a latency is found out, of the one that is asked for
_OCTETS, _PAYLOAD_MIN_OCTETS = 16, 46  # to how many octets a payload is found out
_PERIODS = (2, 4, 8)
_MARGINS = (2, 5, 10)  # of the gate margin that is stated
_RIVALS = 8  # that are tried to be left out
# How far a change is from what is asked, where that is no ratio: what the operator may not mind,
# and what costs a guarantee, or another stream.
_LITTLE, _MUCH, _MOST = Fraction(11, 10), Fraction(2), Fraction(10)


class Bound(NamedTuple):
    """What a latency bound is made of; together the parts are the bound."""

    bound_ns: int
    allowed_ns: int
    way: tuple[str, ...]
    parts: tuple[Named, ...]


class Change(NamedTuple):
    """With this a stream has a place. `cost` is how far it is from what is asked: 1 is nothing."""

    text: str
    cost: Fraction


def bound_of(plan: Plan, name: str) -> Bound:
    """That of a stream with a place; without parts where its class has no planned times."""
    planned, allowed_ns = plan.streams[name], plan.intent.streams[name].max_latency_ns
    if not planned.has_instants:
        way = tuple(dict.fromkeys(hop.egress.node for hop in planned.hops))
        return Bound(planned.latency_bound_ns, allowed_ns, way, ())
    problem = Problem(plan.intent, {})
    placements = planned_placements(problem, {name: planned}).values()
    slowest = max((each.route for each in placements), key=lambda its: its.least_latency_ns)
    its = floor(problem, slowest)
    parts = [Named(_wire(its), its.wire_ns), *its.parts(plan.intent)]
    waits = "waiting for its turn"
    if planned.is_shared:  # in windows that may be open before all frames of a hop have come
        parts = [part for part in parts if part.what != CLOCK_ERROR]
        waits = "others in its windows, and clock error"
    parts.append(Named(waits, planned.latency_bound_ns - sum(its.takes_ns for its in parts)))
    return Bound(planned.latency_bound_ns, allowed_ns, its.way, tuple(parts))


def _wire(its: Floor) -> str:
    links = counted(len(its.way) - 1, "link")
    return f"{'frame' if its.frames == 1 else 'frames'} and cables, {links}"


def changes(plan: Plan, name: str, place: Place) -> list[Change]:
    """All that were found, the nearest to what is asked first; of a stream that `plan` refuses."""
    tries = _Tries(plan, name, place)
    found = [
        *tries.latency(),
        *tries.start(),
        *tries.payload(),
        *tries.frames(),
        *tries.period(),
        *tries.paths(),
        *tries.classes(),
        *tries.windows(),
        *tries.margin(),
        *tries.rivals(),
    ]
    return sorted(found, key=lambda its: its.cost)


class _Tries:
    def __init__(self, plan: Plan, name: str, place: Place) -> None:
        # Others that are refused as well are tried no more.
        wanted = plan.intent.streams
        self._intent = replace(
            plan.intent, streams={each: wanted[each] for each in (*plan.streams, name)}
        )
        self._plan, self._place, self._stream = plan, place, wanted[name]

    def _placed(self, intent: Intent, keep: Plan | None) -> StreamPlan | None:
        """The place of the stream, if no other loses its own."""
        try:
            made = self._place(intent, keep)
        except Unschedulable:
            return None
        others = self._plan.streams.keys() & intent.streams.keys()
        return made.streams.get(self._stream.name) if others <= made.streams.keys() else None

    def _as(self, stream: Stream) -> StreamPlan | None:
        streams = {**self._intent.streams, stream.name: stream}
        return self._placed(replace(self._intent, streams=streams), self._plan)

    def latency(self) -> Iterator[Change]:
        asked_ns = self._stream.max_latency_ns
        step_ns = -(-asked_ns // _STEPS)

        def with_more(steps: int) -> StreamPlan | None:
            max_latency_ns = asked_ns + steps * step_ns
            return self._as(replace(self._stream, max_latency_ns=max_latency_ns))

        # With more time it may get a longer bound than the one that it would get with less.
        if (loose := with_more(_LOOSE * _STEPS)) is None:
            return
        most = max(1, -(-(loose.latency_bound_ns - asked_ns) // step_ns))
        if (steps := _first(with_more, most)) and (placed := with_more(steps)):
            needed_ns = placed.latency_bound_ns
            text = f"max-latency: {duration(needed_ns)}, in place of {duration(asked_ns)}"
            yield Change(text, Fraction(needed_ns, asked_ns))

    def start(self) -> Iterator[Change]:
        its = self._stream
        is_limited = (its.earliest_ns, its.latest_ns) != (0, None)
        if is_limited and self._as(replace(its, earliest_ns=0, latest_ns=None)):
            yield Change("no `window`: its talker may start at any time of the period", _LITTLE)

    def payload(self) -> Iterator[Change]:
        asked = self._stream.payload_octets
        steps = (asked - _PAYLOAD_MIN_OCTETS) // _OCTETS

        def with_less(step: int) -> StreamPlan | None:
            octets = asked - step * _OCTETS
            return self._as(replace(self._stream, payload_octets=octets))

        if steps > 0 and (step := _first(with_less, steps)):
            octets = asked - step * _OCTETS
            yield Change(f"payload: {octets}B, in place of {asked}B", Fraction(asked, octets))

    def frames(self) -> Iterator[Change]:
        asked = self._stream.frames

        def with_fewer(fewer: int) -> StreamPlan | None:
            return self._as(replace(self._stream, frames=asked - fewer))

        if asked > 1 and (fewer := _first(with_fewer, asked - 1)):
            text = f"frames: {asked - fewer}, in place of {asked}"
            yield Change(text, Fraction(asked, asked - fewer))

    def period(self) -> Iterator[Change]:
        asked_ns = self._stream.period_ns
        for times in _PERIODS:
            if self._as(replace(self._stream, period_ns=times * asked_ns)):
                text = f"period: {duration(times * asked_ns)}, in place of {duration(asked_ns)}"
                yield Change(text, Fraction(times))
                return

    def paths(self) -> Iterator[Change]:
        if self._stream.paths > 1 and self._as(replace(self._stream, paths=1, routes=())):
            yield Change("paths: 1, in place of 2: a failure on the path costs frames", _MUCH)

    def classes(self) -> Iterator[Change]:
        scheduled = {each.name for each in self._intent.classes_with(ClassRole.SCHEDULED)}
        for name in sorted(scheduled - {*self._stream.traffic_classes}):
            if self._as(replace(self._stream, traffic_classes=(name,))):
                yield Change(f"class: {name}", _LITTLE)

    def windows(self) -> Iterator[Change]:
        for kind in (Windows.EXACT, Windows.SHARED):
            if kind is not self._stream.windows and self._as(replace(self._stream, windows=kind)):
                yield Change(f"windows: {kind}", _LITTLE)

    def margin(self) -> Iterator[Change]:
        stated_ns = self._intent.network.gate_margin_ns
        for by in _MARGINS:
            less_ns = stated_ns // by
            if stated_ns and self._placed(self._intent.with_gate_margin(less_ns), None):
                text = f"gate-margin: {duration(less_ns)}, in place of {duration(stated_ns)}, if "
                yield Change(f"{text}gates open no later", Fraction(by))
                return

    def rivals(self) -> Iterator[Change]:
        """The streams whose frames take most of the time of ports that theirs leave by."""
        sends = {hop.egress for hop in self._way()}
        takes = {
            name: Fraction(its.frames * (its.payload_octets + 1), its.period_ns)
            for name, planned in self._plan.streams.items()
            for its in [self._intent.streams[name]]
            if any(hop.egress in sends for hop in planned.hops)
        }
        for name in sorted(takes, key=lambda each: (-takes[each], each))[:_RIVALS]:
            others = {key: its for key, its in self._intent.streams.items() if key != name}
            if self._placed(replace(self._intent, streams=others), self._plan):
                yield Change(f"without the stream {name}", _MOST)

    def _way(self) -> Iterable[Hop]:
        """On which it goes alone."""
        loose = replace(self._stream, max_latency_ns=_LOOSE * self._stream.max_latency_ns)
        alone = self._place(replace(self._intent, streams={loose.name: loose}), None)
        return alone.streams[loose.name].hops if loose.name in alone.streams else ()


def _first(is_enough: Callable[[int], object], most: int) -> int | None:
    """The first of 1 … `most` that is, if the last one is: by halves, as more is never worse for
    the stream itself."""
    if not is_enough(most):
        return None
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if is_enough(middle):
            most = middle
        else:
            least = middle
    return most
