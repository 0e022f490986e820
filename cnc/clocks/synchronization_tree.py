"""How far two clocks of a network may be apart, by what each measures of the one that it follows.

A boundary clock measures its offset from its neighbour towards the grandmaster, not from the
grandmaster. Clocks that follow one another make a tree (IEEE Std 1588-2019, 8.2.3: the parent of
each), and two of them differ by no more than the offsets on the way between them, added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import ClockSource
from cnc.model import ClocksApart

# A lab of kernels has 64 ns at each hop (docs/lab/experiment-figures-clocks.md), hardware two
# stamps of about 40 ns.
UNSEEN_NS = 100


@dataclass(frozen=True, slots=True)
class _Follower:
    """A clock that follows another, and how far it was from that one."""

    switch: str
    parent: str
    offset_ns: int


@dataclass(frozen=True, slots=True)
class _Way:
    """From a switch's clock to one that it follows, through others or not."""

    switch: str
    offset_ns: int = 0
    links: int = 0


class ClockTree:
    """Who follows whom, and how far from it each is, by what switches last said.

    Path asymmetries, which no clock can measure, come on top; `unseen_ns` of them is added to each
    offset. Clocks that are no switch's measure nothing here: what is beyond the first of them is
    left out.
    """

    def __init__(self, states: Mapping[str, SwitchState], unseen_ns: int = 0) -> None:
        self._followers = _followers(states, unseen_ns)

    def widest(self, among: Container[str] | None = None) -> ClocksApart | None:
        """The two clocks, of these switches or of all, that may be furthest apart.

        None where no two of them follow the same one.
        """
        # By clock, and by the neighbour from which they come, the longest way to it.
        ways: dict[str, dict[str, _Way]] = defaultdict(dict)
        for identity, follower in self._followers.items():
            if among is not None and follower.switch not in among:
                continue
            ways[identity][identity] = _Way(follower.switch)
            for neighbour, clock, way in self._up(identity):
                longest = ways[clock].get(neighbour)
                if longest is None or longest.offset_ns < way.offset_ns:
                    ways[clock][neighbour] = way
        pairs = [_joined(list(to_one.values())) for to_one in ways.values() if len(to_one) > 1]
        return max(pairs, key=lambda pair: pair.apart_ns, default=None)

    def together(self) -> list[str]:
        """The switches whose clocks follow one and the same: that which most of all follow."""
        ends = {each.switch: self._end(identity) for identity, each in self._followers.items()}
        for most, _ in Counter(ends.values()).most_common(1):
            return [switch for switch, end in ends.items() if end == most]
        return []

    def _end(self, identity: str) -> str:
        """The clock at which the way up from this one ends."""
        for _, clock, _ in self._up(identity):
            identity = clock
        return identity

    def _up(self, identity: str) -> Iterator[tuple[str, str, _Way]]:
        """To the grandmaster: a clock, the one that it follows, and the way up to that one."""
        way = _Way(self._followers[identity].switch)
        for _ in self._followers:  # while clocks choose anew whom they follow there may be a circle
            follower = self._followers.get(identity)
            if follower is None or follower.parent == identity:
                return
            way = _Way(way.switch, way.offset_ns + follower.offset_ns, way.links + 1)
            yield identity, follower.parent, way
            identity = follower.parent


def _joined(ways: list[_Way]) -> ClocksApart:
    first, second = sorted(ways, key=lambda way: (-way.offset_ns, way.switch))[:2]
    return ClocksApart(
        first=min(first.switch, second.switch),
        second=max(first.switch, second.switch),
        apart_ns=first.offset_ns + second.offset_ns,
        links=first.links + second.links,
    )


def _followers(states: Mapping[str, SwitchState], unseen_ns: int) -> dict[str, _Follower]:
    """The clocks that follow one, or are a grandmaster, by their identities."""
    followers = {}
    for name, state in states.items():
        ptp = state.agent.ptp if state.agent else None
        if ptp is None or not ptp.is_locked or ptp.identity is None or ptp.parent is None:
            continue
        offset_ns = _offset_ns(state)
        if ptp.is_grandmaster:
            followers[ptp.identity] = _Follower(name, ptp.parent, 0)
        elif offset_ns is not None:
            followers[ptp.identity] = _Follower(name, ptp.parent, offset_ns + unseen_ns)
    return followers


def _offset_ns(state: SwitchState) -> int | None:
    """The greatest that is known: of a managed clock over seconds, else that of this moment."""
    agent = state.agent
    if agent is None or agent.ptp is None:
        return None
    if agent.clock and agent.clock.source is ClockSource.MANAGED:
        return agent.clock.offset_max_ns
    offset_ns = agent.ptp.offset_from_master_ns
    return None if offset_ns is None else abs(offset_ns)
