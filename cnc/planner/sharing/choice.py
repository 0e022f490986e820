"""How streams share windows: in which slots, on which ways, in how many classes.

Each choice is searched by itself (`placing`); the one with places for most streams is the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import product
from math import gcd
from operator import attrgetter

from cnc.model import Network
from cnc.planner.problem import Problem
from cnc.planner.sharing.layout import Asked, asked_of, in_turn
from cnc.planner.sharing.placing import FILLINGS, MANY, Sharing
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.ways import Style

_SLOTS_TRIED_MAX = 16
_TURNS_MAX = 4  # of classes, where one is too few: each costs a margin and a control burst
_TURN_SLOTS_MAX = 256  # of a cycle: a layout of more takes long, in slots too short to be halved
_IMPROVED_MAX = 4  # layouts of many streams, if none of them has a place at once
_FILLED_STREAMS = 10_000  # in all fillings of windows that are tried in a choice
# How windows may be laid out; what is behind the next slot only where frames go around rings.
_STYLES = Style.NEXT_SLOT, Style.BY_HOPS, Style.UP_AND_DOWN, Style.FEW_RANKS
_STYLES_IN_TURN = Style.NEXT_SLOT, Style.UP_AND_DOWN, Style.FEW_RANKS
_STYLES_OF_MANY = Style.UP_AND_DOWN, Style.FEW_RANKS
_count = attrgetter("count")


def best_sharing(
    problem: Problem, names: Sequence[str], classes: tuple[int, ...], taken: Taken
) -> Sharing:
    """The layout with places for most streams: for all of them, or for those alone whose periods
    allow longer slots, if slots have room for more of them so. A margin and a control burst take a
    part of each slot, however short it is. Where not all have a place in windows of one class,
    several take turns, if they may have any of them."""
    alone = _Choice.of(problem, names, classes[0], taken)
    for some in _by_slots(problem, names):
        if len(some) <= alone.most:
            break
        choice = _Choice.of(problem, some, classes[0], taken)
        alone = choice if choice.most > alone.most else alone
    # A share of best effort's is reckoned in one turn of it, and fewer have a bound of recovery.
    is_alone = problem.shares_ppb or problem.intent.network.recovery_required
    most_turns = 1 if is_alone or not taken.is_nothing else min(len(classes), _TURNS_MAX)
    in_turns = (alone.in_turn(classes[:turns]) for turns in range(2, most_turns + 1))
    choices = [alone, *(choice for choice in in_turns if choice.may_turn)]
    if len(alone.names) < MANY:
        return _searched(choices)
    return _of_many(choices)


def _of_many(choices: Sequence[_Choice]) -> Sharing:
    """The first layout that has a place for all; or the one with most places, improved. Of many
    streams some are too early somewhere around a ring in whatever slots, which takes long to find
    out: so none goes around."""
    every: list[Sharing] = []
    for style, choice in product(_STYLES_OF_MANY, choices):
        for sharing in choice.of_style(style):
            sharing.place_once()
            if sharing.is_complete:
                return sharing
            every.append(sharing)
            if sharing.early_links:
                break  # where late frames have less room, windows are fuller, and more are early
    every.sort(key=lambda its: (-its.count, its.early_links))
    better = every[:1] if every[0].count else every[:_IMPROVED_MAX]
    for sharing in better:
        sharing.place(fillings=min(FILLINGS, _FILLED_STREAMS // len(sharing.names) + 1))
    return max(better, key=_count)


def _searched(choices: Sequence[_Choice]) -> Sharing:
    """The best of all layouts. Each of these choices costs more than the one before, so the last is
    the one that places no more."""
    found = max(choices[0].tried(), key=_count)
    for choice in choices[1:]:
        if found.is_complete:
            break
        more = max(choice.tried(found.count), key=_count)
        if 0 < more.count <= found.count:
            break
        found = max(found, more, key=_count)
    return found


def _by_slots(problem: Problem, names: Sequence[str]) -> Iterator[list[str]]:
    """The streams of which the periods are multiples of each slot that is longer than for all; the
    most streams first."""
    periods_ns = {name: problem.intent.streams[name].period_ns for name in names}
    frequent = Counter(periods_ns.values())
    slots_ns: set[int] = set()
    for period_ns in frequent:
        slots_ns |= {period_ns} | {gcd(period_ns, slot_ns) for slot_ns in slots_ns}
    counts = {
        slot_ns: sum(many for period_ns, many in frequent.items() if period_ns % slot_ns == 0)
        for slot_ns in slots_ns - {gcd(*frequent)}
    }
    for slot_ns in sorted(counts, key=lambda its: (-counts[its], its))[:_SLOTS_TRIED_MAX]:
        yield [name for name in names if periods_ns[name] % slot_ns == 0]


class _Choice:
    """Streams to find layouts for in some classes."""

    def __init__(
        self, names: Sequence[str], classes: tuple[int, ...], asked: Callable[[Style], Asked]
    ) -> None:
        self.names = names
        self._takes_turns = len(classes) > 1
        some = _STYLES_IN_TURN if self._takes_turns else _STYLES
        self._styles = some if len(names) < MANY else _STYLES_OF_MANY
        self._asked = asked
        self._sharing = cache(lambda style, is_roomy: Sharing(asked(style), is_roomy=is_roomy))

    @classmethod
    def of(cls, problem: Problem, names: Sequence[str], number: int, taken: Taken) -> _Choice:
        """Streams in windows of one class."""
        return cls(
            names, (number,), cache(lambda style: asked_of(problem, names, number, style, taken))
        )

    def in_turn(self, classes: tuple[int, ...]) -> _Choice:
        """The same streams, on the same ways, in these classes."""
        return _Choice(
            self.names, classes, cache(lambda style: in_turn(self._asked(style), classes))
        )

    @property
    def _network(self) -> Network:
        return self._asked(self._styles[0]).problem.intent.network

    @cached_property
    def most(self) -> int:
        """For how many of the streams slots have room."""
        return self._sharing(self._styles[0], False).count_in_slots()

    @property
    def may_turn(self) -> bool:
        """Whether best effort's turn leaves time for slots of all classes, which repeat soon."""
        asked = self._asked(self._styles[0])
        return asked.slot_ns > 0 and asked.cycle_slots <= _TURN_SLOTS_MAX

    @property
    def roominess(self) -> tuple[bool, ...]:
        """Whether late frames are to leave behind each window before the next one: at first so,
        where they are counted, then not."""
        is_counted = self._network.disturbance_ns is not None and not self._takes_turns
        return (True, False) if is_counted else (False,)

    def of_style(self, style: Style) -> Iterator[Sharing]:
        """What is to be placed in this style."""
        return (self._sharing(style, is_roomy) for is_roomy in self.roominess)

    def tried(self, most: int = 0) -> Iterator[Sharing]:
        """Layouts, until one has a place for all, and further ones only as far as they may have
        places for more streams than `most`. Roomy ones have a bound of how long frames are late
        where none go around rings, others may have; so with rings it stays at the first if each
        stream must have one."""
        for is_roomy in self.roominess:
            rings = []
            for style in self._styles:
                tried = self._sharing(style, is_roomy)
                tried.place(most)
                most = max(most, tried.count)
                yield tried
                if tried.is_complete:
                    return
                rings.append(tried.has_rings)
                if not tried.has_rings and style is Style.NEXT_SLOT:
                    break
            if all(rings) and self._network.recovery_required:
                return
