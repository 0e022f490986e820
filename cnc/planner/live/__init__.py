"""A plan held ready for changes: streams come and go in milliseconds, whatever the plan's size.

`cnc plan --keep` reads, plans, judges and writes a whole network. A controller that stays up need
not: it holds what runs, and asks it for a few streams at a time.

    changes    what a change is
    without_instants
               streams that switches forward once each interval, or send by a shaper
    own        streams whose frames have windows of their own
    places     their timetable
    lists      what their ports run
    edited     a list that is edited in place
    moving     room that is made for one that finds none
    promises   when their frames are in time again after a disturbance, as announced
    shared     streams that share windows
    both       the two kinds beside each other
    running    the windows that they share as a plan has them
    joining    where one more may join them
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from threading import Lock
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar

from cnc.errors import Lack, Unschedulable
from cnc.keys.written import keys_of
from cnc.loops import derive as loops
from cnc.loops.model import Loops
from cnc.mechanism import Start
from cnc.mechanisms import terms
from cnc.model import (
    NO_PARTS,
    GateControlList,
    LoopDelay,
    Parts,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
    Windows,
)
from cnc.planner import explain, given
from cnc.planner.addresses import LiveAddresses
from cnc.planner.live.both import BothWindows
from cnc.planner.live.changes import Changes, Come
from cnc.planner.live.moving import may_move
from cnc.planner.live.own import OwnWindows
from cnc.planner.live.without_instants import Gates, WithoutInstants
from cnc.planner.routing import Router
from cnc.support.gc_pause import in_steps

__all__ = ["Changes", "Live", "with_room"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NONE_SHARED = (
    "its frames are to share windows (`windows: shared`), and in the plan that runs each frame has "
    "one of its own. What would help: `windows: auto` for it or its class, or a new plan with it "
    "(`cnc plan`)"
)


def with_room(plan: Plan, recovery_step_ns: int) -> Plan:
    """The plan with its promises of recovery raised to the next multiples of `recovery_step_ns`, so
    that streams that come may make frames late for as much longer."""
    return replace(plan, recovery_ns=_in_steps(plan.recovery_ns, recovery_step_ns))


def _alone(change: Callable[Concatenate[Live, _P], _T]) -> Callable[Concatenate[Live, _P], _T]:
    """No other change, and nothing of `prepare`, goes on beside it."""

    @wraps(change)
    def alone(live: Live, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with live.changing:
            return change(live, *args, **kwargs)

    return alone


class Live:
    """A network that runs `plan`, which the judge should have found sound.

    It stays sound if all changes are made that are returned, in the order of the calls. What the
    plan states of a stream is a promise for as long as it runs: no change raises its bounds of
    latency, jitter and recovery. Lists that no change touches keep the room that they have for late
    frames.
    """

    def __init__(self, plan: Plan, *, recovery_step_ns: int = 1) -> None:
        """The recovery of streams that come is promised in multiples of `recovery_step_ns`: what is
        promised to the nanosecond leaves no room for the next ones. `with_room` gives the plan's
        own as much.

        Raises `InputError` where the plan has other shared windows than this planner lays out, or
        promises what it cannot account for."""
        self._recovery_step_ns = recovery_step_ns
        self.changing = Lock()
        self._origin = plan
        self._plan: Plan | None = plan
        self._parts = plan.parts
        self._streams = dict(plan.intent.streams)
        self._written = dict(plan.intent.document.get("streams", {}))
        self._planned = dict(plan.streams)
        self._refused = dict(plan.refused)
        self._assigned = dict(plan.addresses)
        self._jitter_ns = dict(plan.jitter_ns)
        self._loops = dict(plan.loops)
        self._addresses = LiveAddresses(plan)
        self._router = Router(plan.intent)
        for name, planned in plan.streams.items():
            self._router.carry_hops(self._streams[name], planned.hops)
        ports = terms.closed_ports(plan.intent)
        self._given = {port: gates for port, gates in plan.gates.items() if port in ports}
        self._others = WithoutInstants(plan)
        not_planned = self._given.keys() | self._others.opened.keys()
        others = {port: its for port, its in plan.gates.items() if port not in not_planned}
        instants = {name: its for name, its in plan.streams.items() if its.has_instants}
        plan = replace(plan, streams=instants)
        is_shared = any(planned.is_shared for planned in plan.streams.values())
        self._windows = _windows_of(replace(plan, gates=others), self._router, is_shared=is_shared)
        self._number = {link.source: number for number, link in enumerate(self._router.links)}
        self._class_name = {its.number: its.name for its in plan.intent.classes.values()}
        self._rooms = terms.rooms(plan.intent, self._router.links)
        self._count(plan.streams)

    @property
    def plan(self) -> Plan:
        """The plan as it is now, complete for `dump_plan`. Of the streams that it has refused it
        keeps the reasons."""
        if self._plan is None:
            intent = self._origin.intent
            document = {**intent.document, "streams": dict(self._written)}
            made = replace(
                self._origin,
                intent=replace(intent, streams=dict(self._streams), document=document),
                streams=dict(self._planned),
                gates={**self._others.opened, **self._windows.gates, **self._given},
                refused=dict(self._refused),
                recovery_ns=dict(self._windows.recovery_ns),
                addresses=dict(self._assigned),
                jitter_ns=dict(self._jitter_ns),
                loops=dict(self._loops),
                parts=self._parts,
            )
            self._plan = terms.decided(made)
            self._parts = self._plan.parts
        return self._plan

    def prepare(self) -> None:
        """Do what the first change would else do, which takes seconds in a large network. From any
        thread, also beside changes: the first waits for it then, as long as it would else take."""
        self._windows.prepare(self.changing)

    @_alone
    @in_steps()
    def add(self, streams: Collection[Stream], *, moving_at_most: int = 0) -> Changes:
        """Place all of `streams`, or raise `Unschedulable` and change nothing.

        Where there is no room, so many streams that run may move for it, on the way that they have
        and with all that was promised of them. None moves beside shared windows, or that is sent
        twice, has its jitter limited, or is part of a control loop.

        Where there are none yet, these say by `windows: shared` that frames share windows, which
        others may then do, too; in a plan in which none does one that asks for it is refused.

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
            raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.WAY))
        planned = [stream for stream in streams if not self._others.is_one(stream)]
        decided, opened = self._decided(), self._others.opened
        self._have_windows_for(planned)
        self._router.join(streams)
        with ExitStack() as undo:
            come = Come({}, {}, {}, {})
            if planned:
                come = self._windows.add(planned, undo, self._movable, moving_at_most)
            others: Mapping[str, StreamPlan] = {}
            if self._others or len(planned) < len(streams):
                lists = self._lists(come.gates)
                others = self._others.add(
                    streams, self._streams, self._router, lists, decided=decided, undo=undo
                )
            come = come._replace(streams={**come.streams, **others})
            come = come._replace(recovery_ns=_in_steps(come.recovery_ns, self._recovery_step_ns))
            closed = self._closed({stream.name: stream for stream in streams}, come.streams)
            new = {name: its for name, its in come.streams.items() if name not in come.moved}
            if refused := self._by_given_lists(new):
                raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.WAY))
            if refused := self._parting(streams, new):
                raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.WAY))
            if refused := self._without_room(new):
                raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.FILTERS))
            assigned = self._addresses.add(streams, _senders(new))
            undo.pop_all()
        if planned:
            self._windows.accept(planned, come)
        self._others.accept(others)
        for stream in streams:
            self._streams[stream.name] = stream
            self._written[stream.name] = keys_of(stream, self._origin.intent.document)
            self._refused.pop(stream.name, None)
        ports = _ports([*come.streams.values(), *(self._planned[name] for name in come.moved)])
        self._planned |= come.streams
        self._count(new)
        self._assigned |= assigned
        self._jitter_ns |= come.jitter_ns
        self._loops |= closed
        self._plan = None
        gates = self._with_opened(come.gates, opened)
        return Changes(
            come.streams,
            gates,
            assigned,
            come.jitter_ns,
            come.recovery_ns,
            ports | gates.keys(),
            come.moved,
        )

    @_alone
    @in_steps()
    def remove(self, names: Iterable[str]) -> Changes:
        """Take streams out; those that are not there are passed over.

        Without them a port may need a longer list than it takes, or one that starves others, or
        lets others be late for longer after a disturbance: it then keeps the list that it has,
        which lets the rest through as before, and is not among the changes. Raises `Unschedulable`
        and changes nothing where a list cannot stay either, because its cycle would outlast all
        streams that are left.
        """
        names = dict.fromkeys(names)
        gone = {name: self._planned[name] for name in names if name in self._planned}
        decided, opened = self._decided(), self._others.opened

        def broken(gates: Gates) -> dict[str, str]:
            if not self._others:
                return {}
            lists = {**gates, **self._given}
            return self._others.broken_without(gone.keys(), self._streams, lists, decided)

        gates = self._windows.remove({n: i for n, i in gone.items() if i.has_instants}, broken)
        if self._others:
            self._others.remove(gone.keys(), self._streams, self._router, self._lists())
            gates = self._with_opened(gates, opened)
        self._addresses.remove(_senders(gone))
        starts = self._starts(gone)
        for room in self._rooms:
            room.remove(starts)
        for its in (self._streams, self._planned, self._refused, self._assigned, self._jitter_ns):
            for name in names:
                its.pop(name, None)
        for name in names:
            self._written.pop(name, None)
        for loop in self._origin.intent[Loops].by_name.values():
            if loop.sensor in names or loop.actuator in names:
                self._loops.pop(loop.name, None)
        self._plan = None
        ports = _ports(gone.values()) | gates.keys()
        return Changes({}, gates, ports=ports, gone=tuple(gone))

    def _decided(self) -> Parts:
        """What is decided of the plan that runs, where something follows from that."""
        return self.plan.parts if self._others else NO_PARTS

    def _lists(
        self, changed: Mapping[PortRef, GateControlList | None] = MappingProxyType({})
    ) -> Gates:
        """The lists of ports that have some for more than streams with a shaper, with these
        changes."""
        gates = {**self._windows.gates, **changed, **self._given}
        return {port: its for port, its in gates.items() if its}

    def _with_opened(
        self, changed: Mapping[PortRef, GateControlList | None], before: Gates
    ) -> dict[PortRef, GateControlList | None]:
        """The lists that change, with those of ports that have one for streams with a shaper, or
        had `before`."""
        now = self._others.opened
        ports = {port for port in before.keys() | now.keys() if before.get(port) != now.get(port)}
        return {port: changed.get(port) or now.get(port) for port in sorted(changed.keys() | ports)}

    def _have_windows_for(self, streams: Iterable[Stream]) -> None:
        """The first streams say whether frames may share windows; later it is as it is."""
        asked = [each.name for each in streams if each.windows is Windows.SHARED]
        if len(self._planned) == len(self._others) and not self._windows.gates:
            empty = replace(self.plan, streams={}, gates={})  # but for given lists
            self._windows = _windows_of(empty, self._router, is_shared=bool(asked))
        elif asked and isinstance(self._windows, OwnWindows):
            raise Unschedulable(dict.fromkeys(asked, _NONE_SHARED))

    def _movable(self) -> dict[str, Stream]:
        """The streams that may move, with what is promised of them as what they ask for."""
        its = self._origin.intent[Loops].by_name.values()
        closing = {name for loop in its for name in (loop.sensor, loop.actuator)}
        return {
            name: replace(
                self._streams[name],
                max_latency_ns=planned.latency_bound_ns,
                traffic_classes=(self._class_name[planned.paths[0][0].traffic_class],),
            )
            for name, planned in self._planned.items()
            if may_move(self._streams[name]) and name not in closing and planned.has_instants
        }

    def _closed(
        self, streams: Mapping[str, Stream], planned: Mapping[str, StreamPlan]
    ) -> dict[str, LoopDelay]:
        """How long control loops take that streams close which come; `Unschedulable` where one
        takes longer than its deadline."""
        pairs = [(its.sensor, its.actuator) for its in self._origin.intent[Loops].by_name.values()]
        if planned.keys().isdisjoint(name for pair in pairs for name in pair):
            return {}
        every = {**self._planned, **planned}
        ends = {name: every[name] for pair in pairs for name in pair if name in every}
        intent = replace(self._origin.intent, streams={**self._streams, **streams})
        made = replace(self._origin, intent=intent, streams=ends)
        found = loops.delays(made)
        if late := loops.late(made, found):
            raise Unschedulable(late, lacks=dict.fromkeys(late, Lack.TIME))
        return found

    def _count(self, planned: Mapping[str, StreamPlan]) -> None:
        starts = self._starts(planned)
        for room in self._rooms:
            room.add(starts)

    def _by_given_lists(self, planned: Mapping[str, StreamPlan]) -> dict[str, str]:
        """The streams that would leave by a port whose list is given, and why they cannot: those
        with a shaper have what that leaves them."""
        crossed = {
            name: given.crosses(its, self._given)
            for name, its in planned.items()
            if its.shaper is None
        }
        return {name: given.reason(port) for name, port in crossed.items() if port}

    def _parting(
        self, streams: Iterable[Stream], planned: Mapping[str, StreamPlan]
    ) -> dict[str, str]:
        """The streams whose ways part from those of others with their address, and where."""
        new = {stream.name: stream for stream in streams if stream.stated_address}
        others = {name for stream in new.values() for name in self._addresses.sharing(stream)}
        trees = {name: [self._router.tree(planned[name].hops)] for name in new}
        kept = {name: self._planned[name].hops for name in others}
        every = {**{name: self._streams[name] for name in others}, **new}
        return self._router.parting(trees, kept, every)

    def _without_room(self, planned: Mapping[str, StreamPlan]) -> dict[str, str]:
        """The streams for which switches have no room left, and why."""
        starts = self._starts(planned)
        return {name: why for room in self._rooms for name, why in room.refused(starts).items()}

    def _starts(self, planned: Mapping[str, StreamPlan]) -> set[Start]:
        if not self._rooms:
            return set()
        stations = self._origin.intent.network.end_stations
        return {
            Start(name, self._class_name[hop.traffic_class], self._number[hop.egress])
            for name, its in planned.items()
            for hop in its.hops
            if hop.egress.node in stations and its.has_instants
        }


def _windows_of(plan: Plan, router: Router, *, is_shared: bool) -> OwnWindows | BothWindows:
    return BothWindows(plan, router) if is_shared else OwnWindows(plan, router)


def _in_steps(recovery_ns: Mapping[str, int], step_ns: int) -> dict[str, int]:
    return (
        {name: (ns // step_ns + 1) * step_ns for name, ns in recovery_ns.items()}
        if step_ns > 1
        else dict(recovery_ns)
    )


def _ports(planned: Iterable[StreamPlan]) -> frozenset[PortRef]:
    """Those by which frames of streams leave."""
    return frozenset(hop.egress for its in planned for hop in its.hops)


def _senders(planned: Mapping[str, StreamPlan]) -> dict[str, set[str]]:
    """The nodes that the frames of each stream leave."""
    return {name: {hop.egress.node for hop in its.hops} for name, its in planned.items()}
