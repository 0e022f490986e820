"""Which streams of shaped classes have a bound within what they are allowed.

The bounds of all depend on each other: where not all streams have their place, halves of them are
tried, those that run before others and the first streams first, until each is in or is refused
alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cnc.mechanism import Admission, Admitted
from cnc.mechanisms.cbs.beside import obstacle
from cnc.mechanisms.cbs.bounds import Bounds
from cnc.mechanisms.cbs.flows import Ways
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.mechanisms.cbs.settled import is_late, is_raised, settled
from cnc.model import (
    GateControlList,
    Hop,
    Intent,
    Parts,
    PortRef,
    Shaper,
    StreamPlan,
    Theory,
    TrafficClass,
)
from cnc.support.format import duration

_WHOLE_PPB = 10**9
_THEORY: Mapping[Shaper | None, Theory] = {
    Shaper.CREDIT: Theory.CBS,
    Shaper.STRICT: Theory.STRICT,
}
_MORE_TIME = (
    "a longer max-latency, a higher idle-slope of its class, fewer or smaller frames, fewer "
    "switches on its way"
)
_MORE_ROOM = (
    "a `reserve` of its class in the next plan; or to plan all streams together, which may raise "
    "the bounds of those that run"
)


def serve(
    intent: Intent,
    ways: Mapping[str, Ways],
    gates: Mapping[PortRef, GateControlList],
    promised_ns: Mapping[str, int],
    before: Parts,
) -> Admitted:
    """The streams that have a place on these ways through ports with these lists, and why others
    have none; no bound rises of those to whom some latency is promised."""
    tried = _Tried(intent, ways, gates, promised_ns, before[IdleSlopes])
    names = [name for name in ways if intent.shaper_of(intent.streams[name])]
    tried.refused.update(_beside_planned(intent, names))
    names = [name for name in names if name not in tried.refused]
    tried.admit(sorted(names, key=lambda name: name not in promised_ns))
    return Admitted(tried.plans(), tried.refused)


class _Tried:
    def __init__(
        self,
        intent: Intent,
        ways: Mapping[str, Ways],
        gates: Mapping[PortRef, GateControlList],
        promised_ns: Mapping[str, int],
        before: IdleSlopes,
    ) -> None:
        self._intent, self._ways, self._gates = intent, ways, gates
        self._promised_ns, self._before = promised_ns, before
        self._found = Bounds({})
        self.refused: dict[str, str] = {}

    def admit(self, names: Sequence[str]) -> None:
        """Let these streams in beside those that are, as far as all keep what they have."""
        if not names:
            return
        ways = {name: self._ways[name] for name in (*self._found.latency_ns, *names)}
        found = settled(self._intent, ways, self._gates, self._promised_ns, self._before)
        reason = self._reason(found, names)
        if reason is None:
            self._found = found
        elif len(names) == 1:
            self.refused[names[0]] = reason
        elif broken := self._broken_promises(found, names):
            self.refused.update(broken)
            self.admit([name for name in names if name not in broken])
        else:
            running = sum(name in self._promised_ns for name in names)
            half = running if running < len(names) else 0
            half = half or (len(names) + 1) // 2
            self.admit(names[:half])
            self.admit(names[half:])

    def _broken_promises(self, found: Bounds, names: Sequence[str]) -> dict[str, str]:
        """Of streams that all run those to whom something else was promised, and how."""
        if found.refused or any(name not in self._promised_ns for name in names):
            return {}
        return {
            name: f"it may take {self._takes(found, name, names)}, {why}"
            for name in names
            if (why := self._broken(found, name))
        }

    def plans(self) -> dict[str, StreamPlan]:
        """The streams that are admitted, each with its bound."""
        return {
            name: StreamPlan(
                tuple(
                    tuple(Hop(port, 0, self._class(name).number) for port in way)
                    for way in self._ways[name]
                ),
                self._promised_ns.get(name, self._announced_ns(name, latency_ns)),
                shaper=self._class(name).shaper,
            )
            for name, latency_ns in self._found.latency_ns.items()
        }

    def _class(self, name: str) -> TrafficClass:
        return self._intent.classes[self._intent.streams[name].traffic_classes[0]]

    def _announced_ns(self, name: str, latency_ns: int) -> int:
        """The bound with the reserve of the class, within what the stream is allowed."""
        room_ns = latency_ns * self._class(name).reserve_ppb // _WHOLE_PPB
        return min(latency_ns + room_ns, self._intent.streams[name].max_latency_ns)

    def _reason(self, found: Bounds, names: Sequence[str]) -> str | None:
        """Why these streams cannot all come to those that are there; None: they can."""
        if found.refused:
            return found.refused.text
        others = (name for name in found.latency_ns if name not in names)
        for name in (*names, *others):
            beside = "it may take" if name in names else f"beside it stream {name} would take up to"
            if why := self._broken(found, name):
                return f"{beside} {self._takes(found, name, names)}, {why}"
        return None

    def _broken(self, found: Bounds, name: str) -> str | None:
        """What a bound is greater than, and what would help; None: it may be so long."""
        if is_late(self._intent, name, found.latency_ns[name]):
            most = duration(self._intent.streams[name].max_latency_ns)
            return f"its max-latency is {most}. What would help: {_MORE_TIME}"
        if is_raised(name, found.latency_ns[name], self._promised_ns):
            promised = duration(self._promised_ns[name])
            return f"and {promised} is promised. What would help: {_MORE_ROOM}"
        return None

    def _takes(self, found: Bounds, name: str, names: Collection[str]) -> str:
        """How long a stream takes at most, by which theory, and where most of what is new of it, of
        the ports by which these leave, too."""
        before, at_ports = self._found.at_ports_ns.get(name, {}), found.at_ports_ns[name]
        common = {port for its in names for port in found.at_ports_ns[its]} & at_ports.keys()
        port = max(common or at_ports, key=lambda its: (at_ports[its] - before.get(its, 0), its))
        theory = _THEORY[self._class(name).shaper]
        return (
            f"{duration(found.latency_ns[name])} by network calculus ({theory}), "
            f"{duration(at_ports[port])} of it at {port}"
        )


def _beside_planned(intent: Intent, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The streams whose talkers also have planned ones that may wait for more than one of their
    frames, and why that is so."""
    talkers = {intent.streams[name].talker for name in names}
    for planned in intent.streams.values():
        if planned.talker in talkers and (why := obstacle(intent, planned)):
            text = f"stream {planned.name} has {why.found}. What would help: {why.expected}"
            for name in names:
                if intent.streams[name].talker == planned.talker:
                    yield name, text


ADMISSION = Admission(serves=serve)
