"""The gate control lists that ports run, and what they are made of, for changes of a few ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cnc.model import GateControlList, PortRef
from cnc.planner.gates import Lists, Window, gated_links, lists_of, windows_of
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement
from cnc.planner.spare import Stays, stays_of


class PortLists:
    """The lists `gates` that ports run; `stale` are the ports that run another one than their
    streams ask for, which is replaced when that can be, as its cycle may not go with what is left.
    """

    def __init__(self, problem: Problem, gates: Mapping[PortRef, GateControlList]) -> None:
        """Ports that are loose in `problem` have lists that were made shorter."""
        self._problem = problem
        self._recovers = problem.intent.network.disturbance_ns is not None
        self.gates = dict(gates)
        self.stale: set[PortRef] = set()
        self.number = {link.source: number for number, link in enumerate(problem.links)}
        # Of each link by member, with the period: to make a list anew takes all of its port.
        self._windows: dict[int, dict[Member, tuple[int, Window]]] = {
            link: {} for link in gated_links(problem)
        }
        self._stays: defaultdict[int, dict[Member, tuple[int, tuple[int, int, int]]]]
        self._stays = defaultdict(dict)

    def add(self, placements: Iterable[Placement]) -> None:
        """Let frames have windows."""
        for placement in placements:
            its = placement.route
            for link, window in windows_of(placement):
                if link in self._windows:
                    self._windows[link][its.member] = its.period_ns, window
            for link, stay in stays_of(self._problem.links, placement) if self._recovers else ():
                self._stays[link][its.member] = placement.traffic_class, stay

    def remove(self, placements: Iterable[Placement]) -> None:
        """Let them have none any more."""
        for placement in placements:
            member = placement.route.member
            for link, _ in windows_of(placement):
                if link in self._windows:
                    del self._windows[link][member]
            for link, _ in stays_of(self._problem.links, placement) if self._recovers else ():
                del self._stays[link][member]

    def gated_by(self, placements: Iterable[Placement]) -> set[int]:
        """The links of ports with lists that placements leave by."""
        crossed = {leg.link for placement in placements for leg in placement.route.legs}
        return crossed & self._windows.keys()

    def made(self, links: Iterable[int]) -> Lists:
        """The lists that the ports of `links` are to run with what there is now."""
        windows = {link: tuple(its.values()) for link in links if (its := self._windows.get(link))}
        stays = {link: self._stays_at(link) for link in windows if self._stays.get(link)}
        return lists_of(self._problem, windows, stays)

    def _stays_at(self, link: int) -> Stays:
        found: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for number, stay in self._stays[link].values():
            found[number].append(stay)
        return found

    def run(self, gates: Mapping[PortRef, GateControlList | None]) -> None:
        """Let ports run these lists; None where they run none."""
        for port, its in gates.items():
            if its:
                self.gates[port] = its
            else:
                self.gates.pop(port, None)

    def before(self, ports: Iterable[PortRef]) -> dict[PortRef, GateControlList | None]:
        """What ports run now."""
        return {port: self.gates.get(port) for port in ports}
