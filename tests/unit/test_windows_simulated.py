"""Windows that frames share, in plans by hand: what the judge allows, the simulator keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cnc.account import travel, wire
from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.check import arrivals, judge, shared, whole
from cnc.mechanisms.stream_filters import derive
from cnc.mechanisms.stream_filters.derive import window_gate
from cnc.mechanisms.stream_filters.model import Policing, PolicingRules, WindowGate
from cnc.model import (
    Bridge,
    Elimination,
    EndStation,
    GateControlList,
    GateEntry,
    Network,
    Plan,
    PortRef,
    StreamPlan,
)
from tests.simulator.adversary import Adversary, Chance, Nobody, Slow
from tests.simulator.campaign import verdict, verdict_of_mutation, with_shortest_windows
from tests.simulator.mutations import with_list, with_shorter_windows, with_stream
from tests.simulator.outcome import flows_of, missed, misses, run, sent_by
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import BUSY_NS, MS, RING, US, network, stream
from tests.unit.shared_windows import sharing
from tests.unit.window_plans import (
    WITHOUT_CONTROL,
    batch,
    beside_exact,
    by_hand,
    early,
    line,
    random_windows,
    ring,
    slot_after_slot,
    stored_batch,
    together,
    two_classes,
    two_goes,
    wanted_by,
)

PLC = PortRef("s1", "plc")
CYCLIC_NUMBER = 6

PLANS: dict[str, Callable[[], Plan]] = {
    **{
        f"{n} devices, margin {margin} ns": partial(batch, n, margin_ns=margin)
        for n in (4, 30, 200, 600)
        for margin in (0, 50 * US)
    },
    **{
        f"{n} switches in a line, margin {margin} ns": partial(line, n, 20, margin_ns=margin)
        for n in (2, 4)
        for margin in (0, 50 * US)
    },
    "a ring": partial(ring, 6, 2),
    "a ring with much to do and a margin": partial(ring, 6, 8, margin_ns=50 * US),
    "a talker that starts all at once": partial(together, 20),
    "several frames of each stream": partial(line, 4, 8, frames=5),
    "several frames from one talker": partial(together, 6, frames=4, margin_ns=20 * US),
    "two classes": two_classes,
    "two classes and a margin": partial(two_classes, margin_ns=50 * US),
    "exact frames beside": beside_exact,
    "exact frames beside, and a margin": partial(beside_exact, margin_ns=20 * US),
    "frames of the next slot": early,
    "more frames than in one go": partial(two_goes, margin_ns=50 * US),
}


def adversaries(chances: int = 6) -> list[Adversary]:
    return [Slow(), *map(Chance, range(chances))]


def late(planned: Plan, against: Iterable[Adversary], duration_ns: int = 4 * MS) -> int:
    """How many frames come late, or never although no link lost them."""
    return sum(len(missed(planned, each, duration_ns=duration_ns)) for each in against)


@pytest.mark.parametrize("name", PLANS)
def test_frames_that_share_windows_by_hand_are_in_time_and_judged_so(name: str) -> None:
    planned = PLANS[name]()
    assert judge(planned) == []
    assert late(planned, adversaries()) == 0


def least_slack_ns(planned: Plan, against: Iterable[Adversary], duration_ns: int = 4 * MS) -> int:
    """By how much the latest frame is sooner than its bound."""
    sent = list(sent_by(planned, flows_of(planned), duration_ns))
    return min(
        planned.streams[each.frame.flow.name].latency_bound_ns - each.latency_ns
        for adversary in against
        for each in run(planned, adversary, sent, end_ns=10 * duration_ns).arrivals
    )


# Those whose worst case is one that the adversaries find, to within a frame, and where.
TIGHT: dict[str, tuple[Callable[[], Plan], int]] = {
    "4 devices": (partial(stored_batch, 4), 849),
    "600 devices and a margin": (
        partial(stored_batch, 600, margin_ns=50 * US, classes=WITHOUT_CONTROL),
        849,
    ),
    "a talker": (partial(together, 20, clock_error_ns=0, classes=WITHOUT_CONTROL), BUSY_NS),
    "a line": (partial(line, 2, 20, clock_error_ns=0, classes=WITHOUT_CONTROL), BUSY_NS),
    "a long line": (
        partial(line, 4, 20, clock_error_ns=0, margin_ns=50 * US, classes=WITHOUT_CONTROL),
        BUSY_NS,
    ),
    "several frames": (
        partial(line, 4, 8, frames=5, clock_error_ns=0, classes=WITHOUT_CONTROL),
        BUSY_NS,
    ),
    "frames of the next slot": (partial(early, classes=WITHOUT_CONTROL), BUSY_NS),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_latest_frame_comes_as_late_as_its_bound_says(name: str) -> None:
    planned, frame_ns = TIGHT[name][0](), TIGHT[name][1]
    assert 0 <= least_slack_ns(planned, adversaries()) < min(frame_ns, 300)


@pytest.mark.parametrize("name", TIGHT)
def test_in_a_window_to_a_listener_that_is_shorter_by_a_frame_some_frame_is_late(name: str) -> None:
    planned, frame_ns = TIGHT[name][0](), TIGHT[name][1]
    (last,) = [
        port
        for port in planned.gates
        if planned.intent.network.links[port].target.node in {"l", "plc"}
    ]
    shorter = with_shorter_windows(planned, last, CYCLIC_NUMBER, frame_ns)
    assert {violation.code for violation in judge(shorter)} == {"window-full"}
    assert late(shorter, adversaries()) > 0


def test_frames_that_come_after_their_window_are_late_where_it_begins_in_the_cycle_before() -> None:
    planned = batch(4, margin_ns=0)
    cycle_ns, window_ns = planned.gates[PLC].cycle_ns, planned.streams["f0"].hops[-1].window_ns
    around = GateControlList(
        cycle_ns,
        (
            GateEntry(0xC0, window_ns),
            GateEntry(0x81, cycle_ns - 2 * window_ns),
            GateEntry(0xC0, window_ns),
        ),
    )

    def moved(its: StreamPlan) -> StreamPlan:
        first, last = its.hops
        first = replace(first, offset_ns=cycle_ns // 2)
        return replace(its, paths=((first, replace(last, offset_ns=0)),))

    streams = {name: moved(its) for name, its in planned.streams.items()}
    after = replace(planned, streams=streams, gates={**planned.gates, PLC: around})
    assert {(each.code, each.where) for each in judge(after)} == {("window-full", str(PLC))}


@pytest.mark.parametrize("name", PLANS)
def test_the_judge_refuses_each_window_that_is_shorter_by_a_frame(name: str) -> None:
    planned = PLANS[name]()
    shared = {
        (hop.egress, hop.traffic_class)
        for its in planned.streams.values()
        for hop in its.hops
        if hop.is_shared and hop.egress in planned.gates
    }
    for port, number in shared:
        codes = {each.code for each in judge(with_shorter_windows(planned, port, number, BUSY_NS))}
        assert codes == {"window-full"}, port


def test_frames_that_come_after_their_window_are_refused() -> None:
    """A window of the period before would be for them, if the plan said so."""
    planned = batch(4)
    for name, its in planned.streams.items():
        first, last = its.paths[0]
        later = replace(first, offset_ns=500 * US)
        bound = its.latency_bound_ns - 500 * US
        planned = with_stream(planned, name, StreamPlan(((later, last),), bound))
    assert {violation.code for violation in judge(planned)} == {"window-full"}
    assert late(planned, [Slow()]) > 0


def late_and_filtered(**requirements: object) -> Plan:
    """A stream around a ring, whose talker may be late, in windows of 100 us. Its first switch
    drops what comes otherwise than planned."""
    net = replace(
        RING, end_stations={**RING.end_stations, "t": EndStation("t", lateness_ns=60 * US)}
    )
    once = stream("once", "t", "l", max_latency_ns=4 * MS, **requirements)
    wanted = bridged(net, once).having(PolicingRules(Policing.DROP))
    network_facts = replace(wanted.network, disturbance_ns=None)
    return sharing(replace(wanted, network=network_facts), 100 * US, 550 * US)


@pytest.mark.parametrize(
    "requirements", [{"frames": 3}, {"paths": 2, "elimination": Elimination.SWITCH}]
)
def test_filters_and_the_elimination_of_copies_let_all_frames_of_shared_windows_pass(
    requirements: dict[str, object],
) -> None:
    planned = late_and_filtered(**requirements)
    assert judge(planned) == []
    for each in adversaries(10):
        assert missed(planned, each, duration_ns=20 * MS, is_filtered=True) == []


def test_filters_that_shut_before_a_window_is_over_drop_frames_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the talker had stated no lateness."""
    planned = late_and_filtered()

    def too_short(*given: Any) -> WindowGate:
        gate = window_gate(*given)
        return replace(gate, open_ns=gate.open_ns - 60 * US)

    monkeypatch.setattr(derive, "window_gate", too_short)
    assert any(
        missed(planned, each, duration_ns=20 * MS, is_filtered=True) for each in adversaries()
    )


