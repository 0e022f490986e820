"""Streams of several frames in a period: planned as one block, judged as one, and simulated."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pytest

from cnc.account import travel as judged_frames
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Network, Plan, PortRef, StreamPlan
from cnc.planner import plan, problem
from tests.simulator.adversary import Chance, Slow
from tests.simulator.campaign import verdict
from tests.simulator.mutations import with_list, with_stream
from tests.simulator.outcome import missed
from tests.unit.planner_fuzz import SHORT_LISTS, kept_plan
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BLOCKING_NS,
    BUSY_NS,
    CONTROL,
    CYCLIC,
    LINE,
    MS,
    RECEIVED_MIN_NS,
    RECEIVED_NS,
    US,
    intent,
    network,
    stream,
    with_links,
)

FRAME_NS = BUSY_NS  # on a link of 1 Gb/s, with the gap
FLIGHT_NS = RECEIVED_NS + 100  # to the last bit at the far end
SLOW_FRAME_NS, SLOW_RECEIVED_NS = 11_362, 10_402  # on one of 100 Mb/s
PROCESSING_NS, CLOCK_ERROR_NS = 5_000, 1_000
TALKER, FIRST, LAST = PortRef("t", "s1"), PortRef("s1", "s2"), PortRef("s2", "l")
# Nothing but the stream's own frames delays them.
QUIET = (CYCLIC, BEST_EFFORT)


def with_rate(net: Network, *ports: PortRef, rate_bps: int) -> Network:
    return with_links(intent(net), *ports, rate_bps=rate_bps).network


def offsets(planned: Plan, name: str = "f") -> list[int]:
    return [hop.offset_ns for hop in planned.streams[name].hops]


def steps(planned: Plan) -> list[int]:
    """How much later than the hop before each is planned."""
    times = offsets(planned)
    return [after - before for before, after in pairwise(times)]


def codes(planned: Plan) -> set[str]:
    return {violation.code for violation in judge(planned)}


def test_switches_pass_frames_on_before_all_have_come() -> None:
    planned = plan(intent(LINE, stream("f", "t", "l", frames=27), classes=QUIET))

    step = FLIGHT_NS + PROCESSING_NS + CLOCK_ERROR_NS
    assert steps(planned) == [step, step]
    assert not judge(planned)


def test_the_latency_ends_with_the_last_bit_of_the_last_frame() -> None:
    one, many = (
        plan(intent(LINE, stream("f", "t", "l", frames=frames), classes=QUIET))
        for frames in (1, 27)
    )

    after = many.streams["f"].latency_bound_ns - one.streams["f"].latency_bound_ns
    assert after == 26 * FRAME_NS


def test_a_faster_link_waits_until_the_last_frame_will_be_there_in_its_turn() -> None:
    net = with_rate(LINE, TALKER, rate_bps=100_000_000)

    planned = plan(intent(net, stream("f", "t", "l", frames=3), classes=QUIET))

    late = 2 * (SLOW_FRAME_NS - FRAME_NS)  # what the last comes later than its turn
    assert steps(planned)[0] == SLOW_RECEIVED_NS + 100 + PROCESSING_NS + CLOCK_ERROR_NS + late
    assert not judge(planned)


def test_a_slower_link_begins_with_the_first_frame() -> None:
    net = with_rate(LINE, LAST, rate_bps=100_000_000)

    planned = plan(intent(net, stream("f", "t", "l", frames=3), classes=QUIET))

    assert steps(planned)[1] == FLIGHT_NS + PROCESSING_NS + CLOCK_ERROR_NS
    assert planned.streams["f"].latency_bound_ns == offsets(planned)[-1] - offsets(planned)[0] + (
        2 * SLOW_FRAME_NS + SLOW_RECEIVED_NS + 100 + CLOCK_ERROR_NS
    )


def test_between_the_frames_control_takes_its_rate_of_the_link() -> None:
    wanted = intent(LINE, stream("f", "t", "l", frames=27), classes=(*QUIET, CONTROL))

    planned = plan(wanted)

    # A tenth of the link: nine parts are left for what waits for it, hardly less on a slow link.
    between = -(-26 * FRAME_NS // 9)
    step = FLIGHT_NS + PROCESSING_NS + CLOCK_ERROR_NS + BLOCKING_NS + between
    assert steps(planned) == [step, step]
    assert not judge(planned)


def test_a_gate_is_open_for_all_frames_and_shut_before_and_after() -> None:
    planned = plan(intent(LINE, stream("f", "t", "l", frames=27), classes=QUIET))

    windows = [
        e.interval_ns for e in planned.gates[LAST].entries if e.gate_states == 1 << CYCLIC.number
    ]
    assert windows == [27 * FRAME_NS]


def test_frames_of_other_streams_wait_until_all_have_left() -> None:
    both = intent(
        network("t-s1", "u-s1", "s1-s2", "s2-l"),
        stream("f", "t", "l", frames=27, earliest_ns=0, latest_ns=0),
        stream("g", "u", "l", max_latency_ns=MS),
        classes=QUIET,
    )

    planned = plan(both)

    (_, first, last), (_, *others) = offsets(planned, "f"), offsets(planned, "g")
    for begins, other in zip((first, last), others, strict=True):
        assert not begins - FRAME_NS < other < begins + 27 * FRAME_NS
    assert verdict(planned, 1) == "kept"


def test_the_judge_refuses_a_hop_that_the_last_frame_may_miss() -> None:
    net = with_rate(LINE, TALKER, rate_bps=100_000_000)
    net = replace(net, clock_error_ns=0)
    planned = plan(intent(net, stream("f", "t", "l", frames=3), classes=QUIET))
    sooner = shifted(planned, FIRST, -1)

    assert "precedence" in codes(sooner)


def test_the_judge_refuses_a_window_that_leaves_the_last_frame_no_time() -> None:
    planned = plan(intent(LINE, stream("f", "t", "l", frames=3), classes=QUIET))
    entries = list(planned.gates[LAST].entries)
    index = next(i for i, e in enumerate(entries) if e.gate_states == 1 << CYCLIC.number)
    window, rest = entries[index], entries[index + 1]
    entries[index] = replace(window, interval_ns=window.interval_ns - FRAME_NS)
    entries[index + 1] = replace(rest, interval_ns=rest.interval_ns + FRAME_NS)

    shorter = with_list(planned, LAST, *entries)

    assert "gate-window" in codes(shorter)
    assert verdict_of_simulator(shorter) == "missed"


def test_the_judge_refuses_a_bound_that_only_the_first_frame_keeps() -> None:
    planned = plan(intent(LINE, stream("f", "t", "l", frames=3), classes=QUIET))
    bound = planned.streams["f"].latency_bound_ns
    for less, refused in ((1, {"bound"}), (0, set())):
        other = replace(planned.streams["f"], latency_bound_ns=bound - less)
        assert codes(with_stream(planned, "f", other)) == refused


def test_the_judge_refuses_another_stream_in_the_queue_before_the_last_frame_came() -> None:
    net = replace(network("t-s1", "u-s1", "s1-s2", "s2-l"), clock_error_ns=0)
    net = with_rate(net, TALKER, rate_bps=100_000_000)
    both = intent(
        net,
        stream("f", "t", "l", frames=3, earliest_ns=0, latest_ns=0),
        stream("g", "u", "l", earliest_ns=200 * US, latest_ns=200 * US),
        classes=QUIET,
    )
    planned = plan(both)
    came = planned.streams["g"].hops[0].offset_ns
    last_of_f = 2 * SLOW_FRAME_NS + SLOW_RECEIVED_NS + 100 + PROCESSING_NS
    earliest_of_g = RECEIVED_MIN_NS + 100 + 1_000  # its least processing
    hops = planned.streams["g"].hops
    by = last_of_f - earliest_of_g - came
    earlier = replace(hops[0], offset_ns=came + by)
    moved = StreamPlan(((earlier, *hops[1:]),), planned.streams["g"].latency_bound_ns - by)
    unlimited = {
        **both.streams,
        "g": replace(both.streams["g"], earliest_ns=0, latest_ns=None),
    }
    planned = replace(planned, intent=replace(both, streams=unlimited))

    assert "fifo" in codes(with_stream(planned, "g", moved))
    later = replace(hops[0], offset_ns=earlier.offset_ns + 1)
    moved = StreamPlan(((later, *hops[1:]),), moved.latency_bound_ns - 1)
    assert "fifo" not in codes(with_stream(planned, "g", moved))


def test_a_stream_of_other_frames_than_the_running_one_is_placed_again() -> None:
    running = plan(intent(LINE, stream("f", "t", "l", frames=2)))
    wanted = intent(LINE, stream("f", "t", "l", frames=3))

    planned = plan(wanted, keep=running)

    assert planned.streams == plan(wanted).streams
    assert not judge(planned)


def test_streams_of_several_frames_are_kept_to_the_nanosecond() -> None:
    running = plan(intent(LINE, stream("f", "t", "l", frames=7)))
    wanted = intent(LINE, stream("g", "t", "l", frames=3), stream("f", "t", "l", frames=7))

    planned = plan(wanted, keep=running)

    assert planned.streams["f"] == running.streams["f"]
    assert not judge(planned)


@pytest.mark.parametrize("algorithm", ["no-wait", "waiting", "ejection", "exact"])
def test_every_algorithm_places_several_frames(algorithm: str) -> None:
    if algorithm == "exact":
        pytest.importorskip("ortools")
    many = [stream(f"f{n}", "t", "l", frames=frames) for n, frames in enumerate((1, 2, 3, 7))]

    planned = plan(intent(LINE, *many), algorithm=algorithm)

    assert planned.streams.keys() == {"f0", "f1", "f2", "f3"}
    assert verdict(planned, 1) == "kept"


def test_frames_that_do_not_fit_the_period_are_refused_with_their_number() -> None:
    wanted = intent(LINE, stream("f", "t", "l", frames=80, period_ns=100 * US))

    with pytest.raises(Unschedulable, match=r"its 80 frames take 122.786 µs of s2/l"):
        plan(wanted)


def test_frames_that_cannot_be_in_time_are_refused_with_what_they_take() -> None:
    wanted = intent(LINE, stream("f", "t", "l", frames=80, max_latency_ns=50 * US))

    with pytest.raises(Unschedulable, match=r"frames and cables take 9\d\.\d* µs"):
        plan(wanted)


def test_without_time_for_control_between_the_frames_some_would_be_late() -> None:
    """The judge's own rule for it is needed, and so is the planner's."""
    wanted = intent(LINE, stream("f", "t", "l", frames=27), classes=(*QUIET, CONTROL))
    assert wanted.control_rate_bps(wanted.network.links[TALKER]) == 10**8
    with (
        mock.patch.object(problem, "control_between_ns", return_value=0),
        mock.patch.object(judged_frames, "control_between_ns", return_value=0),
    ):
        planned = plan(wanted)
        assert not judge(planned)
    assert judge(planned)
    assert verdict_of_simulator(planned) == "missed"
    assert verdict_of_simulator(plan(wanted)) == "kept"


def test_recovery_counts_all_frames() -> None:
    """A disturbance may hold back a whole block."""
    one, many = (recovering(frames) for frames in (1, 27))

    assert not judge(many)
    assert many.recovery_ns["f"] > one.recovery_ns["f"]


def test_after_a_disturbance_the_last_frame_is_late_behind_those_before_it() -> None:
    """The planner's promise counts that, as the judge does."""
    net = network("t-s1", "u-s1", "s1-s2", "s2-l", "v-s2")
    wanted = intent(
        replace(net, disturbance_ns=20 * US),
        stream("a", "u", "l", frames=2, payload_octets=700),
        stream("b", "u", "l", frames=7, payload_octets=700),
        stream("c", "t", "l", frames=20, payload_octets=700, period_ns=5 * MS),
        stream("d", "v", "t"),
        classes=(*QUIET, CONTROL),
    )

    assert not judge(plan(wanted))


