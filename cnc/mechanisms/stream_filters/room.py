"""The stream filters of first switches while streams come and go: how many each still holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from cnc.mechanism import Start
from cnc.mechanisms.stream_filters.model import (
    FilterCapacity,
    Policing,
    PolicingRules,
    policed_classes,
)
from cnc.model import Forwarding, Intent, Link
from cnc.support.format import counted


class _Filter(NamedTuple):
    """One of a stream, for its frames that come to a switch over a link."""

    stream: str
    switch: str
    link: int


class FilterRoom:
    """Filters that somebody asked for. Where nobody stated what a network does, a switch that is
    too small for all of them does without the others (`derive.py`), so that these make no stream
    impossible."""

    def __init__(self, intent: Intent, links: Collection[Link]) -> None:
        """`links` in the order of their numbers in routes."""
        self._rules = intent[PolicingRules].stated
        self._bridges = intent.network.bridges
        self._capacity = intent[FilterCapacity]
        self._links = tuple(links)
        self._is_bridged = intent.network.forwarding is Forwarding.BRIDGED
        policed = sum(
            self._rules.of_class(name) is not Policing.OFF for _, name in policed_classes(intent)
        )
        stations = intent.network.end_stations
        self._count: Counter[str] = Counter()  # by switch, with those for strangers
        for link in self._links:
            if self._is_bridged and link.source.node in stations:
                self._count[link.target.node] += policed

    def refused(self, starts: Collection[Start]) -> dict[str, str]:
        """The streams for which a switch has no filter left, and why."""
        wanted = set(self._of(starts))
        needs = self._count + Counter(its.switch for its in wanted)
        reasons: dict[str, str] = {}
        for stream, switch, _ in sorted(wanted):
            holds = self._capacity.of(switch)
            if needs[switch] > holds:
                reasons.setdefault(
                    stream,
                    f"switch {switch} would need {counted(needs[switch], 'stream filter')}, with "
                    f"those for frames of no stream, and holds {holds:,} (stream-filters-max)",
                )
        return reasons

    def add(self, starts: Collection[Start]) -> None:
        """Count the filters of streams that come."""
        self._count.update(its.switch for its in set(self._of(starts)))

    def remove(self, starts: Collection[Start]) -> None:
        """Count no longer the filters of streams that are gone."""
        self._count.subtract(its.switch for its in set(self._of(starts)))

    def _of(self, starts: Collection[Start]) -> Iterator[_Filter]:
        """Those of streams, one of two paths that start with one frame twice."""
        for stream, its_class, link in starts if self._is_bridged else ():
            asked = {self._rules.of_stream(stream, its_class), self._rules.of_class(its_class)}
            switch = self._links[link].target.node
            if switch in self._bridges and asked != {Policing.OFF}:
                yield _Filter(stream, switch, link)
