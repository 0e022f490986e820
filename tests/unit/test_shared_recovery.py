"""Disturbances of plans whose streams all share windows: when the judge says so, they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.check import judge, shared_recovery
from cnc.check.busy import BusyPeriods
from cnc.check.lists import readable_lists
from cnc.check.shared_recovery import SharedRecovery
from cnc.check.streams import judge_streams
from cnc.model import GateEntry, Intent, Plan, PortRef
from tests.simulator.adversary import Adversary, Chance, Slow
from tests.simulator.mutations import with_list
from tests.simulator.outcome import flows_of, missed, run, sent_by
from tests.simulator.ports import Disturbance, LateFrame
from tests.unit.planner_networks import CYCLIC, MS, US, network, seeded, stream
from tests.unit.window_plans import (
    WITHOUT_CONTROL,
    batch,
    beside_exact,
    by_hand,
    line,
    random_spare_room,
    ring,
    stored_batch,
    together,
    two_classes,
    wanted_by,
)

LASTS_NS = 100 * US


def asked_for(planned: Plan, lasts_ns: int) -> Plan:
    """The plan, all of whose streams are to recover from disturbances that last so long."""
    network_facts = planned.intent.network
    network_facts = replace(network_facts, disturbance_ns=lasts_ns, recovery_required=True)
    return replace(planned, intent=replace(planned.intent, network=network_facts))


Given = tuple[Intent, Mapping[PortRef, GateCycle], Sequence[Transmission], int]
"""What an account of a plan is made of."""


def given_by(planned: Plan) -> Given:
    lists = readable_lists(planned)
    transmissions, _ = judge_streams(planned, lists)
    lasts_ns = planned.intent.network.disturbance_ns
    assert lasts_ns is not None
    return planned.intent, lists, transmissions, lasts_ns


def account_of(planned: Plan) -> SharedRecovery:
    return SharedRecovery(*given_by(planned))


def recovering(
    planned: Plan,
    lasts_ns: int = LASTS_NS,
    account: Callable[..., SharedRecovery | BusyPeriods] = SharedRecovery,
) -> Plan:
    """The plan with the shortest promises that an account of the judge allows."""
    asked = asked_for(planned, lasts_ns)
    found = account(*given_by(asked)).by_stream()
    return replace(asked, recovery_ns={n: its for n, its in found.items() if its is not None})


def codes(planned: Plan) -> set[str]:
    return {violation.code for violation in judge(planned)}


PLANS: dict[str, Callable[[int], Plan]] = {
    "devices": lambda spare: batch(30, spare_ns=spare),
    "devices and a margin": lambda spare: batch(30, spare_ns=spare, margin_ns=50 * US),
    "a line": lambda spare: line(4, 9, spare_ns=spare),
    "a line and a margin": lambda spare: line(4, 9, spare_ns=spare, margin_ns=50 * US),
    "a ring": lambda spare: ring(6, 2, spare_ns=spare, apart_ns=500 * US),
    "a talker": lambda spare: together(20, spare_ns=spare),
}


def too_long(
    planned: Plan,
    against: Adversary,
    *,
    disturbance: Disturbance | None = None,
    late_frame: LateFrame | None = None,
) -> Iterator[str]:
    """The streams of which a frame is late that was sent later than promised."""
    if disturbance is not None:
        since = disturbance.end_ns
    else:
        assert late_frame is not None
        name, number, by_ns = late_frame
        since = planned.streams[name].talker_offsets_ns[0] + by_ns
        since += number * planned.intent.streams[name].period_ns
    since += planned.intent.network.clock_error_ns
    # Where the plan says nothing it recovers as soon as others, or not at all.
    longest = max(planned.recovery_ns.values(), default=MS)
    lasts = 4 * planned.intent.hyperperiod_ns() + longest
    for frame, _, _ in missed(
        planned, against, duration_ns=lasts, disturbance=disturbance, late_frame=late_frame
    ):
        name = frame.flow.name
        if frame.begin_ns - since > planned.recovery_ns.get(name, longest):
            yield name


def disturbances(planned: Plan, lasts_ns: int, step_ns: int) -> Iterator[Disturbance]:
    """At each port in turn, over a cycle in steps."""
    cycle = planned.intent.hyperperiod_ns()
    for port in sorted(planned.gates):
        for begin in range(cycle - lasts_ns, 2 * cycle - lasts_ns, step_ns):
            yield Disturbance(port, begin, lasts_ns)


def late_frames(planned: Plan, step_ns: int) -> Iterator[LateFrame]:
    """One of each of some streams, by all times up to a period in steps."""
    cycle = planned.intent.hyperperiod_ns()
    for name in sorted(planned.streams)[:3]:
        period = planned.intent.streams[name].period_ns
        for by_ns in range(1, period, step_ns):
            yield LateFrame(name, cycle // period, by_ns)


@pytest.mark.parametrize("name", PLANS)
def test_frames_are_in_time_again_as_soon_as_the_judge_allows_to_promise(name: str) -> None:
    planned = recovering(PLANS[name](MS))
    assert planned.recovery_ns.keys() == planned.streams.keys()
    assert judge(planned) == []
    for seed, disturbance in enumerate(disturbances(planned, LASTS_NS, 93 * US)):
        for against in (Slow(), Chance(seed)):
            assert list(too_long(planned, against, disturbance=disturbance)) == []
    for seed, late_frame in enumerate(late_frames(planned, 93 * US)):
        for against in (Slow(), Chance(seed)):
            assert list(too_long(planned, against, late_frame=late_frame)) == []


@pytest.mark.parametrize("name", PLANS)
def test_the_judge_refuses_promises_that_are_a_nanosecond_too_short_or_missing(name: str) -> None:
    planned = recovering(PLANS[name](MS))
    stream_name, promised = next(iter(planned.recovery_ns.items()))
    others = {n: its for n, its in planned.recovery_ns.items() if n != stream_name}
    for promise in ({**others, stream_name: promised - 1}, others):
        found = judge(replace(planned, recovery_ns=promise))
        assert [(each.code, each.where) for each in found] == [("recovery", stream_name)]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_without_spare_room_is_refused(name: str) -> None:
    planned = recovering(PLANS[name](0))
    assert planned.recovery_ns == {}
    assert codes(planned) == {"recovery"}


def test_without_spare_room_a_disturbance_makes_frames_late_in_every_later_window() -> None:
    planned = recovering(stored_batch(30, classes=WITHOUT_CONTROL))
    assert codes(planned) == {"recovery"}
    disturbance = Disturbance(PortRef("s1", "plc"), MS, LASTS_NS)
    found = missed(planned, Slow(), duration_ns=20 * MS, disturbance=disturbance)
    assert {frame.begin_ns // MS for frame, _, _ in found} == set(range(1, 20))


@pytest.mark.parametrize("name", ["devices", "a line", "a ring"])
def test_the_judge_allows_less_and_less_spare_room_until_frames_stay_late(name: str) -> None:
    """Longer disturbances need more."""
    least = {}
    for lasts in (20 * US, 100 * US, 300 * US):
        rooms = range(0, 800 * US, 20 * US)
        allowed = [bool(recovering(PLANS[name](room), lasts).recovery_ns) for room in rooms]
        assert allowed == sorted(allowed)
        least[lasts] = rooms[allowed.index(True)]
        assert least[lasts] > lasts
    assert least[20 * US] < least[100 * US] < least[300 * US]


def test_a_ring_in_which_frames_of_the_next_slot_may_meet_late_ones_is_refused() -> None:
    planned = recovering(ring(6, 2, spare_ns=MS))
    assert planned.recovery_ns == {}
    assert codes(planned) == {"recovery"}


def test_a_ring_around_which_lateness_may_be_handed_on_for_ever_is_refused() -> None:
    """What waits for the next slot anyway ends it, unless frames come too late for that."""
    planned = ring(4, 2, spare_ns=MS, apart_ns=510 * US)
    assert recovering(planned, 400 * US).recovery_ns.keys() == planned.streams.keys()
    account = account_of(asked_for(planned, 420 * US))
    assert set(account.by_stream().values()) == {None}
    assert all(its.room_ns >= account._late_ns[port] for port, its in account._ports.items())


def test_what_one_port_cannot_make_up_for_concerns_only_streams_behind_it() -> None:
    planned = line(3, 4, spare_ns=MS)
    last = PortRef("s3", "l")
    net = network("t-s1", "s1-s2", "s2-l", "u-s3", "s3-s4", "s4-m")
    apart = by_hand(wanted_by(net, stream("f", "t", "l"), stream("g", "u", "m")), spare_ns=MS)
    whole = recovering(apart)
    assert whole.recovery_ns.keys() == {"f", "g"}
    shut = recovering(without_spare_room(whole, PortRef("s2", "l")))
    assert shut.recovery_ns.keys() == {"g"}
    assert recovering(without_spare_room(planned, last)).recovery_ns == {}


def without_spare_room(planned: Plan, port: PortRef) -> Plan:
    """The gates of scheduled classes shut while that of best effort is open."""
    entries = [
        replace(e, gate_states=e.gate_states & 0x81) if e.gate_states & 1 else e
        for e in planned.gates[port].entries
    ]
    return with_list(planned, port, *entries)


@pytest.mark.parametrize("planned", [two_classes, beside_exact])
def test_other_plans_are_judged_by_the_account_of_all_scheduled_queues(
    planned: Callable[[], Plan],
) -> None:
    its = planned()
    assert codes(asked_for(its, LASTS_NS)) == {"recovery"}


# --- what the account leaves out ------------------------------------------------------------------


def too_late(planned: Plan, against: Adversary, disturbance: Disturbance) -> Iterator[str]:
    """Frames that leave a port of a switch later than the judge's account has it."""
    account = account_of(planned)
    account.by_stream()
    allowed = {
        (t.stream, t.egress): (t, account._behind_ns[n] + account._late_ns[t.egress])
        for n, t in enumerate(account._gated)
    }
    lasts = 3 * planned.intent.hyperperiod_ns()
    sent = list(sent_by(planned, flows_of(planned), lasts))
    record = run(planned, against, sent, end_ns=2 * lasts, disturbance=disturbance)
    for port, frame, at_ns in record.departures:
        if port.node in planned.intent.network.bridges:
            t, late_ns = allowed[frame.flow.name, port]
            left_ns = at_ns + t.frame_min_ns - frame.number * t.period_ns
            if left_ns > t.busy_until_ns + late_ns:
                yield f"{frame.flow.name} at {port}: {left_ns - t.busy_until_ns - late_ns} ns"


