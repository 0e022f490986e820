"""Streams that switches forward once each interval, while they come and go beside planned ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from cnc.errors import Lack, Unschedulable
from cnc.mechanisms import terms
from cnc.model import Plan, PortRef, Stream, StreamPlan
from cnc.planner import explain
from cnc.planner.graph import Tree
from cnc.planner.routing import Router

_Ways = tuple[tuple[PortRef, ...], ...]


class CyclicStreams:
    """Those of a plan. What is stated of one is promised as long as it runs."""

    def __init__(self, plan: Plan) -> None:
        self._intent = plan.intent
        self._planned = {name: its for name, its in plan.streams.items() if its.is_cyclic}

    def is_one(self, stream: Stream) -> bool:
        """Whether it is of the kind."""
        return self._intent.is_cyclic(stream)

    def add(
        self,
        streams: Collection[Stream],
        running: Mapping[str, Stream],
        router: Router,
        undo: ExitStack,
    ) -> dict[str, StreamPlan]:
        """Admit those of the kind among `streams` that come to the `running` ones, or raise
        `Unschedulable`. The others of these may make bursts of their talkers wait for longer, which
        must not make any stream later than promised."""
        come = [stream for stream in streams if self.is_one(stream)]
        if not come and not self._planned:
            return {}
        trees = router.route_all(come)
        for stream in come:
            undo.callback(router.carry, stream, trees.get(stream.name, ()), -1)
        if lost := {s.name for s in come if s.name not in trees}:
            why = explain.no_second_path(come[0], router.forwarding)
            raise Unschedulable(dict.fromkeys(lost, why), lacks=dict.fromkeys(lost, Lack.WAY))
        intent = replace(
            self._intent, streams={**running, **{stream.name: stream for stream in streams}}
        )
        ways = {name: _ways_of(its) for name, its in self._planned.items()}
        new = {name: _ways(router, paths) for name, paths in trees.items()}
        promised_ns = {name: its.latency_bound_ns for name, its in self._planned.items()}
        admitted = terms.admitted(intent, {**ways, **new}, promised_ns)
        if refused := _of_those_that_come(admitted.refused, streams):
            raise Unschedulable(refused, lacks=dict.fromkeys(refused, Lack.ROOM))
        return {name: admitted.streams[name] for name in new}

    def accept(self, planned: Mapping[str, StreamPlan]) -> None:
        """Make final what was added."""
        self._planned |= {name: its for name, its in planned.items() if its.is_cyclic}

    def remove(self, names: Collection[str], running: Mapping[str, Stream], router: Router) -> None:
        """Take out those of the kind."""
        for name in names & self._planned.keys():
            planned = self._planned.pop(name)
            router.carry(running[name], [router.tree(path) for path in planned.paths], -1)


def _of_those_that_come(refused: Mapping[str, str], streams: Collection[Stream]) -> dict[str, str]:
    """A stream that runs is refused for one of those that come."""
    names = {stream.name for stream in streams}
    by_name = {name: why for name, why in refused.items() if name in names}
    others = [f"{name}, which runs: {why}" for name, why in refused.items() if name not in names]
    return by_name or dict.fromkeys(names if others else (), "; ".join(others))


def _ways_of(planned: StreamPlan) -> _Ways:
    return tuple(tuple(hop.egress for hop in path) for path in planned.paths)


def _ways(router: Router, paths: Sequence[Tree]) -> _Ways:
    return tuple(tuple(router.links[link].source for link in tree) for tree in paths)
