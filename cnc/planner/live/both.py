"""Streams that share windows beside streams whose frames have windows of their own.

A class has windows of one kind, so that no queue has both. On a link the two keep apart as where a
plan is made: a timetable places frames around all shared windows, used or not, and what talkers
send for them; and frames join shared windows as they stand, which none of those is in the way of.
The lists are made of both. Beside windows of single frames no bound of recovery is found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock

from cnc.errors import Unschedulable
from cnc.model import GateControlList, Plan, PortRef, Stream, Windows
from cnc.planner import incremental
from cnc.planner.live.changes import Breaks, Come, Movable
from cnc.planner.live.places import Places
from cnc.planner.live.shared import SharedWindows
from cnc.planner.ports import seam_ns
from cnc.planner.problem import Problem, jitter_bounds, stream_plans
from cnc.planner.route import Member
from cnc.planner.routing import Router
from cnc.planner.sharing.busy import ENDLESS

_SHARED_CLASS = (
    "its frames need windows of their own, and those of its class share theirs. What would help: "
    "another class, or `windows` alike for all streams of a class"
)


class BothWindows:
    """The windows of a plan of whose streams some share them, or all."""

    def __init__(self, plan: Plan, router: Router) -> None:
        """Raises `InputError` as `SharedWindows`."""
        self._intent = plan.intent
        self._number = {name: its.number for name, its in plan.intent.classes.items()}
        own = {name: its for name, its in plan.streams.items() if not its.is_shared}
        problem = Problem(plan.intent, {}, router=router)
        kept = incremental.anew(problem, incremental.planned_placements(problem, own))
        self._shared = SharedWindows(plan, router, kept.values())
        streams = {name: plan.intent.streams[name] for name in own}
        self._places = Places(problem, kept, router, streams)
        self._blocked: list[tuple[int, Member]] = []
        self._block()

    @property
    def gates(self) -> Mapping[PortRef, GateControlList]:
        """The lists that ports run."""
        return self._shared.gates

    @property
    def recovery_ns(self) -> Mapping[str, int]:
        """What is promised of disturbances."""
        return self._shared.recovery_ns

    def prepare(self, changing: Lock) -> None:
        """As `Live.prepare`; no change goes on while the lock is held."""
        self._places.prepare(changing)

    def add(
        self, streams: Collection[Stream], undo: ExitStack, movable: Movable, _most: int
    ) -> Come:
        """Let all of `streams` have windows or join them, or raise `Unschedulable`; until `accept`
        `undo` takes it back. Nobody moves."""
        own = [self._narrowed(stream) for stream in streams if self._needs_own(stream)]
        names = {stream.name for stream in own}
        sharing = [stream for stream in streams if stream.name not in names]
        if not own:
            return self._shared.add(sharing, undo)
        if self._intent.network.recovery_required:
            raise Unschedulable(dict.fromkeys(names, f"{ENDLESS} beside windows of single frames"))
        problem, placed, _ = self._places.add(own, undo, movable, 0)
        self._shared.stand_beside(self._places.table.placements.values(), undo)
        come = self._shared.add(sharing, undo)
        planned = stream_plans(problem, placed) | come.streams
        return come._replace(streams=planned, jitter_ns=jitter_bounds(problem, placed))

    def accept(self, streams: Collection[Stream], come: Come) -> None:
        """Make final what was added."""
        self._shared.accept(come)
        own = (its for its in streams if not come.streams[its.name].is_shared)
        self._places.accept(own)
        self._block()

    def remove(
        self, names: Collection[str], breaks: Breaks
    ) -> dict[PortRef, GateControlList | None]:
        """Take streams out that are there; the lists that ports run then. Windows of others stay.

        Raises `Unschedulable` and changes nothing where the rest could not go on as before.
        """
        own = [name for name in names if Member(name, 0) in self._places.table.placements]
        with ExitStack() as undo:
            if own:
                gone = {placement.route.member for placement in self._places.of(own)}
                beside = self._places.table.placements
                stays = (its for member, its in beside.items() if member not in gone)
                self._shared.stand_beside(stays, undo)
                self._places.forget_periods(own, undo)
            gates = self._shared.remove([name for name in names if name not in own], breaks)
            undo.pop_all()
        self._places.remove(own)
        self._block()
        return gates

    def _needs_own(self, stream: Stream) -> bool:
        """Whether a stream has windows of its own: those that may choose share them, but where the
        frames of all of their classes have none that are shared."""
        if stream.windows is not Windows.AUTO or stream.max_jitter_ns is not None:
            return stream.windows is not Windows.SHARED
        taken = {placement.traffic_class for placement in self._places.table.placements.values()}
        return all(self._number[name] in taken for name in stream.traffic_classes)

    def _narrowed(self, stream: Stream) -> Stream:
        """A stream with those of its classes in which no windows are shared."""
        free = [n for n in stream.traffic_classes if self._number[n] not in self._shared.classes]
        if not free:
            raise Unschedulable({stream.name: _SHARED_CLASS})
        return replace(stream, traffic_classes=tuple(free))

    def _block(self) -> None:
        """Keep frames with windows of their own out of what is taken by those that share some."""
        links = self._places.table.links
        for link, member in self._blocked:
            links[link].release(member)
        self._blocked = []
        for layout in self._shared.classes.values():
            for link, since_ns, lasts_ns in layout.taken():
                member = Member("", len(self._blocked))
                seam = seam_ns(self._intent, self._places.table.problem.links[link])
                links[link].reserve(member, since_ns, lasts_ns + seam, layout.stated.slot_ns)
                self._blocked.append((link, member))