def after_one_port(planned: Plan) -> Iterator[str]:
    """What is later than it may be after disturbances of the first port, whose other frames end
    just in time."""
    port = min(planned.gates)
    for begin in range(MS - LASTS_NS, MS + LASTS_NS, 7 * US):
        yield from too_late(planned, Slow(), Disturbance(port, begin, LASTS_NS))


def tight_line(**choices: object) -> Plan:
    return line(4, 20, spare_ns=MS, clock_error_ns=0, classes=WITHOUT_CONTROL, **choices)


def no_frame_of_best_effort_in_spare_room(broken: pytest.MonkeyPatch) -> Iterator[str]:
    broken.setattr(shared_recovery._Port, "meets_ns", 0)
    return after_one_port(recovering(tight_line(margin_ns=50 * US)))


def nothing_is_handed_on(broken: pytest.MonkeyPatch) -> Iterator[str]:
    broken.setattr(SharedRecovery, "_settle", lambda _: None)
    return after_one_port(recovering(tight_line(margin_ns=50 * US)))


def no_disturbance(broken: pytest.MonkeyPatch) -> Iterator[str]:
    init = SharedRecovery.__init__
    broken.setattr(SharedRecovery, "__init__", lambda *given: init(*given[:-1], 0))
    return after_one_port(recovering(tight_line()))


