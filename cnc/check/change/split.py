"""A change in steps, each of which nodes may be caught in the middle of.

A change whose next lists have no room for what is still sent by the plan before, or the other way
round, is taken apart:

- *stop*: streams that go have no place any more, and all lists are as they were;
- *add*: what comes has its place beside what moves: lists let pass what either plan sends, and a
  stream that moves to another address has its next place there already, under another name;
- *move*: talkers send by the next plan, and all lists are as they were;
- *remove*: the next plan.

Before each step but the first no frame is to be on the way any more of what the steps before took
away. Not every change can be taken apart: what comes may need the room of what moves, or a port
hold too few entries for both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import lcm
from typing import TypeVar

from cnc.check.change.mixture import place
from cnc.loops.model import Loops
from cnc.model import ClassRole, GateControlList, GateEntry, Intent, LoopDelay, Plan, PortRef

V = TypeVar("V")

_CYCLES_MAX = 16  # of a list in one that lets pass what two lists do


@dataclass(frozen=True, slots=True)
class Step:
    """To the next plan. `kind` is `stop`, `add`, `move` or `remove`; or `change`, which is all.
    `silent` are streams of the plan before it that nobody sends."""

    kind: str
    plan: Plan
    silent: frozenset[str] = frozenset()


def split(before: Plan, after: Plan) -> list[Step]:
    """The steps of a change, to be judged one after the other."""
    going = before.streams.keys() - after.streams.keys()
    moving = {
        name
        for name in before.streams.keys() & after.streams.keys()
        if place(before, name) != place(after, name)
    }
    steps = [Step("stop", _stopped(before, before, going))] if going else []
    if moving:
        added, named = _added(before, after, going, moving)
        gates = _both(before, after)
        moved = replace(_stopped(after, before, going), gates=gates)
        steps += [
            Step("add", replace(added, gates=gates)),
            Step("move", moved, frozenset(named)),
        ]
    return [*steps, Step("remove" if steps else "change", after)]


def _stopped(plan: Plan, before: Plan, going: Collection[str]) -> Plan:
    """A plan without streams of the one before, which its intent still asks for: the cycles of
    lists that stay for now go with theirs."""
    wanted = {name: before.intent.streams[name] for name in going}
    streams = {**wanted, **plan.intent.streams}
    return replace(
        plan,
        intent=replace(plan.intent, streams=streams),
        streams=_without(plan.streams, going),
        refused={**plan.refused, **dict.fromkeys(going, "its talker is to stop")},
        recovery_ns=_without(plan.recovery_ns, going),
        addresses=_without(plan.addresses, going),
        jitter_ns=_without(plan.jitter_ns, going),
        loops=_loops_without(plan, going),
    )


def _added(
    before: Plan, after: Plan, going: Collection[str], moving: Collection[str]
) -> tuple[Plan, dict[str, str]]:
    """The next plan but for streams that move, which are where they were; and by which names those
    have their next place beside that get another address."""
    taken = before.intent.streams.keys() | after.intent.streams.keys()
    free = (
        name for number in range(2 * len(taken) + 1) if (name := f"moved-{number}") not in taken
    )
    named = {
        next(free): name
        for name in sorted(moving)
        if before.addresses.get(name) != after.addresses.get(name)
    }

    def both(former: Mapping[str, V], following: Mapping[str, V]) -> dict[str, V]:
        kept = {name: its for name, its in former.items() if name in moving}
        further = {alias: following[name] for alias, name in named.items() if name in following}
        return {**_without(following, moving), **kept, **further}

    plan = replace(
        after,
        streams=both(before.streams, after.streams),
        recovery_ns=both(before.recovery_ns, after.recovery_ns),
        addresses=both(before.addresses, after.addresses),
        jitter_ns=both(before.jitter_ns, after.jitter_ns),
        loops={**before.loops, **_loops_without(after, moving)},
        intent=replace(
            after.intent,
            streams={
                **both(before.intent.streams, after.intent.streams),
                **{
                    alias: replace(after.intent.streams[name], name=alias)
                    for alias, name in named.items()
                },
            },
        ),
    )
    return _stopped(plan, before, going), named


def _without(every: Mapping[str, V], names: Collection[str]) -> dict[str, V]:
    return {name: its for name, its in every.items() if name not in names}


def _loops_without(plan: Plan, names: Collection[str]) -> dict[str, LoopDelay]:
    """The loops that none of these streams closes."""
    loops = plan.intent[Loops].by_name
    return {
        name: its
        for name, its in plan.loops.items()
        if name in loops and not {loops[name].sensor, loops[name].actuator} & set(names)
    }


def _both(before: Plan, after: Plan) -> dict[PortRef, GateControlList]:
    """Lists that let pass what those of either plan do; of a port that has one in one plan alone
    that."""
    gates = {**before.gates, **after.gates}
    for port in before.gates.keys() & after.gates.keys():
        one, other = before.gates[port], after.gates[port]
        if one != other:
            gates[port] = joined(one, other, after.intent)
    return gates


def joined(one: GateControlList, other: GateControlList, intent: Intent) -> GateControlList:
    """A list by which a gate is open while it is by one of two, but that of best effort by both.

    Where they repeat together too rarely for that, the second.
    """
    cycle_ns = lcm(one.cycle_ns, other.cycle_ns)
    if cycle_ns > _CYCLES_MAX * max(one.cycle_ns, other.cycle_ns):
        return other
    best_effort = sum(1 << c.number for c in intent.classes_with(ClassRole.BEST_EFFORT))
    mine, its = dict(_changes(one, cycle_ns)), dict(_changes(other, cycle_ns))
    entries: list[GateEntry] = []
    states, further = 0, 0
    for begin, end in pairwise([*sorted(mine.keys() | its.keys()), cycle_ns]):
        states, further = mine.get(begin, states), its.get(begin, further)
        opened = (states | further) & ~best_effort | states & further & best_effort
        if entries and entries[-1].gate_states == opened:
            before_ns = entries.pop().interval_ns
        else:
            before_ns = 0
        entries.append(GateEntry(opened, before_ns + end - begin))
    return GateControlList(cycle_ns, tuple(entries))


def _changes(gates: GateControlList, until_ns: int) -> Iterator[tuple[int, int]]:
    """From when on the gates have which states, over some cycles."""
    begins = [*accumulate((each.interval_ns for each in gates.entries), initial=0)]
    for cycle in range(0, until_ns, gates.cycle_ns):
        for begin, entry in zip(begins, gates.entries, strict=False):
            yield cycle + begin, entry.gate_states
