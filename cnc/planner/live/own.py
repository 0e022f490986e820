"""Streams whose frames have windows of their own, in a timetable that is held for changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import lcm
from threading import Lock

from cnc.errors import Lack, Unschedulable
from cnc.model import GateControlList, Plan, PortRef, Stream
from cnc.planner import incremental
from cnc.planner.floor import us
from cnc.planner.live.changes import Breaks, Come, Movable
from cnc.planner.live.lists import PortLists
from cnc.planner.live.places import Places
from cnc.planner.live.promises import Promises
from cnc.planner.problem import Problem, jitter_bounds, stream_plans
from cnc.planner.route import Placement
from cnc.planner.routing import Router


class OwnWindows:
    """The timetable of a plan all of whose streams have windows of their own."""

    def __init__(self, plan: Plan, router: Router) -> None:
        """Raises `InputError` where the plan promises what this planner cannot account for."""
        problem = Problem(plan.intent, {}, router=router)
        planned = incremental.planned_placements(problem, plan.streams)
        unlike = incremental.unlike_ports(plan, planned.values())
        if loose := incremental.loose_ports(plan, unlike):
            problem = replace(problem, loose=loose)
            planned = incremental.planned_placements(problem, plan.streams)
        kept = incremental.anew(problem, planned)
        # Where streams that do not move would meet if frames were early at all of these ports, the
        # current lists may be valid, but others may not: none of them is shortened again.
        links = {number for number, link in enumerate(problem.links) if link.source in loose}
        meet = incremental.conflicts(kept.values(), links)
        shortened = loose if not meet else frozenset[PortRef]()
        streams = {name: plan.intent.streams[name] for name in plan.streams}
        self._places = Places(problem, kept, router, streams)
        self._lists = PortLists(replace(problem, loose=shortened), plan.gates)
        self._lists.add(kept.values())
        self._lists.make_ready(plan.gates.keys() - unlike)
        due = self._lists.made(self._lists.number[port] for port in unlike).lists
        self._lists.stale = {port for port in unlike if due.get(port) != plan.gates[port]}
        self._promises = None
        if plan.intent.network.disturbance_ns is not None:
            self._promises = Promises(plan, problem, kept.values(), self._lists.gates)

    @property
    def gates(self) -> Mapping[PortRef, GateControlList]:
        """The lists that ports run."""
        return self._lists.gates

    @property
    def recovery_ns(self) -> Mapping[str, int]:
        """What is promised of disturbances."""
        return self._promises.recovery_ns if self._promises else {}

    def prepare(self, changing: Lock) -> None:
        """As `Live.prepare`; no change goes on while the lock is held."""
        self._places.prepare(changing)
        if self._promises:
            self._promises.prepare()

    def add(
        self, streams: Collection[Stream], undo: ExitStack, movable: Movable, most: int
    ) -> Come:
        """Place all of `streams`, or raise `Unschedulable`; until `accept` `undo` takes it back.

        At most so many of the streams that are `movable` move for it, which have what is promised
        of them as what they ask for.
        """
        problem, placed, before = self._places.add(streams, undo, movable, most)
        gates = self._renewed(placed.values(), before.values(), undo)
        moved = {member.stream for member in before}
        recovery_ns: dict[str, int] = {}
        if self._promises:
            undo.callback(self._promises.take_back)
            every = [*placed.values(), *before.values()]
            links = self._lists.gated_by(every)
            broken = self._promises.change(before, list(placed.values()), problem, links)
            recovery_ns = self._promises.bounds_ns(placed.values())
            if broken := broken or self._promises.broken_for(moved, recovery_ns):
                raise Unschedulable(broken)
            recovery_ns = {n: ns for n, ns in recovery_ns.items() if n not in moved}
        planned, jitter_ns = stream_plans(problem, placed), jitter_bounds(problem, placed)
        late = [
            n
            for n in moved
            if planned[n].latency_bound_ns > problem.intent.streams[n].max_latency_ns
        ]
        if late:
            raise Unschedulable(dict.fromkeys(late, "could take longer where it would move"))
        return Come(planned, gates, jitter_ns, recovery_ns, tuple(sorted(moved)))

    def accept(self, streams: Collection[Stream], come: Come) -> None:
        """Make final what was added."""
        if self._promises:
            self._promises.settle((), come.recovery_ns)
        self._places.accept(streams)
        self._lists.stale -= come.gates.keys()

    def _renewed(
        self, come: Collection[Placement], gone: Collection[Placement], undo: ExitStack
    ) -> dict[PortRef, GateControlList | None]:
        """The lists of ports by which frames leave that come, or no longer do, which these ports
        run from now on."""
        self._lists.remove(gone)
        undo.callback(self._lists.add, gone)
        self._lists.add(come)
        undo.callback(self._lists.remove, come)
        links = self._lists.gated_by([*come, *gone])
        lists = self._lists.made(links)
        if crowded := lists.crowded():
            refused = {f"port {port}": why for port, why in crowded.items()}
            raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.LIST))
        ports = sorted(self._places.table.problem.links[link].source for link in links)
        gates = {port: lists.lists.get(port) for port in ports}
        undo.callback(self._lists.run, self._lists.before(gates))
        self._lists.run(gates)
        return gates

    def remove(
        self, names: Collection[str], breaks: Breaks
    ) -> dict[PortRef, GateControlList | None]:
        """Take streams out that are there; the lists that ports run then.

        Raises `Unschedulable` and changes nothing where a port can neither run a list for what is
        left nor keep the one that it has.
        """
        gone = self._places.of(names)
        stale = {self._lists.number[port] for port in self._lists.stale}
        with ExitStack() as undo:
            self._lists.remove(gone)
            undo.callback(self._lists.add, gone)
            self._places.forget_periods(names, undo)
            gates = self._without(gone, self._lists.gated_by(gone) | stale, breaks)
            undo.pop_all()
        self._places.remove(names)
        return gates

    def _without(
        self, gone: Collection[Placement], links: Collection[int], breaks: Breaks
    ) -> dict[PortRef, GateControlList | None]:
        """The lists that ports run without some frames; those that keep theirs are stale."""
        made = self._lists.made(links)
        crowded = made.crowded()
        ports = sorted(self._places.table.problem.links[link].source for link in links)
        due = {port: made.lists.get(port) for port in ports}
        self._must_stay(crowded)
        stays = {port for port, its in due.items() if its and self._may_stay(port)}
        broken: Mapping[str, str] = {}
        for kept in (crowded.keys(), crowded.keys() | stays):
            gates = {port: its for port, its in due.items() if port not in kept}
            before = self._lists.before(gates)
            self._lists.run(gates)
            broken = breaks(self._lists.gates) or self._broken_without(gone, links)
            if not broken:
                self._lists.stale -= gates.keys()
                self._lists.stale |= kept
                return gates
            self._lists.run(before)
        raise Unschedulable(dict(broken))

    def _broken_without(
        self, gone: Collection[Placement], links: Collection[int]
    ) -> dict[str, str]:
        """The promises that the lists of now would break without some frames; they are taken out of
        the account where there are none."""
        if self._promises is None:
            return {}
        members = [placement.route.member for placement in gone]
        if broken := self._promises.change(members, (), self._places.table.problem, links):
            self._promises.take_back()
        else:
            self._promises.settle({member.stream for member in members}, {})
        return broken

    def _may_stay(self, port: PortRef) -> bool:
        """Whether the list that a port runs may stay with the streams that are left."""
        given = self._places.table.problem.given.get(self._lists.number[port], ())
        repeats_ns = lcm(self._places.hyperperiod_ns, *(its.every_ns for its in given))
        return repeats_ns % self._lists.gates[port].cycle_ns == 0

    def _must_stay(self, ports: Mapping[PortRef, str]) -> None:
        """Raise `Unschedulable` where lists cannot stay that have to, for these reasons."""
        hyperperiod = us(self._places.hyperperiod_ns)
        refused = {
            f"port {port}": f"{why}. It cannot keep its current list either: the cycle of "
            f"{us(self._lists.gates[port].cycle_ns)} does not divide the hyperperiod of all "
            f"streams, {hyperperiod}"
            for port, why in ports.items()
            if not self._may_stay(port)
        }
        if refused:
            raise Unschedulable(refused, hint="plan again without these streams")
