"""Single streams that come and go in a planner that holds their plan, and what each costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from cnc.errors import Unschedulable
from cnc.model import Stream
from cnc.planner import Live, plan
from cnc.planner.live import Changes
from tests.scale.yardstick import timed

Happened = Callable[[str, Changes], None]


@dataclass(frozen=True)
class Events:
    """CPU seconds by kind of event, `add` and `remove`; and all streams that are asked for in the
    end, whether or not they have a place."""

    costs_s: dict[str, list[float]]
    asked: dict[str, Stream]

    @property
    def all_s(self) -> list[float]:
        return [cost for its in self.costs_s.values() for cost in its]

    def share_placed(self, live: Live) -> tuple[int, int]:
        """How many of them have a place, and how many have one in a plan made anew."""
        wanted = replace(live.plan.intent, streams=self.asked)
        return len(live.plan.streams), len(plan(wanted, best_effort=True).streams)


def come_and_go(
    live: Live,
    count: int,
    numbers: Random,
    *,
    like: Sequence[Stream],
    moving_at_most: int = 0,
    happened: Happened = lambda _name, _changes: None,
) -> Events:
    """So many events in turn: a stream as one of `like` comes, for which some of the others may
    move, and one of those that are asked for goes. Each that changed the plan `happened`."""
    asked = dict(live.plan.intent.streams)
    present = list(asked)
    taken = {*asked}
    names = (f"new{n}" for n in itertools.count() if f"new{n}" not in taken)
    costs: dict[str, list[float]] = {"add": [], "remove": []}
    for number in range(count):
        kind = ("add", "remove")[number % 2]
        if kind == "add":
            name = next(names)
            asked[name] = replace(numbers.choice(like), name=name)
            present.append(name)
            act = partial(live.add, [asked[name]], moving_at_most=moving_at_most)
        else:
            index = numbers.randrange(len(present))
            present[index], present[-1] = present[-1], present[index]
            name = present.pop()
            del asked[name]
            act = partial(live.remove, [name])
        cost_s, changes = timed(partial(_done, act))
        costs[kind].append(cost_s)
        if changes is not None:
            happened(name, changes)
    return Events(costs, asked)


def _done(act: Callable[[], Changes]) -> Changes | None:
    try:
        return act()
    except Unschedulable:
        return None
