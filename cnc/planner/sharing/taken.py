"""What is taken of links before streams share windows there: by frames with windows of their own,
and by shared windows of other classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cnc.planner.circle import Circle
from cnc.planner.gates import Window
from cnc.planner.ports import interval_min_ns, seam_ns
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
                seam = seam_ns(self._intent, self._links[leg.link])
                its = offset - seam, leg.window_ns + seam, route.period_ns
                self._times[leg.link].append(its)

    @property
    def is_nothing(self) -> bool:
        return not self._times

    def add(self, link: int, windows: Iterable[tuple[int, Window]]) -> None:
        """Shared windows, each with its period. Their gates are late by the margin themselves: no
        seam is needed before them, but that no entry of a list is too short for the port."""
        seam = interval_min_ns(self._links[link])
        for period_ns, (opens, closes, _) in windows:
            self._times[link].append((opens - seam, closes - opens + seam, period_ns))

    def circle(self, link: int, slot_ns: int) -> Circle | None:
        """What is taken of a link in any slot; None where nothing is."""
        times = self._times.get(link)
        return Circle(slot_ns, times) if times else None
