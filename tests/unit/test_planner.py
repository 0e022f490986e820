"""What the planner promises, on networks small enough to work out by hand.

At 1 Gb/s an octet takes 8 ns. The frame of a 100-octet payload keeps a link busy for 142 octets
(1136 ns) and is received after 130 (1040 ns).
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from cnc.errors import InputError, Unschedulable
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateEntry,
    Hop,
    Intent,
    Link,
    Network,
    PortRef,
    Stream,
    TrafficClass,
)
from cnc.planner import plan

CONTROL = TrafficClass("control", 7, 7, (48,), ClassRole.CONTROL, max_frame_octets=128)
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)
SLOWER = TrafficClass("slower", 5, 5, (40,), ClassRole.SCHEDULED)
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT)

BLOCKING_NS = (128 + 20) * 8
BEST_EFFORT_NS = (1522 + 20) * 8
MS = 1_000_000


def network(*cables: str, clock_error_ns: int = 1000, rate_bps: int = 10**9) -> Network:
    """Nodes named s… are switches, others end stations; a cable is written `a-b`."""
    pairs = [tuple(cable.split("-")) for cable in cables]
    nodes = sorted({node for pair in pairs for node in pair})
    links = {}
    for a, b in [*pairs, *(pair[::-1] for pair in pairs)]:
        links[PortRef(a, b)] = Link(PortRef(a, b), PortRef(b, a), rate_bps, 100)
    return Network(
        bridges={n: Bridge(n, 1000, 5000) for n in nodes if n[0] == "s"},
        end_stations={n: EndStation(n) for n in nodes if n[0] != "s"},
        links=links,
        clock_error_ns=clock_error_ns,
    )


def stream(name: str, talker: str, *listeners: str, **requirements: object) -> Stream:
    given = {
        "traffic_class": "cyclic",
        "period_ns": MS,
        "payload_octets": 100,
        "max_latency_ns": MS,
        **requirements,
    }
    return Stream(name, talker, listeners, **given)


def intent(
    net: Network,
    *streams: Stream,
    classes: tuple[TrafficClass, ...] = (CONTROL, CYCLIC, SLOWER, BEST_EFFORT),
) -> Intent:
    return Intent("test", net, {c.name: c for c in classes}, {s.name: s for s in streams}, {})


LINE = network("t-s1", "s1-s2", "s2-l")


def refusal(wanted: Intent) -> dict[str, str]:
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    return refused.value.reasons


def with_port(wanted: Intent, port: PortRef, **limits: int) -> Intent:
    links = {**wanted.network.links, port: replace(wanted.network.links[port], **limits)}
    return replace(wanted, network=replace(wanted.network, links=links))


def test_a_frame_leaves_each_switch_as_soon_as_it_is_surely_there() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"))).streams["a"]
    hop_ns = BLOCKING_NS + 1040 + 100 + 5000 + 1000
    assert planned.hops == (
        Hop(PortRef("t", "s1"), 0, 6),
        Hop(PortRef("s1", "s2"), hop_ns, 6),
        Hop(PortRef("s2", "l"), 2 * hop_ns, 6),
    )
    assert planned.latency_bound_ns == 3 * hop_ns - 5000


def test_without_a_control_class_nothing_blocks() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"), classes=(CYCLIC, BEST_EFFORT)))
    assert planned.streams["a"].hops[1].offset_ns == 1040 + 100 + 5000 + 1000


def test_a_multicast_frame_crosses_each_link_once() -> None:
    net = network("t-s1", "s1-s2", "s2-l", "s2-m", "s1-n")
    hops = plan(intent(net, stream("a", "t", "l", "m", "n"))).streams["a"].hops
    assert [str(hop.egress) for hop in hops] == ["t/s1", "s1/n", "s1/s2", "s2/l", "s2/m"]
    offsets = {str(hop.egress): hop.offset_ns for hop in hops}
    assert offsets["s1/n"] == offsets["s1/s2"] < offsets["s2/l"] == offsets["s2/m"]


def test_the_shortest_way_is_taken_and_the_first_port_name_of_two_equal_ones() -> None:
    net = network("t-s1", "s1-s3", "s1-s2", "s2-s4", "s3-s4", "s4-l", "s1-x", "x-s4")
    hops = plan(intent(net, stream("a", "t", "l"))).streams["a"].hops
    assert [hop.egress.node for hop in hops] == ["t", "s1", "s2", "s4"]


def test_the_talker_keeps_to_its_window() -> None:
    streams = [
        stream(name, "t", "l", earliest_ns=100_000, latest_ns=150_000) for name in ("a", "b")
    ]
    planned = plan(intent(LINE, *streams))
    first, second = sorted(s.hops[0].offset_ns for s in planned.streams.values())
    assert first == 100_000
    assert first < second <= 150_000


def test_a_second_frame_comes_to_a_queue_only_when_the_first_has_left() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l"), stream("b", "t", "l")))
    first, second = sorted(
        (s.hops for s in planned.streams.values()), key=lambda hops: hops[0].offset_ns
    )
    left = first[1].offset_ns + BLOCKING_NS + 1136
    earliest_there = second[0].offset_ns + 1040 + 100 + 1000 - 1000
    assert earliest_there >= left


def test_periods_that_do_not_divide_each_other_never_collide() -> None:
    streams = [stream("a", "t", "l", period_ns=400_000), stream("b", "t", "l", period_ns=600_000)]
    planned = plan(intent(LINE, *streams))
    busy = BLOCKING_NS + 1136
    starts = sorted(
        planned.streams[name].hops[2].offset_ns % period + k
        for name, period in (("a", 400_000), ("b", 600_000))
        for k in range(0, 2_400_000, period)
    )
    assert all(b - a >= busy for a, b in pairwise(starts))


def test_around_a_frame_only_its_class_and_control_are_open() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", earliest_ns=100_000)))
    at = planned.streams["a"].hops[1].offset_ns
    window = BLOCKING_NS + 1136
    assert planned.gates[PortRef("s1", "s2")].entries == (
        GateEntry(0x81, at - BEST_EFFORT_NS),
        GateEntry(0x80, BEST_EFFORT_NS),
        GateEntry(0xC0, window),
        GateEntry(0x81, MS - at - window),
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
    assert first == GateEntry(0xC0, BLOCKING_NS + 1136 - 1000)


@pytest.mark.parametrize("before_the_end_ns", [1, 479, BLOCKING_NS + 1136 - 1])
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
    wanted = with_port(intent(LINE, *streams), PortRef("s1", "s2"), gate_interval_min_ns=5000)
    entries = plan(wanted).gates[PortRef("s1", "s2")].entries
    assert min(entry.interval_ns for entry in entries) >= 5000


def test_windows_of_one_class_back_to_back_are_one_entry() -> None:
    """Without jitter and clock error a frame arrives just when it leaves: no gap is needed."""
    net = network("t-s1", "s1-l", clock_error_ns=0)
    exact = replace(net, bridges={"s1": Bridge("s1", 5000, 5000)})
    streams = [stream("a", "t", "l"), stream("b", "t", "l")]
    planned = plan(intent(exact, *streams, classes=(CYCLIC, BEST_EFFORT)))
    entries = planned.gates[PortRef("s1", "l")].entries
    assert [e.interval_ns for e in entries if e.gate_states == 0x40] == [2 * 1136]


def test_two_scheduled_classes_each_have_their_own_windows() -> None:
    streams = [stream("a", "t", "l"), stream("b", "t", "l", traffic_class="slower")]
    entries = plan(intent(LINE, *streams)).gates[PortRef("s1", "s2")].entries
    assert {e.gate_states for e in entries} == {0x80, 0x81, 0xC0, 0xA0}


def test_the_cycle_is_the_least_common_multiple_of_the_periods_on_the_port() -> None:
    net = network("t-s1", "s1-l", "s1-m")
    streams = [stream("a", "t", "l", period_ns=400_000), stream("b", "t", "m", period_ns=600_000)]
    gates = plan(intent(net, *streams, stream("c", "t", "m"))).gates
    assert gates[PortRef("s1", "l")].cycle_ns == 400_000
    assert gates[PortRef("s1", "m")].cycle_ns == 3 * MS
    assert all(sum(e.interval_ns for e in g.entries) == g.cycle_ns for g in gates.values())


def test_the_order_of_the_streams_in_the_intent_does_not_matter() -> None:
    periods = {"a": 4 * MS, "b": 2 * MS, "c": MS, "d": 2 * MS}
    streams = [stream(name, "t", "l", period_ns=period) for name, period in periods.items()]
    assert plan(intent(LINE, *streams)).streams == plan(intent(LINE, *streams[::-1])).streams


def test_a_latency_no_network_can_keep_is_refused_with_what_it_consists_of() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", max_latency_ns=10_000)))
    assert reasons["a"] == (
        "needs at least 19.972 µs over t → s1 → s2 → l, max-latency is 10 µs. Of this, frame and "
        "cable take 3.42 µs, control frames in the way 3.552 µs, switch processing 10 µs, clock "
        "error 3 µs. Raise max-latency to 19.972 µs or lower one of these"
    )


def test_a_listener_without_a_path_is_named() -> None:
    net = network("t-s1", "s1-m", "s2-l")
    reasons = refusal(intent(net, stream("a", "t", "m", "l")))
    assert reasons == {"a": "no path from t to l; add the missing link"}


def test_end_stations_do_not_forward() -> None:
    net = network("t-s1", "s1-x", "x-s2", "s2-l")
    assert "no path from t to l" in refusal(intent(net, stream("a", "t", "l")))["a"]


def test_a_full_port_is_named_with_its_load() -> None:
    streams = [
        stream(f"f{i:02}", "t", "l", payload_octets=1500, period_ns=100_000) for i in range(9)
    ]
    reasons = refusal(intent(LINE, *streams))
    assert 0 < len(reasons) < 9
    reserved_us = (BLOCKING_NS + 5000 - 1000 + 2 * 1000 + BLOCKING_NS + 1542 * 8) / 1000
    placed = 9 - len(reasons)
    for reason in reasons.values():
        assert f"no free slot of {reserved_us:g} µs every 100 µs on s2/l" in reason
        assert f"already take {placed * reserved_us:.0f}% of that port" in reason


def test_a_narrow_talker_window_is_named() -> None:
    streams = [stream(name, "t", "l", latest_ns=0) for name in "ab"]
    [reason] = refusal(intent(LINE, *streams)).values()
    assert "for a talker that starts between 0 µs and 0 µs" in reason
    assert "What would help: a wider talker window, a longer period" in reason


def test_a_frame_longer_than_its_period_is_refused() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", payload_octets=1500, period_ns=10_000)))
    assert "more than its period of 10 µs" in reasons["a"]


def test_a_stream_that_found_no_place_goes_first_in_the_next_attempt() -> None:
    """`late` has more freedom on paper, so it comes last, but only one place suits it."""
    streams = [
        stream("early", "t", "l", latest_ns=20_000),
        stream("late", "u", "l", earliest_ns=0, latest_ns=0, period_ns=2 * MS),
    ]
    net = network("t-s1", "u-s1", "s1-s2", "s2-l")
    assert plan(intent(net, *streams)).streams["late"].hops[0].offset_ns == 0


def test_a_port_with_too_short_a_gate_list_is_named_with_both_figures() -> None:
    wanted = with_port(intent(LINE, stream("a", "t", "l")), PortRef("s2", "l"), gate_entries_max=2)
    reasons = refusal(wanted)
    assert list(reasons) == ["port s2/l"]
    assert reasons["port s2/l"].startswith("needs 4 gate entries, the port has 2.")


def test_a_schedule_that_starves_best_effort_is_refused() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", period_ns=25_000)))
    assert set(reasons) == {"port s1/s2", "port s2/l"}
    assert "best effort would starve: its largest frame takes 12.336 µs" in reasons["port s2/l"]


def test_a_schedule_that_starves_control_is_refused() -> None:
    """Behind a slow link frames come closer than a control frame of low priority is long."""
    control = replace(CONTROL, number=5, max_frame_octets=1522)
    wanted = intent(LINE, stream("a", "t", "l", period_ns=250_000), classes=(control, CYCLIC))
    reasons = refusal(with_port(wanted, PortRef("s2", "l"), rate_bps=10**8))
    assert list(reasons) == ["port s2/l"]
    assert "class control would starve" in reasons["port s2/l"]
    assert "they leave it 115.28 µs at a time" in reasons["port s2/l"]
    assert "largest frame's 123.36 µs" in reasons["port s2/l"]


def test_periods_whose_cycle_the_kernel_cannot_hold_are_refused() -> None:
    """Nearly equal periods drift past each other: a cycle must hold every meeting."""
    exact = replace(
        network("t-s1", "u-s1", "s1-l", clock_error_ns=0), bridges={"s1": Bridge("s1", 0, 0)}
    )
    streams = [
        stream("a", "t", "l", period_ns=1_000_000),
        stream("b", "u", "l", period_ns=1_300_007),
    ]
    assert "no free slot" in " ".join(refusal(intent(exact, *streams)).values())
    streams = [
        stream("a", "t", "l", period_ns=1_500_000_000),
        stream("b", "u", "l", period_ns=2_000_000_000),
    ]
    reasons = refusal(intent(exact, *streams))
    assert reasons["port s1/l"].startswith(
        "the periods 1500000 µs, 2000000 µs only repeat together every 6000000 µs; the kernel's "
    )


def test_an_unknown_algorithm_is_bad_input_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InputError, match="unknown algorithm 'magic'") as refused:
        plan(intent(LINE), algorithm="magic")
    assert refused.value.hint == "choose one of: auto, no-wait"


def test_an_intent_without_streams_has_an_empty_plan() -> None:
    planned = plan(intent(LINE))
    assert planned.streams == {}
    assert planned.gates == {}
    assert planned.algorithm == "no-wait"
