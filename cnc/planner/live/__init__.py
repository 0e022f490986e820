"""A plan held ready for changes: streams come and go in milliseconds, whatever the plan's size.

`cnc plan --keep` reads, plans, judges and writes a whole network. A controller that stays up need
not: it holds the timetable, and asks it for a few streams at a time.

    changes    what a change is             lists      what ports run
    promises   when frames are in time again after a disturbance, as announced
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import lcm

from cnc.errors import InputError, Unschedulable
from cnc.loops import derive as loops
from cnc.loops.model import Loops
from cnc.mechanism import Start
from cnc.mechanisms import terms
from cnc.model import GateControlList, LoopDelay, Plan, PortRef, Stream, StreamPlan
from cnc.planner import explain, incremental
from cnc.planner.addresses import LiveAddresses
from cnc.planner.algorithm import DEFAULT_BUDGET
from cnc.planner.floor import us
from cnc.planner.greedy import Greedy
from cnc.planner.live.changes import Changes
from cnc.planner.live.lists import PortLists
from cnc.planner.live.promises import Promises
from cnc.planner.problem import Problem, jitter_bounds, stream_plans
from cnc.planner.route import Member, Placement
from cnc.planner.routing import Router
from cnc.planner.timetable import Timetable
from cnc.support.gc_pause import in_steps

__all__ = ["Changes", "Live"]


class Live:
    """The timetable of a network that runs `plan`, which the judge should have found sound.

    It stays sound if all changes are made that are returned, in the order of the calls. What the
    plan states of a stream is a promise for as long as it runs: no change raises its bounds of
    latency, jitter and recovery. Lists that no change touches keep the room that they have for late
    frames.
    """

    def __init__(self, plan: Plan) -> None:
        """Raises `InputError` for a plan whose streams share windows, and where it promises what
        this planner cannot account for."""
        if any(planned.is_shared for planned in plan.streams.values()):
            raise InputError(
                f"streams of the plan of {plan.intent.name} share windows, in which a single "
                "change counts for all of them",
                hint="plan anew (`cnc plan`), or with `windows: exact` under `defaults`",
            )
        self._origin = plan
        self._plan: Plan | None = plan
        self._streams = dict(plan.intent.streams)
        self._planned = dict(plan.streams)
        self._refused = dict(plan.refused)
        self._assigned = dict(plan.addresses)
        self._jitter_ns = dict(plan.jitter_ns)
        self._loops = dict(plan.loops)
        self._addresses = LiveAddresses(plan)
        self._periods = Counter(self._streams[name].period_ns for name in self._planned)
        self._router = Router(plan.intent)
        for name, planned in plan.streams.items():
            self._router.carry_hops(self._streams[name], planned.hops)
        unlike = incremental.unlike_ports(plan)
        loose = incremental.loose_ports(plan, unlike)
        problem = replace(Problem(plan.intent, {}, router=self._router), loose=loose)
        kept = incremental.placements(problem, plan.streams)
        # Where streams that do not move would meet if frames were early at all of these ports, the
        # current lists may be valid, but others may not: none of them is shortened again.
        links = {number for number, link in enumerate(problem.links) if link.source in loose}
        meet = incremental.conflicts(kept.values(), links)
        shortened = loose if not meet else frozenset[PortRef]()
        self._table = Timetable(replace(problem, kept=kept))
        self._lists = PortLists(replace(problem, loose=shortened), plan.gates)
        self._lists.add(kept.values())
        due = self._lists.made(self._lists.number[port] for port in unlike).lists
        self._lists.stale = {port for port in unlike if due.get(port) != plan.gates[port]}
        self._promises = None
        if plan.intent.network.disturbance_ns is not None:
            self._promises = Promises(plan, problem, kept.values(), self._lists.gates)
        self._class_name = {its.number: its.name for its in plan.intent.classes.values()}
        self._rooms = terms.rooms(plan.intent, problem.links)
        self._count(kept.values())

    @property
    def plan(self) -> Plan:
        """The plan as it is now. Of those that it has refused it keeps the reasons."""
        if self._plan is None:
            made = replace(
                self._origin,
                intent=replace(self._origin.intent, streams=dict(self._streams)),
                streams=dict(self._planned),
                gates=dict(self._lists.gates),
                refused=dict(self._refused),
                recovery_ns=dict(self._promises.recovery_ns) if self._promises else {},
                addresses=dict(self._assigned),
                jitter_ns=dict(self._jitter_ns),
                loops=dict(self._loops),
            )
            self._plan = terms.decided(made)
        return self._plan

    @in_steps()
    def add(self, streams: Collection[Stream]) -> Changes:
        """Place all of `streams`, or raise `Unschedulable` and change nothing.

        A port whose list would become too long refuses them, unless its list was shortened before;
        and so does one at which what the plan states of another stream would hold no longer.
        """
        refused = {
            stream.name: explain.unreachable(stream.talker, lost)
            for stream in streams
            if (lost := self._router.unreachable(stream))
        } | {
            stream.name: "is there already: remove it first"
            for stream in streams
            if stream.name in self._planned
        }
        if refused:
            raise Unschedulable(refused)
        with ExitStack() as undo:
            problem, placed = self._place(streams, undo)
            gates = self._renewed(placed.values(), undo)
            planned = stream_plans(problem, placed)
            closed = self._closed({stream.name: stream for stream in streams}, planned)
            if self._promises:
                undo.callback(self._promises.take_back)
                links = self._lists.gated_by(placed.values())
                if broken := self._promises.change((), list(placed.values()), problem, links):
                    raise Unschedulable(broken)
            assigned = self._addresses.add(streams, self._senders(placed.values()))
            undo.pop_all()
        recovery_ns = self._promises.settle((), placed.values()) if self._promises else {}
        jitter_ns = jitter_bounds(problem, placed)
        self._count(placed.values())
        for stream in streams:
            self._streams[stream.name] = stream
            self._refused.pop(stream.name, None)
            self._periods[stream.period_ns] += 1
        self._planned |= planned
        self._assigned |= assigned
        self._jitter_ns |= jitter_ns
        self._loops |= closed
        self._lists.stale -= gates.keys()
        self._plan = None
        ports = self._ports(placed.values()) | gates.keys()
        return Changes(planned, gates, assigned, jitter_ns, recovery_ns, ports)

    def _place(
        self, streams: Collection[Stream], undo: ExitStack
    ) -> tuple[Problem, dict[Member, Placement]]:
        """Places for all of `streams` in the timetable, or `Unschedulable`."""
        trees = self._router.route_all(streams)
        for stream in streams:
            undo.callback(self._router.carry, stream, trees.get(stream.name, ()), -1)
        problem = self._problem(streams, trees)
        self._table.problem = problem
        search = Greedy(
            problem, DEFAULT_BUDGET, paced=False, waiting=True, beat=True, table=self._table
        )
        refused = {}
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
            stream.name: explain.no_second_path(stream, self._router.forwarding)
            for stream in streams
            if stream.name not in trees
        }
        placed = {
            member: self._table.placements[member]
            for member in problem.members
            if member in self._table.placements
        }
        for member in placed:
            undo.callback(self._table.remove, member)
        refused |= self._without_room(placed.values())
        if refused:
            raise Unschedulable(refused)
        return problem, placed

    def _renewed(
        self, placements: Collection[Placement], undo: ExitStack
    ) -> dict[PortRef, GateControlList]:
        """The lists of ports by which frames leave that come, which these ports run from now on."""
        self._lists.add(placements)
        undo.callback(self._lists.remove, placements)
        lists = self._lists.made(self._lists.gated_by(placements))
        if crowded := lists.crowded():
            raise Unschedulable({f"port {port}": why for port, why in crowded.items()})
        undo.callback(self._lists.run, self._lists.before(lists.lists))
        self._lists.run(lists.lists)
        return lists.lists

    def _closed(
        self, streams: Mapping[str, Stream], planned: Mapping[str, StreamPlan]
    ) -> dict[str, LoopDelay]:
        """How long control loops take that streams close which come; `Unschedulable` where one
        takes longer than its deadline."""
        its = self._origin.intent[Loops].by_name.values()
        if not any({loop.sensor, loop.actuator} & planned.keys() for loop in its):
            return {}
        every = {**self._planned, **planned}
        ends = {
            name: every[name]
            for loop in its
            for name in (loop.sensor, loop.actuator)
            if name in every
        }
        intent = replace(self._origin.intent, streams={**self._streams, **streams})
        made = replace(self._origin, intent=intent, streams=ends)
        found = loops.delays(made)
        if late := loops.late(made, found):
            raise Unschedulable(late)
        return found

    def _ports(self, placements: Iterable[Placement]) -> frozenset[PortRef]:
        """Those by which frames of placements leave."""
        links = self._table.problem.links
        return frozenset(links[leg.link].source for its in placements for leg in its.route.legs)

    def _senders(self, placements: Iterable[Placement]) -> dict[str, set[str]]:
        """The nodes that the frames of each stream leave."""
        senders: dict[str, set[str]] = {}
        for placement in placements:
            nodes = senders.setdefault(placement.route.member.stream, set())
            links = self._table.problem.links
            nodes.update(links[leg.link].source.node for leg in placement.route.legs)
        return senders

    @in_steps()
    def remove(self, names: Iterable[str]) -> Changes:
        """Take streams out; those that are not there are passed over.

        Without them a port may need a longer list than it takes, or one that starves others, or
        lets others be late for longer after a disturbance: it then keeps the list that it has,
        which lets the rest through as before, and is not among the changes. Raises `Unschedulable`
        and changes nothing where a list cannot stay either, because its cycle would outlast all
        streams that are left.
        """
        names = list(dict.fromkeys(names))
        going = [name for name in names if name in self._planned]
        gone = [
            self._table.placements[member]
            for name in going
            for member in (Member(name, path) for path in range(self._streams[name].paths))
            if member in self._table.placements
        ]
        links = self._lists.gated_by(gone) | {
            self._lists.number[port] for port in self._lists.stale
        }
        with ExitStack() as undo:
            self._lists.remove(gone)
            undo.callback(self._lists.add, gone)
            self._periods.subtract(self._streams[name].period_ns for name in going)
            undo.callback(self._periods.update, [self._streams[name].period_ns for name in going])
            gates = self._without(gone, links)
            undo.pop_all()
        for placement in gone:
            member = placement.route.member
            self._table.remove(member)
            self._router.carry(self._streams[member.stream], [placement.route.tree], -1)
        self._addresses.remove(self._senders(gone))
        starts = self._starts(gone)
        for room in self._rooms:
            room.remove(starts)
        for name in names:
            for its in (
                *(self._streams, self._planned, self._refused),
                *(self._assigned, self._jitter_ns),
            ):
                its.pop(name, None)
        loop_names = {
            loop.name
            for loop in self._origin.intent[Loops].by_name.values()
            if loop.sensor in names or loop.actuator in names
        }
        self._loops = {n: its for n, its in self._loops.items() if n not in loop_names}
        self._plan = None
        ports = self._ports(gone) | gates.keys()
        return Changes({}, gates, ports=ports, gone=tuple(going))

    def _without(
        self, gone: Collection[Placement], links: Collection[int]
    ) -> dict[PortRef, GateControlList | None]:
        """The lists that ports run without some frames; those that keep theirs are stale."""
        made = self._lists.made(links)
        crowded = made.crowded()
        ports = sorted(self._table.problem.links[link].source for link in links)
        due = {port: made.lists.get(port) for port in ports}
        self._must_stay(crowded)
        stays = {port for port, its in due.items() if its and self._may_stay(port)}
        broken: dict[str, str] = {}
        for kept in (crowded.keys(), crowded.keys() | stays):
            gates = {port: its for port, its in due.items() if port not in kept}
            before = self._lists.before(gates)
            self._lists.run(gates)
            broken = self._broken_without(gone, links)
            if not broken:
                self._lists.stale -= gates.keys()
                self._lists.stale |= kept
                return gates
            self._lists.run(before)
        raise Unschedulable(broken)

    def _broken_without(
        self, gone: Collection[Placement], links: Collection[int]
    ) -> dict[str, str]:
        """The promises that the lists of now would break without some frames; they are taken out of
        the account where there are none."""
        if self._promises is None:
            return {}
        members = [placement.route.member for placement in gone]
        if broken := self._promises.change(members, (), self._table.problem, links):
            self._promises.take_back()
        else:
            self._promises.settle({member.stream for member in members}, ())
        return broken

    def _may_stay(self, port: PortRef) -> bool:
        """Whether the list that a port runs may stay with the streams that are left."""
        return lcm(*(+self._periods)) % self._lists.gates[port].cycle_ns == 0

    def _must_stay(self, ports: Mapping[PortRef, str]) -> None:
        """Raise `Unschedulable` where lists cannot stay that have to, for these reasons."""
        hyperperiod = us(lcm(*(+self._periods)))
        refused = {
            f"port {port}": f"{why}. It cannot keep its current list either: the cycle of "
            f"{us(self._lists.gates[port].cycle_ns)} does not divide the hyperperiod of all "
            f"streams, {hyperperiod}"
            for port, why in ports.items()
            if not self._may_stay(port)
        }
        if refused:
            raise Unschedulable(refused, hint="plan again without these streams")

    def _problem(
        self, streams: Iterable[Stream], trees: Mapping[str, tuple[tuple[int, ...], ...]]
    ) -> Problem:
        """To place `streams` beside all others. It knows these by their reservations alone."""
        wanted = {stream.name: stream for stream in streams}
        return self._table.problem.only(wanted, trees, frozenset(+self._periods))

    def _count(self, placements: Collection[Placement]) -> None:
        starts = self._starts(placements)
        for room in self._rooms:
            room.add(starts)

    def _without_room(self, placements: Collection[Placement]) -> dict[str, str]:
        """The streams for which switches have no room left, and why."""
        starts = self._starts(placements)
        return {name: why for room in self._rooms for name, why in room.refused(starts).items()}

    def _starts(self, placements: Collection[Placement]) -> set[Start]:
        return {
            Start(route.member.stream, self._class_name[number], leg.link)
            for route, _, number in placements
            for leg in route.legs
            if leg.parent is None
        }
