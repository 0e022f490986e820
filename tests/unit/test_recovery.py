"""After a disturbance frames are in time again: what planner and judge promise, and a replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents_from
from cnc import planner
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    Intent,
    Plan,
    PortRef,
    TalkerInterference,
)
from cnc.planner import Budget, plan
from cnc.planner.greedy import Dense
from cnc.plans import file as planfile
from tests.simulator.adversary import Adversary, Chance, Nobody, Slow
from tests.simulator.outcome import missed
from tests.simulator.ports import Disturbance, LateFrame
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CLASSES,
    CYCLIC,
    LINE,
    MS,
    US,
    examples,
    intent,
    intents,
    network,
    seeded,
    stream,
    talkative,
    with_links,
)

SCHEDULES = Path(__file__).parents[2] / "schedules"
BEST_EFFORT_BIT, CYCLIC_BIT = 1, 1 << 6
WIRE_NS = 1542 * 8 + 2  # of 1,500 octets, on the slowest link


def recovering(wanted: Intent, disturbance_ns: int = 100 * US) -> Intent:
    """The intent, of which each stream must have a bound."""
    network = replace(wanted.network, disturbance_ns=disturbance_ns, recovery_required=True)
    return replace(wanted, network=network)


A = stream("a", "t", "l")
B = stream("b", "t", "l", period_ns=MS // 2)
ON_A_LINE = recovering(intent(LINE, A, B))


def with_gates(p: Plan, port: PortRef, *entries: GateEntry) -> Plan:
    gates = {**p.gates, port: GateControlList(p.gates[port].cycle_ns, entries)}
    return replace(p, gates=gates)


def without_spare_room(p: Plan, port: PortRef) -> Plan:
    return with_gates(
        p,
        port,
        *(
            GateEntry(e.gate_states & ~CYCLIC_BIT, e.interval_ns)
            if e.gate_states & BEST_EFFORT_BIT
            else e
            for e in p.gates[port].entries
        ),
    )


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["line3", "line5", "ring6"])
def test_every_stream_of_a_shipped_network_recovers_within_three_cycles(name: str) -> None:
    shipped = plan(intents_from.load(SCHEDULES / f"{name}.yaml"))
    assert judge(shipped) == []
    assert shipped.recovery_ns.keys() == shipped.streams.keys()
    assert max(shipped.recovery_ns.values()) < 3 * shipped.intent.hyperperiod_ns()


def test_recovery_moves_no_stream_and_needs_no_entry_on_a_line() -> None:
    accepted, usual = plan(intent(LINE, A, B)), plan(ON_A_LINE)
    assert usual.streams == accepted.streams
    for port, gates in accepted.gates.items():
        without = without_spare_room(usual, port).gates[port]
        assert without == gates != usual.gates[port]
    assert accepted.recovery_ns == {}


def test_a_gate_opens_beside_best_effort_only_while_no_frame_can_be_waiting() -> None:
    jittery = network("t-s1", "s1-s2", "s2-l", processing_ns=(1000, 100_000))
    held = plan(recovering(intent(jittery, A)))
    port = PortRef("s1", "s2")
    states = [(e.gate_states & 0x41, e.interval_ns) for e in held.gates[port].entries]
    # It may come 100 us early: best effort has that time alone, up to its guard band.
    assert [s for s, _ in states] == [0x41, 0x01, 0x00, 0x40, 0x41]
    assert states[1][1] > 80_000
    assert judge(held) == []


def test_frames_that_no_port_holds_back_recover_beside_those_of_another_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their gates shut sooner than the link is free for the other class, by the gate margin."""
    monkeypatch.setitem(planner.ALGORITHMS, Dense.name, Dense)
    late = replace(LINE, gate_margin_ns=500)
    dense = plan(recovering(intent(late, A, B)), algorithm=Dense.name)
    assert judge(dense) == []
    assert dense.recovery_ns.keys() == {"a", "b"}


def test_a_port_without_an_entry_to_spare_keeps_such_a_gate_shut() -> None:
    jittery = network("t-s1", "s1-s2", "s2-l", processing_ns=(1000, 100_000))
    port = PortRef("s1", "s2")
    streams = [stream(f"f{n}", "t", "l", earliest_ns=n * 250 * US) for n in range(2)]
    free = plan(recovering(intent(jittery, *streams)))
    count = len(free.gates[port].entries)
    short = plan(
        recovering(with_links(intent(jittery, *streams), port, gate_entries_max=count - 1))
    )
    assert len(short.gates[port].entries) < count
    assert judge(short) == []


