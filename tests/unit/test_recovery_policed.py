"""Where first switches drop what comes otherwise than planned, less needs to be recovered from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents_from
from cnc.check import judge
from cnc.mechanisms.stream_filters.model import Policing, PolicingRules
from cnc.model import Forwarding, Intent, Plan, PortRef
from cnc.planner import Budget, plan
from tests.simulator.adversary import Chance, Nobody
from tests.simulator.outcome import Miss, missed
from tests.simulator.ports import Disturbance, LateFrame
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import MS, US, examples, intents, network, seeded, stream
from tests.unit.test_recovery import (
    SCHEDULES,
    longest_needed_ns,
    planned_to_recover,
    recovering,
)

OFF, COUNT, DROP = (PolicingRules(each) for each in Policing)
A, B = stream("a", "t", "l"), stream("b", "t", "l", payload_octets=1400)
JITTERY = network("t-s1", "u-s1", "s1-s2", "s2-l", processing_ns=(40_000, 100_000))


def policed(wanted: Intent, rules: PolicingRules) -> Intent:
    """The same in a bridged network, each stream on one path."""
    net = replace(wanted.network, forwarding=Forwarding.BRIDGED)
    once = {name: replace(its, paths=1) for name, its in wanted.streams.items()}
    return replace(wanted, network=net, streams=once).having(rules)


def line(rules: PolicingRules, *streams: object, net: object = None) -> Intent:
    its = net or network("t-s1", "u-s1", "s1-s2", "s2-l")
    return recovering(policed(bridged(its, *streams), rules))


def shipped(name: str, policing: str) -> Plan:
    document = intents_from.load(SCHEDULES / f"{name}.yaml").document
    return plan(intents_from.from_document({**document, "policing": policing}, name))


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bridged5", "guarded"])
def test_streams_recover_sooner_where_misfits_are_dropped_and_only_there(name: str) -> None:
    ignored, counted, dropped = (shipped(name, each) for each in ("off", "count", "drop"))
    assert judge(dropped) == []
    assert counted.recovery_ns == ignored.recovery_ns
    assert counted.streams == ignored.streams
    assert max(dropped.recovery_ns.values()) < 0.93 * max(counted.recovery_ns.values())


def test_a_long_stream_whose_misfits_are_not_dropped_delays_those_whose_are() -> None:
    both, long_one, neither = (
        plan(line(PolicingRules(Policing.OFF, {}, dict.fromkeys(names, Policing.DROP)), A, B))
        for names in ("ab", "a", "")
    )
    assert [judge(each) for each in (both, long_one, neither)] == [[], [], []]
    assert both.recovery_ns["a"] < long_one.recovery_ns["a"] == neither.recovery_ns["a"]


def test_the_judge_refuses_the_promise_of_dropped_misfits_where_they_are_not_dropped() -> None:
    dropped = shipped("bridged5", "drop")
    as_counted = replace(dropped, intent=dropped.intent.having(COUNT))
    assert {each.code for each in judge(as_counted)} == {"recovery"}
    assert {each.where for each in judge(as_counted)} == dropped.streams.keys()


def test_the_judge_refuses_such_a_promise_that_is_a_nanosecond_too_short() -> None:
    # Its switch may take so long for a frame that one which passes last of all is late.
    slow = network("t-s1", "u-s1", "s1-s2", "s2-l", processing_ns=(1_000, 50_000))
    often = [
        stream(f"f{n}", "tut"[n], "l", period_ns=MS // 4, payload_octets=200) for n in range(3)
    ]
    dropped = plan(recovering(line(DROP, *often, net=slow), 0))
    assert judge(dropped) == []
    for name, recovery_ns in dropped.recovery_ns.items():
        shorter = {**dropped.recovery_ns, name: recovery_ns - 1}
        found = judge(replace(dropped, recovery_ns=shorter))
        assert [(each.code, each.where) for each in found] == [("recovery", name)]


def test_what_passes_a_filter_as_it_opens_finds_the_gate_shut_until_its_window() -> None:
    # The switch takes 40 us for a frame at least, and its filter may look at it when they are over.
    # What passes as the filter opens is then in the queue 40 us before any frame that is on time.
    later = replace(A, earliest_ns=200 * US)
    until_shut = [
        plan(line(rules, later, net=JITTERY)).gates[PortRef("s1", "s2")].entries[0]
        for rules in (COUNT, DROP)
    ]
    assert [entry.gate_states for entry in until_shut] == [0xC1, 0xC1]
    assert until_shut[0].interval_ns - until_shut[1].interval_ns == 40_000


def test_the_judge_sees_to_it_that_such_a_frame_overtakes_none() -> None:
    streams = A, replace(A, name="c", talker="u")
    counted, dropped = (plan(line(rules, *streams, net=JITTERY)) for rules in (COUNT, DROP))
    assert judge(dropped) == []
    found = judge(replace(counted, intent=dropped.intent))
    assert ("fifo", "s1/s2") in {(each.code, each.where) for each in found}


def test_streams_whose_misfits_are_dropped_from_now_on_are_placed_anew() -> None:
    streams = A, replace(A, name="c", talker="u")
    counted, dropped = (line(rules, *streams, net=JITTERY) for rules in (COUNT, DROP))
    running = plan(counted)
    assert judge(plan(dropped, keep=running)) == []
    assert plan(counted, keep=plan(dropped)).streams == plan(dropped).streams


# --- a replay ------------------------------------------------------------------------------------


def some_dropped(wanted: Intent, seed: int) -> Intent:
    """Of all streams misfits are dropped, or of some."""
    random = seeded(seed)
    if random.random() < 0.5:
        return policed(wanted, DROP)
    chosen = {name: Policing.DROP for name in wanted.streams if random.random() < 0.7}
    return policed(wanted, PolicingRules(Policing.COUNT, {}, chosen))


def misses(p: Plan, seed: int, **what: Disturbance | LateFrame) -> list[Miss]:
    return missed(p, Chance(seed), duration_ns=longest_needed_ns(p), is_filtered=True, **what)


def too_long_after(p: Plan, found: list[Miss], end_ns: int) -> list[Miss]:
    """Those that the promise does not excuse."""
    error_ns = p.intent.network.clock_error_ns
    excused = {name: end_ns + its + error_ns for name, its in p.recovery_ns.items()}
    return [each for each in found if each.frame.begin_ns > excused[each.frame.flow.name]]


@examples(max_examples=20)
@given(
    intents(streams_max=6, entries_max=st.sampled_from([0, 0, 16, 6])),
    st.sampled_from([0, 20 * US, 100 * US]),
    st.integers(0, 1000),
)
def test_no_frame_is_late_for_longer_than_promised_if_misfits_are_dropped(
    wanted: Intent, lasts_ns: int, seed: int
) -> None:
    p = planned_to_recover(some_dropped(wanted, seed), lasts_ns)
    if p is None:
        return
    random, cycle = seeded(seed), p.intent.hyperperiod_ns()
    for port in sorted(p.gates):
        offsets = [
            hop.offset_ns for each in p.streams.values() for hop in each.hops if hop.egress == port
        ]
        disturbance = Disturbance(port, cycle + random.choice(offsets) - 1, lasts_ns)
        found = misses(p, random.randrange(1000), disturbance=disturbance)
        assert too_long_after(p, found, disturbance.end_ns) == []
    for name, planned in p.streams.items():
        period = p.intent.streams[name].period_ns
        # At any time, or a little too soon or too late: then its filter may let it pass.
        by_ns = random.choice([random.randrange(1, cycle), random.randrange(-10_000, 30_000)])
        late = LateFrame(name, cycle // period, by_ns)
        sent_ns = cycle + min(planned.talker_offsets_ns, default=0) + max(0, by_ns)
        found = [
            each
            for each in misses(p, random.randrange(1000), late_frame=late)
            if (each.frame.flow.name, each.frame.number) != late[:2]
        ]
        assert too_long_after(p, found, sent_ns) == []


@pytest.mark.parametrize("is_filtered", [True, False])
def test_a_late_frame_makes_others_late_unless_it_is_dropped(is_filtered: bool) -> None:
    # Short frames of one talker in the turn of long ones of the other, and no spare room.
    wanted = policed(
        bridged(network("t-s1", "u-s1", "s1-s2", "s2-l"), A, replace(B, talker="u")), DROP
    )
    p = plan(wanted, budget=Budget())
    turns = {name: its.talker_offsets_ns[0] for name, its in p.streams.items()}
    late = LateFrame("b", 2, (turns["a"] - turns["b"] - 13_000) % MS)
    found = missed(p, Nobody(), duration_ns=20 * MS, late_frame=late, is_filtered=is_filtered)
    others = [each for each in found if each.frame.flow.name == "a"]
    assert bool(others) is not is_filtered
