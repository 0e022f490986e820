"""The table of what windows that frames share must carry, filled in by a planner."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.mechanisms.terms import control_between_ns, start_delay_ns
from cnc.model import Intent, Plan, PortRef
from cnc.planner import plan
from cnc.planner.ports import guard_ns, slot_ns
from cnc.planner.shares import kept_ns
from cnc.support.format import counted, duration
from tests.shared_windows import networks, tsnkit_methods
from tests.shared_windows.networks import Document

_RECOVERIES = ("none", "default")
_OF_DEFAULT_PERCENT = 90  # of what has a place without recovery
_BEST_EFFORT_PERCENT = 25
_FULL_PERCENT, _SHORT_LIST_PERCENT = 60, 30
_OFFERED_PERCENT = 90  # of the fullest link; control has the rest
_SHORT_LIST = 8  # entries


def _streams(computed: Plan) -> int:
    return len(computed.streams)


def _devices(computed: Plan) -> int:
    """Devices of a cell that have both their streams."""
    ways = Counter(name.rpartition("-")[2] for name in computed.streams)
    return sum(its > 1 for its in ways.values())


def fullest_percent(computed: Plan) -> float:
    """What scheduled frames take of the link that they take most of, by a tenth."""
    intent = computed.intent
    busy_ns: Counter[PortRef] = Counter()
    cycle_ns = intent.hyperperiod_ns()
    for name, planned in computed.streams.items():
        stream = intent.streams[name]
        for hop in planned.hops:
            link = intent.network.links[hop.egress]
            frame_ns = intent.network.occupation_ns(link, stream.payload_octets)
            busy_ns[hop.egress] += cycle_ns // stream.period_ns * stream.frames * frame_ns
    return round(max(busy_ns.values(), default=0) * 100 / cycle_ns, 1)


def best_effort_percent(computed: Plan) -> int | None:
    """What best effort keeps of the port that leaves it least, in turns of its largest frame,
    rounded down; None where no port has a list."""
    intent, links = computed.intent, computed.intent.network.links
    shares = (
        kept_ns(intent, links[port], gates) * 100 // gates.cycle_ns
        for port, gates in computed.gates.items()
    )
    return min(shares, default=None)


@dataclass(frozen=True, slots=True)
class Row:
    """What is asked, what a plan is measured by, and the least that must be reached.

    A row without a bar is for comparison. `narrowest` is the port whose capacity is told.
    """

    name: str
    document: Document
    asked: int
    bar: int | None
    measured: Callable[[Plan], float] = _streams
    unit: str = ""
    narrowest: PortRef | None = None
    best_effort_bar: int = 0


def rows() -> Iterator[Row]:
    """All of them, in the order in which they are printed."""
    yield from _as_many_as_fit()
    yield from _larger_networks()
    yield from _synchronous_starts()
    yield from _mixtures()
    yield from _cells()


def _as_many_as_fit() -> Iterator[Row]:
    last = PortRef("s2", "l")
    for rate, margin, asked in (
        ("1Gbps", "50us", 300),
        ("1Gbps", "200us", 200),
        ("100Mbps", "50us", 45),
    ):
        for recovery in _RECOVERIES:
            document = networks.two_switches(
                asked, rate=rate, gate_margin=margin, **_recovering(recovery)
            )
            bar = asked if recovery == "none" else -(-asked * _OF_DEFAULT_PERCENT // 100)
            keeps = _BEST_EFFORT_PERCENT if (rate, margin) == ("1Gbps", "50us") else 0
            name = f"100 B, 1 ms, {rate}, margin {margin}, recovery {recovery}"
            yield Row(name, document, asked, bar, narrowest=last, best_effort_bar=keeps)


def _larger_networks() -> Iterator[Row]:
    shapes = {"line8": networks.line(8), "ring8": networks.ring(8), "grid9": networks.grid(3)}
    for shape, joins in shapes.items():
        for entries_max, bar in ((0, _FULL_PERCENT), (_SHORT_LIST, _SHORT_LIST_PERCENT)):
            document = networks.loaded(
                joins,
                load_percent=_OFFERED_PERCENT,
                gate_entries_max=entries_max,
                **_gates("50us"),
                **_recovering("none"),
            )
            lists = f", lists of {entries_max}" if entries_max else ""
            name = f"{shape}, {len(document['streams'])} streams, margin 50us{lists}"
            yield Row(name, document, _OFFERED_PERCENT, bar, fullest_percent, "%")


def _synchronous_starts() -> Iterator[Row]:
    for talkers in (30, 600):
        for margin in ("0us", "50us"):
            for recovery in _RECOVERIES:
                document = networks.synchronous(talkers, **_gates(margin), **_recovering(recovery))
                name = f"{talkers} start at 0, 64 B, 1 ms, margin {margin}, recovery {recovery}"
                yield Row(name, document, talkers, talkers, narrowest=PortRef("s1", "plc"))


def _mixtures() -> Iterator[Row]:
    for margin in ("0us", "50us"):
        for classes in (1, 2):
            document = networks.picture(classes=classes, recovery="none", **_gates(margin))
            name = f"picture of 8 frames and 1 ms stream, margin {margin}, classes {classes}"
            yield Row(name, document, 2, 2 if margin == "0us" else None)
    for fits_only in (True, False):
        document = networks.short_period(fits_only=fits_only, recovery="none")
        name = f"353 B, 250 us, 100 Mb/s, fits-only {str(fits_only).lower()}"
        yield Row(name, document, 1, 1 if fits_only else None)
    for octets, period, frames in (
        (128, "1ms", (256,)),
        (64, "125us", (32,)),
        (128, "1ms", (160,)),
        (128, "1ms", (192,)),
        (256, "1ms", (32, 32, 64)),
    ):
        for recovery in _RECOVERIES:
            document = networks.bursts(
                *frames, octets=octets, period=period, **_recovering(recovery)
            )
            those = "+".join(map(str, frames))
            name = f"testbench {those} frames of {octets} B, {period}, recovery {recovery}"
            yield Row(name, document, len(frames), len(frames))


def _cells() -> Iterator[Row]:
    for switches in (1, 2):
        for recovery in _RECOVERIES:
            name = f"cell of {switches}, 64 B both ways, 1 ms, 100 Mb/s, recovery {recovery}"
            document = networks.cell(50, switches, **_recovering(recovery))
            yield Row(name, document, 50, 50, _devices, narrowest=PortRef("s1", "plc"))


def _recovering(recovery: str) -> Document:
    return {} if recovery == "default" else {"recovery": recovery}


def _gates(margin: str) -> Document:
    kind = "full-offload" if margin == "0us" else "software"
    return {"gates": kind, "gate-margin": margin}


def wire_frames(intent: Intent, port: PortRef) -> int:
    """How many frames of the streams, which are alike, a link carries in a period beside control,
    if they leave back to back."""
    link, stream = intent.network.links[port], next(iter(intent.streams.values()))
    left_bps = link.rate_bps - intent.control_rate_bps(link)
    occupation_ns = intent.network.occupation_ns(link, stream.payload_octets)
    return stream.period_ns * left_bps // link.rate_bps // occupation_ns


def window_frames(intent: Intent, port: PortRef) -> int:
    """How many of them one window for all holds, with one gate margin and one burst of control,
    which leaves best effort the guard band and a slot for its largest frame in each period."""
    link, stream = intent.network.links[port], next(iter(intent.streams.values()))
    room_ns = stream.period_ns - guard_ns(intent, link) - slot_ns(intent, link)

    def window_ns(frames: int) -> int:
        burst = replace(stream, frames=frames)
        sent_ns = frames * intent.network.occupation_max_ns(link, stream.payload_octets)
        delay_ns = start_delay_ns(intent, link) + control_between_ns(intent, link, burst)
        return delay_ns + sent_ns

    sizes = range(1, wire_frames(intent, port) + 1)
    return bisect_right(sizes, room_ns, key=window_ns)


_LINE = "{:68} {:>6} {:>6} {:>6} {:>8} {:>5} {:>7} {:>12} {:>9} {:>6}  {:8}{}"


def show(only: str) -> bool:
    """Print the rows whose names match `only` as they are planned and judged, and how many streams
    methods of tsnkit place of those that it has terms for; True if there are any, and every bar is
    reached by sound plans."""
    compares = tsnkit_methods.is_installed()
    head = ("asked of the planner", "asked", "placed", "bar", "recovers", "wire", "window")
    tail = ("best effort", "bound", "CPU", "", "streams that tsnkit places" if compares else "")
    print(_LINE.format(*head, *tail).rstrip())
    reached = [_show(row, compares=compares) for row in rows() if fnmatch(row.name, only)]
    if not compares:
        print("tsnkit is not installed: nothing is compared with its methods")
    print(f"{sum(reached)} of {counted(len(reached), 'row')} as they must be, by sound plans")
    return bool(reached) and all(reached)


def _show(row: Row, *, compares: bool) -> bool:
    intent = intents.from_document(row.document, row.name)
    begun = time.process_time()
    try:
        computed = plan(intent, best_effort=True)
    except Unschedulable as error:
        computed = Plan(intent, {}, {}, "none")
        print(f"  nothing is planned: {error}")
    took_s = time.process_time() - begun
    placed, keeps = row.measured(computed), best_effort_percent(computed)
    short = row.bar is not None and placed < row.bar
    short = short or (keeps or 0) < row.best_effort_bar
    faults = judge(computed)
    verdict = "NOT MET" if short else "" if row.bar is None else "met"
    bounds_ns = [planned.latency_bound_ns for planned in computed.streams.values()]
    limits = (
        (wire_frames(intent, row.narrowest), window_frames(intent, row.narrowest))
        if row.narrowest
        else ("", "")
    )
    recovers = "" if intent.network.disturbance_ns is None else str(len(computed.recovery_ns))
    best_effort = "" if keeps is None else f"{keeps}%"
    if row.best_effort_bar:
        best_effort += f" of {row.best_effort_bar}%"
    print(
        _LINE.format(
            row.name,
            f"{row.asked}{row.unit}",
            f"{placed}{row.unit}",
            "" if row.bar is None else f"{row.bar}{row.unit}",
            recovers,
            *limits,
            best_effort,
            duration(max(bounds_ns)) if bounds_ns else "",
            f"{took_s:.1f} s",
            f"{len(faults)} FAULTS: {faults[0]}" if faults else verdict,
            ", ".join(map(str, tsnkit_methods.all_placed(intent))) if compares else "",
        ).rstrip(),
        flush=True,
    )
    return not short and not faults
