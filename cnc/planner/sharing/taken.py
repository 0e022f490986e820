"""What is taken of links before streams share windows there: by frames with windows of their own,
and by shared windows of other classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cnc.planner.circle import Circle
from cnc.planner.gates import Window
from cnc.planner.ports import seam_ns
from cnc.planner.problem import Problem
from cnc.planner.route import Placement


class Taken:
    """Times of links, and the classes that frames with windows of their own are in."""

    def __init__(self, problem: Problem, placements: Iterable[Placement]) -> None:
        self._links = problem.links
        self._intent = problem.intent
        self._times: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.classes: set[int] = set()
        self.periods_ns: set[int] = set()
        for route, offsets, number in placements:
            self.classes.add(number)
            self.periods_ns.add(route.period_ns)
            for leg, offset in zip(route.legs, offsets, strict=True):
                self._add(leg.link, offset, leg.window_ns, route.period_ns)

    def _add(self, link: int, start_ns: int, lasts_ns: int, period_ns: int) -> None:
        seam = seam_ns(self._intent, self._links[link])
        self._times[link].append((start_ns - seam, lasts_ns + seam, period_ns))

    def add(self, link: int, windows: Iterable[tuple[int, Window]]) -> None:
        """Shared windows, each with its period."""
        for period_ns, (opens, closes, _) in windows:
            self._add(link, opens, closes - opens, period_ns)

    def circle(self, link: int, slot_ns: int) -> Circle | None:
        """What is taken of a link in any slot; None where nothing is."""
        times = self._times.get(link)
        return Circle(slot_ns, times) if times else None
