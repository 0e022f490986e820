"""Figures from recorded frames, and the verdict on them."""

from __future__ import annotations

import dataclasses

import pytest

from cnc.captures.gate import Gate
from cnc.model import (
    Bridge,
    EndStation,
    GateControlList,
    GateEntry,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
)
from cnc.testbed.intent.lab_model import ImpairedLinks, Impairments
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.measure import (
    Lateness,
    Spread,
    out_of_order,
    spread,
    summarise,
    talker_lateness,
    wake_up_error,
)
from cnc.testbed.traffic.recording import Flow, Frame

# Class 1 may send in [200, 500) and [900, 1000) of 1000 ns, class 7 always, class 2 never.
GATES = GateControlList(
    1_000,
    (GateEntry(0x80, 200), GateEntry(0x82, 300), GateEntry(0x80, 400), GateEntry(0x82, 100)),
)
LAST = PortRef("s1", "l")
FLOW = Flow("f", "t", "l", 1, 4, 46, 100, 1_000, 0, latency_bound_ns=400)


def plan() -> Plan:
    listener = PortRef("l", "eth0")
    links = {LAST: Link(LAST, listener, 10**9, 0), listener: Link(listener, LAST, 10**9, 0)}
    network = Network({"s1": Bridge("s1", 0, 0)}, {"l": EndStation("l")}, links, 0)
    return Plan(Intent("x", network, {}, {}, {}), {}, {LAST: GATES}, "none")


def frame(seq: int, latency_ns: int | None, sent_late_ns: int = 0) -> Frame:
    planned_ns = 5_000 + seq * 1_000
    received_ns = None if latency_ns is None else planned_ns + latency_ns
    return Frame("f", seq, planned_ns, planned_ns + sent_late_ns, received_ns)


@pytest.mark.parametrize(
    ("phase_ns", "distance_ns"),
    [
        (0, 1),
        (50, 51),
        (150, 50),
        (199, 1),
        (200, 0),
        (499, 0),
        (500, 1),
        (899, 1),
        (900, 0),
        (999, 0),
    ],
)
def test_an_instant_outside_every_window_is_measured_to_the_nearest(phase_ns, distance_ns):
    assert Gate(GATES, 1).shut_ns(7_000 + phase_ns) == distance_ns


def test_the_nearest_window_may_lie_in_the_next_cycle():
    early = GateControlList(1_000, (GateEntry(0x02, 100), GateEntry(0x80, 900)))
    assert Gate(early, 1).shut_ns(990) == 10


def test_a_gate_that_never_opens_is_a_whole_cycle_away():
    assert Gate(GATES, 2).shut_ns(0) == 1_000


def test_a_gate_that_never_closes_has_no_outside():
    assert not any(Gate(GATES, 7).shut_ns(phase_ns) for phase_ns in range(0, 2_000, 7))


def test_frames_are_counted_as_sent_received_and_late():
    frames = [frame(0, 200), frame(1, 450), frame(2, None), frame(3, 510)]
    (found,) = summarise(plan(), [FLOW], frames)
    assert (found.sent, found.received, found.lost) == (4, 3, 1)
    assert found.late == 2
    assert (found.outside, found.outside_max_ns) == (0, 11)
    assert found.latency == Spread(200, 387, p50_ns=450, p80_ns=510, p99_ns=510, max_ns=510)


def test_a_flow_without_a_promise_is_never_late():
    (found,) = summarise(
        plan(), [dataclasses.replace(FLOW, latency_bound_ns=None)], [frame(0, 950)]
    )
    assert found.late == 0


def test_a_flow_of_which_nothing_arrived_has_no_latency():
    (found,) = summarise(plan(), [FLOW], [frame(0, None)])
    assert found.latency is None
    assert found.lost == 1


def test_percentiles_are_values_that_occurred():
    assert spread(range(1, 101)) == Spread(1, 50, p50_ns=50, p80_ns=80, p99_ns=99, max_ns=100)
    assert spread([7]) == Spread(7, 7, 7, 7, 7, 7)


def test_the_wake_up_error_is_how_late_the_talkers_sent():
    background = dataclasses.replace(FLOW, name="b", latency_bound_ns=None)
    frames = [frame(0, 1, 10), frame(1, 1, 30), Frame("b", 0, 0, 999, None)]
    assert wake_up_error([FLOW, background], frames) == Spread(10, 20, 10, 30, 30, 30)
    assert wake_up_error([background], frames).max_ns == 999


def test_of_the_talkers_the_one_counts_that_leaves_the_least_of_what_the_plan_allows_it():
    made = plan()
    stations = {"t": EndStation("t", lateness_ns=500), "u": EndStation("u", lateness_ns=90)}
    network = dataclasses.replace(made.intent.network, end_stations=stations)
    made = dataclasses.replace(made, intent=dataclasses.replace(made.intent, network=network))
    other = dataclasses.replace(FLOW, name="g", talker="u")
    unbound = dataclasses.replace(FLOW, name="h", latency_bound_ns=None)
    frames = [
        *(frame(0, 300, sent_late_ns=400), frame(1, 300, sent_late_ns=10)),
        dataclasses.replace(frame(0, 300, sent_late_ns=20), flow="g"),
        dataclasses.replace(frame(0, 300, sent_late_ns=9_000), flow="h"),
    ]
    found = talker_lateness(made, [FLOW, other, unbound], frames)
    assert found == Lateness("u", 20, 90)
    assert found.is_allowed
    late = talker_lateness(made, [FLOW], [frame(0, 300, sent_late_ns=501)])
    assert late == Lateness("t", 501, 500)
    assert not late.is_allowed
    assert talker_lateness(made, [unbound], frames) is None


