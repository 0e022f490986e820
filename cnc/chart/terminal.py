"""The gate chart for a terminal: a row for each class, a cell for a slice of the cycle.

A full cell is open all the time, a low block for a part of it; `·` is shut. However short an
opening is, it shows, and so does a closing.
"""

from __future__ import annotations

from itertools import pairwise

from cnc.chart.axis import classes_of, open_times, tick_ns
from cnc.model import ClassRole, GateControlList, Hop, Plan, PortRef, Stream, TrafficClass
from cnc.plans.shared_windows import shared_windows
from cnc.support.format import counted, printable
from cnc.support.format import microseconds as us

_LEVELS = "▁▂▃▄▅▆▇"
_OPEN = "█"
_SHUT = "·"
_LABEL_GAP = 9  # columns from one number of the ruler to the next, at least
_CELLS_MIN = 20
_INDENT = " " * 4
_WINDOWS_MAX = 8  # of a port
_SGR = {ClassRole.SCHEDULED: "36", ClassRole.CONTROL: "33", ClassRole.BEST_EFFORT: "32"}
_BOLD, _DIM = "1", "2"


def text(plan: Plan, width: int = 100, *, color: bool = False) -> str:
    """Every port's gates over its cycle, then every stream's way; `width` is 72 or more."""
    return _Chart(plan, width, color).render()


class _Chart:
    def __init__(self, plan: Plan, width: int, color: bool) -> None:
        self._plan = plan
        self._color = color
        self._classes = classes_of(plan)
        self._shared = shared_windows(plan)
        self._margin = max((len(self._label(c)) for c in self._classes), default=0) + 2
        self._width = width
        self._cells = max(width - self._margin, _CELLS_MIN)

    def render(self) -> str:
        if not self._plan.streams and not self._plan.gates:
            return "\n\n".join(["nothing is scheduled", *self._refused()]) + "\n"
        ports = [self._port(port, self._plan.gates[port]) for port in sorted(self._plan.gates)]
        streams = [self._streams()] if self._plan.streams else []
        return "\n\n".join([*ports, *streams, *self._refused()]) + "\n"

    def _paint(self, words: str, code: str) -> str:
        return f"\x1b[{code}m{words}\x1b[0m" if self._color else words

    @staticmethod
    def _label(c: TrafficClass) -> str:
        return f"{c.number} {c.name}"

    def _port(self, port: PortRef, gates: GateControlList) -> str:
        target = self._plan.intent.network.links[port].target
        heading = f"{self._paint(str(port), _BOLD)} → {target.node}"
        facts = f"   cycle {us(gates.cycle_ns)} µs, {counted(len(gates.entries), 'entry')}"
        rows = [self._row(c, gates) for c in self._classes]
        lines = [heading + self._paint(facts, _DIM), *rows, *self._ruler(gates.cycle_ns)]
        return "\n".join([*lines, *self._windows(port)])

    def _row(self, c: TrafficClass, gates: GateControlList) -> str:
        bar = cells(list(open_times(gates, c.number)), gates.cycle_ns, self._cells)
        return f"{self._label(c):<{self._margin}}{self._paint(bar, _SGR[c.role])}"

    def _ruler(self, cycle_ns: int) -> list[str]:
        step = tick_ns(cycle_ns, max(self._cells // _LABEL_GAP, 1))
        marks, numbers = ["─"] * self._cells, ""
        unit = " µs"
        for at in range(0, cycle_ns, step):
            column = at * self._cells // cycle_ns
            marks[column] = "┬"
            number = us(at)
            if column + len(number) + len(unit) <= self._cells:
                numbers = f"{numbers:<{column}}{number}"
        indent = " " * self._margin
        return [self._paint(f"{indent}{line}", _DIM) for line in ("".join(marks), numbers + unit)]

    def _windows(self, port: PortRef) -> list[str]:
        """The windows that frames share there, and with how many streams."""
        found = self._shared.get(port, ())
        lines = [
            f"window {us(its.opens_ns)} to {us(its.closes_ns)} of {us(its.cycle_ns)} µs, class "
            f"{its.traffic_class}: {counted(len(its.streams), 'stream')}"
            for its in found[:_WINDOWS_MAX]
        ]
        if len(found) > _WINDOWS_MAX:
            lines.append(f"and {counted(len(found) - _WINDOWS_MAX, 'more window')}")
        return [f"{_INDENT}{line}" for line in lines]

    def _streams(self) -> str:
        """Bounds beside their limits, and when each hop is planned."""
        lines = [self._paint("streams", _BOLD)]
        for name, planned in sorted(self._plan.streams.items()):
            stream = self._plan.intent.streams[name]
            limit = us(stream.max_latency_ns)
            lines.append(
                f"  {self._paint(name, _BOLD)}  {self._plan.class_of(name).name}, every "
                f"{us(stream.period_ns)} µs, latency ≤ {us(planned.latency_bound_ns)} of {limit} µs"
                f"{self._jitter(stream)}"
            )
            for path in planned.paths:
                lines += self._wrapped([f"{hop.egress} {_times(hop)}" for hop in path])
        return "\n".join(lines)

    def _jitter(self, stream: Stream) -> str:
        """The greatest bound at a listener beside its limit, if the stream has one."""
        bounds_ns = self._plan.jitter_ns.get(stream.name)
        if stream.max_jitter_ns is None or not bounds_ns:
            return ""
        return f", jitter ≤ {us(max(bounds_ns.values()))} of {us(stream.max_jitter_ns)} µs"

    def _refused(self) -> list[str]:
        if not self._plan.refused:
            return []
        return [
            "\n".join(
                [
                    self._paint("streams without a place", _BOLD),
                    *(
                        f"  {name}: {printable(why)}"
                        for name, why in sorted(self._plan.refused.items())
                    ),
                ]
            )
        ]

    def _wrapped(self, hops: list[str]) -> list[str]:
        """A path in as few lines as it takes, in microseconds after the period's start."""
        lines = [_INDENT + "at"]
        for hop in hops:
            if len(lines[-1]) + len(hop) + 3 > self._width:
                lines.append(_INDENT + "  ")
            lines[-1] += f"  {hop}"
        lines[-1] += " µs"
        return lines


def _times(hop: Hop) -> str:
    """The planned instant, or the window that the frames share."""
    until = f" to {us(hop.window_end_ns)}" if hop.is_shared else ""
    return us(hop.offset_ns) + until


def cells(times: list[tuple[int, int]], cycle_ns: int, count: int) -> str:
    """The cycle in `count` cells, each as high as the share of its time that is in `times`."""
    edges = [index * cycle_ns // count for index in range(count + 1)]
    return "".join(_cell(times, start, max(end, start + 1)) for start, end in pairwise(edges))


def _cell(times: list[tuple[int, int]], start: int, end: int) -> str:
    open_ns = sum(max(0, min(close, end) - max(opens, start)) for opens, close in times)
    if open_ns == 0:
        return _SHUT
    if open_ns == end - start:
        return _OPEN
    return _LEVELS[open_ns * len(_LEVELS) // (end - start)]
