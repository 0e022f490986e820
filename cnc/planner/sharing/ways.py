"""The ways of streams, and in which of their windows frames leave the links of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from enum import Enum, auto
from typing import NamedTuple, Protocol

from cnc.model import Stream
from cnc.planner.graph import Tree
from cnc.planner.problem import Problem
from cnc.planner.sharing.forward import ForwardWays
from cnc.planner.sharing.order import Turn, ordered, up_and_down
from cnc.planner.sharing.times import Times

_REROUTINGS_MAX = 5
_URGENT_SLOTS = 2  # within which urgent frames have to be there
_HARDLY = 1e-9  # the weight of a turn that no stream takes yet


class Step(NamedTuple):
    """A hop of a way: its link, the step before, the wave in which frames leave by it, and how many
    laps of slots after they were sent."""

    link: int
    before: int | None
    wave: int = 0
    laps: int = 0


class Style(Enum):
    """How windows are laid out where frames may go around rings of links."""

    NEXT_SLOT = auto()  # those that do so leave in the next slot
    UP_AND_DOWN = auto()  # none does so, but for streams of which each way does
    FEW_RANKS = auto()  # likewise, with shorter chains of links and longer ways
    BY_HOPS = auto()  # each hop is a wave of its own, those of urgent streams first


# Up to how many neighbours more than the fewest switches of a rank have, and how transit through
# them counts. Little of it low avoids detours, much of it low spreads load: measured, in few ranks
# the latter places more.
_RANKS = {Style.UP_AND_DOWN: (0, 1.0), Style.FEW_RANKS: (1, -1.0)}


class Laid(Protocol):
    """The ways of some streams, whoever has laid them; `links` are those of switches in the order
    in which frames cross them, and `has_rings` says whether some go back in it."""

    links: list[int]
    has_rings: bool

    def of(self, name: str) -> Iterator[tuple[Step, ...]]:
        """The ways of a stream."""
        ...


class Ways:
    """The ways of some streams; `links` are those of switches in the order in which frames cross
    them, and `has_rings` says whether some go back in it."""

    def __init__(
        self,
        problem: Problem,
        names: Collection[str],
        lap_ns: int,
        times: Times,
        style: Style,
    ) -> None:
        self._problem = problem
        self._streams = {name: problem.intent.streams[name] for name in names}
        self._lap_ns = lap_ns
        self._times = times
        self._style = style
        self._trees = {name: problem.trees[name] for name in names}
        self.links: list[int] = []
        self.has_rings = False
        self._ways = self._order()

    def of(self, name: str) -> Iterator[tuple[Step, ...]]:
        """The ways of a stream."""
        return (self._ways[name, path] for path in range(len(self._trees[name])))

    def _order(self) -> dict[tuple[str, int], tuple[Step, ...]]:
        """The steps of all ways. Streams whose ways lead back in the order of links get others, as
        far as there are some."""
        forward = ForwardWays(self._problem)
        between = forward.between_switches()
        up_first: list[int] = []
        ranks = _RANKS.get(self._style)
        possible = {} if ranks else dict.fromkeys(forward.turns(), _HARDLY)
        for attempt in range(_REROUTINGS_MAX):
            ways = {
                (name, path): self._way(tree)
                for name, trees in self._trees.items()
                for path, tree in enumerate(trees)
            }
            turns = self._turns(ways)
            used = {step.link for way in ways.values() for step in way if step.before is not None}
            if ranks:
                # In another order, ways that lead forward in this one would lead back.
                up_first = up_first or self._up_first(between, turns, *ranks)
                order = up_first + sorted(used - between.keys())
            else:
                order = ordered(
                    used | {link for turn in possible for link in turn}, possible | turns
                )
            place = {link: index for index, link in enumerate(order)}
            back = {turn for turn in turns if place[turn[1]] <= place[turn[0]]}
            is_last = self._style is Style.BY_HOPS or attempt + 1 == _REROUTINGS_MAX
            if not back or is_last or not self._lead_forward(forward, ways, place, back):
                break
        self.links = [link for link in order if link in used]
        self.has_rings = bool(back)
        if self._style is Style.BY_HOPS:
            return self._by_hops(ways)
        return {key: self._in_slots(way, back) for key, way in ways.items()}

    def _is_urgent(self, name: str) -> bool:
        """Whether frames can hardly wait for others of their slot."""
        return self._streams[name].max_latency_ns < _URGENT_SLOTS * self._lap_ns

    def _transit(self, turns: Mapping[Turn, float]) -> dict[str, float]:
        """How much goes through each switch from one to another."""
        found: defaultdict[str, float] = defaultdict(float)
        for (link, onward), weight in turns.items():
            if self._problem.links[onward].target.node in self._problem.intent.network.bridges:
                found[self._problem.links[link].target.node] += weight
        return found

    def _up_first(
        self,
        between: Mapping[int, tuple[str, str]],
        turns: Mapping[Turn, float],
        more: int,
        factor: float,
    ) -> list[int]:
        transit = self._transit(turns)
        return up_and_down(between, {its: factor * transit[its] for its in transit}, more)

    def _way(self, tree: Tree) -> tuple[Step, ...]:
        inbound: dict[str, int] = {}
        way: list[Step] = []
        for index, number in enumerate(tree):
            link = self._problem.links[number]
            way.append(Step(number, inbound.get(link.source.node)))
            inbound[link.target.node] = index
        return tuple(way)

    def _turns(self, ways: Mapping[tuple[str, int], Sequence[Step]]) -> dict[Turn, float]:
        """How much goes from each link between switches on to each other; what is in a hurry
        weighs more."""
        turns: defaultdict[Turn, float] = defaultdict(float)
        for (name, _), way in ways.items():
            stream = self._streams[name]
            hurry = 1 + 4 * self._lap_ns / stream.max_latency_ns
            for step in way:
                if step.before is not None and way[step.before].before is not None:
                    turns[way[step.before].link, step.link] += hurry * self._share(stream, step)
        return turns

    def _share(self, stream: Stream, step: Step) -> float:
        busy_ns = self._times.of_frame(step.link, stream).busy_ns
        return stream.frames * busy_ns / stream.period_ns

    def _lead_forward(
        self,
        forward: ForwardWays,
        ways: Mapping[tuple[str, int], Sequence[Step]],
        place: Mapping[int, int],
        back: Set[Turn],
    ) -> bool:
        """Give streams ways that take none of the turns `back`; whether any got one."""
        moved = False
        forward.follow(place)
        for (name, _), way in ways.items():
            stream, trees = self._streams[name], self._trees[name]
            turns = ((way[step.before].link, step.link) for step in way if step.before is not None)
            if len(trees) > 1 or len(stream.listeners) > 1 or back.isdisjoint(turns):
                continue
            if self._problem.router and self._problem.router.is_bound(stream):
                continue
            share = self._share(stream, way[-1])
            forward.carry((step.link for step in way), -share)
            tree = forward.find(stream.talker, stream.listeners[0], share)
            self._trees[name] = (tree or trees[0],)
            forward.carry(self._trees[name][0], share)
            moved = moved or tree is not None
        return moved

    def _in_slots(self, way: Sequence[Step], back: Set[Turn]) -> tuple[Step, ...]:
        """The way, of which what goes back leaves in the next slot of its class."""
        found: list[Step] = []
        for step in way:
            laps = 0
            if step.before is not None:
                before = found[step.before]
                laps = before.laps + ((before.link, step.link) in back)
            found.append(step._replace(laps=laps))
        return tuple(found)

    def _by_hops(
        self, ways: Mapping[tuple[str, int], Sequence[Step]]
    ) -> dict[tuple[str, int], tuple[Step, ...]]:
        """The ways, of which each hop is a wave of its own: those of urgent streams first."""
        urgent = {name for name in self._trees if self._is_urgent(name)}
        hops = max((len(way) for (name, _), way in ways.items() if name in urgent), default=0)
        found = {}
        for (name, path), way in ways.items():
            steps: list[Step] = []
            for step in way:
                wave = 0 if name in urgent else hops
                if step.before is not None:
                    wave = steps[step.before].wave + 1
                steps.append(step._replace(wave=wave))
            found[name, path] = tuple(steps)
        return found