def test_jitter_is_how_much_two_frames_that_arrived_in_a_row_differ():
    frames = [frame(0, 100), frame(1, 130), frame(2, None), frame(3, 90)]
    (found,) = summarise(plan(), [FLOW], frames)
    assert (found.jitter.min_ns, found.jitter.max_ns) == (30, 40)
    (alone,) = summarise(plan(), [FLOW], frames[:1])
    assert alone.jitter is None


@pytest.mark.parametrize(
    ("received_ns", "reordered"),
    [
        ([10, 20, 30, 40], 0),
        ([10, 30, 40, 20], 2),  # the last came before both, and is itself in order
        ([10, None, 30, 20], 1),
        ([10, 10, 10, 10], 0),
        ([None, None, None, None], 0),
    ],
)
def test_a_frame_is_out_of_order_if_a_later_one_arrived_before_it(received_ns, reordered):
    frames = [Frame("f", seq, 0, 0, at) for seq, at in enumerate(received_ns)]
    assert out_of_order(frames) == reordered
    (found,) = summarise(plan(), [FLOW], frames[::-1])
    assert found.out_of_order == reordered


def test_copies_beyond_the_first_are_duplicates_and_no_frames_received():
    frames = [dataclasses.replace(frame(0, 10), copies=3), frame(1, 10)]
    lost = dataclasses.replace(frame(2, None), copies=0)
    (found,) = summarise(plan(), [FLOW], [*frames, lost])
    assert (found.sent, found.received, found.lost, found.duplicates) == (3, 2, 1, 2)


@pytest.mark.parametrize(("latency_ns", "kept"), [(400, True), (401, False), (None, False)])
def test_a_promise_is_broken_by_a_late_or_lost_frame_and_only_where_there_is_one(latency_ns, kept):
    (found,) = summarise(plan(), [FLOW], [frame(0, 100), frame(1, latency_ns)])
    assert (not found.violations()) == kept
    unbound = dataclasses.replace(FLOW, latency_bound_ns=None)
    (found,) = summarise(plan(), [unbound], [frame(0, 100), frame(1, latency_ns)])
    assert not found.violations()


def test_a_frame_left_its_gate_as_long_before_it_arrived_as_the_cable_takes():
    # 100 octets and 30 of framing at 1 Gb/s: 1040 ns; class 1 may send at 200 of 1000.
    (found,) = summarise(plan(), [FLOW], [frame(0, 1_240)], timed_wires=True)
    assert found.outside_max_ns == 0
    (found,) = summarise(plan(), [FLOW], [frame(0, 1_239)], timed_wires=True)
    assert found.outside_max_ns == 1


# --- the verdict -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latency_ns", "violations"),
    [
        (200, []),
        (450, ["f: 1 of 1 frame late, the worst took 0.45 µs of 0.4 µs"]),
        (None, ["f: 1 of 1 frame lost"]),
    ],
)
def test_a_lost_or_late_frame_is_a_violation(latency_ns: int | None, violations: list[str]):
    (found,) = summarise(plan(), [FLOW], [frame(0, latency_ns)])
    assert found.violations() == violations


def test_only_user_mode_linux_has_an_exact_clock(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TSN_VIRTUAL_TIME", "1")
    monkeypatch.setenv("TSN_VM", "uml")
    assert Platform.here().exact
    monkeypatch.setenv("TSN_VM", "qemu")
    assert not Platform.here().exact
    monkeypatch.setenv("TSN_VM", "uml")
    monkeypatch.delenv("TSN_VIRTUAL_TIME")
    assert not Platform.here().exact


def half_open() -> Plan:
    """Class 1 may send in the first half of 10 us."""
    gates = {LAST: GateControlList(10_000, (GateEntry(2, 5_000), GateEntry(1, 5_000)))}
    return dataclasses.replace(plan(), gates=gates)


def test_a_frame_through_a_closed_gate_is_a_violation_beyond_the_resolution_of_time_stamps():
    slow = dataclasses.replace(FLOW, latency_bound_ns=None)
    for latency_ns, judged in ((999, 0), (1_000, 1)):
        (found,) = summarise(half_open(), [slow], [frame(0, latency_ns)])
        assert len(found.violations()) == judged


def test_where_clocks_differ_a_frame_through_a_closed_gate_is_one_beyond_the_clock_error_too():
    slow = dataclasses.replace(FLOW, latency_bound_ns=None)
    intent = half_open().intent
    network = dataclasses.replace(intent.network, clock_error_ns=700)
    apart = dataclasses.replace(half_open(), intent=dataclasses.replace(intent, network=network))
    for latency_ns, judged in ((1_699, 0), (1_700, 1)):
        (found,) = summarise(apart, [slow], [frame(0, latency_ns)], own_clocks=True)
        assert len(found.violations()) == judged
    (found,) = summarise(apart, [slow], [frame(0, 1_000)])
    assert len(found.violations()) == 1


@pytest.mark.parametrize(("its", "outside"), [({"pareto_ns": 5}, 0), ({"jitter_ns": 5}, 1)])
def test_a_cable_that_takes_longer_by_chance_does_not_tell_when_a_frame_left_its_gate(
    its: dict[str, int], outside: int
):
    closed = half_open()
    links = ImpairedLinks({LAST: Impairments(**its)})
    intent = dataclasses.replace(closed.intent, parts=closed.intent.parts.having(links))
    delayed = dataclasses.replace(closed, intent=intent)
    (found,) = summarise(delayed, [FLOW], [frame(0, 3_000)])
    assert found.outside == outside