def test_streams_that_would_never_recover_are_refused_by_name_unless_that_is_accepted() -> None:
    crowd = [stream(f"f{n}", "t", "l", period_ns=100 * US) for n in range(19)]
    plan(intent(LINE, *crowd))
    with pytest.raises(
        Unschedulable, match="too little time for f0, f1, f10, f11, f12 and 14 more"
    ):
        plan(recovering(intent(LINE, *crowd)))


def test_a_burst_for_which_the_account_is_too_coarse_is_not_said_to_stay_late() -> None:
    """A cycle of 1 ms leaves 670 us beside it, more than the 303 us that 256 such frames take."""
    burst = stream("burst", "t", "l", frames=256, payload_octets=106)
    assert 256 * (106 + 42) * 8 < 303_200
    with pytest.raises(Unschedulable) as refused:
        plan(recovering(intent(LINE, burst)))
    for reason in refused.value.reasons.values():
        assert "too little time for burst, as this planner counts" in reason
        assert "this is not a proof that they stay late" in reason
        assert "for ever" not in reason


def test_the_length_of_a_disturbance_counts_once_on_the_way() -> None:
    long_line = network("t-s1", "s1-s2", "s2-s3", "s3-s4", "s4-s5", "s5-l")
    short, long = (plan(recovering(intent(long_line, A, B), lasts)) for lasts in (0, 300 * US))
    # Five ports: each holds what came meanwhile, and no other loses time.
    assert 0 <= long.recovery_ns["a"] - short.recovery_ns["a"] < 300 * US


def test_several_short_openings_clear_a_port_together() -> None:
    # A window every 25 us: what 300 us leave is more than the time between two of them takes.
    crowd = [
        stream(f"f{n}", "t", "l", period_ns=100 * US, earliest_ns=n * 25 * US) for n in range(4)
    ]
    short = tuple(
        replace(c, max_frame_octets=128) if c.role is ClassRole.BEST_EFFORT else c for c in CLASSES
    )
    planned = plan(recovering(intent(LINE, *crowd, classes=short), 600 * US))
    assert judge(planned) == []
    assert max(planned.recovery_ns.values()) < MS


def test_best_effort_planning_leaves_out_as_many_as_it_takes_for_the_rest_to_recover() -> None:
    crowd = [stream(f"f{n}", "t", "l", period_ns=100 * US) for n in range(20)]
    some = plan(recovering(intent(LINE, *crowd)), best_effort=True)
    assert judge(some) == []
    assert 0 < len(some.refused) < len(crowd)
    assert some.recovery_ns.keys() == some.streams.keys()


