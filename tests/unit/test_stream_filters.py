"""Stream filters: what is asked for, which frames have which, what is refused and reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.composition import Stage
from agent.datastore.desired import desired_ports
from agent.mechanisms.stream_filters import layout, rules, stream_filters
from agent.mechanisms.stream_filters.kernel import StreamFilterAdapter
from agent.mechanisms.stream_filters.model import (
    Address,
    FilterCounters,
    FilterTable,
    Frames,
    Gate,
    GateEntry,
    GateList,
    Meter,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.mechanisms.stream_filters.tree import OVERHEAD
from agent.model import AgentError, LinuxBridge, PortConfig
from tests.stack.recording_kernel import port
from tests.stack.stream_filters import a_filter, a_gate, a_meter, an_entry, psfp, with_list
from tests.stack.stream_identities import (
    TO_STREAM,
    identified,
    named,
    restored,
    rewritten,
    stream_identities,
)

MS = 1_000_000
OPEN, CLOSED = Setting(is_open=True), Setting(is_open=False)
HALVES = GateList(0, MS, (GateEntry(OPEN, MS // 2), GateEntry(CLOSED, MS // 2)))
LISTED = Gate(1, OPEN, HALVES)
BRIDGE = replace(
    port("br0", 9),
    as_bridge=LinuxBridge(vlan_filtering=True, multicast_snooping=True, ports={"p1": 1, "p2": 2}),
)
AT_P1 = Address("p1", 7, TO_STREAM, 10)


@pytest.fixture
def mechanism(tmp_path):
    return stream_filters(tmp_path)


def configured(tree, *entries):
    return desired_ports(tree | stream_identities(*entries), {})["br0"][StreamFilterConfig]


def refusal(tree):
    with pytest.raises(AgentError) as refused:
        desired_ports(tree | stream_identities(named()), {})
    return str(refused.value)


def asked(*filters, addresses=(AT_P1,)):
    part = StreamFilterConfig(frozenset(filters), frozenset(addresses))
    return PortConfig("br0", (part,))


def of_stream(number=1, gate=LISTED, **details):
    return StreamFilter(number, 7, None, 0, gate, **details)


def test_filters_gates_meters_and_the_frames_of_streams_are_read():
    leaves = {"tsn-linux:enforcement": "count", "flow-meter-ref": 3, "priority-spec": "five"}
    tree = psfp([a_filter(**leaves)], [with_list()], [a_meter(3)])
    wanted = StreamFilter(1, 7, 5, 0, LISTED, Meter(3, 8000, 1500), only_counts=True)
    assert configured(tree, named()) == StreamFilterConfig({wanted}, {AT_P1})


@pytest.mark.parametrize(
    ("entries", "ports"),
    [
        ([named()], {"p1"}),
        ([named(facing="in-facing", port="p2")], {"p2"}),
        ([identified(), rewritten()], {"p1"}),
        ([restored(), named(index=9)], {"p1"}),
        ([named(handle=8)], set()),
    ],
)
def test_a_handle_means_the_address_that_frames_have_inside_where_they_come_in(entries, ports):
    config = configured(psfp([a_filter()], [a_gate()]), *entries)
    assert config.addresses == {Address(each, 7, TO_STREAM, 10) for each in ports}


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        (
            psfp([a_filter(handle=None)], [a_gate(), a_gate(2)]),
            "stream gate 2 has no effect: no stream filter refers to it; remove it",
        ),
        (
            psfp([a_filter()], [a_gate()], [a_meter()]),
            "flow meter 1 has no effect: no stream filter refers to it; remove it",
        ),
        (
            psfp([{k: v for k, v in a_filter().items() if k != "stream-handle"}], [a_gate()]),
            (
                "stream filter 1 matches no frame: it has neither a stream-handle nor wildcard; "
                "add one"
            ),
        ),
        (
            psfp([a_filter()], [with_list(**{"gate-enable": False})]),
            (
                "stream gate 1: admin-control-list has no effect on a gate that is not in "
                "operation; set gate-enable to true"
            ),
        ),
        (
            psfp([a_filter()], [with_list(**{"config-change": False})]),
            "stream gate 1: its list has no effect without config-change; set it to true",
        ),
        (
            psfp([a_filter()], [with_list(**{"admin-cycle-time": {}})]),
            "stream gate 1: its list has no admin-cycle-time",
        ),
        (
            psfp([a_filter()], [with_list(cycle_ns=999_999)]),
            (
                "stream gate 1: its entries take 1000000 ns, longer than its cycle of 999999 ns; "
                "shorten them, or lengthen admin-cycle-time"
            ),
        ),
        (
            psfp([a_filter()], [with_list(**{"admin-base-time": {"seconds": "18446744074"}})]),
            (
                "stream gate 1: base time 18446744074000000000 ns is not within "
                "0..9223372036853775807"
            ),
        ),
        (
            psfp([a_filter()], [with_list(1, an_entry(4, "open", 0))]),
            "stream gate 1: entry 4 of its list has no time-interval-value",
        ),
        (
            psfp(
                [a_filter()],
                [with_list(1, an_entry(0, "closed", 1, **{"interval-octet-max": 9}))],
            ),
            (
                "stream gate 1: interval-octet-max of entry 0 has no effect, because the gate is "
                "closed then; remove it"
            ),
        ),
        (
            psfp([a_filter()], [with_list(1, an_entry(0, "open", 1, **{OVERHEAD: 42}))]),
            (
                "stream gate 1: frame-overhead of entry 0 has no effect without "
                "interval-octet-max; remove it"
            ),
        ),
    ],
)
def test_what_has_no_effect_is_refused_with_its_instance(tree, why):
    assert refusal(tree) == f"port br0: {why}"


def test_a_cycle_that_is_no_whole_number_of_nanoseconds_is_refused():
    third = {"admin-cycle-time": {"numerator": 1, "denominator": 3}}
    assert "is no whole number of nanoseconds" in refusal(psfp([a_filter()], [with_list(**third)]))


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            asked(of_stream(gate=Gate(1, OPEN, replace(HALVES, entries=HALVES.entries * 65)))),
            "stream gate 1: its list has 130 entries, more than the 128 that there can be",
        ),
        (
            asked(of_stream(gate=Gate(1, OPEN, replace(HALVES, cycle_ns=2**32)))),
            "stream gate 1: its cycle of 4294967296 ns is longer than 4294967295 ns",
        ),
        (
            asked(of_stream(meter=Meter(2, 1, 1_000_000_001))),
            ("flow meter 2: a committed-burst-size of 1000000001 octets is more than 1000000000"),
        ),
        (
            asked(of_stream(), addresses=[AT_P1, AT_P1._replace(handle=8)]),
            (
                f"frames to {TO_STREAM} in VLAN 10 at p1 are of streams 7 and 8; give one of them "
                "another address"
            ),
        ),
    ],
)
def test_what_a_bridge_has_no_room_for_is_refused(mechanism, config, why):
    assert list(mechanism.problems(config, BRIDGE)) == [why]


def test_an_interface_that_is_no_bridge_is_refused(mechanism):
    assert list(mechanism.problems(asked(of_stream()), port("br0"))) == [
        "it is no bridge, and streams are filtered where a bridge receives them"
    ]


def test_frames_that_hardware_forwards_are_refused_with_the_port(tmp_path, monkeypatch):
    adapter = StreamFilterAdapter(tmp_path)
    monkeypatch.setattr(adapter, "_object", None)
    in_switch = replace(port("p1", 2), bridge="br0", switch_id="00")
    adapter._states = {"br0": BRIDGE, "p1": in_switch, "p2": port("p2", 3)}
    first = next(iter(adapter.problems(asked(of_stream()))))
    adapter.close()
    assert first == (
        "the hardware of the switch forwards the frames of p1, and the BPF program that filters "
        "streams would not see them: no driver takes it"
    )


def test_of_the_filters_that_match_the_lowest_number_has_the_frames_of_each_priority():
    first = StreamFilter(1, 7, 5, 0, LISTED)
    second = StreamFilter(2, 7, None, 0, LISTED)
    third = StreamFilter(3, None, 4, 0, LISTED)
    table = rules.table_of(asked(first, second, third), BRIDGE).ports
    others = dict.fromkeys((0, 1, 2, 3, 4, 6, 7), second)
    assert table["p1"] == {
        **{Frames(TO_STREAM, 10, each): had for each, had in ({5: first} | others).items()},
        Frames(None, 0, 4): third,
    }
    assert table["p2"] == {Frames(None, 0, 4): third}


def test_a_filter_of_no_stream_is_at_the_ports_that_it_names():
    shut = StreamFilter(1, None, 5, 0, LISTED)
    others = StreamFilter(2, None, None, 0, LISTED)
    config = replace(StreamFilterConfig(frozenset({shut, others})), places=frozenset({(1, "p2")}))
    table = rules.table_of(PortConfig("br0", (config,)), BRIDGE).ports
    assert table["p1"] == {Frames(None, 0): others}
    assert table["p2"][Frames(None, 0, 5)] == shut
    tree = psfp([a_filter(handle=None, **{"tsn-linux:interface": ["p2", "p3"]})], [a_gate()])
    assert configured(tree).places == {(1, "p2"), (1, "p3")}


def test_a_port_that_the_bridge_does_not_have_is_refused_with_the_filter_that_names_it(mechanism):
    shut = StreamFilter(1, None, 5, 0, LISTED)
    config = StreamFilterConfig(frozenset({shut}), places=frozenset({(1, "p9"), (1, "p2")}))
    assert list(mechanism.problems(PortConfig("br0", (config,)), BRIDGE)) == [
        "stream filter 1: p9 is no port of it"
    ]


def test_state_data_name_the_ports_at_which_a_filter_of_no_stream_is_in_force(mechanism):
    shut, of_one = StreamFilter(1, None, 5, 0, LISTED), StreamFilter(2, 7, None, 0, LISTED)
    ports = {"p1": {Frames(None, 0, 5): shut}, "p2": {Frames(None, 0, 5): shut}, "p3": {}}
    ports["p3"][Frames(TO_STREAM, 10)] = of_one
    state = StreamFilterState(FilterTable(ports), {1: RunningGate(HALVES, 0)})
    node = mechanism.operational_of_bridge(BRIDGE.with_part(state))
    shown = node["ieee802-dot1q-psfp-bridge:stream-filters"]["stream-filter-instance-table"]
    assert [each.get("tsn-linux:interface") for each in shown] == [["p1", "p2"], None]


def test_one_entry_is_enough_where_all_priorities_have_the_same_filter():
    table = rules.table_of(asked(of_stream()), BRIDGE)
    assert table.ports == {"p1": {Frames(TO_STREAM, 10): of_stream()}}


@pytest.mark.parametrize(
    "wanted",
    [
        of_stream(),
        StreamFilter(4096, None, 3, 1500, Gate(2**32 - 1), Meter(9, 10**10, 10**9), True),
        StreamFilter(0, 0, 0, 0, Gate(0, Setting(is_open=False, ipv=6))),
        of_stream(gate=Gate(1, OPEN, GateList(0, MS, (GateEntry(OPEN, MS, 284, 42),)))),
    ],
)
@pytest.mark.parametrize(
    "running", [RunningGate(Setting(is_open=True, ipv=3), 0), RunningGate(HALVES, 2**63)]
)
def test_what_is_in_a_map_is_what_was_put_there(wanted, running):
    stream = layout.Stream(wanted, running)
    value = layout.packed_stream(9, stream)
    assert len(value) == layout.STREAM_OCTETS
    assert layout.stream_of(value) == stream


@pytest.mark.parametrize("frames", [Frames(TO_STREAM, 10), Frames(None, 0, 7)])
def test_the_key_of_an_entry_tells_its_frames(frames):
    assert layout.frames_of(layout.packed_frames(frames)) == frames


@pytest.mark.parametrize(
    ("base_ns", "now_ns", "start_ns"),
    [(0, 0, 0), (0, 1, MS), (0, MS, MS), (250, 5 * MS, 5 * MS + 250), (10 * MS, 1, 10 * MS)],
)
def test_a_list_starts_at_its_base_time_or_with_the_next_cycle(base_ns, now_ns, start_ns):
    assert replace(HALVES, base_ns=base_ns).start_ns(now_ns) == start_ns


def test_what_runs_goes_on_until_the_next_list_starts():
    later = Gate(1, OPEN, replace(HALVES, base_ns=50 * MS))
    known = StreamFilterState(
        FilterTable({"p1": {Frames(TO_STREAM, 10): of_stream()}}),
        {1: RunningGate(OPEN, 10 * MS)},
    )
    changed = FilterTable({"p1": {Frames(TO_STREAM, 10): of_stream(gate=later)}})
    for now_ns, before in ((9 * MS, OPEN), (11 * MS, HALVES)):
        running = rules.running_gates(known, changed, now_ns)
        assert running == {1: RunningGate(before, 50 * MS)}
    assert rules.running_gates(known, known.table, 20 * MS) == known.running
    met = replace(known, running={1: RunningGate(OPEN, 10 * MS, has_changed=True)})
    assert rules.running_gates(met, changed, 9 * MS)[1].before == HALVES


def test_streams_are_filtered_before_they_are_forwarded_and_until_they_are_no_more(mechanism):
    (change,) = mechanism.diff(asked(of_stream()), BRIDGE)
    assert change.description == "port br0: stream filters: 1 filter at 1 port"
    assert change.difference == (
        f"frames to {TO_STREAM} in VLAN 10 at p1 are not filtered by stream filter 1 as configured"
    )
    assert change.target.set_in < Stage.FORWARD < change.target.removed_in
    filtered = mechanism.memory.applied(BRIDGE, [change.after[0].content], lambda _clock: 5)
    assert list(mechanism.diff(asked(of_stream()), filtered)) == []
    (removal,) = mechanism.diff(PortConfig("br0"), filtered)
    assert removal.difference.endswith("by stream filter 1, which is not configured")
    as_is = PortConfig("br0", (mechanism.as_is(filtered),))
    assert list(mechanism.diff(as_is, filtered)) == []


def test_filters_gates_and_meters_are_reported_with_counters_and_what_runs(mechanism):
    wanted = of_stream(meter=Meter(3, 8000, 1500))
    part = StreamFilterState(
        FilterTable({"p1": {Frames(TO_STREAM, 10): wanted}}),
        {1: RunningGate(CLOSED, 2**63)},
        {1: FilterCounters(6, 5, 1, 4, 1, 2)},
    )
    node = mechanism.operational_of_bridge(BRIDGE.with_part(part))
    (shown,) = node["ieee802-dot1q-psfp-bridge:stream-filters"]["stream-filter-instance-table"]
    counts = {name: value for name, value in shown.items() if name.endswith("-count")}
    assert counts == {
        "matching-frames-count": "6",
        "passing-sdu-count": "5",
        "not-passing-sdu-count": "1",
        "passing-frames-count": "4",
        "not-passing-frames-count": "1",
        "red-frames-count": "2",
    }
    (gate,) = node["ieee802-dot1q-psfp-bridge:stream-gates"]["stream-gate-instance-table"]
    assert gate["config-pending"]
    assert gate["oper-gate-state"] == "closed"
    assert "oper-control-list" not in gate
    met = replace(part, running={1: RunningGate(CLOSED, 2**63, has_changed=True)})
    node = mechanism.operational_of_bridge(BRIDGE.with_part(met))
    (gate,) = node["ieee802-dot1q-psfp-bridge:stream-gates"]["stream-gate-instance-table"]
    assert not gate["config-pending"]
    assert gate["oper-control-list"] == gate["admin-control-list"]
    assert mechanism.operational_of_bridge(port("p1")) == {}
