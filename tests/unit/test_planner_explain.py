"""Refusals in the operator's words: where, how much, and what would help."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Intent, PortRef
from cnc.planner import plan
from tests.unit.planner_networks import (
    BLOCKING_NS,
    CONTROL,
    CYCLIC,
    LINE,
    MS,
    OUTLASTS_NS,
    SHORT_BEST_EFFORT,
    US,
    intent,
    network,
    stream,
    with_links,
)


def refusal(wanted: Intent, algorithm: str = "waiting") -> dict[str, str]:
    with pytest.raises(Unschedulable) as refused:
        plan(wanted, algorithm=algorithm)
    return refused.value.reasons


def test_a_latency_no_network_can_keep_is_refused_with_what_it_consists_of() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", max_latency_ns=10_000)))
    assert reasons["a"] == (
        "needs at least 22.491 µs over t → s1 → s2 → l, max-latency is 10 µs. Of this, frame and "
        "cable take 3.427 µs, control frames in the way 8.064 µs, switch processing 10 µs, clock "
        "error 1 µs (clock-error 1 µs, stated). Raise max-latency to 22.491 µs or lower one of "
        "these. It is proved that no plan is in time on this path: frames and cables alone take "
        "3.42 µs, with switch processing of 10 µs that is 13.42 µs"
    )


def test_a_listener_without_a_path_is_named() -> None:
    net = network("t-s1", "s1-m", "s2-l")
    reasons = refusal(intent(net, stream("a", "t", "m", "l")))
    assert reasons == {"a": "no path from t to l; add the missing link"}


def test_periods_that_have_no_common_cycle_at_a_port_are_refused_with_the_port() -> None:
    net = network("t-s1", "u-s1", "s1-s2", "s2-l", "s2-m")
    camera = stream("camera", "t", "l", period_ns=16_666_667)
    loops = [stream(name, "u", "m", period_ns=MS) for name in ("one", "two")]
    reasons = refusal(intent(net, camera, *loops))
    assert reasons.keys() == {"camera"}  # the period of the fewest streams
    assert "its period of 16666.667 µs and that of the other streams at s1/s2" in reasons["camera"]
    assert reasons["camera"].endswith("A period that suits theirs is 16664 µs")


def test_streams_of_one_talker_that_repeat_together_hardly_ever_cost_no_time() -> None:
    """Each two have 2 us in common, so that all three fit beside one another; together they
    repeat every 500 billion us, which no rule can look through."""
    net = network("t-s1", "s1-k", "s1-l", "s1-m", processing_ns=(1000, 1000))
    periods = {"k": 9_998_000, "l": 10_006_000, "m": 10_018_000}
    streams = [
        stream(name, "t", name, period_ns=its, payload_octets=100) for name, its in periods.items()
    ]
    assert refusal(intent(net, *streams)).keys() == {"l", "m"}
    alone = plan(intent(net, streams[0]))
    forged = replace(
        alone, intent=intent(net, *streams), streams=dict.fromkeys(periods, alone.streams["k"])
    )
    assert {each.code for each in judge(forged)} == {"gate-cycle"}


# --- what a reason names is what helps -----------------------------------------------------------

RING4 = network(
    *(f"s{n}-s{(n + 1) % 4}" for n in range(4)),
    *(f"e{n}-s{n}" for n in range(4)),
    clock_error_ns=500,
    processing_ns=(1000, 2000),
)


def named_us(reason: str, what: str) -> int:
    """The figure in µs behind some words of a reason, in ns."""
    found = re.search(rf"{re.escape(what)} ([0-9.]+) µs", reason)
    assert found is not None, reason
    return round(float(found[1]) * 1000)


def test_two_copies_fit_with_the_jitter_that_their_refusal_names() -> None:
    wanted = stream("a", "e0", "e2", paths=2, period_ns=MS, max_jitter_ns=5 * US)
    [reason] = refusal(intent(RING4, wanted)).values()
    assert "even with no other stream in the network" in reason
    enough = named_us(reason, "Raise max-jitter to")
    assert plan(intent(RING4, replace(wanted, max_jitter_ns=enough))).streams.keys() == {"a"}
    assert refusal(intent(RING4, replace(wanted, max_jitter_ns=enough - 10)))


def test_two_paths_fit_with_the_latency_of_the_longer_one() -> None:
    wanted = stream("a", "e0", "e1", paths=2, period_ns=MS, max_latency_ns=12 * US)
    [reason] = refusal(intent(RING4, wanted)).values()
    assert "over e0 → s0 → s3 → s2 → s1 → e1" in reason
    enough = named_us(reason, "needs at least")
    # Not even the longest floor is a promise: the copies take turns on the talker's link.
    assert "needs at least" not in str(
        refusal(intent(RING4, replace(wanted, max_latency_ns=enough)))
    )
    roomy = replace(wanted, max_latency_ns=enough + 10 * US)
    assert plan(intent(RING4, roomy)).streams.keys() == {"a"}


def test_a_period_that_drifts_through_another_is_named_with_what_both_have_in_common() -> None:
    net = network("t-s1", "u-s1", "s1-l", "s1-m")
    streams = [
        stream("often", "t", "l", period_ns=333 * US),
        stream("odd", "u", "l", period_ns=MS),
    ]
    [(name, reason)] = refusal(intent(net, *streams)).items()
    assert "have only 1 µs in common" in reason
    assert reason.endswith("A period that suits theirs is 999 µs")
    periods = {"often": 250 * US, "odd": 999 * US}
    other = [
        replace(each, period_ns=periods[name]) if each.name == name else each for each in streams
    ]
    assert len(plan(intent(net, *other)).streams) == 2


def test_what_several_streams_need_most_is_told_once_with_what_would_be_little_enough() -> None:
    """No gate margin is stated: 1 ms at each sender is assumed."""
    streams = [stream(f"f{n}", "t", "l", period_ns=10 * MS, max_latency_ns=MS) for n in range(3)]
    wanted = intent(LINE, *streams).with_gate_margin(MS)
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    assert all("(gate-margin 1 ms, assumed" in its for its in refused.value.reasons.values())
    hint = str(refused.value.hint)
    assert "3 streams need more than their max-latency even alone" in hint
    assert "With 200 µs of it each of them would have the time" in hint
    assert "State what your switches hold as `gate-margin`, or plan with `--ask-switches`" in hint
    assert len(plan(wanted.with_gate_margin(200 * US)).streams) == 3
    assert "needs at least" in str(refusal(wanted.with_gate_margin(500 * US)))


def test_frames_of_one_ingress_port_are_not_called_frames_of_different_ones() -> None:
    streams = [stream(f"f{n}", "t", "l", **LONG) for n in range(9)]
    reasons = refusal(intent(LINE, *streams, classes=SHORT_BEST_EFFORT))
    assert all("two ingress ports" not in its for its in reasons.values())
    assert all("even of those that arrive at s2/s1" in its for its in reasons.values())
    net = network("t-s1", "u-s1", "v-s1", "s1-l")
    apart = [stream(f"f{n}", "tuv"[n % 3], "l", **LONG) for n in range(9)]
    reasons = refusal(intent(net, *apart, classes=SHORT_BEST_EFFORT))
    assert any("never lets frames from two ingress ports" in its for its in reasons.values())


LONG = {"payload_octets": 1500, "period_ns": 100 * US}
WINDOW_US = (BLOCKING_NS + 1542 * 8 + 2) / 1000  # on a talker's link
# From one switch to the next, where longest frames take 12238 to 12242 ns to be received.
STAY_US = WINDOW_US + (2 * OUTLASTS_NS + 4 + 5000 - 1000 + 2 * 1000 + BLOCKING_NS + 480) / 1000


def test_a_full_queue_is_named_with_what_a_stay_takes_and_what_is_taken() -> None:
    streams = (stream(f"f{i}", "t", "l", **LONG) for i in range(9))
    reasons = refusal(intent(LINE, *streams, classes=SHORT_BEST_EFFORT))
    placed = 9 - len(reasons)
    assert 0 < placed < 9
    for reason in reasons.values():
        assert f"no free slot of {STAY_US:g} µs every 100 µs" in reason
        assert "queue of cyclic at s2/l" in reason
        assert f"{placed * STAY_US / 100:.0%}" in reason
        assert f"with this stream {(placed + 1) * STAY_US / 100:.0%}" in reason
        assert "another scheduled class" in reason


def test_a_full_link_is_named_with_its_load() -> None:
    """The queues are those of as many ports as there are streams: only the talker's link fills."""
    listeners = "abcdefghi"
    net = network("t-s1", *(f"s1-{name}" for name in listeners))
    reasons = refusal(intent(net, *(stream(name, "t", name, **LONG) for name in listeners)))
    placed = 9 - len(reasons)
    assert placed == 100 // WINDOW_US
    for reason in reasons.values():
        assert f"no free slot of {WINDOW_US:g} µs every 100 µs on t/s1" in reason
        assert f"{placed * WINDOW_US / 100:.0%}" in reason
        assert f"with this stream {(placed + 1) * WINDOW_US / 100:.0%}" in reason
        assert "a faster link" in reason


