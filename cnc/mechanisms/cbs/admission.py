"""Which streams of shaped classes have a bound within what they are allowed.

The bounds of all depend on each other: where not all streams have their place, halves of them are
tried, the first streams first, until each is in or is refused alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnc.mechanism import Admission, Admitted
from cnc.mechanisms.cbs.bounds import Bounds, bounds, late
from cnc.mechanisms.cbs.flows import Ways
from cnc.model import GateControlList, Hop, Intent, PortRef, StreamPlan
from cnc.support.format import duration


def serve(
    intent: Intent,
    ways: Mapping[str, Ways],
    gates: Mapping[PortRef, GateControlList],
    promised_ns: Mapping[str, int],
) -> Admitted:
    """The streams that have a place on these ways through ports with these lists, and why others
    have none; no bound rises of those to whom some latency is promised."""
    tried = _Tried(intent, ways, gates, promised_ns)
    names = [name for name in ways if intent.shaper_of(intent.streams[name])]
    tried.admit(names)
    return Admitted(tried.plans(), tried.refused)


class _Tried:
    def __init__(
        self,
        intent: Intent,
        ways: Mapping[str, Ways],
        gates: Mapping[PortRef, GateControlList],
        promised_ns: Mapping[str, int],
    ) -> None:
        self._intent, self._ways, self._gates = intent, ways, gates
        self._promised_ns = promised_ns
        self._found = Bounds({}, {})
        self.refused: dict[str, str] = {}

    def admit(self, names: Sequence[str]) -> None:
        """Let these streams in beside those that are, as far as all keep what they have."""
        if not names:
            return
        admitted = [*self._found.latency_ns, *names]
        found = bounds(self._intent, {name: self._ways[name] for name in admitted}, self._gates)
        reason = self._reason(found, names)
        if reason is None:
            self._found = found
        elif len(names) == 1:
            self.refused[names[0]] = reason
        else:
            half = (len(names) + 1) // 2
            self.admit(names[:half])
            self.admit(names[half:])

    def plans(self) -> dict[str, StreamPlan]:
        """The streams that are admitted, each with its bound."""
        return {
            name: StreamPlan(
                tuple(
                    tuple(Hop(port, 0, self._number(name)) for port in way)
                    for way in self._ways[name]
                ),
                self._promised_ns.get(name, latency_ns),
                shaper=self._intent.shaper_of(self._intent.streams[name]),
            )
            for name, latency_ns in self._found.latency_ns.items()
        }

    def _number(self, name: str) -> int:
        return self._intent.classes[self._intent.streams[name].traffic_classes[0]].number

    def _reason(self, found: Bounds, names: Sequence[str]) -> str | None:
        """Why these streams cannot all come to those that are there; None: they can."""
        if found.refused:
            return found.refused.text
        behind = late(self._intent, found.latency_ns)
        if own := next((behind[name] for name in names if name in behind), None):
            return own
        if other := next(iter(behind), None):
            return f"beside it stream {other} would be late: {behind[other]}"
        for name, promised_ns in self._promised_ns.items():
            if (found_ns := found.latency_ns.get(name, 0)) > promised_ns:
                return (
                    f"beside it stream {name} would take up to {duration(found_ns)}, and "
                    f"{duration(promised_ns)} is promised. What would help: to plan all streams "
                    "together, which may raise the bounds of those that run"
                )
        return None


ADMISSION = Admission(serves=serve)
