"""Streams that share windows, held for changes: one joins where all frames leave in time.

The windows of others stay as they are, and by when their frames have left. A stream joins the last
wave of each window of its way, in a slot that has room; where it needs more time it has an end of
its own behind it, and where no window is, one of its own is opened. Beside them there may be frames
that have windows of their own (`both`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from cnc.errors import InputError, Lack, Unschedulable
from cnc.model import GateControlList, Intent, Plan, PortRef, Stream, StreamPlan
from cnc.planner import explain
from cnc.planner.floor import us
from cnc.planner.gates import Lists, windows_by_port
from cnc.planner.graph import Tree
from cnc.planner.live.changes import Breaks, Come
from cnc.planner.live.joining import Joining, OfClass
from cnc.planner.live.running import RunningLayout, Stated, stated_by
from cnc.planner.live.within import opens_within
from cnc.planner.problem import Problem
from cnc.planner.recovery import Recovery
from cnc.planner.route import Placement
from cnc.planner.routing import Router
from cnc.planner.sharing import OWN_CLASS, Shared
from cnc.planner.sharing.taken import Taken


class _State(NamedTuple):
    """All that is planned now: the streams that share windows, the frames `beside` them, the
    windows of each class, what lists of ports are for all of it, those that ports run, and when
    streams recover."""

    intent: Intent
    beside: tuple[Placement, ...]
    classes: Mapping[int, RunningLayout]
    due: Mapping[PortRef, GateControlList]
    gates: Mapping[PortRef, GateControlList]
    bounds_ns: Mapping[str, int]


class SharedWindows:
    """The windows of those streams of a plan that share them."""

    def __init__(self, plan: Plan, router: Router, beside: Iterable[Placement]) -> None:
        """The frames `beside` have windows of their own. Raises `InputError` where the plan has
        other windows than this planner would lay out, or promises what it cannot account for."""
        self._router = router
        self.gates = dict(plan.gates)
        self.recovery_ns = dict(plan.recovery_ns)
        sharing = [name for name, planned in plan.streams.items() if planned.is_shared]
        streams = {name: plan.intent.streams[name] for name in sharing}
        intent = replace(plan.intent, streams=streams)
        beside = tuple(beside)
        why = ""
        for turned in (False, True):
            classes = self._layouts(intent, beside, self._stated(plan, sharing, turned=turned))
            due = self._shared(intent, beside, classes).lists().lists
            if not all(its.holds() for its in classes.values()) or not _are_within(plan.gates, due):
                why = why or "has other windows that streams share than this planner lays out"
                continue
            self._now = _State(intent, beside, classes, due, plan.gates, {})
            self._now, _ = self._state(intent, beside, classes)
            if not self._broken(self._now.bounds_ns):
                return
            why = "promises more of disturbances than this planner can account for"
        raise InputError(
            f"the plan of {plan.intent.name} {why}", hint="make a new plan (`cnc plan`)"
        )

    @property
    def classes(self) -> Mapping[int, RunningLayout]:
        """The windows of each class."""
        return self._now.classes

    def add(self, streams: Collection[Stream], undo: ExitStack) -> Come:
        """Let all of `streams` join windows, or raise `Unschedulable`. Until `accept` `undo` takes
        it back."""
        undo.callback(setattr, self, "_now", self._now)
        trees = self._router.route_all(streams)
        for stream in streams:
            undo.callback(self._router.carry, stream, trees.get(stream.name, ()), -1)
        joining = {}
        for stream in streams:
            if stream.name not in trees:
                why = explain.no_second_path(stream, self._router.forwarding)
                raise Unschedulable({stream.name: why}, lacks={stream.name: Lack.SECOND_WAY})
            number = self._join(stream, trees[stream.name])
            joining[stream.name] = number
        planned: dict[str, StreamPlan] = {}
        for name, number in joining.items():
            planned |= self._now.classes[number].plans_of([name])
        recovery_ns = {
            name: self._now.bounds_ns[name] for name in joining if name in self._now.bounds_ns
        }
        return Come(planned, self._renewed(), {}, recovery_ns)

    def stand_beside(self, beside: Iterable[Placement], undo: ExitStack) -> None:
        """Let these be the frames that have windows of their own, or raise `Unschedulable`. Until
        `accept` `undo` takes it back."""
        before, beside = self._now, tuple(beside)
        stated = {number: layout.stated for number, layout in before.classes.items()}
        classes = self._layouts(before.intent, beside, stated)
        state, lists = self._state(before.intent, beside, classes)
        problems = {f"port {port}": why for port, why in lists.crowded().items()}
        lacks = dict.fromkeys(problems, Lack.LIST)
        if problems := problems or self._broken(state.bounds_ns):
            raise Unschedulable(problems, lacks=lacks)
        undo.callback(setattr, self, "_now", before)
        self._now = state

    def accept(self, come: Come) -> None:
        """Make final what was added."""
        self.gates = dict(self._now.gates)
        self.recovery_ns |= come.recovery_ns

    def _renewed(self) -> dict[PortRef, GateControlList | None]:
        """The lists of now that ports do not run yet."""
        gates = self._now.gates
        return {
            port: gates.get(port)
            for port in sorted({*self.gates, *gates})
            if self.gates.get(port) != gates.get(port)
        }

    def remove(
        self, names: Collection[str], breaks: Breaks
    ) -> dict[PortRef, GateControlList | None]:
        """Take streams out that are there; the lists that ports run then. Windows of others stay.

        Raises `Unschedulable` and changes nothing where the rest could not go on as before.
        """
        before = self._now
        streams = {n: its for n, its in before.intent.streams.items() if n not in names}
        intent = replace(before.intent, streams=streams)
        stated = {}
        for number, layout in before.classes.items():
            its = layout.stated.copy()
            for name in names:
                its.joined.pop(name, None)
            if its.joined:
                stated[number] = its.without_unused()
        classes = self._layouts(intent, before.beside, stated)
        state, lists = self._state(intent, before.beside, classes)
        problems = {f"port {port}": why for port, why in lists.crowded().items()}
        problems |= self._broken({**state.bounds_ns, **dict.fromkeys(names, 0)})
        problems |= breaks(state.gates)
        if problems or not all(layout.holds() for layout in classes.values()):
            raise Unschedulable(
                problems or dict.fromkeys(names, "the windows that others share would not hold"),
                hint="plan again without these streams",
            )
        for name in names:
            stream = before.intent.streams[name]
            self.recovery_ns.pop(name, None)
            joined = next(
                its.stated.joined[name]
                for its in before.classes.values()
                if name in its.stated.joined
            )
            trees = [tuple(step.link for step in way) for way in joined.ways]
            self._router.carry(stream, trees, -1)
        self._now = state
        gates = self._renewed()
        self.gates = dict(state.gates)
        return gates

    def _join(self, stream: Stream, trees: tuple[Tree, ...]) -> int:
        """Let a stream take part where it may; the number of its class."""
        intent = replace(
            self._now.intent, streams={**self._now.intent.streams, stream.name: stream}
        )
        problem = Problem(intent, {stream.name: trees}, router=self._router)
        own = {placement.traffic_class for placement in self._now.beside}
        numbers = [n for n in problem.class_numbers(stream.name) if n not in own]
        if not numbers:
            raise Unschedulable({stream.name: OWN_CLASS})
        number = next((n for n in numbers if n in self._now.classes), numbers[0])
        layout = self._now.classes.get(number)
        stated = layout.stated if layout else Stated(stream.period_ns)
        if stream.period_ns % stated.slot_ns:
            raise Unschedulable(
                {
                    stream.name: f"its period of {us(stream.period_ns)} is no multiple of the "
                    f"slots of {us(stated.slot_ns)} in which the windows of its class open. What "
                    "would help: another period, or a new plan (`cnc plan`)"
                }
            )
        taken = _taken_by(problem, self._now.beside, self._now.classes, number)
        joining = Joining(problem, OfClass(number, stated, layout, taken), stream, trees)
        refused = {stream.name: "no window that frames share has room for it"}
        lacks: dict[str, Lack] = {}
        for tried in joining.tried():
            classes = {**self._now.classes, number: tried}
            state, lists = self._state(intent, self._now.beside, dict(sorted(classes.items())))
            refused = {f"port {port}": why for port, why in lists.crowded().items()}
            lacks = dict.fromkeys(refused, Lack.LIST)
            refused = refused or self._broken(state.bounds_ns)
            refused = refused or self._without_bound(stream.name, state)
            if not refused:
                self._now = state
                return number
        if joining.why:
            refused, lacks = {stream.name: joining.why}, {stream.name: joining.lacks}
        raise Unschedulable(refused, lacks=lacks)

    def _without_bound(self, name: str, state: _State) -> dict[str, str]:
        network = state.intent.network
        if not network.recovery_required or name in state.bounds_ns:
            return {}
        return {name: "no bound is found on how long it may be late after a disturbance"}

    def _broken(self, bounds_ns: Mapping[str, int]) -> dict[str, str]:
        """The streams that would be late for longer after a disturbance than was stated."""
        found = {}
        for name, promised in self.recovery_ns.items():
            now_ns = bounds_ns.get(name)
            if now_ns is None or now_ns > promised:
                now = f"for up to {us(now_ns)}" if now_ns is not None else "without an end"
                found[name] = (
                    f"could be late {now} after a disturbance; {us(promised)} is what it was "
                    "promised. What would help: a longer period or a smaller payload of what is "
                    "new, or a plan with more room (`cnc plan`)"
                )
                break
        return found

    def _stated(self, plan: Plan, sharing: Iterable[str], *, turned: bool) -> dict[int, Stated]:
        by_class: defaultdict[int, list[str]] = defaultdict(list)
        for name in sharing:
            by_class[plan.streams[name].hops[0].traffic_class].append(name)
        numbers = {link.source: number for number, link in enumerate(self._router.links)}
        return {
            number: stated_by(plan, names, numbers, turned=turned)
            for number, names in sorted(by_class.items())
        }

    def _layouts(
        self, intent: Intent, beside: Collection[Placement], stated: Mapping[int, Stated]
    ) -> dict[int, RunningLayout]:
        problem = Problem(intent, {}, router=self._router)
        found: dict[int, RunningLayout] = {}
        for number, its in stated.items():
            # What other classes take shows only once all are laid out.
            found[number] = RunningLayout(problem, number, its, Taken(problem, ()))
        if len(found) > 1 or beside:
            for number, its in stated.items():
                taken = _taken_by(problem, beside, found, number)
                found[number] = RunningLayout(problem, number, its, taken)
        return found

    def _state(
        self, intent: Intent, beside: tuple[Placement, ...], classes: Mapping[int, RunningLayout]
    ) -> tuple[_State, Lists]:
        """What follows from layouts; nothing of it holds where their lists are crowded. Ports keep
        the list that they run where what it is for does not change."""
        shared, before = self._shared(intent, beside, classes), self._now
        lists = shared.lists()
        gates = {
            port: before.gates[port] if before.due.get(port) == its else its
            for port, its in lists.lists.items()
        }
        found: Recovery = shared.recovery(lists._replace(lists=gates))
        state = _State(intent, beside, classes, lists.lists, gates, found.recovery_ns)
        return state, lists

    def _shared(
        self,
        intent: Intent,
        beside: Collection[Placement],
        classes: Mapping[int, RunningLayout],
    ) -> Shared:
        problem = Problem(intent, {}, router=self._router)
        shared = Shared(problem, windows_by_port(problem, beside))
        for layout in classes.values():
            shared.classes.append(layout)
            shared.streams |= layout.stream_plans()
            for link, windows in layout.gate_windows().items():
                shared.windows.setdefault(link, []).extend(windows)
        return shared


def _are_within(
    gates: Mapping[PortRef, GateControlList], due: Mapping[PortRef, GateControlList]
) -> bool:
    """Whether all ports open their gates only when they are due to."""
    same = gates.keys() == due.keys()
    return same and all(opens_within(its, due[port]) for port, its in gates.items())


def _taken_by(
    problem: Problem,
    beside: Iterable[Placement],
    classes: Mapping[int, RunningLayout],
    number: int,
) -> Taken:
    """What frames with windows of their own and classes but one take of links."""
    taken = Taken(problem, beside)
    for other, layout in classes.items():
        if other != number:
            for link, windows in (layout.gate_windows() | layout.sent_in()).items():
                taken.add(link, windows)
    return taken
