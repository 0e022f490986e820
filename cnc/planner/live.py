"""A plan held ready for changes: streams come and go in milliseconds, whatever the plan's size.

`cnc plan --keep` reads, plans, judges and writes a whole network. A controller that stays up need
not: it holds the timetable, and asks it for a few streams at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm

from cnc.errors import InputError, Unschedulable
from cnc.mechanism import Start
from cnc.mechanisms import terms
from cnc.model import (
    GateControlList,
    Plan,
    PortRef,
    Stream,
    StreamAddress,
    StreamPlan,
)
from cnc.planner import explain, incremental
from cnc.planner.addresses import LiveAddresses
from cnc.planner.algorithm import DEFAULT_BUDGET
from cnc.planner.floor import us
from cnc.planner.gates import (
    Lists,
    Window,
    gate_control_lists,
    gated_links,
    lists_of,
    windows_of,
)
from cnc.planner.greedy import Greedy
from cnc.planner.problem import Problem, jitter_bounds, stream_plans
from cnc.planner.route import Member, Placement
from cnc.planner.routing import Router
from cnc.planner.timetable import Timetable
from cnc.support.gc_pause import in_steps

_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Changes:
    """The places of added streams, and the lists of ports that change: None where no stream is
    left. Every other stream and port stays as it is. `addresses` has all added streams where
    switches bridge, and `jitter_ns` those that limit their jitter, as in a plan."""

    streams: Mapping[str, StreamPlan]
    gates: Mapping[PortRef, GateControlList | None]
    addresses: Mapping[str, StreamAddress] = field(default_factory=dict)
    jitter_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Live:
    """The timetable of a network that runs `plan`, which the judge should have found sound.

    It stays sound if all changes are made that are returned, in the order of the calls. It makes no
    promise about disturbances, which would change for all streams with each that comes or goes.
    Lists that no change touches keep the room that they have for late frames.
    """

    def __init__(self, plan: Plan, *, without_recovery: bool = False) -> None:
        """Raises `InputError` for a plan whose streams share windows, and for one that promises to
        recover from disturbances, unless `without_recovery` gives the promise up. What has become
        of it is then sound for an intent with `recovery: none`."""
        if any(planned.is_shared for planned in plan.streams.values()):
            raise InputError(
                f"streams of the plan of {plan.intent.name} share windows, in which a single "
                "change counts for all of them",
                hint="plan anew (`cnc plan`), or with `windows: exact` under `defaults`",
            )
        # As it was made: the room for late frames is no sign of a list that was made shorter.
        made_for, loose = plan.intent, incremental.loose_ports(plan)
        if plan.intent.network.disturbance_ns is not None:
            if not without_recovery:
                raise InputError(
                    _promise(plan),
                    hint="Live(plan, without_recovery=True) gives the promise up; planning anew "
                    "with keep=plan (`cnc plan --keep`) renews it; `recovery: none` under "
                    "`defaults` of the intent asks for none",
                )
            plan = _without_recovery(plan)
        self._streams = dict(plan.intent.streams)
        self._addresses = LiveAddresses(plan)
        self._periods = Counter(stream.period_ns for stream in self._streams.values())
        self._router = Router(plan.intent)
        for name, planned in plan.streams.items():
            self._router.carry_hops(self._streams[name], planned.hops)
        self._gates = dict(plan.gates)
        problem = Problem(plan.intent, {}, router=self._router)
        self._number = {link.source: index for index, link in enumerate(problem.links)}
        problem = replace(problem, loose=loose)
        kept = incremental.placements(problem, plan.streams)
        # Where streams that do not move would meet if frames were early at all of these ports, the
        # current lists may be valid, but others may not: none of them is shortened again.
        links = {number for number, link in enumerate(problem.links) if link.source in loose}
        meet = incremental.conflicts(kept.values(), links)
        self._shortened = loose if not meet else frozenset[PortRef]()
        self._table = Timetable(replace(problem, kept=kept))
        # Of each link by member, with the period: to make a list anew takes all of its port.
        self._windows: dict[int, dict[Member, tuple[int, Window]]] = {
            link: {} for link in gated_links(problem)
        }
        self._add_windows(kept.values())
        self._class_name = {its.number: its.name for its in plan.intent.classes.values()}
        self._rooms = terms.rooms(plan.intent, problem.links)
        self._count(kept.values())
        # The ports that run another list than their streams ask for: it is replaced when that can
        # be, as its cycle may not go with what is left.
        asked = replace(problem, intent=made_for, loose=self._shortened)
        due = gate_control_lists(asked, kept.values()).lists if loose else plan.gates
        self._stale = {port for port, its in plan.gates.items() if due.get(port) != its}

    @in_steps()
    def add(self, streams: Collection[Stream]) -> Changes:
        """Place all of `streams`, or raise `Unschedulable` and change nothing.

        A port whose list would become too long refuses them, unless its list was shortened before.
        """
        refused = {
            stream.name: explain.unreachable(stream.talker, lost)
            for stream in streams
            if (lost := self._router.unreachable(stream))
        } | {
            stream.name: "is there already: remove it first"
            for stream in streams
            if Member(stream.name, 0) in self._table.placements
        }
        if refused:
            raise Unschedulable(refused)
        trees = self._router.route_all(streams)
        problem = self._problem(streams, trees)
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
            stream.name: explain.no_second_path(stream, self._router.forwarding)
            for stream in streams
            if stream.name not in trees
        }
        placed = {
            member: self._table.placements[member]
            for member in problem.members
            if member in self._table.placements
        }
        self._add_windows(placed.values())
        refused |= self._without_room(placed.values())
        lists = self._lists(self._gated_by(placed.values()))
        refused |= {f"port {port}": why for port, why in lists.crowded().items()}
        try:
            if refused:
                raise Unschedulable(refused)
            assigned = self._addresses.add(streams, self._senders(placed.values()))
        except Unschedulable:
            self._remove_windows(placed.values())
            for member in placed:
                self._table.remove(member)
            for stream in streams:
                self._router.carry(stream, trees.get(stream.name, ()), -1)
            raise
        self._count(placed.values())
        for stream in streams:
            self._streams[stream.name] = stream
            self._periods[stream.period_ns] += 1
        return Changes(
            stream_plans(problem, placed),
            self._changed(lists.lists),
            assigned,
            jitter_bounds(problem, placed),
        )

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

        Without them a port may need a longer list than it takes, or one that starves others: it
        then keeps the list that it has, which lets the rest through as before, and is not among
        the changes. Raises `Unschedulable` and changes nothing where a list cannot stay either,
        because its cycle would outlast all streams that are left.
        """
        gone: list[Placement] = []
        removed: dict[str, Stream] = {}
        for name in names:
            stream = self._streams.pop(name, None)
            if stream is None:
                continue
            removed[name] = stream
            self._periods[stream.period_ns] -= 1
            for path in range(stream.paths):
                placement = self._table.placements.get(Member(name, path))
                if placement:
                    self._table.remove(placement.route.member)
                    self._router.carry(stream, [placement.route.tree], -1)
                    gone.append(placement)
        table = self._table
        self._remove_windows(gone)
        touched = self._gated_by(gone) | {self._number[port] for port in self._stale}
        lists = self._lists(touched)
        crowded = lists.crowded()
        hyperperiod = lcm(*(+self._periods))
        refused = {
            f"port {port}": f"{why}. It cannot keep its current list either: the cycle of "
            f"{us(self._gates[port].cycle_ns)} does not divide the hyperperiod of all "
            f"streams, {us(hyperperiod)}"
            for port, why in crowded.items()
            if hyperperiod % self._gates[port].cycle_ns
        }
        if refused:
            self._streams |= removed
            self._periods.update(stream.period_ns for stream in removed.values())
            self._add_windows(gone)
            for placement in gone:
                table.place(placement)
                stream = removed[placement.route.member.stream]
                self._router.carry(stream, [placement.route.tree])
            raise Unschedulable(refused, hint="plan again without these streams")
        self._addresses.remove(self._senders(gone))
        starts = self._starts(gone)
        for room in self._rooms:
            room.remove(starts)
        ports = {table.problem.links[link].source for link in touched}
        changes = self._changed({p: lists.lists.get(p) for p in sorted(ports) if p not in crowded})
        self._stale |= crowded.keys()
        return Changes({}, changes)

    def _changed(
        self, gates: Mapping[PortRef, GateControlList | None]
    ) -> dict[PortRef, GateControlList | None]:
        """`gates`, which the ports now run."""
        for port, its in gates.items():
            self._stale.discard(port)
            if its:
                self._gates[port] = its
            else:
                self._gates.pop(port, None)
        return dict(gates)

    def _problem(
        self, streams: Iterable[Stream], trees: Mapping[str, tuple[tuple[int, ...], ...]]
    ) -> Problem:
        """To place `streams` beside all others. It knows these by their reservations alone: nothing
        that is done for a few streams may take as long as there are streams."""
        before = self._table.problem
        intent = replace(before.intent, streams={stream.name: stream for stream in streams})
        periods = frozenset(+self._periods)
        return replace(before, intent=intent, trees=trees, kept={}, other_periods_ns=periods)

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

    def _add_windows(self, placements: Iterable[Placement]) -> None:
        for placement in placements:
            for link, window in windows_of(placement):
                if link in self._windows:
                    its = placement.route
                    self._windows[link][its.member] = its.period_ns, window

    def _remove_windows(self, placements: Iterable[Placement]) -> None:
        for placement in placements:
            for link, _ in windows_of(placement):
                if link in self._windows:
                    del self._windows[link][placement.route.member]

    def _gated_by(self, placements: Iterable[Placement]) -> set[int]:
        """The links of ports with lists that placements leave by."""
        crossed = {leg.link for placement in placements for leg in placement.route.legs}
        return crossed & self._windows.keys()

    def _lists(self, links: Iterable[int]) -> Lists:
        """The lists of the ports of `links`, with all members placed now."""
        windows = {link: tuple(its.values()) for link in links if (its := self._windows.get(link))}
        return lists_of(replace(self._table.problem, loose=self._shortened), windows)


def _promise(plan: Plan) -> str:
    """Who would lose what the plan promises of disturbances."""
    names = [name for name in plan.streams if name in plan.recovery_ns]
    shown = ", ".join(names[:_NAMED_MAX]) or "every stream that comes"
    if len(names) > _NAMED_MAX:
        shown += f" and {len(names) - _NAMED_MAX} more"
    return (
        f"the plan of {plan.intent.name} promises when streams are in time again after a "
        f"disturbance, which single changes cannot keep up: {shown} would lose that promise"
    )


def _without_recovery(plan: Plan) -> Plan:
    """The same plan for an intent that asks for no recovery."""
    network = replace(plan.intent.network, disturbance_ns=None)
    return replace(plan, intent=replace(plan.intent, network=network), recovery_ns={})
