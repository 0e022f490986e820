"""Which frames of streams a bridge takes in: when, how long, how many; and what is counted.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms.gates.model import GateState
from agent.mechanisms.stream_filters.model import (
    FilterCounters,
    Frames,
    Gate,
    GateEntry,
    GateList,
    Meter,
    RunningGate,
    Setting,
    StreamFilterState,
)
from cnc.talker import sleep_until, tai_ns
from tests.kernel.filtered_streams import (  # noqa: F401
    CLOSED,
    CYCLE_NS,
    FCS,
    HALF_NS,
    MAC_HEADER,
    OPEN,
    TAG,
    a_filter,
    counters,
    filtered,
    half_open,
    phases,
    running,
    send,
    set_clock,
    state_dir,
    switch,
)
from tests.kernel.two_bridges import (  # noqa: F401
    FIRST,
    FRAMES,
    STREAM,
    TRANSLATED,
    UNKNOWN,
    VLAN_ID,
    OnTheWire,
    bridges,
    send_udp,
    table,
    wire,
)
from tests.stack.recording_kernel import configured


def test_exactly_the_frames_pass_that_come_while_the_gate_is_open(switch, wire):
    switch.apply(filtered(a_filter(half_open())))
    send(phases(1000))
    assert wire() == [OnTheWire(STREAM, VLAN_ID, 5)] * 500
    assert counters(switch) == FilterCounters(1000, 1000, 0, 500, 500, 0)


def test_each_phase_of_a_list_is_that_of_its_base_time(switch, wire):
    base_ns = 300_000
    switch.apply(filtered(a_filter(half_open(base_ns=base_ns))))
    for phase_ns, passes in ((299_000, 0), (301_000, 1), (799_000, 1), (801_000, 0)):
        cycle_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS
        send([cycle_ns + phase_ns])
        assert len(wire()) == passes, phase_ns


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 128])
def test_of_a_list_each_entry_rules_for_its_interval_and_the_last_to_the_end(switch, wire, count):
    """Odd entries are open; a cycle has 130 intervals, of which the list may have fewer."""
    interval_ns = 10_000
    entries = tuple(GateEntry((CLOSED, OPEN)[number % 2], interval_ns) for number in range(count))
    listed = GateList(0, 130 * interval_ns, entries)
    switch.apply(filtered(a_filter(Gate(1, CLOSED, listed))))
    start_ns = (tai_ns() // listed.cycle_ns + 20) * listed.cycle_ns
    send(
        start_ns + number * interval_ns + within_ns
        for number in range(130)
        for within_ns in (1_000, 9_000)
    )
    is_open = [min(number, count - 1) % 2 for number in range(130)]
    assert len(wire()) == 2 * sum(is_open)


@pytest.mark.parametrize("step_ns", [1_500_000, -1_500_000, -5_000_000_000])
def test_after_a_step_of_the_clock_the_right_frames_pass(switch, wire, set_clock, step_ns):
    switch.apply(filtered(a_filter(half_open())))
    send(phases(100))
    set_clock(step_ns)
    send(phases(1000))
    assert len(wire()) == 50 + 500
    assert counters(switch).not_passing == 50 + 500


def test_no_frame_is_longer_than_the_longest_service_data_unit(switch, wire):
    switch.apply(filtered(a_filter(Gate(1), max_sdu_octets=500)))
    send([None] * FRAMES, 500)
    send([None] * FRAMES, 501)
    assert len(wire()) == FRAMES
    assert counters(switch) == FilterCounters(2 * FRAMES, FRAMES, FRAMES, FRAMES, 0, 0)


@pytest.mark.parametrize("overhead_octets", [0, 42])
def test_no_more_octets_pass_in_an_interval_than_it_has(switch, wire, overhead_octets):
    entries = (GateEntry(OPEN, CYCLE_NS, 3 * (100 + overhead_octets), overhead_octets),)
    switch.apply(filtered(a_filter(Gate(1, OPEN, GateList(0, CYCLE_NS, entries)))))
    send(phases(100), 100)
    assert len(wire()) == 30  # three of ten in each interval
    send(phases(100), 101)
    assert len(wire()) == 20
    assert counters(switch) == FilterCounters(200, 200, 0, 50, 150, 0)


@pytest.mark.parametrize("overhead_octets", [0, 20])
def test_a_flow_meter_has_its_rate_and_its_burst_to_the_octet(switch, wire, overhead_octets):
    frame_octets = MAC_HEADER + TAG + 100 + FCS + overhead_octets
    meter = Meter(1, frame_octets * 8 * 1000, 3 * frame_octets, overhead_octets)
    switch.apply(filtered(a_filter(Gate(1), meter=meter)))
    start_ns = tai_ns() + 20_000_000
    send([start_ns] * 5, 100)
    assert len(wire()) == 3
    send([start_ns + 10_000_000] * 5, 100)  # the bucket is full again, and no fuller
    assert len(wire()) == 3
    send([start_ns + 20_000_000 + number * 500_000 for number in range(100)], 100)
    assert len(wire()) == 3 + 49  # one each millisecond; three are there, one is for the last
    assert counters(switch).red == 2 + 2 + 48


def test_frames_get_the_internal_priority_value_of_their_interval(switch, two_classes):
    entries = (
        GateEntry(Setting(is_open=True, ipv=1), HALF_NS),
        GateEntry(Setting(is_open=True, ipv=0), HALF_NS),
    )
    gate = Gate(1, OPEN, GateList(0, CYCLE_NS, entries))
    gates = {"p2": configured("p2", two_classes((0x3, CYCLE_NS)))}
    switch.apply(filtered(a_filter(gate)) | gates)

    def in_class_1() -> int:
        return switch.read()["p2"][GateState].counters[1].frames

    before = in_class_1()
    send(phases(100))
    assert in_class_1() - before == 50
    assert counters(switch).passing == 100


def test_what_is_only_counted_gets_the_internal_priority_value_too(switch, two_classes):
    """Of no octets that may pass, too long, and beyond the rate."""
    entries = tuple(GateEntry(Setting(is_open=True, ipv=ipv), HALF_NS, 0) for ipv in (1, 0))
    shut = Gate(1, OPEN, GateList(0, CYCLE_NS, entries))
    free = GateList(0, CYCLE_NS, tuple(each._replace(octets_max=None) for each in entries))
    gates = {"p2": configured("p2", two_classes((0x3, CYCLE_NS)))}
    for asked, expected in (
        ({"gate": shut}, FilterCounters(100, 100, 0, 0, 100, 0)),
        ({"gate": Gate(2, OPEN, free), "max_sdu_octets": 50}, FilterCounters(100, 0, 100, 0, 0, 0)),
        (
            {"gate": Gate(3, OPEN, free), "meter": Meter(1, 1, 1)},
            FilterCounters(100, 100, 0, 100, 0, 100),
        ),
    ):
        switch.apply(filtered(a_filter(only_counts=True, **asked)) | gates)
        send([phases(1)[0]])  # the list of its gate has begun by then
        before = switch.read()["p2"][GateState].counters[1].frames
        counted = counters(switch)
        send(phases(100), 100)
        assert switch.read()["p2"][GateState].counters[1].frames - before == 50
        found = FilterCounters(*(b - a for a, b in zip(counted, counters(switch), strict=True)))
        assert found == expected


def test_a_filter_that_only_counts_drops_nothing_and_counts_the_same(switch, wire):
    both = {"max_sdu_octets": 100, "only_counts": True}
    switch.apply(filtered(a_filter(half_open(), **both)))
    send(phases(100), 100)
    send(phases(10), 101)
    assert len(wire()) == 110
    assert counters(switch) == FilterCounters(110, 100, 10, 50, 50, 0)


def test_of_the_filters_that_match_the_one_with_the_lowest_number_has_the_frame(switch, wire):
    closed = Gate(2, CLOSED)
    switch.apply(
        filtered(
            a_filter(Gate(1), id=1, priority=5),
            a_filter(closed, id=2),
            a_filter(Gate(3), id=3, handle=None),
        )
    )
    send([None] * 2, pcp=5)
    send([None] * 3, pcp=4)
    send([None] * 4, to=UNKNOWN)
    assert wire() == [OnTheWire(STREAM, VLAN_ID, 5)] * 2
    state = switch.read()["br0"][StreamFilterState]
    assert {n: each.matching for n, each in state.counters.items()} == {1: 2, 2: 3, 3: 4}
    assert state.table.ports["p1"][Frames(STREAM, VLAN_ID, 5)].id == 1


def test_a_filter_of_no_stream_is_at_the_ports_that_it_names(switch, wire):
    closed = a_filter(Gate(1, CLOSED), handle=None)
    switch.apply(filtered(closed, addresses=(), places=frozenset({(1, "p2")})))
    send([None] * 3)
    assert len(wire()) == 3
    switch.apply(filtered(closed, addresses=(), places=frozenset({(1, "p1")})))
    send([None] * 4)
    assert wire() == []
    assert counters(switch).not_passing == 4


def test_frames_that_identification_has_translated_are_filtered_too(switch, wire):
    both = filtered(a_filter(Gate(1, CLOSED)))
    switch.apply(FIRST | both)
    send_udp()
    assert wire() == []
    assert counters(switch).not_passing == FRAMES
    switch.apply(FIRST | filtered(a_filter(Gate(1, OPEN))))
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES


def test_nothing_opens_while_a_list_takes_over_from_another(switch, wire):
    switch.apply(filtered(a_filter(half_open())))
    sleep_until(running(switch).change_ns)
    start_ns = (tai_ns() // CYCLE_NS + 200) * CYCLE_NS
    change_ns = start_ns + 50 * CYCLE_NS
    later = half_open(base_ns=change_ns, closed_first=True)
    switch.apply(filtered(a_filter(later)))
    assert running(switch) == RunningGate(half_open().list, change_ns)
    send([instant for instant in phases(500, start_ns) if instant % CYCLE_NS >= HALF_NS])
    assert wire() == []  # the former list
    send(
        [
            instant
            for instant in phases(500, change_ns + 9 * CYCLE_NS)
            if instant % CYCLE_NS < HALF_NS
        ]
    )
    assert wire() == []
    send(phases(500, change_ns + 60 * CYCLE_NS))
    assert len(wire()) == 250


def test_before_the_first_list_starts_the_administrative_state_rules(switch, wire):
    start_ns = (tai_ns() // CYCLE_NS + 500) * CYCLE_NS
    gate = replace(half_open(base_ns=start_ns), initial=CLOSED)
    switch.apply(filtered(a_filter(gate)))
    send(phases(100))
    assert wire() == []
    send(phases(100, start_ns))
    assert len(wire()) == 50
