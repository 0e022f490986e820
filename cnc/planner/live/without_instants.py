"""Streams that have no instants, while they come and go beside planned ones: switches forward them
once each interval, or send them by a shaper, whenever the gates of their class are open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from cnc.errors import Lack, Unschedulable
from cnc.mechanisms import terms
from cnc.model import GateControlList, Intent, Parts, Plan, PortRef, Stream, StreamPlan
from cnc.planner import explain, given
from cnc.planner.graph import Tree
from cnc.planner.routing import Router

_Ways = tuple[tuple[PortRef, ...], ...]
Gates = Mapping[PortRef, GateControlList]


class WithoutInstants:
    """Those of a plan. What is stated of one is promised as long as it runs.

    `opened` are the lists of the ports that have one for streams with a shaper alone: all gates
    but those of planned frames are always open.
    """

    def __init__(self, plan: Plan) -> None:
        self._intent = plan.intent
        self._planned = {name: its for name, its in plan.streams.items() if not its.has_instants}
        opened = given.open_lists(plan.intent, self._ways(), terms.given_lists(plan.intent))
        self.opened: Gates = {
            port: plan.gates[port]
            for port, its in opened.items()
            if port in plan.gates and _states(plan.gates[port]) == _states(its)
        }

    def __len__(self) -> int:
        return len(self._planned)

    def is_one(self, stream: Stream) -> bool:
        """Whether it is of the kind."""
        return not self._intent.has_instants(stream)

    def add(
        self,
        streams: Collection[Stream],
        running: Mapping[str, Stream],
        router: Router,
        gates: Gates,
        *,
        decided: Parts,
        undo: ExitStack,
    ) -> dict[str, StreamPlan]:
        """Admit those of the kind among `streams` that come to the `running` ones, or raise
        `Unschedulable`. The others of these may make bursts of their talkers wait for longer, and
        have ports run other lists, which `gates` has then, but for `opened`: none of that must make
        any stream later than promised. `decided` is what was of the plan that runs."""
        come = [stream for stream in streams if self.is_one(stream)]
        trees = router.route_all(come)
        for stream in come:
            undo.callback(router.carry, stream, trees.get(stream.name, ()), -1)
        if lost := {s.name for s in come if s.name not in trees}:
            why = explain.no_second_path(come[0], router.forwarding)
            raise Unschedulable(dict.fromkeys(lost, why), lacks=dict.fromkeys(lost, Lack.WAY))
        intent = self._of({**running, **{stream.name: stream for stream in streams}})
        new = {name: _ways(router, paths) for name, paths in trees.items()}
        ways, promised_ns = self._ways() | new, self._promised_ns()
        undo.callback(setattr, self, "opened", self.opened)
        self.opened = self._opened(intent, ways, gates)
        admitted = terms.admitted(intent, ways, promised_ns)
        served = terms.served(intent, ways, {**self.opened, **gates}, promised_ns, decided)
        every = {**admitted.refused, **served.refused}
        if refused := _of_those_that_come(every, streams):
            raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.ROOM))
        return {name: {**admitted.streams, **served.streams}[name] for name in new}

    def accept(self, planned: Mapping[str, StreamPlan]) -> None:
        """Make final what was added."""
        self._planned |= planned

    def broken_without(
        self, names: Collection[str], running: Mapping[str, Stream], gates: Gates, decided: Parts
    ) -> dict[str, str]:
        """The streams to whom something is promised that would not hold without these, where ports
        run these lists, and why."""
        intent = self._of({name: its for name, its in running.items() if name not in names})
        ways = {name: its for name, its in self._ways().items() if name not in names}
        lists = {**self._opened(intent, ways, gates), **gates}
        promised_ns = {name: ns for name, ns in self._promised_ns().items() if name in ways}
        return dict(terms.served(intent, ways, lists, promised_ns, decided).refused)

    def remove(
        self, names: Collection[str], running: Mapping[str, Stream], router: Router, gates: Gates
    ) -> None:
        """Take out those of the kind, where ports run these lists then."""
        for name in names & self._planned.keys():
            planned = self._planned.pop(name)
            router.carry(running[name], [router.tree(path) for path in planned.paths], -1)
        intent = self._of({name: its for name, its in running.items() if name not in names})
        self.opened = self._opened(intent, self._ways(), gates)

    def _opened(self, intent: Intent, ways: Mapping[str, _Ways], gates: Gates) -> Gates:
        """The ports keep the lists that they have as long as these repeat with all streams."""
        repeats_ns = intent.hyperperiod_ns()
        stay = {port: its for port, its in self.opened.items() if repeats_ns % its.cycle_ns == 0}
        return {
            port: stay.get(port, its) for port, its in given.open_lists(intent, ways, gates).items()
        }

    def _of(self, streams: Mapping[str, Stream]) -> Intent:
        return replace(self._intent, streams=streams)

    def _ways(self) -> dict[str, _Ways]:
        return {
            name: tuple(tuple(hop.egress for hop in path) for path in its.paths)
            for name, its in self._planned.items()
        }

    def _promised_ns(self) -> dict[str, int]:
        return {name: its.latency_bound_ns for name, its in self._planned.items()}


def _of_those_that_come(refused: Mapping[str, str], streams: Collection[Stream]) -> dict[str, str]:
    """A stream that runs is refused for one of those that come."""
    names = {stream.name for stream in streams}
    by_name = {name: why for name, why in refused.items() if name in names}
    others = [f"{name}, which runs: {why}" for name, why in refused.items() if name not in names]
    return by_name or dict.fromkeys(names if others else (), "; ".join(others))


def _ways(router: Router, paths: Sequence[Tree]) -> _Ways:
    return tuple(tuple(router.links[link].source for link in tree) for tree in paths)


def _states(gates: GateControlList) -> set[int]:
    return {entry.gate_states for entry in gates.entries}
