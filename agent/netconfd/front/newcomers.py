"""Connections without a session: a limited number of places, shared among network blocks.

When all places are taken, a connection from another block gets the oldest place of the block that
holds most, if that is more than its own block holds; within a block, hosts share likewise. So
connections from a few blocks cannot keep others out, and connections from many blocks would have to
arrive faster than a login takes.

The host that holds most can only keep others out on itself: a controller behind the same address
translator, for example. Before all places are taken, its connections are therefore dropped at
random (OpenSSH's MaxStartups), so that a flood does not get every place that becomes free.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from agent.netconfd.front.source import Source
from agent.netconfd.limits import Limits

_DRAW = random.SystemRandom().random


class Newcomer(Protocol):
    """A connection that has no session yet."""

    def give_way(self) -> None:
        """Close: another connection has the place now."""


class Newcomers:
    """The connections that have a place."""

    def __init__(self, draw: Callable[[], float] = _DRAW) -> None:
        """`draw` returns a random number, at least 0 and less than 1."""
        self._draw = draw
        # The oldest first.
        self._places: dict[Newcomer, Source] = {}

    def admit(self, newcomer: Newcomer, address: str, limits: Limits) -> bool:
        """Give it a place; another connection may be closed for it. False if it gets none."""
        source = Source.of(address, limits)
        taken = len(self._places)
        if taken >= min(limits.unauthenticated_drop_start, limits.max_unauthenticated):
            oldest = self._oldest_place_for(source)
            if oldest is None and self._draw() < drop_probability(taken, limits):
                return False
            if oldest is not None and taken >= limits.max_unauthenticated:
                self.remove(oldest)
                oldest.give_way()
        self._places[newcomer] = source
        return True

    def remove(self, newcomer: Newcomer) -> None:
        """Free its place, if it has one."""
        self._places.pop(newcomer, None)

    def _oldest_place_for(self, source: Source) -> Newcomer | None:
        """The place that this source may take from another; None if no other holds more."""
        by_block = Counter(each.block for each in self._places.values())
        block, most = by_block.most_common(1)[0]
        if most <= by_block[source.block]:
            block = source.block
        by_host = Counter(each for each in self._places.values() if each.block == block)
        largest, most = by_host.most_common(1)[0]
        if most <= by_host[source]:
            return None
        return next(each for each, its_source in self._places.items() if its_source == largest)


def drop_probability(taken: int, limits: Limits) -> float:
    """Of a connection of the host that has most, with so many places taken: 0 to 1.

    As MaxStartups start:rate:full of sshd_config(5).
    """
    start, full = limits.unauthenticated_drop_start, limits.max_unauthenticated
    if taken >= full:
        return 1.0
    rate = limits.unauthenticated_drop_percent / 100
    return rate + (1 - rate) * (taken - start) / (full - start)
