"""The simulator that judges plans, on cases small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.model import GateControlList, GateEntry, GateMode, Hop, Plan, PortRef, StreamPlan
from cnc.planner import plan
from tests.simulator.adversary import Busy, Chance, Nobody
from tests.simulator.gates import Gate, Stretch
from tests.simulator.lab_networks import Expected
from tests.simulator.motion import Record
from tests.simulator.mutations import with_list, with_stream
from tests.simulator.outcome import flows_of, is_kept, misses, run, sent_by, starved
from tests.simulator.ports import Port
from tests.simulator.taprio import TaprioPort
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CONTROL,
    CYCLIC,
    LINE,
    MS,
    US,
    intent,
    network,
    stream,
    with_full_offload,
)

LAST = PortRef("s2", "l")
SMALL_BEST_EFFORT = replace(BEST_EFFORT, max_frame_octets=64)
FRAME_NS = 142 * 8  # 100 octets of payload at 1 Gb/s, as long as it keeps a link busy


def listed(*entries: tuple[int, int]) -> GateControlList:
    cycle = sum(interval for _, interval in entries)
    return GateControlList(cycle, tuple(GateEntry(*entry) for entry in entries))


@pytest.mark.parametrize(
    ("time", "stretch"),
    [(0, (5, 30)), (5, (5, 30)), (29, (5, 30)), (30, (45, 70)), (40, (45, 70)), (-1, (5, 30))],
)
def test_a_gate_is_open_over_all_entries_that_keep_it_open(
    time: int, stretch: tuple[int, int]
) -> None:
    gate = Gate(listed((0, 5), (1, 10), (3, 15), (2, 10)), mask=1)
    assert gate.stretch(time) == Stretch(*stretch)


def test_a_gate_that_is_open_across_the_end_of_the_cycle_stays_open() -> None:
    gate = Gate(listed((1, 10), (0, 20), (1, 10)), mask=1)
    assert gate.stretch(35) == Stretch(30, 50)
    assert gate.stretch(0) == Stretch(-10, 10)
    assert gate.stretch(15) == Stretch(30, 50)


def test_a_stretch_that_is_too_short_is_passed_over() -> None:
    gate = Gate(listed((1, 10), (0, 5), (1, 20), (0, 5)), mask=1)
    assert gate.stretch(0, 15) == Stretch(15, 35)
    assert gate.stretch(36, 15) == Stretch(55, 75)
    assert gate.stretch(0, 21) is None


def test_the_last_moment_at_which_a_gate_was_open() -> None:
    gate = Gate(listed((0, 10), (1, 10), (0, 20)), mask=1)
    assert [gate.last_open_ns(time) for time in (0, 5, 10, 15, 20, 39, 40, 55)] == [
        *(-20, -20, -20, 15, 20, 20, 20, 55),
    ]


def one_stream(**requirements: object) -> Plan:
    return plan(intent(LINE, stream("a", "t", "l", **requirements)))


def started(planned: Plan, port: PortRef = LAST) -> list[int]:
    """When frames start at a port, of a network in which everything is exact."""
    record = record_of(planned)
    return [at for egress, _, at in record.departures if egress == port]


def emptied(port: Port) -> list[int]:
    """When the frames start that wait at a port, one after the other."""
    begun = []
    now: int | None = 0
    while now is not None:
        step = port.step(now)
        begun += [start.at_ns for start in step.starts]
        now = step.again_ns
    return begun


def record_of(planned: Plan, duration_ns: int = MS) -> Record:
    sent = list(sent_by(planned, flows_of(planned), duration_ns))
    return run(planned, Nobody(), sent, end_ns=10 * duration_ns)


def test_a_frame_starts_at_its_planned_time_if_its_gate_opens_then() -> None:
    planned = one_stream()
    (path,) = planned.streams["a"].paths
    assert started(planned) == [path[-1].offset_ns]


@pytest.mark.parametrize(("window", "cycle"), [(FRAME_NS, 0), (FRAME_NS - 1, 1)])
def test_a_frame_starts_only_if_it_ends_before_its_gate_closes(window: int, cycle: int) -> None:
    opens = 100 * US
    short = ((0x81, opens), (0xC0, window), (0x81, MS - opens - window))
    long = ((0x81, opens), (0xC0, 50 * US), (0x81, MS - opens - 50 * US))
    planned = one_stream(latest_ns=0)
    planned = with_list(planned, LAST, *(GateEntry(*each) for each in (*short, *long)))
    assert started(planned) == [cycle * MS + opens]


def test_of_two_frames_whose_gates_are_open_the_one_of_the_higher_class_is_first() -> None:
    wanted = intent(
        LINE,
        stream("low", "t", "l", traffic_classes=("slower",)),
        stream("high", "t", "l"),
    )
    planned = plan(wanted)
    closed = GateEntry(0x81, 500 * US)
    planned = with_list(planned, LAST, closed, GateEntry(0xD0, 500 * US))
    record = record_of(planned)
    last = [frame.flow.name for port, frame, _ in record.departures if port == LAST]
    assert last == ["high", "low"]


def test_frames_of_one_class_leave_in_the_order_in_which_they_came() -> None:
    planned = plan(intent(LINE, *(stream(f"f{n}", "t", "l") for n in range(5))))
    planned = with_list(planned, LAST, GateEntry(0x81, 500 * US), GateEntry(0xC0, 500 * US))
    order = [frame.flow.name for port, frame, _ in record_of(planned).departures if port == LAST]
    came = [f.flow.name for port, f, _ in record_of(planned).departures if port.node == "s1"]
    assert order == came
    assert len(order) == 5


def worst_latency(planned: Plan, *seeds: int) -> int:
    """The greatest latency of stream `a` that chance finds."""
    least, most = 0, planned.streams["a"].latency_bound_ns + 1
    while least < most:  # of the bounds that a plan could promise, the least that is kept
        bound = (least + most) // 2
        promised = replace(planned.streams["a"], latency_bound_ns=bound)
        kept = is_kept(
            replace(planned, streams={"a": promised}), range(*seeds), duration_ns=30 * MS
        )
        least, most = (least, bound) if kept else (bound + 1, most)
    return least


@pytest.mark.parametrize("margin", [0, 700])
@pytest.mark.parametrize("clock_error", [0, 1000])
def test_a_frame_may_take_as_long_as_the_plan_says_and_no_longer(
    margin: int, clock_error: int
) -> None:
    net = replace(LINE, clock_error_ns=clock_error, gate_margin_ns=margin)
    planned = plan(intent(net, stream("a", "t", "l"), classes=(CONTROL, CYCLIC, BEST_EFFORT)))
    assert worst_latency(planned, 5) == planned.streams["a"].latency_bound_ns


def test_a_control_frame_under_way_delays_a_frame_by_its_own_length() -> None:
    delays = [
        worst_latency(plan(intent(LINE, stream("a", "t", "l"), classes=classes)), 5)
        for classes in (
            tuple(intent(LINE).classes.values()),
            tuple(c for c in intent(LINE).classes.values() if c != CONTROL),
        )
    ]
    assert delays[0] - delays[1] >= 3 * (CONTROL.max_frame_octets + 20) * 8


def opened(planned: Plan, closed_states: int, opened_states: int) -> Plan:
    """The plan with other states wherever lists have `closed_states`."""
    for port, gates in planned.gates.items():
        entries = (
            replace(e, gate_states=opened_states) if e.gate_states == closed_states else e
            for e in gates.entries
        )
        planned = with_list(planned, port, *entries)
    return planned


def test_best_effort_without_a_guard_band_takes_the_window() -> None:
    planned = one_stream(earliest_ns=100 * US)
    assert is_kept(planned, range(5), duration_ns=5 * MS)
    assert not is_kept(opened(planned, 0x80, 0x81), range(5), duration_ns=5 * MS)


def test_a_frame_that_is_never_let_out_never_comes() -> None:
    planned = with_list(one_stream(), LAST, GateEntry(0x81, MS))
    assert misses(planned, Nobody(), duration_ns=2 * MS) == [
        "a, frame 0, l: never came",
        "a, frame 1, l: never came",
    ]


def test_a_frame_that_waits_for_another_cycle_is_late() -> None:
    planned = one_stream(latest_ns=0)
    shifted = listed((0x81, MS - 50 * US), (0xC0, 50 * US))
    planned = with_list(planned, LAST, *shifted.entries)
    (late,) = misses(planned, Nobody(), duration_ns=MS)
    assert late.startswith("a, frame 0, l: ")


def test_the_latency_of_both_copies_counts_from_the_first() -> None:
    net = network("t-s1", "t-s2", "s1-l", "s2-l")
    planned = plan(intent(net, stream("a", "t", "l", paths=2)))
    one, other = planned.streams["a"].paths
    later = tuple(replace(hop, offset_ns=hop.offset_ns + 400 * US) for hop in other)
    bound = planned.streams["a"].latency_bound_ns
    apart = replace(planned, streams={"a": StreamPlan((one, later), bound)}, gates={})
    assert misses(replace(planned, gates={}), Nobody(), duration_ns=MS) == []
    assert len(misses(apart, Nobody(), duration_ns=MS)) == 1


def test_taprio_lets_out_at_once_what_fits_in_the_window_and_no_more() -> None:
    """A window of three frames and a bit, five frames waiting: three leave, two a cycle later."""
    wanted = intent(LINE, *(stream(f"f{n}", "t", "l") for n in range(5)))
    planned = plan(wanted)
    link = wanted.network.links[LAST]
    window = 3 * (100 + 38) * 8 + 100
    port = TaprioPort(wanted, link, listed((0x81, 500 * US), (0xC0, window), (0x81, 500 * US)))
    sent = list(sent_by(planned, flows_of(planned), MS))
    for _, _, frame in sent:
        port.enqueue(frame)
    assert len(port.step(0).starts) == 0
    assert len(port.step(500 * US).starts) == 3
    assert len(port.step(1000 * US + window).starts) == 0
    assert len(port.step(1500 * US + window).starts) == 2


def test_a_queue_of_taprio_holds_a_thousand_frames_and_loses_more() -> None:
    planned = one_stream()
    shut = listed((0x81, MS))
    port = TaprioPort(planned.intent, planned.intent.network.links[LAST], shut)
    for _, _, frame in sent_by(planned, flows_of(planned), 1_002 * MS):
        port.enqueue(frame)
    assert len(port.waiting()) == 1_000


def test_a_port_by_the_standard_sends_one_frame_at_a_time() -> None:
    wanted = intent(with_full_offload(LINE), *(stream(f"f{n}", "t", "l") for n in range(3)))
    assert {b.gate_mode for b in wanted.network.bridges.values()} == {GateMode.FULL_OFFLOAD}
    planned = plan(wanted)
    port = Port(wanted, wanted.network.links[LAST], None, Nobody())
    for _, _, frame in sent_by(planned, flows_of(planned), MS):
        port.enqueue(frame)
    assert emptied(port) == [0, FRAME_NS, 2 * FRAME_NS]


class AllControl(Nobody):
    """Before each frame goes as much control as may."""

    def control_ns(self, longest_ns: int) -> int:
        return longest_ns


def test_the_control_that_was_ahead_of_one_frame_is_not_ahead_of_the_next() -> None:
    """It held up a frame of another class, which then no longer fitted into its window."""
    fast = stream("fast", "t", "l", traffic_classes=("cyclic",))
    slow = stream("slow", "t", "l", traffic_classes=("slower",))
    wanted = intent(LINE, fast, slow)
    control_ns = (CONTROL.max_frame_octets + 20) * 8
    window = control_ns + FRAME_NS
    gates = listed((1 << 6, FRAME_NS), (1 << 4, window), (1, MS - window - FRAME_NS))
    port = Port(wanted, wanted.network.links[LAST], gates, AllControl())
    for _, _, frame in sent_by(plan(wanted), flows_of(plan(wanted)), MS):
        port.enqueue(frame)
    begun = []
    now: int | None = 0
    while now is not None and now < MS:
        step = port.step(now)
        begun += [(start.frame.flow.name, start.at_ns) for start in step.starts]
        now = step.again_ns
    assert begun == [("slow", -(-control_ns * 10 // 9))]  # a tenth more comes meanwhile


@pytest.mark.parametrize("seed", range(10))
def test_a_switch_that_takes_longer_for_one_frame_holds_up_those_behind_it(seed: int) -> None:
    slow = network("t-s1", "s1-s2", "s2-l", processing_ns=(0, 50_000))
    planned = plan(intent(slow, *(stream(f"f{n}", "t", "l") for n in range(8))))
    open_all = GateEntry(0xFF, MS)
    for port in planned.gates:
        planned = with_list(planned, port, open_all)
    sent = list(sent_by(planned, flows_of(planned), MS))
    record = run(planned, Chance(seed, loss=0), sent, end_ns=10 * MS)
    orders = {
        port: [frame.flow.name for egress, frame, _ in record.departures if egress == port]
        for port in {egress for egress, _, _ in record.departures}
    }
    assert len(orders) == 3
    assert len({tuple(order) for order in orders.values()}) == 1


def test_best_effort_has_its_turn_if_there_is_time_for_what_it_states_as_its_largest_frame() -> (
    None
):
    """64 octets are the shortest frame there is, though a tag makes those of streams longer."""
    wanted = intent(LINE, stream("a", "t", "l"), classes=(CYCLIC, SMALL_BEST_EFFORT))
    planned = plan(wanted)
    rest = wanted.hyperperiod_ns() - FRAME_NS
    just, less = (64 + 20) * 8, (64 + 20) * 8 - 1
    for time, who in ((just, []), (less, [(LAST, "best-effort")])):
        entries = listed((1 << 6, FRAME_NS + rest - time), (1, time)).entries
        cut = with_list(planned, LAST, *entries)
        assert starved(cut) == who


@pytest.mark.parametrize(
    ("times", "decided", "at_100_allowed", "loss_allowed"),
    [
        ((100, 105, 95), True, True, False),
        ((100, 121), False, True, False),
        ((80, 79), True, False, False),
        ((111, 300), False, False, False),
        ((90, None), False, True, True),
        ((None, None), True, False, True),
    ],
)
def test_a_frame_is_compared_with_all_times_that_runs_of_the_simulator_give_it(
    times: tuple[int | None, ...],
    decided: bool,
    at_100_allowed: bool,
    loss_allowed: bool,
) -> None:
    expected = Expected(times)
    assert expected.is_decided(20) == decided
    assert expected.allows(100, 10) == at_100_allowed
    assert expected.allows(None, 10) == loss_allowed


def test_a_busy_computer_deals_with_events_late_but_never_later_than_stated() -> None:
    wanted = intent(LINE, stream("a", "t", "l"))
    bridge = wanted.network.bridges["s1"]
    busy = Busy(1, 512)
    late = [busy.processing_ns(bridge) - bridge.processing_min_ns for _ in range(1000)]
    assert min(late) >= 0
    assert 500 < max(late) <= 512
    assert len(set(late)) > 100


def shared(planned: Plan, window_ns: int = 500 * US) -> Plan:
    """The plan with frames that share windows, which say nothing of their order."""
    for name, its in planned.streams.items():
        paths = tuple(
            tuple(replace(hop, window_ns=window_ns) for hop in hops) for hops in its.paths
        )
        planned = with_stream(planned, name, replace(its, paths=paths))
    return planned


class Late(Nobody):
    """All timers are as late as they may be."""

    def lateness_ns(self, margin_ns: int) -> int:
        return margin_ns


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_window_that_frames_share_opens_late_once_and_others_for_each_frame(
    is_shared: bool,
) -> None:
    margin = 10 * US
    net = replace(LINE, gate_margin_ns=margin)
    wanted = intent(net, *(stream(f"f{n}", "t", "l") for n in range(3)), classes=(CYCLIC,))
    planned = plan(wanted)
    planned = shared(planned) if is_shared else planned
    opens = 300 * US
    gates = listed((0x00, opens), (1 << 6, 200 * US), (0x00, MS - opens - 200 * US))
    port = Port(wanted, wanted.network.links[LAST], gates, Late())
    for _, _, frame in sent_by(planned, flows_of(planned), MS):
        port.enqueue(frame)
    begun = emptied(port)
    between = FRAME_NS + margin * (not is_shared)
    assert begun == [opens + margin + number * between for number in range(3)]


def test_frames_that_share_a_window_do_not_wait_for_a_gate_that_has_been_open_for_longer() -> None:
    net = replace(LINE, gate_margin_ns=10 * US)
    planned = shared(plan(intent(net, stream("a", "t", "l", latest_ns=0), classes=(CYCLIC,))))
    for port in (LAST, PortRef("s1", "s2")):
        planned = with_list(planned, port, GateEntry(1 << 6, 500 * US), GateEntry(0, 500 * US))
    record = run(planned, Late(), list(sent_by(planned, flows_of(planned), MS)), end_ns=MS)
    # The talker is late, and at neither switch anything is.
    hop_ns = FRAME_NS - 12 * 8 + 100 + 1 * US
    assert [at for _, _, at in record.departures] == [
        10 * US + number * hop_ns for number in range(3)
    ]


def order_at_last(planned: Plan, seed: int) -> tuple[str, ...]:
    """The streams in the order in which their frames leave the last port."""
    sent = list(sent_by(planned, flows_of(planned), MS))
    record = run(planned, Chance(seed, loss=0), sent, end_ns=10 * MS)
    return tuple(frame.flow.name for egress, frame, _ in record.departures if egress == LAST)


@pytest.mark.parametrize("processing", [(1000, 1000), (1000, 5000)])
def test_frames_that_come_from_several_ports_at_one_instant_leave_in_any_order(
    processing: tuple[int, int],
) -> None:
    talkers = ["t", "u", "v"]
    net = network(
        *(f"{talker}-s2" for talker in talkers), "s2-l", clock_error_ns=0, processing_ns=processing
    )
    wanted = intent(net, *(stream(f"from-{each}", each, "l") for each in talkers))
    hops = {each: (Hop(PortRef(each, "s2"), 0, 6), Hop(LAST, 0, 6)) for each in talkers}
    streams = {f"from-{each}": StreamPlan((hops[each],), MS) for each in talkers}
    together = shared(Plan(wanted, streams, {}, "hand"))
    assert len({order_at_last(together, seed) for seed in range(60)}) == 6


@pytest.mark.parametrize("seed", range(20))
def test_a_talker_that_is_late_keeps_the_order_of_each_stream_alone(seed: int) -> None:
    net = replace(LINE, gate_margin_ns=100 * US)
    streams = (stream("a", "t", "l", frames=5), stream("b", "t", "l", frames=5))
    planned = shared(plan(intent(net, *streams)))
    for name, its in planned.streams.items():
        (path,) = its.paths
        together = (replace(path[0], offset_ns=0), *path[1:])
        planned = with_stream(planned, name, replace(its, paths=(together,)))
    sent = list(sent_by(planned, flows_of(planned), MS))
    record = run(replace(planned, gates={}), Chance(seed, loss=0), sent, end_ns=10 * MS)
    left = [(frame.flow.name, frame.place) for port, frame, _ in record.departures if port == LAST]
    for name in ("a", "b"):
        assert [place for each, place in left if each == name] == [0, 1, 2, 3, 4]
    assert len(left) == 10