def test_kept_streams_of_several_frames_stay_in_order_where_gates_are_open_over_gaps() -> None:
    """Of random networks one in which a stream would have come between the frames of another."""
    for planned in kept_plan(320, SHORT_LISTS):
        assert verdict(planned, 320) == "kept"


def recovering(frames: int) -> Plan:
    net = replace(LINE, disturbance_ns=100 * US)
    return plan(intent(net, stream("f", "t", "l", frames=frames), classes=(*QUIET, CONTROL)))


def verdict_of_simulator(planned: Plan) -> str:
    """Whether frames are late by the simulator, whatever the judge says."""
    late = any(missed(planned, Chance(seed), duration_ns=12 * MS) for seed in range(8))
    return "missed" if late else "kept"


def shifted(planned: Plan, egress: PortRef, by_ns: int) -> Plan:
    """The plan with all hops of the stream from one on earlier or later, and its bound."""
    hops = planned.streams["f"].hops
    first = next(index for index, hop in enumerate(hops) if hop.egress == egress)
    moved = tuple(
        replace(hop, offset_ns=hop.offset_ns + by_ns) if index >= first else hop
        for index, hop in enumerate(hops)
    )
    bound = planned.streams["f"].latency_bound_ns + by_ns
    return with_stream(planned, "f", StreamPlan((moved,), bound))


