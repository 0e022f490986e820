"""The judge sends frames to the filters of their first switch: those of streams, and of nobody.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘         and m at s2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.check.lists import readable_lists
from cnc.check.mechanisms import judge_entering
from cnc.check.streams import judge_streams
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import (
    NO_POLICING,
    FilterCapacity,
    FilteredStream,
    FixedGate,
    Policing,
    PolicingRules,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import BridgeForwarding, Intent, Plan
from cnc.planner import plan
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import RING, stream

CLOCK_ERROR_NS = RING.clock_error_ns
COUNT = Policing.COUNT
DROPPED = PolicingRules(Policing.DROP)


def wanted(rules: PolicingRules = DROPPED) -> Intent:
    streams = stream("once", "t", "l", frames=2), stream("twice", "t", "l", paths=2)
    return bridged(RING, *streams).having(rules)


PLANNED = plan(wanted())
TOLD = bridge_forwardings(PLANNED)
ONCE, TWICE, FAST, SLOW = TOLD["s1"][StreamFilters].filters


def found(told: Mapping[str, BridgeForwarding] = TOLD, of: Plan = PLANNED) -> list[str]:
    transmissions, violations = judge_streams(of, readable_lists(of))
    assert violations == []
    found = judge_entering(of, told, transmissions)
    return [f"{each.code} {each.where}: {each.text}" for each in found]


def told(*filters: StreamFilter, switch: str = "s1") -> dict[str, BridgeForwarding]:
    return {**TOLD, switch: TOLD[switch].having(StreamFilters(filters))}


def once(**changes: object) -> dict[str, BridgeForwarding]:
    """With another filter of the stream `once`."""
    return told(replace(ONCE, **changes), TWICE, FAST, SLOW)


def gate(**changes: int) -> dict[str, BridgeForwarding]:
    """With another gate of the stream `once`."""
    return once(gate=replace(window(), **changes))


def window() -> WindowGate:
    assert isinstance(ONCE.gate, WindowGate)
    return ONCE.gate


def stranger() -> FilteredStream:
    assert isinstance(ONCE.of, FilteredStream)
    return replace(ONCE.of, destination_mac="02:00:00:00:00:01")


def test_the_filters_of_a_plan_let_its_frames_pass_and_no_other() -> None:
    assert found() == []
    assert judge(PLANNED) == []


@pytest.mark.parametrize("rules", [PolicingRules(None), PolicingRules(Policing.COUNT), NO_POLICING])
def test_filters_that_drop_without_being_asked_to_are_found(rules: PolicingRules) -> None:
    assert found(of=replace(PLANNED, intent=wanted(rules)))


def test_a_gate_that_opens_a_nanosecond_late_or_shuts_one_early_shuts_a_frame_out() -> None:
    opens, closes = window().start_ns, window().start_ns + window().open_ns
    text = f"policing once: may come from {opens} to {closes - 1} ns, its gate opens from"
    late = gate(start_ns=opens + 1, open_ns=window().open_ns - 1)
    assert found(late) == [f"{text} {opens + 1} to {closes} ns at s1/t"]
    early = gate(open_ns=window().open_ns - 1)
    assert found(early) == [f"{text} {opens} to {closes - 1} ns at s1/t"]


@pytest.mark.parametrize("before_ns", [0, 1])
def test_a_window_may_be_wider_by_the_clock_error_and_no_more(before_ns: int) -> None:
    wider_ns = CLOCK_ERROR_NS + before_ns
    for its in (
        gate(open_ns=window().open_ns + wider_ns),
        gate(start_ns=window().start_ns - wider_ns, open_ns=window().open_ns + wider_ns),
    ):
        wide = [text for text in found(its) if "wider by more than the clock error" in text]
        assert len(wide) == before_ns


def test_a_window_of_another_period_of_the_stream_is_none_of_its() -> None:
    assert len(found(gate(start_ns=window().start_ns + window().period_ns))) == 1
    (text,) = found(gate(period_ns=2 * window().period_ns))
    assert text.startswith("policing once: sends every 1000000 ns, its gate opens every 2000000 ns")


@pytest.mark.parametrize("octets", [-1, 1])
def test_other_sizes_than_those_of_the_stream_are_found(octets: int) -> None:
    longest, whole, at = ONCE.max_sdu_octets, 2 * ONCE.max_sdu_octets, "at s1/t"
    assert found(once(max_sdu_octets=longest + octets)) == [
        f"policing once: sends up to {longest} octets in a frame, {longest + octets} may pass {at}"
    ]
    assert found(gate(octets_max=whole + octets)) == [
        f"policing once: sends up to {whole} octets in a period, {whole + octets} may pass {at}"
    ]


def test_a_stream_behind_the_filter_of_strangers_is_shut_out() -> None:
    (text,) = found(told(TWICE, FAST, SLOW, ONCE))
    assert text == "policing once: has no stream filter of its own at s1/t"


def test_a_stream_without_a_filter_or_with_a_gate_that_never_shuts_is_found() -> None:
    expected = ["policing once: has no stream filter of its own at s1/t"]
    assert found(told(TWICE, FAST, SLOW)) == expected
    assert found(once(gate=FixedGate.OPEN)) == expected
    assert found(once(priority=SLOW.priority))


def test_a_filter_for_frames_that_nobody_sends_there_is_found() -> None:
    assert found(told(ONCE, TWICE, replace(ONCE, of=stranger()), FAST, SLOW)) == [
        "policing s1/t: looks for 02:00:00:00:00:01 in VLAN 10 with PCP 6, which no talker sends"
    ]


def test_strangers_that_get_in_by_one_port_are_found() -> None:
    expected = (
        f"has policing off of frames of no stream with priority {FAST.priority}, drop is asked for"
    )
    assert found(told(ONCE, TWICE, SLOW)) == [f"policing s1/t: {expected}"]
    slower = replace(SLOW, of=Strangers("m"))
    assert found(told(replace(FAST, of=Strangers("s3")), slower, switch="s2")) == [
        "policing s2/s3: polices frames of no stream, and leads to no end station",
        f"policing s2/m: {expected}",
    ]


def test_strangers_whom_an_open_gate_lets_in_are_found() -> None:
    expected = f"lets frames of no stream with priority {FAST.priority} pass by an open gate"
    assert found(told(ONCE, TWICE, replace(FAST, gate=FixedGate.OPEN), SLOW)) == [
        f"policing s1/t: {expected}"
    ]


def test_more_filters_than_a_switch_holds_are_found() -> None:
    intent = PLANNED.intent.having(FilterCapacity({"s1": 3}))
    assert found(of=replace(PLANNED, intent=intent)) == [
        "stream-filters s1: needs 4 stream filters, and holds 3"
    ]


def test_a_switch_too_small_to_count_is_told_what_is_asked_for_and_no_more() -> None:
    intent = wanted(PolicingRules(None, streams={"once": Policing.DROP}))
    of = plan(intent.having(FilterCapacity({"s1": 3})))
    told_of_it = bridge_forwardings(of)
    assert found(told_of_it, of) == []
    (dropping,) = told_of_it["s1"][StreamFilters].filters
    more = {
        **told_of_it,
        "s1": TOLD["s1"].having(StreamFilters((dropping, replace(FAST, policing=COUNT)))),
    }
    unasked = "has policing count of frames of no stream with priority 6, off is asked for"
    assert found(more, of) == [
        "policing twice: is policed at s1/t, which the intent does not ask for",
        f"policing s1/t: {unasked}",
    ]
    less = {**told_of_it, "s2": TOLD["s2"].having(StreamFilters(()))}
    assert found(less, of) == [
        f"policing s2/m: has policing off of frames of no stream with priority {priority}, "
        "count is asked for"
        for priority in (FAST.priority, SLOW.priority)
    ]


def test_a_talker_that_is_later_than_the_window_of_its_frames_is_found() -> None:
    stations = PLANNED.intent.network.end_stations
    late = {**stations, "t": replace(stations["t"], lateness_ns=1_000)}
    intent = replace(PLANNED.intent, network=replace(PLANNED.intent.network, end_stations=late))
    of = replace(PLANNED, intent=intent)
    transmissions, _ = judge_streams(of, readable_lists(of))
    texts = [each.text for each in judge_entering(of, TOLD, transmissions)]
    assert len(texts) == 2
    assert all("its gate opens from" in text for text in texts)


def test_a_filter_that_counts_what_is_to_be_dropped_is_found() -> None:
    assert found(once(policing=Policing.COUNT)) == [
        "policing once: has a filter at s1/t to count frames, drop is asked for"
    ]