def test_a_narrow_talker_window_is_named() -> None:
    streams = [stream(name, "t", "l", latest_ns=0) for name in "ab"]
    [reason] = refusal(intent(LINE, *streams)).values()
    assert "for a talker that starts between 0 µs and 0 µs" in reason
    assert "What would help: a wider talker window, a longer period" in reason


def test_a_frame_longer_than_its_period_is_refused() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", payload_octets=1500, period_ns=10_000)))
    assert "more than its period of 10 µs" in reasons["a"]


def test_a_port_whose_list_stays_too_long_is_named_with_both_figures() -> None:
    """Windows of two classes cannot be merged."""
    streams = stream("a", "t", "l"), stream("b", "t", "l", traffic_classes=("slower",))
    port = PortRef("s2", "l")
    reasons = refusal(with_links(intent(LINE, *streams), port, gate_entries_max=3))
    assert list(reasons) == ["port s2/l"]
    assert re.match(
        r"needs [4-7] gate entries even with the smallest gaps left open", reasons["port s2/l"]
    )
    assert "the port has 3. Fewer streams or classes" in reasons["port s2/l"]
    assert "(the cycle is 1000 µs)" in reasons["port s2/l"]


def test_a_schedule_that_starves_best_effort_is_refused() -> None:
    reasons = refusal(intent(LINE, stream("a", "t", "l", period_ns=25_000)))
    assert set(reasons) == {"port s1/s2", "port s2/l"}
    assert "best effort would starve: its largest frame takes 12.338 µs" in reasons["port s2/l"]