def test_the_last_frame_of_a_long_burst_has_its_turn_on_the_slowest_link() -> None:
    """At 100 ppm below their rate links take 123 ns longer for 100 frames of 1,542 octets; without
    that time the window shuts before the last one, which then waits for a whole period."""
    burst = {"frames": 200, "payload_octets": 1500, "period_ns": 200 * MS, "max_latency_ns": 9 * MS}
    planned = plan(intent(LINE, stream("f", "t", "l", **burst), classes=QUIET))

    assert not judge(planned)
    assert not missed(planned, Slow(), duration_ns=400 * MS)


def test_frames_on_a_fast_link_are_nearer_to_each_other_than_on_a_slow_one() -> None:
    """Against its turn the last of 27 arrives up to 27 x 2 ns sooner: a frame takes 1135 to 1137 ns
    of the link, and 1039 to 1041 ns to its last bit."""
    one, many = (
        plan(intent(LINE, stream("f", "t", "l", frames=n, max_jitter_ns=10 * US), classes=QUIET))
        for n in (1, 27)
    )

    assert one.jitter_ns["f"]["l"] == 2 * CLOCK_ERROR_NS + 2
    assert many.jitter_ns["f"]["l"] == 2 * CLOCK_ERROR_NS + 27 * 2
    assert not judge(many)