class LateAtFirst(Nobody):
    """Each switch behind the first takes as long as it may for what comes to it in the first slots,
    in the next one slot more than in the one before; and then as little."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._passed: Counter[str] = Counter()

    def processing_ns(self, bridge: Bridge) -> int:
        self._passed[bridge.name] += 1
        slots = int(bridge.name[1:]) - 1
        nearby = slots + 1 if bridge.name == "s5" else 0
        is_late = self._passed[bridge.name] <= slots * self._frames + nearby
        return bridge.processing_max_ns if is_late else bridge.processing_min_ns


def test_frames_that_may_be_early_by_several_periods_count_for_a_window() -> None:
    """What was sent in five slots waits together for one window, where all had been late before,
    each less often than the one before it."""
    planned = slot_after_slot(6)
    assert judge(planned) == []
    assert misses(planned, LateAtFirst(6), duration_ns=16 * MS) == []
    shorter = with_shorter_windows(planned, PortRef("s5", "l"), CYCLIC_NUMBER, 60 * US)
    assert {violation.code for violation in judge(shorter)} == {"window-full"}
    assert misses(shorter, LateAtFirst(6), duration_ns=16 * MS)


def test_a_plan_whose_frames_wait_for_years_is_refused_at_once() -> None:
    planned = stored_batch(4)
    for name, its in planned.streams.items():
        first, last = its.paths[0]
        never = replace(last, offset_ns=last.offset_ns + 10**12 * MS)
        bound = its.latency_bound_ns + 10**12 * MS
        planned = with_stream(planned, name, StreamPlan(((first, never),), bound))
    assert "deadline" in {violation.code for violation in judge(planned)}


@pytest.mark.parametrize("devices", [1, 4, 200])
@pytest.mark.parametrize("margin", [0, 50 * US])
def test_the_window_of_a_batch_is_its_margin_its_control_and_its_frames(
    devices: int, margin: int
) -> None:
    """At 1 Gb/s, for frames of 106 octets, 848 ns, or a little more on the slowest link.

    A control frame has 148 octets. It comes when the longest frame has just begun, of 1542 octets,
    and a tenth of the rate comes until the last frame starts.
    """
    planned = stored_batch(devices, margin_ns=margin)
    path = planned.streams["f0"].paths[0]
    frames = devices * 849
    control = (1185 + (12_338 + frames - 849) / 10) / 0.9
    assert path[-1].window_ns == pytest.approx(margin + control + frames, abs=10 + frames / 10_000)
    # From the talker, less the gap behind the last frame.
    bound = path[-1].offset_ns + path[-1].window_ns - 95 + 100
    assert planned.streams["f0"].latency_bound_ns == bound


def of(planned: Plan, **network_facts: object) -> Plan:
    """The plan on a network of which more is stated than it was made for."""
    changed = replace(planned.intent.network, **network_facts)
    return replace(planned, intent=replace(planned.intent, network=changed))


def shorter_at_plc(planned: Plan, by_ns: int) -> Plan:
    return with_shorter_windows(planned, PLC, CYCLIC_NUMBER, by_ns)


def no_margin(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(shared, "held_up_ns", lambda *_: 0)
    planned = stored_batch(30, margin_ns=50 * US, classes=WITHOUT_CONTROL)
    return shorter_at_plc(planned, 50 * US)


def no_control_burst(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(wire, "_control_burst_ns", lambda *_: 0)
    return shorter_at_plc(stored_batch(4), int(1185 / 0.9))


def no_control_but_its_burst(broken: pytest.MonkeyPatch) -> Plan:
    keeps_ns = shared.ControlOnLink.keeps_ns
    broken.setattr(shared.ControlOnLink, "keeps_ns", lambda its, _: keeps_ns(its, 0))
    return shorter_at_plc(stored_batch(200), int(199 * 849 / 9))


def too_little_by_one_link(broken: pytest.MonkeyPatch) -> Plan:
    """From a fast link to a slow one, long after the gate has opened: what comes then waits."""
    flow = arrivals._flow
    broken.setattr(arrivals, "_flow", lambda t: flow(t) // 10)
    net = network("t-s1", "s1-plc", clock_error_ns=0)
    slow = {PLC: replace(net.links[PLC], rate_bps=10**8)}
    late = {"t": replace(net.end_stations["t"], lateness_ns=400 * US)}
    net = replace(net, links={**net.links, **slow}, end_stations={**net.end_stations, **late})
    planned = by_hand(
        wanted_by(net, *(stream(f"f{n}", "t", "plc") for n in range(20)), classes=WITHOUT_CONTROL)
    )
    return shorter_at_plc(planned, 150 * US)


def no_early_frames(broken: pytest.MonkeyPatch) -> Plan:
    late = shared._Queue._late
    broken.setattr(
        shared._Queue,
        "_late",
        lambda self, planned, _there, *others: late(self, planned, list(planned), *others),
    )
    long_frame = PortRef("s2", "l"), CYCLIC_NUMBER, 12_339
    return with_shorter_windows(early(classes=WITHOUT_CONTROL), *long_frame)


def links_are_never_slow(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(Network, "occupation_max_ns", Network.occupation_ns)
    return shorter_at_plc(stored_batch(600, classes=WITHOUT_CONTROL), 600)


def clocks_agree(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(travel.Travel, "_by_ns", lambda _self, times, *_: travel._last_ns(times))
    planned = of(batch(4, clock_error_ns=0, classes=WITHOUT_CONTROL), clock_error_ns=20 * US)
    for name, its in planned.streams.items():
        bound = its.latency_bound_ns + 20 * US
        planned = with_stream(planned, name, replace(its, latency_bound_ns=bound))
    return planned


def no_guard_band(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(shared, "guard_ns", lambda *_: 0)
    planned = stored_batch(4)
    entries = planned.gates[PLC].entries
    opened = (replace(e, gate_states=0x81) if e.gate_states == 0x80 else e for e in entries)
    return with_list(planned, PLC, *opened)


def one_frame_of_each(broken: pytest.MonkeyPatch) -> Plan:
    with_changed_frames(broken, lambda t: t._replace(work_ns=t.frame_ns))
    planned = line(2, 8, clock_error_ns=0, classes=WITHOUT_CONTROL)
    streams = {n: replace(s, frames=5) for n, s in planned.intent.streams.items()}
    return replace(planned, intent=replace(planned.intent, streams=streams))


def no_gap_between_frames(broken: pytest.MonkeyPatch) -> Plan:
    with_changed_frames(
        broken, lambda t: t._replace(work_ns=t.work_ns - 96, frame_ns=t.frame_ns - 96)
    )
    return shorter_at_plc(stored_batch(200, classes=WITHOUT_CONTROL), 200 * 96)


def talkers_are_in_time(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(Network, "lateness_ns", lambda *_: 0)
    planned = batch(4, clock_error_ns=0, classes=WITHOUT_CONTROL)
    stations = planned.intent.network.end_stations
    return of(
        planned,
        end_stations={name: replace(s, lateness_ns=50 * US) for name, s in stations.items()},
    )


def all_in_one_go(broken: pytest.MonkeyPatch) -> Plan:
    broken.setattr(shared, "FRAMES_IN_ONE_GO", 10_000)
    return shorter_at_plc(two_goes(margin_ns=50 * US), 50 * US)


def gates_close_in_time(broken: pytest.MonkeyPatch) -> Plan:
    judge_gate = shared._Queue.judge_gate

    def never_early(self: shared._Queue, gates: GateCycle) -> Iterator[Violation]:
        gates.early_ns = 0
        return judge_gate(self, gates)

    broken.setattr(shared._Queue, "judge_gate", never_early)
    planned = stored_batch(4)
    links = planned.intent.network.links
    return of(planned, links={**links, PLC: replace(links[PLC], gate_early_ns=3 * US)})


def with_changed_frames(
    broken: pytest.MonkeyPatch, change: Callable[[Transmission], Transmission]
) -> None:
    broken.setattr(
        whole,
        "judge_shared",
        lambda planned, lists, its: shared.judge_shared(planned, lists, map(change, its)),
    )


BROKEN = [
    no_margin,
    no_control_burst,
    no_control_but_its_burst,
    too_little_by_one_link,
    no_early_frames,
    links_are_never_slow,
    clocks_agree,
    no_guard_band,
    one_frame_of_each,
    no_gap_between_frames,
    talkers_are_in_time,
    gates_close_in_time,
    all_in_one_go,
]


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_a_judge_that_leaves_one_thing_out_allows_what_makes_frames_late(
    rule: Callable[[pytest.MonkeyPatch], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        wrong = rule(broken)
        assert judge(wrong) == []
    assert judge(wrong) != []
    assert late(wrong, adversaries(12)) > 0


@pytest.mark.parametrize("seed", range(1, 11))
def test_windows_by_hand_of_random_networks_keep_their_promises_and_changes_are_noticed(
    seed: int,
) -> None:
    for planned in random_windows(seed):
        assert verdict(planned, seed) == "kept"
        for change in range(4):
            kind, became = verdict_of_mutation(planned, 4 * seed + change)
            assert became in {"noticed", "kept"}, kind


@pytest.mark.parametrize(
    "name",
    [
        "4 switches in a line, margin 50000 ns",
        "a ring",
        "two classes and a margin",
        "exact frames beside, and a margin",
        "frames of the next slot",
    ],
)
def test_the_shortest_windows_that_the_judge_allows_are_long_enough(name: str) -> None:
    shortest = with_shortest_windows(PLANS[name]())
    assert judge(shortest) == []
    assert late(shortest, adversaries()) == 0
