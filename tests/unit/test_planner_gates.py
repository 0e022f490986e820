"""Gate control lists: who may send when, and no more entries than a port takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import GateControlList, GateEntry, GateMode, Intent, Plan, PortRef
from cnc.planner import plan
from tests.unit.planner_networks import (
    BLOCKING_NS,
    BUSY_NS,
    LINE,
    MS,
    OUTLASTS_NS,
    US,
    examples,
    intent,
    intents,
    network,
    stream,
    with_full_offload,
    with_links,
    zonal,
)

BETWEEN = PortRef("s1", "s2")
BEST_EFFORT_NS = (1522 + 20) * 8 + 2
WINDOW_NS = BLOCKING_NS + OUTLASTS_NS + BUSY_NS  # of a frame


def test_around_a_frame_only_its_class_and_control_are_open() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", earliest_ns=100_000)))
    at = planned.streams["a"].hops[1].offset_ns
    assert planned.gates[PortRef("s1", "s2")].entries == (
        GateEntry(0x81, at - BEST_EFFORT_NS),
        GateEntry(0x80, BEST_EFFORT_NS),
        GateEntry(0xC0, WINDOW_NS),
        GateEntry(0x81, MS - at - WINDOW_NS),
    )


def test_ports_without_scheduled_frames_get_no_gates() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l")))
    assert set(planned.gates) == {PortRef("s1", "s2"), PortRef("s2", "l")}


def test_a_guard_band_that_crosses_the_cycle_end_is_split() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l")))
    first, *_, last = planned.gates[PortRef("s1", "s2")].entries
    at = planned.streams["a"].hops[1].offset_ns
    assert at < BEST_EFFORT_NS
    assert first == GateEntry(0x80, at)
    assert last == GateEntry(0x80, BEST_EFFORT_NS - at)


def test_a_window_that_crosses_the_cycle_end_is_split() -> None:
    wanted = intent(LINE, stream("a", "t", "l"))
    at_s1 = plan(wanted).streams["a"].hops[1].offset_ns
    talker = MS - at_s1 - 1000
    late = replace(wanted.streams["a"], earliest_ns=talker, latest_ns=talker)
    first, *_, last = plan(intent(LINE, late)).gates[PortRef("s1", "s2")].entries
    assert last == GateEntry(0xC0, 1000)
    assert first == GateEntry(0xC0, WINDOW_NS - 1000)


@pytest.mark.parametrize("before_the_end_ns", [1, 479, WINDOW_NS - 1])
def test_no_window_is_cut_into_entries_shorter_than_the_kernel_takes(
    before_the_end_ns: int,
) -> None:
    wanted = intent(LINE, stream("a", "t", "l"))
    at_s1 = plan(wanted).streams["a"].hops[1].offset_ns
    late = replace(wanted.streams["a"], earliest_ns=MS - at_s1 - before_the_end_ns)
    entries = plan(intent(LINE, late)).gates[PortRef("s1", "s2")].entries
    assert min(entry.interval_ns for entry in entries) >= 480


def test_a_port_with_a_coarser_limit_gets_no_shorter_entry() -> None:
    streams = [stream(name, "t", "l") for name in "abcdef"]
    wanted = with_links(intent(LINE, *streams), PortRef("s1", "s2"), gate_interval_min_ns=5000)
    entries = plan(wanted).gates[PortRef("s1", "s2")].entries
    assert min(entry.interval_ns for entry in entries) >= 5000


def test_two_scheduled_classes_each_have_their_own_windows() -> None:
    streams = [stream("a", "t", "l"), stream("b", "t", "l", traffic_classes=("slower",))]
    entries = plan(intent(LINE, *streams)).gates[PortRef("s1", "s2")].entries
    assert {e.gate_states for e in entries} == {0x80, 0x81, 0xC0, 0x90}


def test_the_cycle_is_the_least_common_multiple_of_the_periods_on_the_port() -> None:
    net = network("t-s1", "s1-l", "s1-m")
    streams = [stream("a", "t", "l", period_ns=400_000), stream("b", "t", "m", period_ns=600_000)]
    gates = plan(intent(net, *streams, stream("c", "t", "m"))).gates
    assert gates[PortRef("s1", "l")].cycle_ns == 400_000
    assert gates[PortRef("s1", "m")].cycle_ns == 3 * MS
    assert all(sum(e.interval_ns for e in g.entries) == g.cycle_ns for g in gates.values())


def shut_before(gates: GateControlList, states: int) -> int:
    """How long only control is open before the entry with these states."""
    index = next(i for i, entry in enumerate(gates.entries) if entry.gate_states == states)
    before = gates.entries[index - 1]
    assert before.gate_states == 0x80
    return before.interval_ns


def test_a_guard_band_is_as_long_as_a_best_effort_frame() -> None:
    wanted = intent(LINE, stream("a", "t", "l", earliest_ns=100 * US))
    assert shut_before(plan(wanted).gates[BETWEEN], 0xC0) == BEST_EFFORT_NS


def with_gates(wanted: Intent, mode: GateMode) -> Intent:
    net = wanted.network
    bridges = {name: replace(bridge, gate_mode=mode) for name, bridge in net.bridges.items()}
    return replace(wanted, network=replace(net, bridges=bridges))


def busy_line(count: int, **requirements: object) -> Intent:
    return intent(LINE, *(stream(f"f{i:03}", "t", "l", **requirements) for i in range(count)))


@pytest.mark.parametrize("limit", [8, 16, 40])
def test_a_port_gets_no_more_entries_than_it_takes(limit: int) -> None:
    wanted = with_links(busy_line(20), gate_entries_max=limit)
    planned = plan(wanted, algorithm="no-wait")
    assert judge(planned) == []
    assert planned.streams.keys() == wanted.streams.keys()
    assert max(len(gates.entries) for gates in planned.gates.values()) <= limit
    assert all(entry.gate_states & 0x80 for g in planned.gates.values() for entry in g.entries)


def test_a_port_with_room_for_its_list_gets_it_exact() -> None:
    wanted = busy_line(5)
    with_room = with_links(wanted, gate_entries_max=16)
    assert plan(with_room).gates == plan(wanted).gates


def test_of_gaps_of_one_length_no_more_stay_open_than_must() -> None:
    """Eleven windows: with all nine equal gaps open, nothing would be left for best effort."""
    net = with_full_offload(network("t-s1", "u-s1", "s1-l"))
    two = [stream("fast", "t", "l"), stream("slow", "u", "l", period_ns=10 * MS)]
    exact = plan(intent(net, *two))
    port = PortRef("s1", "l")
    assert len(exact.gates[port].entries) > 16
    planned = plan(with_links(exact.intent, port, gate_entries_max=16))
    assert judge(planned) == []
    assert 14 <= len(planned.gates[port].entries) <= 16
    longest_without_best_effort = max(
        sum(e.interval_ns for e in run)
        for is_open, run in groupby(
            planned.gates[port].entries * 2, key=lambda e: bool(e.gate_states & 1)
        )
        if not is_open
    )
    assert longest_without_best_effort < 3 * MS


@pytest.mark.parametrize("limit", [8, 16, 24, 32])
def test_the_streams_of_a_car_fit_the_short_lists_of_its_switches(limit: int) -> None:
    planned = plan(zonal(entries_max=limit))
    assert len(planned.streams) == 168
    assert judge(planned) == []
    assert max(len(gates.entries) for gates in planned.gates.values()) <= limit


def test_a_kernel_gets_no_more_entries_than_it_can_show() -> None:
    """Frames 17 µs apart leave time for best effort between them: three entries each."""
    crowd = busy_line(58, period_ns=MS)
    offsets = {name: 17 * US * i for i, name in enumerate(crowd.streams)}
    spread = {
        name: replace(s, earliest_ns=offsets[name], latest_ns=offsets[name], period_ns=3 * MS)
        for name, s in crowd.streams.items()
    }
    more = {
        f"{name}+{part}": replace(
            s,
            name=f"{name}+{part}",
            earliest_ns=s.earliest_ns + part * MS,
            latest_ns=s.earliest_ns + part * MS,
        )
        for part in range(3)
        for name, s in spread.items()
    }
    wanted = replace(crowd, streams=more)
    in_hardware = plan(with_gates(wanted, GateMode.FULL_OFFLOAD), algorithm="no-wait")
    in_kernel = plan(with_gates(wanted, GateMode.SOFTWARE), algorithm="no-wait")
    assert judge(in_hardware) == judge(in_kernel) == []
    assert len(in_hardware.gates[BETWEEN].entries) > 430
    assert len(in_kernel.gates[BETWEEN].entries) <= 430


@pytest.mark.parametrize(
    ("mode", "of_the_port", "limit"),
    [
        (GateMode.SOFTWARE, 0, 430),
        (GateMode.SOFTWARE, 1024, 430),
        (GateMode.SOFTWARE, 100, 100),
        (GateMode.TXTIME_ASSIST, 0, 430),
        (GateMode.FULL_OFFLOAD, 0, None),
        (GateMode.FULL_OFFLOAD, 1024, 1024),
    ],
)
def test_the_limit_is_the_ports_own_or_what_the_kernel_can_show(
    mode: GateMode, of_the_port: int, limit: int | None
) -> None:
    wanted = with_links(with_gates(busy_line(1), mode), gate_entries_max=of_the_port)
    assert wanted.network.gate_entries_max(wanted.network.links[BETWEEN]) == limit


def is_as_the_ports_take_it(planned: Plan) -> bool:
    links = planned.intent.network.links
    return all(
        len(gates.entries) <= (links[port].gate_entries_max or 430)
        and min(e.interval_ns for e in gates.entries) >= links[port].gate_interval_min_ns
        for port, gates in planned.gates.items()
    )


@examples(max_examples=120)
@given(intents(streams_max=10, entries_max=st.integers(4, 64)))
def test_whatever_the_limits_a_plan_keeps_them_and_is_sound(wanted: Intent) -> None:
    try:
        planned = plan(wanted, algorithm="waiting", best_effort=True)
    except Unschedulable:  # a port whose list stays too long, or where others would starve
        return
    assert judge(planned) == []
    assert is_as_the_ports_take_it(planned)
