"""Gate control lists: when each class may leave each bridge port that scheduled frames cross.

Around each planned frame its class is open, with control alone beside it. Before that, for as long
as the largest best-effort frame takes, only control is open, so that nothing else is still on the
wire. In all other time everything but the scheduled classes is open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from math import lcm
from typing import NamedTuple

from cnc.errors import Unschedulable
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    Hop,
    Intent,
    Link,
    PortRef,
    TrafficClass,
)
from cnc.planner.explain import us
from cnc.planner.problem import Problem, interval_min_ns, longest_frame_ns

_CYCLE_MAX_NS = 2**31 - 1  # the kernel keeps a cycle in a signed 32-bit number


class _Window(NamedTuple):
    open_ns: int
    close_ns: int
    traffic_class: int
    period_ns: int


class _Span(NamedTuple):
    start_ns: int
    end_ns: int
    gate_states: int


def gate_control_lists(
    problem: Problem, hops: Mapping[str, tuple[Hop, ...]]
) -> dict[PortRef, GateControlList]:
    """One list for each bridge port that `hops` cross. Raises `Unschedulable`, by port."""
    windows: defaultdict[PortRef, list[_Window]] = defaultdict(list)
    for name, stream_hops in hops.items():
        period = problem.intent.streams[name].period_ns
        for hop, leg in zip(stream_hops, problem.routes[name], strict=True):
            if leg.parent is not None:
                close = hop.offset_ns + leg.window_ns
                windows[hop.egress].append(_Window(hop.offset_ns, close, hop.traffic_class, period))
    lists = {}
    refused = {}
    for port in sorted(windows):
        link = problem.intent.network.links[port]
        cycle = lcm(*(window.period_ns for window in windows[port]))
        if cycle > _CYCLE_MAX_NS:
            refused[f"port {port}"] = _cycle_too_long(cycle, windows[port])
            continue
        gates = _merged(_folded(_spans(problem.intent, link, windows[port], cycle), cycle), cycle)
        if reason := _objection(problem.intent, link, gates):
            refused[f"port {port}"] = reason
        lists[port] = gates
    if refused:
        raise Unschedulable(refused)
    return lists


def _mask(classes: Iterable[TrafficClass]) -> int:
    return sum(1 << c.number for c in classes)


def _spans(intent: Intent, link: Link, windows: list[_Window], cycle_ns: int) -> Iterator[_Span]:
    """The cycle from the first window's opening, as spans without a gap between them."""
    control = _mask(intent.classes_with(ClassRole.CONTROL))
    everyone = control | _mask(intent.classes_with(ClassRole.BEST_EFFORT))
    shortest = interval_min_ns(link)
    guard = max(longest_frame_ns(intent, link, ClassRole.BEST_EFFORT), shortest)
    each = sorted(
        _Window(start, start + window.close_ns - window.open_ns, window.traffic_class, cycle_ns)
        for window in windows
        for start in range(window.open_ns % window.period_ns, cycle_ns, window.period_ns)
    )
    first_again = each[0]._replace(open_ns=each[0].open_ns + cycle_ns)
    for window, following in pairwise([*each, first_again]):
        close = window.close_ns
        if following.open_ns - close < shortest:
            # Too short for an entry. Nobody's frame can be in this queue: it stays open.
            close = following.open_ns
        yield _Span(window.open_ns, close, control | 1 << window.traffic_class)
        shut = _clear_of(cycle_ns, following.open_ns - guard, shortest)
        if shut - close < shortest:
            shut = close
        yield _Span(close, shut, everyone)
        yield _Span(shut, following.open_ns, control)


def _clear_of(cycle_ns: int, edge_ns: int, shortest_ns: int) -> int:
    """`edge_ns`, or earlier if the end of the cycle would cut off too short an entry beside it."""
    if cycle_ns - shortest_ns < edge_ns < cycle_ns:
        return cycle_ns - shortest_ns
    if cycle_ns < edge_ns < cycle_ns + shortest_ns:
        return cycle_ns
    return edge_ns


def _folded(spans: Iterable[_Span], cycle_ns: int) -> list[_Span]:
    """The spans in the order of the cycle; one that crosses its end is split there."""
    folded = []
    for start, end, states in spans:
        if start < cycle_ns:
            folded.append(_Span(start, min(end, cycle_ns), states))
        if end > cycle_ns:
            folded.append(_Span(max(start, cycle_ns) - cycle_ns, end - cycle_ns, states))
    return sorted(span for span in folded if span.start_ns < span.end_ns)


def _merged(spans: list[_Span], cycle_ns: int) -> GateControlList:
    entries: list[GateEntry] = []
    for states, run in groupby(spans, key=lambda span: span.gate_states):
        entries.append(GateEntry(states, sum(span.end_ns - span.start_ns for span in run)))
    return GateControlList(cycle_ns, tuple(entries))


def _objection(intent: Intent, link: Link, gates: GateControlList) -> str | None:
    """Why the port must not run this list, if so."""
    count = len(gates.entries)
    if link.gate_entries_max and count > link.gate_entries_max:
        return (
            f"needs {count} gate entries, the port has {link.gate_entries_max}. Fewer streams, or "
            f"periods that divide each other (the cycle is {us(gates.cycle_ns)}), would help"
        )
    best_effort = _mask(intent.classes_with(ClassRole.BEST_EFFORT))
    frame = longest_frame_ns(intent, link, ClassRole.BEST_EFFORT)
    longest = _longest_run(gates, wanted=best_effort, unwanted=0)
    if longest < frame:
        return (
            f"best effort would starve: its largest frame takes {us(frame)}, the longest time left "
            f"for it in the cycle of {us(gates.cycle_ns)} is {us(longest)}. Fewer or longer "
            f"periods, or a smaller max-frame of best effort, would help"
        )
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    frame = longest_frame_ns(intent, link, ClassRole.CONTROL)
    for control in intent.classes_with(ClassRole.CONTROL):
        above = _mask(c for c in scheduled if c.number > control.number)
        longest = _longest_run(gates, wanted=0, unwanted=above)
        if longest < frame:
            return (
                f"class {control.name} would starve: it has lower priority than the scheduled "
                f"frames, and they leave it {us(longest)} at a time, less than its largest frame's "
                f"{us(frame)}. Give it the highest traffic class"
            )
    return None


def _longest_run(gates: GateControlList, *, wanted: int, unwanted: int) -> int:
    """The longest time, across the cycle's end too, with every wanted gate open, no unwanted."""
    longest = run = 0
    for entry in gates.entries * 2:
        fits = entry.gate_states & (wanted | unwanted) == wanted
        run = run + entry.interval_ns if fits else 0
        longest = max(longest, run)
    return min(longest, gates.cycle_ns)


def _cycle_too_long(cycle_ns: int, windows: list[_Window]) -> str:
    periods = ", ".join(us(period) for period in sorted({w.period_ns for w in windows}))
    return (
        f"the periods {periods} only repeat together every {us(cycle_ns)}; the kernel's cycle ends "
        f"at {us(_CYCLE_MAX_NS)}. Choose periods that divide each other"
    )
