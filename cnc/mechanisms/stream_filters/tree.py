"""Stream filters, stream gates and flow meters of a switch's bridge: to the YANG tree, and back.

`stream-filters`, `stream-gates` and `flow-meters` of `/bridges/bridge/component` (IEEE 802.1Qcw's
module of PSFP). Of the filters that a frame matches the one with the lowest number is taken, so
that those of strangers have numbers beyond those of streams. Each has a gate of its own, with its
number, and so has one with a flow meter. A filter of a stream refers to it by the handle of
`/stream-identity`; where one without a stream holds is `interface` of tsn-linux, and so are
`enforcement`, whether it drops frames or counts them, and what meters add to the length of a frame.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.list_times import first_start_ns, list_times
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import NETCONF, PSFP, PSFP_BRIDGE, TSN_LINUX, BridgeReport
from cnc.mechanism import Edit, Stored, Tree
from cnc.mechanisms.composition import known_streams
from cnc.mechanisms.handles import KnownStream
from cnc.mechanisms.stream_filters.model import (
    CountedFrames,
    CyclicGate,
    FilterCounts,
    FilteredStream,
    FixedGate,
    FlowMeter,
    Policing,
    StoredFilter,
    StoredFilters,
    Strangers,
    StreamFilter,
    StreamFilters,
    StreamGate,
    WindowGate,
    normal,
)
from cnc.model import NS_PER_S, StreamAddress

_PSFP = ElementMaker(namespace=PSFP_BRIDGE, nsmap={None: PSFP_BRIDGE, "psfp": PSFP})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"p": PSFP_BRIDGE, "t": TSN_LINUX}
_LEAVES, _TSN_LEAVES = reply.Leaves(PSFP_BRIDGE), reply.Leaves(TSN_LINUX)
_OPERATION = f"{{{NETCONF}}}operation"
_PRIORITIES = ("zero", "one", "two", "three", "four", "five", "six", "seven")
_STRANGERS_FIRST = 1_000_000  # their filters are asked last
_CLOSED_CYCLE_NS = NS_PER_S  # of a gate that is never open
_FILTER = "stream-filter-instance"
_GATE = "stream-gate-instance"
_METER = "flow-meter-instance"


# --- to the tree ---------------------------------------------------------------------------------


def _edit(desired: StreamFilters, own: StreamFilters, edit: Edit) -> list[Element]:
    """The `<stream-filters>`, `<stream-gates>` and `<flow-meters>` of a component that set these
    filters, and remove those stored beside them that are a rollout's `own`; without those that are
    stored as desired.

    Gates take over from those before at the first window after the base time. A filter of a stream
    keeps its number while its priority stays, by which its counters go on.
    """
    stored = edit.tables[StoredFilters].entries
    ours = {*own.filters}
    obsolete = {_whose(each.filter): each for each in stored if each.filter and each.filter in ours}
    taken = {number for each in stored for number in (each.number, each.gate, each.meter)}
    free = (number for number in count(1) if number not in taken)
    last = (number for number in count(_STRANGERS_FIRST) if number not in taken)
    filters: list[Element] = []
    gates: list[Element] = []
    meters: list[Element] = []
    for wanted in desired.filters:
        before = obsolete.pop(_whose(wanted), None)
        if before and before.filter == normal(wanted):
            continue
        if before:
            number, gate, meter = before.number, before.gate, before.meter or before.number
        else:
            number = gate = meter = next(free if isinstance(wanted.of, FilteredStream) else last)
        filters.append(_filter(number, gate, meter, wanted, edit.handles.by_stream))
        gates.append(_gate(gate, wanted.gate, edit.base_time_ns))
        if wanted.meter:
            meters.append(_meter(meter, wanted.meter))
        elif before and before.meter is not None:
            meters.append(_removed(_METER, before.meter))
    for each in obsolete.values():
        filters.append(_removed(_FILTER, each.number))
        gates.append(_removed(_GATE, each.gate))
        if each.meter is not None:
            meters.append(_removed(_METER, each.meter))
    tables = {"stream-filters": filters, "stream-gates": gates, "flow-meters": meters}
    return [_PSFP(name, *entries) for name, entries in tables.items() if entries]


def _whose(its: StreamFilter) -> tuple[FilteredStream | Strangers, int]:
    """What tells a filter from the others of its switch: a port has one of strangers for each
    priority, and streams of several priorities may share an address."""
    return its.of, its.priority


def _removed(instance: str, number: int) -> Element:
    return _PSFP(f"{instance}-table", {_OPERATION: "remove"}, _PSFP(f"{instance}-id", str(number)))


def _filter(
    number: int,
    gate: int,
    meter: int,
    its: StreamFilter,
    handles: Mapping[tuple[StreamAddress, str], int],
) -> Element:
    is_dropping = its.policing is Policing.DROP
    if isinstance(its.of, FilteredStream):
        handle = handles[its.of.address, its.of.port]
        whose = [_PSFP("stream-handle", str(handle))]
    else:
        whose = [_PSFP("wildcard"), _TSNL("interface", its.of.port)]
    return _PSFP(
        f"{_FILTER}-table",
        {_OPERATION: "replace"},
        _PSFP(f"{_FILTER}-id", str(number)),
        *whose,
        _PSFP("priority-spec", _PRIORITIES[its.priority]),
        _PSFP("max-sdu-size", str(its.max_sdu_octets)),
        _PSFP("stream-gate-ref", str(gate)),
        *([_PSFP("flow-meter-ref", str(meter))] if its.meter else []),
        _TSNL("enforcement", "drop" if is_dropping else "count"),
    )


def _gate(number: int, its: StreamGate, base_time_ns: int) -> Element:
    gate = _PSFP(f"{_GATE}-table", {_OPERATION: "replace"}, _PSFP(f"{_GATE}-id", str(number)))
    if its is FixedGate.OPEN:
        gate.append(_PSFP("gate-enable", "false"))  # all frames pass then
        return gate
    if isinstance(its, WindowGate):
        cycle_ns = its.period_ns
        start_ns = first_start_ns(base_time_ns, cycle_ns) + its.start_ns
        entries = [_interval(0, "open", its.open_ns, its.octets_max)]
        if closed_ns := its.period_ns - its.open_ns:
            entries.append(_interval(1, "closed", closed_ns))
    elif isinstance(its, CyclicGate):
        cycle_ns = 2 * its.interval_ns
        start_ns = first_start_ns(base_time_ns, cycle_ns)
        entries = [
            _interval(index, "open", its.interval_ns, its.octets_max, ipv, its.overhead_octets)
            for index, ipv in enumerate((its.even, its.odd))
        ]
    else:
        cycle_ns, start_ns = _CLOSED_CYCLE_NS, base_time_ns
        entries = [_interval(0, "closed", cycle_ns)]
    gate.extend(
        [
            _PSFP("gate-enable", "true"),
            # Until its list begins, frames come by the plan before.
            _PSFP("admin-gate-states", "open"),
            _PSFP("admin-control-list", *entries),
            *list_times(_PSFP, cycle_ns, start_ns),
        ]
    )
    return gate


def _interval(  # noqa: PLR0917
    index: int,
    state: str,
    length_ns: int,
    octets_max: int | None = None,
    ipv: int | None = None,
    overhead_octets: int = 0,
) -> Element:
    limit = [] if octets_max is None else [_PSFP("interval-octet-max", str(octets_max))]
    if overhead_octets:
        limit.append(_TSNL("frame-overhead", str(overhead_octets)))
    return _PSFP(
        "gate-control-entry",
        _PSFP("index", str(index)),
        _PSFP("operation-name", "psfp:set-gate-and-ipv"),
        _PSFP("time-interval-value", str(length_ns)),
        _PSFP("gate-state-value", state),
        _PSFP("ipv-spec", "null" if ipv is None else _PRIORITIES[ipv]),
        *limit,
    )


def _meter(number: int, its: FlowMeter) -> Element:
    """A meter of one rate: all that is beyond it is red."""
    leaves = {
        f"{_METER}-id": number,
        "committed-information-rate": its.rate_bps,
        "committed-burst-size": its.burst_octets,
        "excess-information-rate": 0,
        "excess-burst-size": 0,
        "coupling-flag": "zero",
        "color-mode": "color-blind",
        "drop-on-yellow": "false",
    }
    return _PSFP(
        f"{_METER}-table",
        {_OPERATION: "replace"},
        *(_PSFP(name, str(value)) for name, value in leaves.items()),
        _TSNL("frame-overhead", str(its.overhead_octets)),
    )


# --- from the tree -------------------------------------------------------------------------------


def _stored(whole: Reply, component: Element | None) -> Stored:
    """The filters that are configured of a component."""
    if component is None:
        return Stored(StreamFilters())
    gates, meters = _gates(component, is_kernel=False), _meters(component)
    entries = tuple(
        StoredFilter(
            _number(row, f"{_FILTER}-id"),
            _number(row, "stream-gate-ref"),
            _parsed(row, known_streams(whole), gates, meters),
            _LEAVES.optional_number(row, "flow-meter-ref"),
        )
        for row in _filter_rows(component)
    )
    known = tuple(each.filter for each in entries if each.filter)
    return Stored(StreamFilters(known), StoredFilters(entries))


def _reported(report: BridgeReport, whole: Reply, component: Element) -> BridgeReport:
    counts = _working(component, whole)
    part = StreamFilters(tuple(counts))
    return replace(
        report,
        forwarding=report.forwarding.having(part),
        counts=report.counts.having(CountedFrames(counts)),
    )


def _working(component: Element, whole: Reply) -> dict[StreamFilter, FilterCounts]:
    """The filters that work in a component, in their order, and what they have counted. One that
    does otherwise than any rollout sets it is left out."""
    rows = sorted(_filter_rows(component), key=lambda row: _number(row, f"{_FILTER}-id"))
    gates, meters = _gates(component, is_kernel=True), _meters(component)
    pending = {_number(row, f"{_GATE}-id") for row in _gate_rows(component) if _is_pending(row)}
    return {
        its: _counts(row, pending)
        for row in rows
        if (its := _parsed(row, known_streams(whole), gates, meters))
    }


def _filter_rows(component: Element) -> Iterator[Element]:
    return reply.entries(component, f"p:stream-filters/p:{_FILTER}-table", _NAMESPACES)


def _parsed(
    row: Element,
    known: Mapping[int, KnownStream],
    gates: Mapping[int, StreamGate],
    meters: Mapping[int, FlowMeter],
) -> StreamFilter | None:
    """The filter of an entry; None where no rollout sets one so."""
    of, gate = _of(row, known), gates.get(_number(row, "stream-gate-ref"))
    priority, sdu_octets = _LEAVES.text(row, "priority-spec"), _number(row, "max-sdu-size")
    if of is None or gate is None or priority not in _PRIORITIES:
        return None
    meter = _LEAVES.optional_number(row, "flow-meter-ref")
    if meter is not None and meter not in meters:
        return None
    is_counting = reply.text(row, "t:enforcement", _NAMESPACES) == "count"
    policing = Policing.COUNT if is_counting else Policing.DROP
    number, its_meter = _PRIORITIES.index(priority), None if meter is None else meters[meter]
    return normal(StreamFilter(of, number, sdu_octets, gate, policing, its_meter))


def _of(row: Element, known: Mapping[int, KnownStream]) -> FilteredStream | Strangers | None:
    handle = _LEAVES.text(row, "stream-handle")
    if handle is None:
        found = [*reply.entries(row, "t:interface", _NAMESPACES)]
        return Strangers(reply.short(found[0].text or "", "interface")) if len(found) == 1 else None
    stream = known.get(reply.number(handle, "stream-handle"))
    if stream is None or len(stream.ports) != 1:
        return None
    address, (port,) = stream
    return FilteredStream(address.destination_mac, address.vlan_id, port)


def _gates(component: Element, *, is_kernel: bool) -> dict[int, StreamGate]:
    """The gates of a component by number, as configured or as they work in the kernel, or will from
    a time to come on; without those that no rollout sets so."""
    found = {}
    for row in _gate_rows(component):
        prefix = "oper" if is_kernel and not _is_pending(row) else "admin"
        if gate := _parsed_gate(row, prefix):
            found[_number(row, f"{_GATE}-id")] = gate
    return found


def _meters(component: Element) -> dict[int, FlowMeter]:
    """The flow meters of a component by number, without those of two rates."""
    return {
        _number(row, f"{_METER}-id"): FlowMeter(
            _number(row, "committed-information-rate"),
            _number(row, "committed-burst-size"),
            _overhead(row),
        )
        for row in reply.entries(component, f"p:flow-meters/p:{_METER}-table", _NAMESPACES)
        if not _number(row, "excess-information-rate")
    }


def _gate_rows(component: Element) -> Iterator[Element]:
    return reply.entries(component, f"p:stream-gates/p:{_GATE}-table", _NAMESPACES)


def _is_pending(gate: Element) -> bool:
    """Whether the list of a gate begins at a time to come."""
    return _LEAVES.text(gate, "config-pending") == "true"


def _parsed_gate(row: Element, prefix: str) -> StreamGate | None:
    if _LEAVES.text(row, "gate-enable") != "true":
        return FixedGate.OPEN
    path = f"p:{prefix}-control-list/p:gate-control-entry"
    entries = sorted(
        reply.entries(row, path, _NAMESPACES), key=lambda entry: _number(entry, "index")
    )
    states = tuple(_LEAVES.text(entry, "gate-state-value") for entry in entries)
    if not states and prefix == "oper" and _LEAVES.text(row, "oper-gate-state") == "open":
        return FixedGate.OPEN  # its list waits for the clock
    if states == ("closed",):
        return FixedGate.CLOSED
    return _repeating(row, prefix, entries)


def _repeating(row: Element, prefix: str, entries: Sequence[Element]) -> StreamGate | None:
    """The gate of entries that last for its cycle."""
    times = [row.find(f"p:{prefix}-{name}-time", _NAMESPACES) for name in ("cycle", "base")]
    cycle, base = times
    if cycle is None or base is None:
        return None
    lengths_ns = [_number(entry, "time-interval-value") for entry in entries]
    period_ns = Fraction(_number(cycle, "numerator"), _number(cycle, "denominator") or 1) * NS_PER_S
    if sum(lengths_ns) != period_ns or not period_ns:
        return None
    base_ns = _number(base, "seconds") * NS_PER_S + _number(base, "nanoseconds")
    states = tuple(_LEAVES.text(entry, "gate-state-value") for entry in entries)
    if states == ("open", "open"):
        return _cyclic_gate(entries, lengths_ns, base_ns)
    octets_max = _LEAVES.text(entries[0], "interval-octet-max") if entries else None
    if states not in {("open",), ("open", "closed")} or octets_max is None or _overhead(entries[0]):
        return None
    octets = reply.number(octets_max, "interval-octet-max")
    return WindowGate(int(period_ns), base_ns % int(period_ns), lengths_ns[0], octets)


def _cyclic_gate(
    entries: Sequence[Element], lengths_ns: Sequence[int], base_ns: int
) -> CyclicGate | None:
    """The gate of two entries that stay open; None where it does otherwise than tell intervals
    apart."""
    values = [_LEAVES.text(entry, "ipv-spec") for entry in entries]
    limits = {
        (_LEAVES.optional_number(entry, "interval-octet-max"), _overhead(entry))
        for entry in entries
    }
    interval_ns, second_ns = lengths_ns
    number, into_ns = divmod(base_ns, interval_ns)
    if into_ns or interval_ns != second_ns or len(limits) > 1:
        return None
    priorities = [_PRIORITIES.index(its) for its in values if its in _PRIORITIES]
    if len(priorities) != len(entries):
        return None
    even, odd = reversed(priorities) if number % 2 else priorities
    return CyclicGate(interval_ns, even, odd, *limits.pop())


def _overhead(row: Element) -> int:
    return _TSN_LEAVES.optional_number(row, "frame-overhead") or 0


def _counts(row: Element, pending: Collection[int]) -> FilterCounts:
    """`pending` are the numbers of gates whose lists have not begun."""
    return FilterCounts(
        matching=_number(row, "matching-frames-count"),
        not_passing=_number(row, "not-passing-frames-count"),
        not_passing_sdu=_number(row, "not-passing-sdu-count"),
        is_pending=_number(row, "stream-gate-ref") in pending,
        red=_number(row, "red-frames-count"),
    )


def _number(row: Element, leaf: str) -> int:
    """The value of a leaf; 0 where it is missing."""
    return _LEAVES.optional_number(row, leaf) or 0


TREE: Tree[StreamFilters] = Tree(stored=_stored, reported=_reported, edit_bridge=_edit)
