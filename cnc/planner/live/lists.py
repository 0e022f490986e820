"""The gate control lists that ports run, and what they are made of, for changes of a few ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cnc.model import GateControlList, PortRef
from cnc.planner import given
from cnc.planner.gates import Lists, Others, Window, gated_links, lists_of, windows_of
from cnc.planner.live.edited import EditedList, may_be_edited
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
        self._edited: dict[int, EditedList] = {}
        self._others: dict[int, Others] = {}
        # What ports run by which no frames leave beside windows by share.
        by_port = given.lists(problem.intent) if problem.given else {}
        self._given = {link: by_port[problem.links[link].source] for link in problem.given}

    def add(self, placements: Iterable[Placement]) -> None:
        """Let frames have windows."""
        for placement in placements:
            its = placement.route
            for link, window in windows_of(placement):
                if link in self._windows:
                    self._windows[link][its.member] = its.period_ns, window
                    if edited := self._edited_with(link, its.period_ns):
                        edited.add(its.period_ns, window)
            for link, stay in stays_of(self._problem.links, placement) if self._recovers else ():
                self._stays[link][its.member] = placement.traffic_class, stay

    def remove(self, placements: Iterable[Placement]) -> None:
        """Let them have none any more."""
        for placement in placements:
            its = placement.route
            for link, window in windows_of(placement):
                if link in self._windows:
                    del self._windows[link][its.member]
                    if edited := self._edited_with(link, its.period_ns):
                        edited.remove(its.period_ns, window)
            for link, _ in stays_of(self._problem.links, placement) if self._recovers else ():
                del self._stays[link][its.member]

    def _edited_with(self, link: int, period_ns: int) -> EditedList | None:
        """The list of a link that can be edited where frames of a period come or go."""
        edited = self._edited.get(link)
        if edited and (edited.cycle_ns % period_ns or not edited.is_long_beside(period_ns)):
            del self._edited[link]
            return None
        return edited

    def gated_by(self, placements: Iterable[Placement]) -> set[int]:
        """The links of ports with lists that placements leave by."""
        crossed = {leg.link for placement in placements for leg in placement.route.legs}
        return crossed & self._windows.keys()

    def made(self, links: Iterable[int]) -> Lists:
        """The lists that the ports of `links` are to run with what there is now."""
        links = set(links)
        taken = [link for link in links if self._windows.get(link)]
        edited = {link: gates for link in taken if (gates := self._edited_now(link))}
        anew = {link: tuple(self._windows[link].values()) for link in taken if link not in edited}
        stays = {link: self._stays_at(link) for link in anew if self._stays.get(link)}
        lists = lists_of(self._problem, anew, stays)
        for link in (self._given.keys() & links).difference(taken):
            lists.lists[self._problem.links[link].source] = self._given[link]
        for link in anew:
            self._edit(link, lists)
        for link, gates in edited.items():
            port = self._problem.links[link].source
            lists.lists[port] = gates
            if reason := self._others_at(link).objection(gates):
                lists.refused[port] = reason
        return lists

    def _others_at(self, link: int) -> Others:
        if link not in self._others:
            self._others[link] = Others(self._problem.intent, self._problem.links[link])
        return self._others[link]

    def _edited_now(self, link: int) -> GateControlList | None:
        """The list of a link as it was edited, if it is still what its port is to run."""
        edited = self._edited.get(link)
        if edited is None:
            return None
        gates, limit = edited.gates(), self._limit(link)
        if not edited.is_shorter and (limit is None or len(gates.entries) <= limit):
            return gates
        del self._edited[link]
        return None

    def _edit(self, link: int, lists: Lists) -> None:
        """From now on edit the list of a link in place, if that is possible."""
        its, windows = self._problem.links[link], self._windows[link].values()
        gates, limit = lists.lists.get(its.source), self._limit(link)
        is_exact = its.source not in self._problem.loose and not (limit and its.fits_only)
        if self._recovers or gates is None or its.source in lists.too_long or not is_exact:
            return
        if link not in self._given and may_be_edited(self._problem.intent, its):
            edited = EditedList(self._problem.intent, its, gates.cycle_ns, windows, gates)
            if edited.is_long:
                self._edited[link] = edited

    def _limit(self, link: int) -> int | None:
        return self._problem.intent.network.gate_entries_max(self._problem.links[link])

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

    def make_ready(self, ports: Iterable[PortRef]) -> None:
        """Edit the lists of ports in place from now on, which run what their windows ask for."""
        lists = Lists(self.gates, frozenset(), {})
        for port in ports:
            self._edit(self.number[port], lists)

    def before(self, ports: Iterable[PortRef]) -> dict[PortRef, GateControlList | None]:
        """What ports run now."""
        return {port: self.gates.get(port) for port in ports}
