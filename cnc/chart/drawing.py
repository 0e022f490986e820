"""The plan as one self-contained SVG picture: ports down the page, time to the right.

Each bridge port has a lane for each class, coloured while its gate is open, with the planned
frames in it; a talker's port has one lane. Frames that share a window are one block, which says how
many streams they are of. A thin line follows a frame from port to port, or from window to window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

from cnc.chart.axis import classes_of, open_times, ports_along_the_way, span_ns, tick_ns
from cnc.errors import InputError
from cnc.mechanisms.terms import client_octets
from cnc.model import ClassRole, Hop, Plan, PortRef, Stream, TrafficClass
from cnc.plans.shared_windows import SharedWindow, shared_windows
from cnc.support.format import counted
from cnc.support.format import microseconds as us

_WIDTH = 1200
_LEFT, _RIGHT = 150, 24
_TIME_WIDTH = _WIDTH - _LEFT - _RIGHT
_TOP = 78
_LEGEND_COLUMNS = 6
_LANE, _LANE_GAP = 16, 3
_HEADING = 22
_PORT_GAP = 16
_TICKS_MAX = 10
_FRAME_MIN_WIDTH = 2.0
_NAMED_MAX = 20  # streams that one tooltip names
_CHARACTER_WIDTH = 6.2  # of the 10 px label font, a little generous
_OPEN = {
    ClassRole.SCHEDULED: "#a9c8ec",
    ClassRole.CONTROL: "#f6e3ad",
    ClassRole.BEST_EFFORT: "#d3e9cf",
}
_SHARED = "#4f6d94"
_STREAM = ("#b5332e", "#1f5fa8", "#6b3fa0", "#c26a00", "#00796b", "#ad1457", "#5d4037", "#37474f")
_STYLE = (
    "text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#24292f}"
    ".title{font-size:18px;font-weight:bold}.port{font-weight:bold}.fact{fill:#57606a}"
    ".small{font-size:10px;fill:#57606a}.end{text-anchor:end}.mid{text-anchor:middle}"
    ".halo{paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".grid{stroke:#d0d7de;stroke-width:1}.way{fill:none;stroke-width:1;opacity:.55}"
)


@dataclass(frozen=True, slots=True)
class View:
    """What of a plan a picture shows: these ports, or all; from one time to another of the cycle,
    by default all of the longest; and whether with a title, its figures and a legend."""

    ports: tuple[PortRef, ...] = ()
    from_ns: int = 0
    to_ns: int | None = None
    has_title: bool = True


def svg(plan: Plan, view: View | None = None) -> str:
    """The picture as text; well-formed XML, no script, nothing loaded from elsewhere.

    Raises InputError for a port that the plan does not use, and for no time at all.
    """
    return _Drawing(plan, view or View()).render()


@dataclass(frozen=True, slots=True)
class _Lane:
    y: int
    traffic_class: TrafficClass | None  # None: a talker's port, where nothing is gated


class _Block(NamedTuple):
    """What is planned in a lane: left edge and width, the words beside it, a tooltip, a colour."""

    x: float
    width: float
    words: str
    title: str
    color: str


class _Drawing:
    def __init__(self, plan: Plan, view: View) -> None:
        self._plan = plan
        self._classes = classes_of(plan)
        used = ports_along_the_way(plan)
        if others := [port for port in view.ports if port not in used]:
            raise InputError(
                f"no stream or list of {plan.intent.name} has the port {others[0]}",
                hint=f"it has {', '.join(map(str, used[:_NAMED_MAX]))}",
            )
        self._ports = [port for port in used if not view.ports or port in view.ports]
        self._from_ns = view.from_ns
        self._to_ns = span_ns(plan) if view.to_ns is None else view.to_ns
        if self._from_ns >= self._to_ns:
            raise InputError(
                f"nothing is from {us(self._from_ns)} to {us(self._to_ns)} µs",
                hint="--from a time before --to",
            )
        # A stream has its colour in each picture of a plan.
        colors = {name: _STREAM[i % len(_STREAM)] for i, name in enumerate(sorted(plan.streams))}
        shown = {*self._ports}
        self._color = {
            name: color
            for name, color in colors.items()
            if any(hop.egress in shown for hop in plan.streams[name].hops)
        }
        self._has_title = view.has_title
        rows = -(-(len(self._classes) + len(self._color)) // _LEGEND_COLUMNS)
        self._top = _TOP + rows * 20 if view.has_title else 0
        self._lanes: dict[PortRef, list[_Lane]] = {}
        y = self._top
        for port in self._ports:
            classes = self._classes if port in plan.gates else [None]
            y += _HEADING
            self._lanes[port] = [
                _Lane(y + i * (_LANE + _LANE_GAP), c) for i, c in enumerate(classes)
            ]
            y += len(classes) * (_LANE + _LANE_GAP) + _PORT_GAP
        self._bottom = y - _PORT_GAP

    def render(self) -> str:
        height = self._bottom + 34
        name = escape(self._plan.intent.name)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>Gate control lists and frames of {name}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *self._heading(name),
            *self._gates(),
            *self._grid(),
            *self._ways(),
            *self._frames(),
            *self._port_names(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _x(self, time_ns: int) -> float:
        """Where a time is; at the edge, if it is beyond that."""
        shown_ns = min(max(time_ns, self._from_ns), self._to_ns) - self._from_ns
        return _LEFT + shown_ns * _TIME_WIDTH / (self._to_ns - self._from_ns)

    def _heading(self, name: str) -> Iterator[str]:
        if not self._has_title:
            return
        plan = self._plan
        yield f'<text x="24" y="34" class="title">{name}</text>'
        missing = f"{len(plan.refused)} without a place, " if plan.refused else ""
        facts = (
            f"{counted(len(plan.streams), 'stream')}, {missing}"
            f"{counted(len(plan.gates), 'gated port')}, "
            f"{self._shown()} shown, planned by {plan.algorithm}"
        )
        yield f'<text x="24" y="54" class="fact">{escape(facts)}</text>'
        entries = [(f"{c.name} open", _OPEN[c.role]) for c in self._classes]
        entries += sorted(self._color.items())
        column = (_WIDTH - 48) // _LEGEND_COLUMNS
        for index, (words, fill) in enumerate(entries):
            row, place = divmod(index, _LEGEND_COLUMNS)
            x, y = 24 + place * column, _TOP + row * 20
            yield f'<rect x="{x}" y="{y - 10}" width="14" height="12" rx="2" fill="{fill}"/>'
            yield f'<text x="{x + 20}" y="{y}">{escape(words)}</text>'

    def _shown(self) -> str:
        whole = f"{us(self._to_ns)} µs"
        return f"{us(self._from_ns)} to {whole}" if self._from_ns else whole

    def _turns(self, start_ns: int, end_ns: int, cycle_ns: int) -> Iterator[tuple[int, int]]:
        """A time of each cycle, as often as some of it lies in the picture."""
        first = -(-(self._from_ns - end_ns + 1) // cycle_ns)
        for by in range(first * cycle_ns, self._to_ns - start_ns, cycle_ns):
            yield start_ns + by, end_ns + by

    def _port_names(self) -> Iterator[str]:
        """Last, with a halo, so that grid and ways pass behind them."""
        for port, lanes in self._lanes.items():
            target = self._plan.intent.network.links[port].target.node
            facts = f"→ {target}, talker"
            if gates := self._plan.gates.get(port):
                entries = counted(len(gates.entries), "entry")
                facts = f"→ {target}, cycle {us(gates.cycle_ns)} µs, {entries}"
            yield (
                f'<text x="24" y="{lanes[0].y - 7}" class="halo">'
                f'<tspan class="port">{escape(str(port))}</tspan>'
                f'<tspan class="fact" dx="6">{escape(facts)}</tspan></text>'
            )

    def _gates(self) -> Iterator[str]:
        """The lanes, and the times each gate is open."""
        for port, lanes in self._lanes.items():
            gates = self._plan.gates.get(port)
            for lane in lanes:
                yield (
                    f'<rect x="{_LEFT}" y="{lane.y}" width="{_TIME_WIDTH}" height="{_LANE}" '
                    'fill="#f3f4f6"/>'
                )
                c = lane.traffic_class
                label = f"{c.number} {c.name}" if c else "frames"
                yield (
                    f'<text x="{_LEFT - 8}" y="{lane.y + 12}" class="small end">'
                    f"{escape(label)}</text>"
                )
                if c and gates:
                    for opens, close in open_times(gates, c.number):
                        for shown in self._turns(opens, close, gates.cycle_ns):
                            yield self._open(lane.y, c, *shown)

    def _open(self, y: int, c: TrafficClass, opens_ns: int, close_ns: int) -> str:
        x, end = self._x(opens_ns), self._x(close_ns)
        return (
            f'<rect x="{x:.2f}" y="{y}" width="{max(end - x, 1):.2f}" height="{_LANE}" '
            f'fill="{_OPEN[c.role]}"><title>{escape(c.name)} open from {us(opens_ns)} to '
            f"{us(close_ns)} µs</title></rect>"
        )

    def _grid(self) -> Iterator[str]:
        step = tick_ns(self._to_ns - self._from_ns, _TICKS_MAX)
        top, bottom = self._top + 2, self._bottom + 2
        for at in range(-(-self._from_ns // step) * step, self._to_ns + 1, step):
            x = f"{self._x(at):.2f}"
            yield f'<path d="M{x} {top}V{bottom}" class="grid"/>'
            unit = " µs" if at + step > self._to_ns else ""
            yield f'<text x="{x}" y="{bottom + 16}" class="small mid">{us(at)}{unit}</text>'

    def _ways(self) -> Iterator[str]:
        """The ways of the first frame of each stream that lies in the picture."""
        for name, color in self._color.items():
            period_ns = self._plan.intent.streams[name].period_ns
            for path in self._plan.streams[name].paths:
                offsets_ns = [hop.offset_ns for hop in path if hop.egress in self._lanes]
                if offsets_ns:
                    turns = max(0, -(-(self._from_ns - min(offsets_ns)) // period_ns))
                    yield from self._way(path, color, turns * period_ns)

    def _way(self, path: tuple[Hop, ...], color: str, by_ns: int) -> Iterator[str]:
        links = self._plan.intent.network.links
        inbound: dict[str, Hop] = {}
        for hop in path:
            before = inbound.get(hop.egress.node)
            inbound[links[hop.egress].target.node] = hop
            if before is None or not {before.egress, hop.egress} <= self._lanes.keys():
                continue
            if hop.offset_ns + by_ns <= self._to_ns:
                x1, x2 = self._x(before.offset_ns + by_ns), self._x(hop.offset_ns + by_ns)
                tops = [self._lane_y(its.egress, its.traffic_class) for its in (before, hop)]
                y1, y2 = tops[0] + _LANE, tops[1]
                yield f'<path d="M{x1:.2f} {y1}L{x2:.2f} {y2}" class="way" stroke="{color}"/>'

    def _lane_y(self, port: PortRef, number: int) -> int:
        lanes = self._lanes[port]
        return next(
            (
                lane.y
                for lane in lanes
                if lane.traffic_class and lane.traffic_class.number == number
            ),
            lanes[0].y,
        )

    def _frames(self) -> Iterator[str]:
        placed: defaultdict[int, list[_Block]] = defaultdict(list)  # by the lane's place
        for name in sorted(self._color):
            stream = self._plan.intent.streams[name]
            for hop in self._plan.streams[name].hops:
                if not hop.is_shared and hop.egress in self._lanes:
                    placed[self._lane_y(hop.egress, hop.traffic_class)] += self._frames_of(
                        stream, hop
                    )
        for port, windows in shared_windows(self._plan).items():
            for window in windows if port in self._lanes else ():
                placed[self._lane_y(port, window.traffic_class)] += self._blocks_of(port, window)
        for y, blocks in placed.items():
            blocks.sort()
            ends = [block.x for block in blocks[1:]] + [float(_WIDTH - _RIGHT)]
            for (x, width, words, title, color), until in zip(blocks, ends, strict=True):
                yield (
                    f'<rect x="{x:.2f}" y="{y + 2}" width="{width:.2f}" height="{_LANE - 4}" '
                    f'rx="1" fill="{color}"><title>{escape(title)}</title></rect>'
                )
                if until - x - width > len(words) * _CHARACTER_WIDTH + 8:
                    yield (
                        f'<text x="{x + width + 4:.2f}" y="{y + 12}" class="small" '
                        f'style="fill:{color}">{escape(words)}</text>'
                    )

    def _blocks_of(self, port: PortRef, window: SharedWindow) -> Iterator[_Block]:
        """The parts of a shared window that lie in the picture."""
        is_single = len(window.streams) == 1
        words = window.streams[0] if is_single else counted(len(window.streams), "stream")
        color = self._color[window.streams[0]] if is_single else _SHARED
        names = ", ".join(window.streams[:_NAMED_MAX])
        if len(window.streams) > _NAMED_MAX:
            names += f" and {len(window.streams) - _NAMED_MAX} more"
        for start, end in self._turns(window.opens_ns, window.closes_ns, window.cycle_ns):
            title = f"{names} on {port}: window {us(start)} to {us(end)} µs"
            yield self._block(start, end - start, words, title, color)

    def _block(self, start_ns: int, length_ns: int, words: str, title: str, color: str) -> _Block:
        x = self._x(start_ns)
        width = max(self._x(start_ns + length_ns) - x, _FRAME_MIN_WIDTH)
        return _Block(x, min(width, _WIDTH - _RIGHT - x), words, title, color)

    def _frames_of(self, stream: Stream, hop: Hop) -> Iterator[_Block]:
        """The frames of a hop that lie in the picture."""
        network = self._plan.intent.network
        link = network.links[hop.egress]
        octets = client_octets(network, stream, link)
        busy = stream.frames * network.occupation_ns(link, octets)
        offset_ns = hop.offset_ns % stream.period_ns
        for start, end in self._turns(offset_ns, offset_ns + busy, stream.period_ns):
            title = f"{stream.name} on {hop.egress}: planned at {us(start)} µs, {us(busy)} µs long"
            yield self._block(start, end - start, stream.name, title, self._color[stream.name])