def test_a_plan_file_keeps_the_promise(tmp_path: Path) -> None:
    written = plan(intents_from.load(SCHEDULES / "line3.yaml"))
    planfile.dump(written, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == written
    assert '"recovery_ns"' in (tmp_path / "plan.json").read_text()


# --- the judge -----------------------------------------------------------------------------------


def test_the_judge_refuses_a_promise_that_is_a_nanosecond_too_short_or_missing() -> None:
    good = plan(ON_A_LINE)
    assert judge(good) == []
    promised = dict(good.recovery_ns)
    for promise in ({**promised, "a": promised["a"] - 1}, {"b": promised["b"]}):
        found = judge(replace(good, recovery_ns=promise))
        assert [(each.code, each.where) for each in found] == [("recovery", "a")]


def test_the_judge_refuses_lists_that_never_make_up_for_a_missed_window() -> None:
    good = plan(ON_A_LINE)
    found = judge(without_spare_room(good, PortRef("s1", "s2")))
    assert {(each.code, each.where) for each in found} == {("recovery", "a"), ("recovery", "b")}
    assert found[0].text == "no bound is found on how long it may be late after a disturbance"


def test_the_judge_refuses_a_promise_that_nobody_asked_for() -> None:
    accepted = replace(plan(intent(LINE, A, B)), recovery_ns={"a": MS})
    assert [each.code for each in judge(accepted)] == ["recovery"]


# --- talkers -------------------------------------------------------------------------------------


def of_one_talker(count: int, period_ns: int) -> Intent:
    """As many streams of a talker that sends nothing else, to a listener each."""
    net = network("t-s1", *(f"s1-l{n}" for n in range(count)))
    ends = {
        name: replace(end, interference=TalkerInterference.NONE)
        for name, end in net.end_stations.items()
    }
    requirements = {"payload_octets": 1500, "max_latency_ns": period_ns}
    streams = [
        stream(f"f{n}", "t", f"l{n}", period_ns=period_ns, **requirements) for n in range(count)
    ]
    # Nothing but its own frames delays them.
    return intent(replace(net, end_stations=ends), *streams, classes=(CYCLIC, BEST_EFFORT))


def test_one_late_frame_delays_all_that_its_talker_sends_until_it_pauses() -> None:
    planned = plan(recovering(of_one_talker(30, MS), 0))
    assert judge(planned) == []
    offsets = {name: its.talker_offsets_ns[0] for name, its in planned.streams.items()}
    first, last = min(offsets, key=offsets.__getitem__), max(offsets, key=offsets.__getitem__)
    before_all = MS - offsets[last] + offsets[first] - 1
    after = lateness_after(planned, LateFrame(last, 1, before_all), Slow())
    assert len(after) == 30
    # The promise covers their ports besides, which send nothing else.
    assert max(after.values()) > 29 * WIRE_NS
    assert set(planned.recovery_ns.values()) == {max(planned.recovery_ns.values())}
    assert max(after.values()) <= planned.recovery_ns["f0"] < max(after.values()) + 12 * WIRE_NS


def test_a_talker_that_never_pauses_is_refused_and_one_that_hardly_does_is_not() -> None:
    busy = of_one_talker(20, 20 * WIRE_NS)
    undemanding = plan(busy)
    with pytest.raises(Unschedulable, match=r"t/s1: .* f0, .* and 15 more .* without a pause"):
        plan(recovering(busy))
    found = judge(replace(undemanding, intent=recovering(busy)))
    assert {(each.code, each.where) for each in found} == {
        ("recovery", name) for name in busy.streams
    }
    one_less = plan(recovering(busy, 0), best_effort=True)
    assert judge(one_less) == []
    assert len(one_less.refused) == 1
    # With a pause of a thousandth of the time it takes a thousand cycles.
    hardly = plan(recovering(of_one_talker(20, 20 * WIRE_NS + 13), 0))
    assert judge(hardly) == []
    assert 930 < hardly.recovery_ns["f0"] / hardly.intent.hyperperiod_ns() < 1000


def test_a_stream_that_crosses_no_switch_recovers_with_its_talker() -> None:
    direct = network("t-l", "t-s1", "s1-m")
    planned = plan(recovering(intent(direct, A, stream("b", "t", "m"))))
    assert judge(planned) == []
    assert 0 < planned.recovery_ns["a"] < planned.recovery_ns["b"]
    shorter = {**planned.recovery_ns, "a": planned.recovery_ns["a"] - 1}
    found = judge(replace(planned, recovery_ns=shorter))
    assert [(each.code, each.where) for each in found] == [("recovery", "a")]


# --- control -------------------------------------------------------------------------------------


def test_a_stated_burst_of_control_counts_in_every_bound() -> None:
    in_a_row = tuple(
        replace(c, burst_frames=3) if c.role is ClassRole.CONTROL else c for c in CLASSES
    )
    one, three = plan(intent(LINE, A)), plan(intent(LINE, A, classes=in_a_row))
    # Two frames of 1185 ns more, and as a tenth of the link more control comes meanwhile: 2631 ns.
    before, after = (p.streams["a"].latency_bound_ns for p in (one, three))
    assert after == before + 3 * 2_631  # on each of three links
    assert judge(three) == []
    assert {v.code for v in judge(replace(one, intent=three.intent))} >= {"gate-window", "bound"}


def test_a_stated_rate_of_control_leaves_less_time_to_recover() -> None:
    busy = tuple(
        replace(c, rate_bps=5 * 10**8) if c.role is ClassRole.CONTROL else c for c in CLASSES
    )
    usual, slower = plan(ON_A_LINE), plan(recovering(intent(LINE, A, B, classes=busy)))
    assert slower.recovery_ns["a"] > usual.recovery_ns["a"]
    assert judge(slower) == []
    # It counts in the bounds, too: more comes while a frame of another class is on the link.
    found = judge(replace(usual, intent=slower.intent))
    assert {v.code for v in found} >= {"gate-window", "bound"}


# --- a replay ------------------------------------------------------------------------------------


def with_much_control(wanted: Intent) -> Intent:
    """Control may send as often as it does in the simulation: before every frame."""
    slowest = min(link.rate_bps for link in wanted.network.links.values())
    classes = {
        name: replace(c, rate_bps=slowest * 6 // 10) if c.role is ClassRole.CONTROL else c
        for name, c in wanted.classes.items()
    }
    return replace(wanted, classes=classes)


def planned_to_recover(wanted: Intent, disturbance_ns: int) -> Plan | None:
    """A plan that the judge accepts, with control as frequent as in the simulation; None where no
    stream has a place."""
    try:
        planned = plan(
            recovering(with_much_control(wanted), disturbance_ns),
            best_effort=True,
            budget=Budget(ejections=20),
        )
    except Unschedulable:
        return None
    assert judge(planned) == []
    return planned if planned.gates else None


def longest_needed_ns(planned: Plan) -> int:
    """For how long to replay: three cycles, and the longest promise twice."""
    return 3 * planned.intent.hyperperiod_ns() + 2 * max(planned.recovery_ns.values())


def lateness_after(planned: Plan, late: LateFrame, adversary: Adversary) -> dict[str, int]:
    """How long after a frame that its talker sends late the last one is sent of each stream that
    is late because of it."""
    period = planned.intent.streams[late.stream].period_ns
    offset = min(planned.streams[late.stream].talker_offsets_ns, default=0)
    sent_ns = late.number * period + offset + late.by_ns
    found: dict[str, int] = {}
    for frame, _, _ in missed(
        planned, adversary, duration_ns=longest_needed_ns(planned), late_frame=late
    ):
        if (frame.flow.name, frame.number) != late[:2]:
            name = frame.flow.name
            found[name] = max(frame.begin_ns - sent_ns, found.get(name, 0))
    return found


@examples(max_examples=25)
@given(
    intents(streams_max=6, entries_max=st.sampled_from([0, 0, 16, 6])),
    st.sampled_from([20 * US, 100 * US, 400 * US]),
    st.integers(0, 1000),
)
def test_no_frame_is_late_for_longer_than_promised_at_whichever_port_the_disturbance_is(
    wanted: Intent, lasts_ns: int, seed: int
) -> None:
    planned = planned_to_recover(wanted, lasts_ns)
    if planned is None:
        return
    assert_in_time_again(planned, lasts_ns, seed)


def assert_in_time_again(planned: Plan, lasts_ns: int, seed: int) -> None:
    """After a disturbance at each of the ports frames are late no longer than is promised."""
    random, cycle = seeded(seed), planned.intent.hyperperiod_ns()
    error_ns = planned.intent.network.clock_error_ns
    for port in sorted(planned.gates):
        # From just before a frame of the port on: it misses its window.
        offsets = [
            hop.offset_ns
            for each in planned.streams.values()
            for hop in each.hops
            if hop.egress == port
        ]
        disturbance = Disturbance(port, cycle + random.choice(offsets) - 1, lasts_ns)
        for frame, _, _ in missed(
            planned,
            Chance(random.randrange(1000)),
            duration_ns=longest_needed_ns(planned),
            disturbance=disturbance,
        ):
            after_ns = frame.begin_ns - disturbance.end_ns
            assert after_ns <= planned.recovery_ns[frame.flow.name] + error_ns


@examples(max_examples=30)
@given(
    intents(streams_max=6, entries_max=st.sampled_from([0, 0, 16, 6])) | talkative(),
    st.integers(0, 1000),
)
def test_no_frame_is_late_for_longer_than_promised_after_one_that_its_talker_sent_late(
    wanted: Intent, seed: int
) -> None:
    planned = planned_to_recover(wanted, 0)
    if planned is None:
        return
    random, cycle = seeded(seed), planned.intent.hyperperiod_ns()
    error_ns = planned.intent.network.clock_error_ns
    for name, its in planned.streams.items():
        number = cycle // planned.intent.streams[name].period_ns
        # At any time, or right before frames of its talker.
        others = [
            offset - its.talker_offsets_ns[0] - 1
            for other, planned_other in planned.streams.items()
            if planned.intent.streams[other].talker == planned.intent.streams[name].talker
            for offset in planned_other.talker_offsets_ns
        ]
        by_ns = random.choice([random.randrange(1, cycle), random.choice(others) % cycle or 1])
        adversary: Adversary = random.choice([Slow(), Chance(random.randrange(1000))])
        after = lateness_after(planned, LateFrame(name, number, by_ns), adversary)
        for late, after_ns in after.items():
            assert after_ns <= planned.recovery_ns[late] + error_ns


def test_without_spare_room_the_replay_stays_late_for_ever() -> None:
    planned = plan(intent(LINE, stream("a", "t", "l", payload_octets=700)))
    disturbance = Disturbance(PortRef("s1", "s2"), MS, 100 * US)
    found = missed(planned, Nobody(), duration_ns=20 * MS, disturbance=disturbance)
    late = {frame.begin_ns // MS for frame, _, _ in found}
    assert late == set(range(1, 20))
