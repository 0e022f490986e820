"""Shared windows as the planner makes them: when, how many frames they carry, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import Plan, PortRef, Windows
from cnc.planner import _problem, plan
from cnc.planner.sharing import choice, share
from cnc.planner.sharing.placing import Sharing
from cnc.planner.sharing.taken import Taken
from tests.scale.mesh import mesh
from tests.shared_windows import networks
from tests.simulator.campaign import is_kept_by_chance
from tests.unit.planner_fuzz import sharing_plan, turning_plan
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    LINE,
    MS,
    SLOWER,
    US,
    intent,
    network,
    seeded,
    stream,
    with_streams,
)

RECOVERS = {"recovery": "100us"}
STAYS_LATE = {"recovery": "none"}


def shared(planned: Plan) -> set[str]:
    return {n for n, its in planned.streams.items() if its.is_shared}


def planned_for(document: networks.Document, **options: bool) -> Plan:
    made = plan(intents.from_document(document, "net.yaml"), **options)
    assert judge(made) == []
    return made


def test_frames_that_have_a_place_in_windows_of_their_own_share_none():
    streams = [stream(f"f{n}", "t", "l", windows=Windows.AUTO) for n in range(3)]
    assert shared(plan(intent(LINE, *streams))) == set()


@pytest.mark.parametrize(
    ("talkers", "rate", "margin", "recovery"),
    [
        (300, "1Gbps", "50us", STAYS_LATE),
        (300, "1Gbps", "50us", RECOVERS),
        (200, "1Gbps", "200us", STAYS_LATE),
        (45, "100Mbps", "50us", STAYS_LATE),
    ],
)
def test_behind_late_gates_as_many_frames_share_a_window_as_the_link_has_time_for(
    talkers: int, rate: str, margin: str, recovery: dict[str, str]
):
    document = networks.two_switches(talkers, rate=rate, gate_margin=margin, **recovery)
    made = planned_for(document)
    assert len(shared(made)) == talkers
    assert is_kept_by_chance(made, 1)


def test_windows_of_successive_switches_overlap():
    document = networks.two_switches(300, rate="1Gbps", gate_margin="50us", **STAYS_LATE)
    made = planned_for(document)
    _, first, last = made.streams["f0"].hops
    assert last.offset_ns < first.offset_ns + first.window_ns < last.offset_ns + last.window_ns
    assert made.streams["f0"].latency_bound_ns < first.window_ns + last.window_ns


def test_talkers_may_all_start_at_one_instant():
    made = planned_for(networks.synchronous(100, **STAYS_LATE, **{"gate-margin": "50us"}))
    assert len(made.streams) == 100
    assert {its.talker_offsets_ns for its in made.streams.values()} == {(0,)}


def between_three_switches(*classes: str) -> Plan:
    """60 streams that have to be there within their period, from switch to switch over a fourth."""
    random = seeded(1)
    cables = [f"s0-s{n}" for n in (1, 2, 3)] + [f"e{n}-s{1 + n % 3}" for n in range(9)]
    streams = []
    for name in (f"f{n}" for n in range(60)):
        talker = random.randrange(9)
        listener = random.choice([n for n in range(9) if n % 3 != talker % 3])
        wanted = stream(name, f"e{talker}", f"e{listener}", traffic_classes=classes)
        streams.append(
            replace(
                wanted,
                period_ns=500 * US,
                max_latency_ns=500 * US,
                payload_octets=1400,
                windows=Windows.SHARED,
            )
        )
    net = replace(network(*cables), gate_margin_ns=50 * US)
    return plan(
        intent(net, *streams, classes=(CYCLIC, SLOWER, BEST_EFFORT)),
        best_effort=True,
    )


def test_two_classes_take_turns_where_one_has_no_place_for_all():
    """Frames that are early for the next window of their class wait, while that of the other is
    open, and leave sooner by shorter windows."""
    assert len(between_three_switches("cyclic").streams) < 60
    made = between_three_switches("cyclic", "slower")
    assert len(made.streams) == 60
    numbers = [hop.traffic_class for hop in made.streams["f0"].hops]
    assert len(set(numbers)) == 1
    assert {its.hops[0].traffic_class for its in made.streams.values()} == {4, 6}
    assert judge(made) == []
    assert is_kept_by_chance(made, 1)


@pytest.mark.parametrize(
    ("placed", "taking_turns"),
    [
        pytest.param((4, 5, 7, 6), 3, id="the best of those tried"),
        pytest.param((4, 9, 9, 9), 2, id="no more than are needed"),
        pytest.param((4, 3, 7, 7), 1, id="none where two carry fewer than one"),
    ],
)
def test_so_many_classes_take_turns_as_carry_most(
    placed: tuple[int, ...], taking_turns: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Sharing, "place", lambda *_: None)
    monkeypatch.setattr(Sharing, "count", property(lambda its: placed[its._asked.turns - 1]))
    assert best_of_nine(*TURNING)._asked.turns == taking_turns


TURNING = (6, 5, 4, 3)


def best_of_nine(*numbers: int) -> Sharing:
    """The layout that is taken of those for nine streams that may have any of these classes."""
    classes = [replace(CYCLIC, name=f"c{n}", number=n, priority=n, dscps=(8 * n,)) for n in numbers]
    names = tuple(its.name for its in classes)
    streams = [stream(f"f{n}", "t", "l", traffic_classes=names) for n in range(9)]
    asked = _problem(intent(LINE, *streams, classes=(*classes, BEST_EFFORT)), None, 1)[0]
    return choice.best_sharing(asked, list(asked.intent.streams), numbers, Taken(asked, ()))


def test_of_many_streams_each_number_of_classes_is_tried_once_and_the_best_at_length(
    monkeypatch: pytest.MonkeyPatch,
):
    once: list[int] = []  # turns
    at_length: list[tuple[int, int]] = []  # turns, fillings
    monkeypatch.setattr(Sharing, "place_once", lambda its: once.append(its._asked.turns))

    def place(its: Sharing, fillings: int) -> None:
        at_length.append((its._asked.turns, fillings))

    monkeypatch.setattr(Sharing, "place", place)
    monkeypatch.setattr(Sharing, "count", property(lambda its: (4, 3, 7, 7)[its._asked.turns - 1]))
    monkeypatch.setattr(choice, "MANY", 8)
    monkeypatch.setattr(choice, "_FILLED_STREAMS", 20)
    assert best_of_nine(*TURNING)._asked.turns == 3
    assert once == [1, 2, 3, 4, 1, 2, 3, 4]  # with all ranks of switches, and with few
    assert at_length == [(3, 3)]


def test_what_the_operator_asks_for_holds_whether_or_not_there_is_room():
    own = stream("own", "t", "l", traffic_classes=("slower",), windows=Windows.EXACT)
    together = [stream(f"f{n}", "t", "l", windows=Windows.SHARED) for n in range(3)]
    made = plan(intent(LINE, own, *together))
    assert shared(made) == {"f0", "f1", "f2"}
    assert judge(made) == []


def test_a_class_with_windows_of_single_frames_has_no_shared_ones():
    own = stream("own", "t", "l", windows=Windows.EXACT)
    other = stream("other", "t", "l", windows=Windows.SHARED)
    with pytest.raises(Unschedulable, match="its class has frames with windows of their own"):
        plan(intent(LINE, own, other))


def test_full_windows_are_named_with_what_fills_them():
    document = networks.two_switches(60, rate="100Mbps", gate_margin="50us", **STAYS_LATE)
    with pytest.raises(Unschedulable) as refused:
        planned_for(document)
    assert (
        "the windows that frames share are full: at s1/s2 those of one slot of 1000 µs take"
        in str(refused.value)
    )


def test_a_short_list_opens_the_window_in_each_slot():
    net = network("t-s1", "s1-l", "u-s1")
    links = {port: replace(link, gate_entries_max=4) for port, link in net.links.items()}
    net = replace(net, links=links)
    streams = [
        stream(
            f"f{n}",
            "tu"[n % 2],
            "l",
            period_ns=(1, 2, 4, 8)[n % 4] * MS,
            max_latency_ns=MS,
            windows=Windows.SHARED,
        )
        for n in range(8)
    ]
    made = plan(intent(net, *streams))
    assert judge(made) == []
    assert made.gates[PortRef("s1", "l")].cycle_ns == MS
    assert len(made.gates[PortRef("s1", "l")].entries) <= 4


def test_what_is_kept_beside_new_streams_does_not_share():
    streams = [stream(f"f{n}", "t", "l", windows=Windows.AUTO) for n in range(3)]
    running = plan(intent(LINE, *streams[:2]))
    around = plan(intent(LINE, *streams), keep=running)
    assert {n: around.streams[n].paths for n in running.streams} == {
        n: its.paths for n, its in running.streams.items()
    }


def test_new_streams_raise_no_bound_of_those_that_keep_sharing_windows():
    together = [stream(f"f{n}", "t", "l", windows=Windows.SHARED) for n in range(4)]
    rare = stream("rare", "t", "l", period_ns=2 * MS, windows=Windows.SHARED)
    other = stream("other", "t", "l", period_ns=2 * MS, windows=Windows.SHARED)
    running = plan(intent(LINE, *together, rare))
    beside = plan(intent(LINE, *together, rare, other), keep=running)  # in the other slots
    for name, its in running.streams.items():
        assert beside.streams[name].latency_bound_ns <= its.latency_bound_ns
    crowd = [stream(f"more{n}", "t", "l", windows=Windows.SHARED) for n in range(3)]
    asked = intent(LINE, *together, rare, other, *crowd)
    with pytest.raises(Unschedulable, match="a plan with --keep raises no bound") as refused:
        plan(asked, keep=running)
    assert set(refused.value.reasons) == {"more0", "more1", "more2"}
    made = plan(asked, keep=running, best_effort=True)
    assert made.refused.keys() == {"more0", "more1", "more2"}
    assert made.streams.keys() == {*running.streams, "other"}
    assert judge(made) == []


def test_a_stream_that_is_late_in_the_fullest_windows_is_refused_with_its_bound():
    wanted = intent(LINE, *(stream(f"f{n}", "t", "l", windows=Windows.SHARED) for n in range(20)))
    tight = replace(wanted.streams["f0"], max_latency_ns=15 * US)
    with pytest.raises(Unschedulable, match="no window that frames share brings it in time"):
        plan(with_streams(wanted, tight, *list(wanted.streams.values())[1:]))


def test_streams_that_would_be_late_even_alone_take_no_room_of_others():
    document = networks.two_switches(70, rate="100Mbps", gate_margin="50us", **STAYS_LATE)
    slow = {f"f{number}" for number in range(30)}
    for name in slow:
        document["streams"][name]["max-latency"] = "100us"
    planned = planned_for(document, best_effort=True)
    assert shared(planned) == planned.intent.streams.keys() - slow
    assert planned.refused.keys() == slow
    assert all("µs even alone, its max-latency" in why for why in planned.refused.values())


def odd_period() -> networks.Document:
    """Streams of 1 ms, and one of a period that has only 100 µs in common with that."""
    document = networks.two_switches(60, rate="1Gbps", gate_margin="50us", **STAYS_LATE)
    document["streams"]["f0"] |= {"period": "1100us", "max-latency": "1ms"}
    return document


def test_one_stream_that_would_cut_the_slots_of_all_too_short_goes_without_a_place():
    planned = planned_for(odd_period(), best_effort=True)
    odd, *others = planned.intent.streams
    assert planned.streams.keys() == set(others)
    why = "each slot of 1000 µs, of which its period of 1100 µs is no multiple"
    assert why in planned.refused[odd]


def test_streams_of_all_periods_share_windows_where_short_slots_have_room_for_all():
    document = networks.two_switches(12, rate="1Gbps", gate_margin="50us", **STAYS_LATE)
    document["streams"]["f0"] |= {"period": "1500us", "max-latency": "1ms"}
    planned = planned_for(document)
    assert shared(planned) == planned.intent.streams.keys()


def test_the_order_in_which_streams_are_asked_for_decides_nothing():
    document = networks.loaded(networks.grid(3), load_percent=12, **STAYS_LATE)
    asked = intents.from_document(document, "net.yaml").with_gate_margin(50 * US)
    orders = list(asked.streams), list(reversed(asked.streams))
    one, other = (share(_problem(asked, None, 1)[0], names).streams for names in orders)
    assert one == other


@pytest.mark.parametrize("seed", range(1, 25))
def test_plans_with_shared_windows_are_sound_and_kept(seed: int):
    for made in sharing_plan(seed):
        assert judge(made) == []
        assert is_kept_by_chance(made, seed)


@pytest.mark.parametrize(("seed", "turns"), [(4, 2), (7, 2), (9, 2), (15, 4)])
def test_plans_of_classes_that_take_turns_are_sound_and_kept(seed: int, turns: int):
    for made in turning_plan(seed):
        assert len({its.hops[0].traffic_class for its in made.streams.values()}) == turns
        assert judge(made) == []
        assert is_kept_by_chance(made, seed)


def test_a_stream_that_is_to_have_exact_windows_is_told_of_shared_ones():
    document = networks.two_switches(
        20, rate="1Gbps", gate_margin="50us", windows="exact", **STAYS_LATE
    )
    with pytest.raises(Unschedulable, match="or `windows: auto`, with which frames share"):
        planned_for(document)


def test_many_streams_around_a_ring_are_led_up_and_down_at_once(monkeypatch: pytest.MonkeyPatch):
    """Else layouts are tried for minutes in which some frames come too early around the ring."""
    few = mesh(300, 15)
    streams = {n: replace(its, windows=Windows.SHARED) for n, its in few.streams.items()}
    network = replace(few.network, disturbance_ns=100 * US)
    tried: list[Sharing] = []
    place_once = Sharing.place_once
    monkeypatch.setattr(Sharing, "place_once", lambda its: (tried.append(its), place_once(its)))
    monkeypatch.setattr(choice, "MANY", 300)
    made = plan(replace(few, streams=streams, network=network))
    assert judge(made) == []
    assert len(shared(made)) == 300
    assert [its.has_rings for its in tried] == [False]