def spare_room_has_no_end(broken: pytest.MonkeyPatch) -> Iterator[str]:
    broken.setattr(shared_recovery._Port, "room_ns", MS)
    planned = recovering(stored_batch(30, classes=WITHOUT_CONTROL))
    return too_long(planned, Slow(), disturbance=Disturbance(PortRef("s1", "plc"), MS, LASTS_NS))


def no_frame_waits_for_the_next_window(broken: pytest.MonkeyPatch) -> Iterator[str]:
    broken.setattr(SharedRecovery, "_add_unexpected", lambda *_: None)
    planned = recovering(stored_batch(30, spare_ns=200 * US, classes=WITHOUT_CONTROL))
    return too_long(planned, Slow(), late_frame=LateFrame("f0", 1, 300 * US))


BROKEN = [
    no_frame_of_best_effort_in_spare_room,
    nothing_is_handed_on,
    no_disturbance,
    spare_room_has_no_end,
    no_frame_waits_for_the_next_window,
]


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_an_account_that_leaves_one_thing_out_is_wrong_in_the_simulator(
    rule: Callable[[pytest.MonkeyPatch], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        assert list(rule(broken))


@pytest.mark.parametrize("margin_ns", [0, 50 * US])
def test_late_frames_leave_every_port_of_a_line_by_the_time_that_the_judge_counts_with(
    margin_ns: int,
) -> None:
    assert list(after_one_port(recovering(tight_line(margin_ns=margin_ns)))) == []


# --- any network ---------------------------------------------------------------------------------


def shorter_spare_room(planned: Plan, port: PortRef, by_ns: int) -> Plan:
    """The gate of the class shuts sooner behind each window, beside best effort."""
    bit, entries = 1 << CYCLIC.number, []
    for entry in planned.gates[port].entries:
        if entry.gate_states & 1 and entry.gate_states & bit:
            kept = max(0, entry.interval_ns - by_ns)
            entries.append(replace(entry, interval_ns=kept))
            less = entry.interval_ns - kept
            entries.append(GateEntry(entry.gate_states & ~bit, less))
        else:
            entries.append(entry)
    return with_list(planned, port, *(e for e in entries if e.interval_ns))


def outcome(planned: Plan, lasts_ns: int, seed: int) -> str:
    """`noticed` is refused by the judge; of the rest `missed` is wrong by the simulator."""
    if judge(planned):
        return "noticed"
    random, cycle = seeded(seed), planned.intent.hyperperiod_ns()
    for port in sorted(planned.gates):
        hops = [h for its in planned.streams.values() for h in its.hops if h.egress == port]
        hop = random.choice(hops)
        begin = cycle + hop.offset_ns + random.choice((-1, hop.window_ns // 2, -lasts_ns // 2))
        against = random.choice((Slow(), Chance(seed)))
        if any(too_long(planned, against, disturbance=Disturbance(port, begin, lasts_ns))):
            return "missed"
    for name in random.sample(sorted(planned.streams), 3):
        period = planned.intent.streams[name].period_ns
        by_ns = random.randrange(1, period)
        late_frame = LateFrame(name, cycle // period, by_ns)
        if any(too_long(planned, Slow(), late_frame=late_frame)):
            return "missed"
    return "kept"


def changes(planned: Plan, lasts_ns: int, seed: int) -> Mapping[str, tuple[Plan, int]]:
    """Plans with one thing changed, and how long a disturbance lasts."""
    random = seeded(seed)
    port = random.choice(sorted(planned.gates))
    name = random.choice(sorted(planned.recovery_ns))
    less = random.choice((1, 1000, planned.recovery_ns[name]))
    promise = {**planned.recovery_ns, name: max(0, planned.recovery_ns[name] - less)}
    longer = random.choice((1, 2 * lasts_ns, 2 * MS))
    shorter = shorter_spare_room(planned, port, random.choice((US, 100 * US, MS, 4 * MS)))
    return {
        "shorter spare room": (shorter, lasts_ns),
        "smaller promise": (replace(planned, recovery_ns=promise), lasts_ns),
        "longer disturbance": (asked_for(planned, lasts_ns + longer), lasts_ns + longer),
    }


@pytest.mark.parametrize("seed", range(1, 26))
def test_plans_of_random_networks_recover_as_promised_and_changes_are_noticed(seed: int) -> None:
    lasts = (5 * US, 20 * US, LASTS_NS, 400 * US)[seed % 4]
    for made in random_spare_room(seed):
        planned = recovering(made, lasts)
        if planned.recovery_ns.keys() != planned.streams.keys():
            assert codes(planned) == {"recovery"}
            continue
        assert outcome(planned, lasts, seed) == "kept"
        for port in sorted(planned.gates):
            hops = [h for its in planned.streams.values() for h in its.hops if h.egress == port]
            begin = planned.intent.hyperperiod_ns() + seeded(seed).choice(hops).offset_ns
            disturbance = Disturbance(port, begin - 1, lasts)
            assert list(too_late(planned, Chance(seed), disturbance)) == []
        for kind, (changed, changed_lasts) in changes(planned, lasts, seed).items():
            assert outcome(changed, changed_lasts, seed) in {"noticed", "kept"}, kind
