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


def svg(plan: Plan) -> str:
    """The picture as text; well-formed XML, no script, nothing loaded from elsewhere."""
    return _Drawing(plan).render()


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
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._classes = classes_of(plan)
        self._ports = ports_along_the_way(plan)
        self._span_ns = span_ns(plan)
        self._color = {
            name: _STREAM[i % len(_STREAM)] for i, name in enumerate(sorted(plan.streams))
        }
        rows = -(-(len(self._classes) + len(plan.streams)) // _LEGEND_COLUMNS)
        self._top = _TOP + rows * 20
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
        return _LEFT + time_ns * _TIME_WIDTH / self._span_ns

    def _heading(self, name: str) -> Iterator[str]:
        plan = self._plan
        yield f'<text x="24" y="34" class="title">{name}</text>'
        missing = f"{len(plan.refused)} without a place, " if plan.refused else ""
        facts = (
            f"{counted(len(plan.streams), 'stream')}, {missing}"
            f"{counted(len(plan.gates), 'gated port')}, "
            f"{us(self._span_ns)} µs shown, planned by {plan.algorithm}"
        )
        yield f'<text x="24" y="54" class="fact">{escape(facts)}</text>'
        entries = [(f"{c.name} open", _OPEN[c.role]) for c in self._classes]
        entries += [(stream, self._color[stream]) for stream in sorted(plan.streams)]
        column = (_WIDTH - 48) // _LEGEND_COLUMNS
        for index, (words, fill) in enumerate(entries):
            row, place = divmod(index, _LEGEND_COLUMNS)
            x, y = 24 + place * column, _TOP + row * 20
            yield f'<rect x="{x}" y="{y - 10}" width="14" height="12" rx="2" fill="{fill}"/>'
            yield f'<text x="{x + 20}" y="{y}">{escape(words)}</text>'

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
                    times = [
                        (opens + start, close + start)
                        for start in range(0, self._span_ns, gates.cycle_ns)
                        for opens, close in open_times(gates, c.number)
                    ]
                    yield from (self._open(lane.y, c, opens, close) for opens, close in times)

    def _open(self, y: int, c: TrafficClass, opens_ns: int, close_ns: int) -> str:
        x, end = self._x(opens_ns), self._x(min(close_ns, self._span_ns))
        return (
            f'<rect x="{x:.2f}" y="{y}" width="{max(end - x, 1):.2f}" height="{_LANE}" '
            f'fill="{_OPEN[c.role]}"><title>{escape(c.name)} open from {us(opens_ns)} to '
            f"{us(close_ns)} µs</title></rect>"
        )

    def _grid(self) -> Iterator[str]:
        step = tick_ns(self._span_ns, _TICKS_MAX)
        top, bottom = self._top + 2, self._bottom + 2
        for at in range(0, self._span_ns + 1, step):
            x = f"{self._x(at):.2f}"
            yield f'<path d="M{x} {top}V{bottom}" class="grid"/>'
            unit = " µs" if at + step > self._span_ns else ""
            yield f'<text x="{x}" y="{bottom + 16}" class="small mid">{us(at)}{unit}</text>'

    def _ways(self) -> Iterator[str]:
        """The ways of each stream's first frame."""
        for name, planned in self._plan.streams.items():
            for path in planned.paths:
                yield from self._way(path, self._color[name])

    def _way(self, path: tuple[Hop, ...], color: str) -> Iterator[str]:
        links = self._plan.intent.network.links
        inbound: dict[str, Hop] = {}
        for hop in path:
            before = inbound.get(hop.egress.node)
            inbound[links[hop.egress].target.node] = hop
            if before and hop.offset_ns <= self._span_ns:
                x1, x2 = self._x(before.offset_ns), self._x(hop.offset_ns)
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
        for name, planned in sorted(self._plan.streams.items()):
            stream = self._plan.intent.streams[name]
            for hop in planned.hops:
                if not hop.is_shared:
                    placed[self._lane_y(hop.egress, hop.traffic_class)] += self._frames_of(
                        stream, hop
                    )
        for port, windows in shared_windows(self._plan).items():
            for window in windows:
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
        for start in range(window.opens_ns, self._span_ns, window.cycle_ns):
            end = start + window.closes_ns - window.opens_ns
            title = f"{names} on {port}: window {us(start)} to {us(end)} µs"
            yield self._block(start, end - start, words, title, color)

    def _block(self, start_ns: int, length_ns: int, words: str, title: str, color: str) -> _Block:
        x = self._x(start_ns)
        width = max(length_ns * _TIME_WIDTH / self._span_ns, _FRAME_MIN_WIDTH)
        return _Block(x, min(width, _WIDTH - _RIGHT - x), words, title, color)

    def _frames_of(self, stream: Stream, hop: Hop) -> Iterator[_Block]:
        """The frames of a hop that lie in the picture."""
        network = self._plan.intent.network
        link = network.links[hop.egress]
        octets = client_octets(network, stream, link)
        busy = stream.frames * network.occupation_ns(link, octets)
        for start in range(hop.offset_ns % stream.period_ns, self._span_ns, stream.period_ns):
            title = f"{stream.name} on {hop.egress}: planned at {us(start)} µs, {us(busy)} µs long"
            yield self._block(start, busy, stream.name, title, self._color[stream.name])