def test_a_schedule_that_starves_control_is_refused() -> None:
    """Behind a slow link frames come closer than a control frame of low priority is long."""
    control = replace(CONTROL, number=5, max_frame_octets=1522)
    wanted = intent(LINE, stream("a", "t", "l", period_ns=250_000), classes=(control, CYCLIC))
    reasons = refusal(with_links(wanted, PortRef("s2", "l"), rate_bps=10**8))
    assert list(reasons) == ["port s2/l"]
    assert "class control would starve" in reasons["port s2/l"]
    assert "they leave it 87.845 µs at a time" in reasons["port s2/l"]
    assert "largest frame's 123.373 µs" in reasons["port s2/l"]


def test_periods_whose_cycle_the_kernel_cannot_hold_are_refused() -> None:
    """Nearly equal periods drift past each other: a cycle must hold every meeting."""
    exact = network("t-s1", "u-s1", "s1-l", clock_error_ns=0, processing_ns=(0, 0))
    streams = [
        stream("a", "t", "l", period_ns=1_000_000),
        stream("b", "u", "l", period_ns=1_300_007),
    ]
    assert "meet only every" in " ".join(refusal(intent(exact, *streams)).values())
    streams = [
        stream("a", "t", "l", period_ns=1_500_000_000),
        stream("b", "u", "l", period_ns=2_000_000_000),
    ]
    reasons = refusal(intent(exact, *streams))
    assert reasons["b"].startswith(
        "its period of 2000000 µs and that of the other streams at s1/l, which repeat together "
        "every 1500000 µs, meet only every 6000000 µs"
    )
    assert reasons["b"].endswith("A period that suits theirs is 1500000 µs")


def test_who_follows_what_is_said_of_60_hz_beside_a_millisecond_has_a_place() -> None:
    net = network("t-s1", "u-s1", "s1-l")
    cyclic, frame = stream("a", "t", "l", period_ns=MS), stream("frame", "u", "l")
    advised = {16_666_667: "16664 µs", 16_664_000: "16656.25 µs"}
    for period_ns, suits in advised.items():
        asked = intent(net, cyclic, replace(frame, period_ns=period_ns))
        assert refusal(asked)["frame"].endswith(f"A period that suits theirs is {suits}")
    asked = intent(net, cyclic, replace(frame, period_ns=16_656_250))
    assert plan(asked).streams.keys() == {"a", "frame"}


def test_no_period_suits_frames_that_leave_no_time_between_them() -> None:
    net = network("t-s1", "u-s1", "s1-l")
    often = stream("often", "t", "l", period_ns=17 * US)
    odd = stream("odd", "u", "l", period_ns=1_001 * US, payload_octets=1_400)
    reasons = " ".join(refusal(intent(net, often, odd, classes=SHORT_BEST_EFFORT)).values())
    assert "No period of it suits theirs, which would have to be longer" in reasons


def test_who_asks_for_two_paths_where_there_is_one_is_told_how_to_get_the_second() -> None:
    [reason] = refusal(intent(LINE, stream("a", "t", "l", paths=2))).values()
    assert "no two paths from t to l without a common link between switches" in reason
    assert "add a link that closes a ring, or ask for one path" in reason


def test_all_that_is_wrong_is_told_at_once() -> None:
    net = network("t-s1", "s1-l", "s2-x")
    reasons = refusal(
        intent(
            net,
            stream("far", "t", "x"),
            stream("hasty", "t", "l", max_latency_ns=5 * US),
            *(stream(f"at-once{i}", "t", "l", latest_ns=0) for i in range(2)),
        )
    )
    assert {name.rstrip("01"): reason[:13] for name, reason in reasons.items()} == {
        "far": "no path from ",
        "hasty": "needs at leas",
        "at-once": "no free slot ",
    }


def test_streams_that_exclude_each_other_are_named_and_whose_rules_say_so() -> None:
    pytest.importorskip("ortools")
    streams = [stream(name, "t", "l", latest_ns=0) for name in "ab"]
    innocent = stream("c", "t", "l")
    [reason] = refusal(intent(LINE, *streams, innocent), algorithm="exact").values()
    assert (
        "By the rules of this planner no offsets on these routes carry these together: a, b."
        in reason
    )
    assert "proved" not in reason
