"""A plan held ready for changes: streams come and go in milliseconds, whatever the plan's size.

`cnc plan --keep` reads, plans, judges and writes a whole network. A controller that stays up need
not: it holds the timetable, and asks it for a few streams at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cnc.collector import paused
from cnc.errors import Unschedulable
from cnc.model import GateControlList, Plan, PortRef, Stream, StreamPlan
from cnc.planner import explain, incremental
from cnc.planner.algorithm import DEFAULT_BUDGET
from cnc.planner.gates import Lists, gate_control_lists
from cnc.planner.greedy import Greedy
from cnc.planner.problem import Member, Placement, Problem, stream_plans
from cnc.planner.routing import Router
from cnc.planner.timetable import Timetable


@dataclass(frozen=True, slots=True)
class Changes:
    """The places of added streams, and the lists of all ports that these or removed ones cross:
    None where no stream is left. Every other stream and port stays as it is."""

    streams: Mapping[str, StreamPlan]
    gates: Mapping[PortRef, GateControlList | None]


class Live:
    """The timetable of a network that runs `plan`, which the judge should have found sound."""

    def __init__(self, plan: Plan) -> None:
        self._streams = dict(plan.intent.streams)
        self._router = Router(plan.intent)
        for name, planned in plan.streams.items():
            self._router.carry_hops(self._streams[name], planned.hops)
        problem = Problem(plan.intent, {}, router=self._router)
        kept = incremental.placements(problem, plan.streams)
        loose = gate_control_lists(problem, kept.values()).too_long
        problem = replace(problem, loose=loose)
        kept = {m: p._replace(route=problem.route(m, p.route.tree)) for m, p in kept.items()}
        self._table = Timetable(replace(problem, kept=kept))

    @paused()
    def add(self, streams: Collection[Stream]) -> Changes:
        """Place all of `streams`, or raise `Unschedulable` and change nothing."""
        refused = {
            stream.name: explain.unreachable(stream.talker, lost)
            for stream in streams
            if (lost := self._router.unreachable(stream))
        }
        if refused:
            raise Unschedulable(refused)
        trees = self._router.route_all(streams)
        self._streams |= {stream.name: stream for stream in streams}
        problem = self._problem(trees)
        self._table.problem = problem
        search = Greedy(
            problem, DEFAULT_BUDGET, paced=False, waiting=True, beat=True, table=self._table
        )
        for member, route in search.routes.items():
            if reason := explain.hopeless(problem, route):
                refused[member.stream] = reason
        if not refused:
            search.run()
        refused |= {
            member.stream: explain.no_place(self._table, search.routes[member])
            for member in search.unplaced
        }
        refused |= {
            stream.name: explain.no_second_path(stream.talker, stream.listeners)
            for stream in streams
            if stream.name not in trees
        }
        placed = {
            member: self._table.placements[member]
            for member in problem.members
            if member in self._table.placements
        }
        lists = self._lists(placed.values())
        refused |= {f"port {port}": why for port, why in lists.refused.items()}
        refused |= {f"port {port}": explain.LIST_FULL for port in lists.too_long}
        if refused:
            for member in placed:
                self._table.remove(member)
            for stream in streams:
                self._router.carry(stream, trees.get(stream.name, ()), -1)
                del self._streams[stream.name]
            raise Unschedulable(refused)
        return Changes(stream_plans(problem, placed), dict(lists.lists))

    def remove(self, names: Iterable[str]) -> Changes:
        """Take streams out; those that are not there are passed over."""
        gone: list[Placement] = []
        for name in names:
            stream = self._streams.pop(name, None)
            if stream is None:
                continue
            for path in range(stream.paths):
                placement = self._table.placements.get(Member(name, path))
                if placement:
                    self._table.remove(placement.route.member)
                    self._router.carry(stream, [placement.route.tree], -1)
                    gone.append(placement)
        lists = self._lists(gone)
        links = self._table.problem.links
        touched = {links[leg.link].source for p in gone for leg in p.route.legs if leg.edge_min_ns}
        return Changes({}, {port: lists.lists.get(port) for port in sorted(touched)})

    def _problem(self, trees: Mapping[str, tuple[tuple[int, ...], ...]]) -> Problem:
        intent = replace(self._table.problem.intent, streams=self._streams)
        return replace(self._table.problem, intent=intent, trees=trees, kept={})

    def _lists(self, touching: Iterable[Placement]) -> Lists:
        """The lists of all ports that some placements cross, with everyone who is there now."""
        table = self._table
        links = {
            leg.link for placement in touching for leg in placement.route.legs if leg.edge_min_ns
        }
        members = {member for link in sorted(links) for member in table.links[link].reservations}
        present = [table.placements[member] for member in sorted(members)]
        return gate_control_lists(table.problem, present, links)
