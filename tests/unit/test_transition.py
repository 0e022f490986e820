"""From one bridged plan to the next: new addresses for new ways, both at once, and no circle."""

from __future__ import annotations

from collections.abc import ItemsView
from dataclasses import replace

import pytest

from cnc.check.transition import judge_transition, require_sound_transition
from cnc.data_tree.state import SwitchState
from cnc.errors import PlanRejected
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import (
    NO_GATES,
    AddressRange,
    BridgeForwarding,
    EndStation,
    Forwarding,
    Hop,
    Intent,
    IpIdentification,
    Management,
    Plan,
    PortRef,
    StreamAddress,
    StreamPlan,
)
from cnc.planner import plan
from cnc.plans.transition import Transition, joined, on_ports, transition
from cnc.rollout.goal import Goal
from tests.unit.asked import asked
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.planner_networks import network, stream

CUT = (PortRef("s1", "s2"), PortRef("s2", "s1"))


def managed(intent: Intent, *stations: str) -> Intent:
    ends = {
        name: EndStation(name, Management(f"10.99.3.{number}"))
        for number, name in enumerate(stations, start=1)
    }
    net = intent.network
    return replace(intent, network=replace(net, end_stations={**net.end_stations, **ends}))


def without_cable(intent: Intent) -> Intent:
    """The ring without the cable between s1 and s2: streams between them go around."""
    links = {port: link for port, link in intent.network.links.items() if port not in CUT}
    return replace(intent, network=replace(intent.network, links=links))


def two_streams(**requirements: object) -> Intent:
    """One stream over the cable that goes, and one that does not need it."""
    around = stream("around", "e1", "e2", **requirements)
    return managed(bridged(RING5, around, stream("stays", "e4", "e3")), "e1", "e4")


@pytest.fixture(scope="module")
def former() -> Plan:
    return plan(two_streams())


@pytest.fixture(scope="module")
def new(former: Plan) -> Plan:
    return plan(without_cable(former.intent), keep=former)


# --- addresses -----------------------------------------------------------------------------------


def test_a_stream_that_gets_another_way_gets_another_address(former: Plan, new: Plan) -> None:
    assert new.addresses["around"] not in former.addresses.values()
    assert new.addresses["stays"] == former.addresses["stays"]


def test_the_way_back_is_by_another_address_as_well(former: Plan, new: Plan) -> None:
    anew = plan(former.intent, addressed=new)
    assert anew.addresses["around"] not in new.addresses.values()


def test_a_stream_that_only_leaves_at_another_time_keeps_its_address(former: Plan) -> None:
    later = replace(former.intent.streams["around"], earliest_ns=300_000)
    intent = replace(former.intent, streams={**former.intent.streams, "around": later})
    moved = plan(intent, keep=former)
    assert moved.streams["around"] != former.streams["around"]
    assert moved.addresses == former.addresses


def test_a_stream_whose_talker_no_push_reaches_keeps_its_address() -> None:
    former = plan(bridged(RING5, stream("around", "e1", "e2")))
    new = plan(without_cable(former.intent), keep=former)
    assert new.addresses == former.addresses
    assert transition(former, new).exposed == {
        "around": (
            "no push reaches its talker e1, which has no `management`: the stream keeps its address"
        )
    }


def test_what_the_operator_states_of_an_address_holds_on_another_way() -> None:
    stated = plan(two_streams(destination_mac="03:54:53:4e:00:77", vlan_id=20))
    new = plan(without_cable(stated.intent), keep=stated)
    assert new.addresses == stated.addresses
    assert transition(stated, new).exposed == {
        "around": "`destination-mac` and `vlan` of the stream leave no other address"
    }


def test_where_one_half_of_an_address_is_stated_the_other_half_changes() -> None:
    stated = plan(two_streams(destination_mac="03:54:53:4e:00:77"))
    intent = replace(stated.intent, assignable=replace(stated.intent.assignable, vlan_ids=(10, 11)))
    new = plan(without_cable(intent), keep=stated)
    assert new.addresses["around"] == StreamAddress("03:54:53:4e:00:77", 11)


def test_a_stream_whose_frames_switches_translate_keeps_its_address_and_is_exposed() -> None:
    known_by = IpIdentification("192.0.2.1")
    former = plan(two_streams(identification=known_by, ip_version=4))
    assert transition(former, former).exposed == {}
    new = plan(without_cable(former.intent), keep=former)
    assert new.addresses == former.addresses
    between = transition(former, new)
    assert between.exposed == {
        "around": "switches give its frames their address, from the commit on"
    }
    assert between.moved == ()
    # Nor does it lie beside the other one where it is tagged from now on.
    tagged = plan(two_streams(), addressed=former)
    assert transition(former, tagged).exposed == between.exposed
    assert transition(former, tagged).moved == ()


def test_a_stream_whose_frames_switches_translate_prevents_no_other_push() -> None:
    """A plan with one in place of itself was refused, and so was any that moves another stream."""
    known_by = IpIdentification("192.0.2.1")
    untagged = stream("panel", "e4", "e3", identification=known_by, ip_version=4)
    stations = {**RING5.end_stations, "e3": EndStation("e3", mac="02:00:00:00:00:03")}
    ring = replace(RING5, end_stations=stations)
    former = plan(managed(bridged(ring, stream("around", "e1", "e2"), untagged), "e1", "e4"))
    assert judge_transition(former, former, transition(former, former)) == []
    new = plan(without_cable(former.intent), keep=former)
    between = transition(former, new)
    assert between.moved == ("around",)
    assert judge_transition(new, former, between) == []


def test_where_no_address_is_left_a_stream_keeps_its_own_and_is_exposed() -> None:
    two = AddressRange("03:54:53:4e:00:00", "03:54:53:4e:00:01", (10,))
    former = plan(replace(two_streams(), assignable=two))
    new = plan(without_cable(former.intent), keep=former)
    assert new.addresses == former.addresses
    assert transition(former, new).exposed == {
        "around": "its address stays: `addresses` has no other, or none was asked for"
    }


# --- both ways at once ---------------------------------------------------------------------------


def test_former_ways_are_kept_of_the_streams_that_move_only(former: Plan, new: Plan) -> None:
    between = transition(former, new)
    assert (between.moved, between.exposed) == (("around",), {})
    address = former.addresses["around"]
    assert {name: its.entries for name, its in between.former.items()} == {
        "s1": {address: ("s2",)},
        "s2": {address: ("e2",)},
    }
    assert between.former["s2"].vlans == {10: ("e2", "s1")}
    assert between.former["s2"].names == {address: "around"}
    assert judge_transition(new, former, between) == []


def test_frames_under_way_have_their_bound_and_a_period_to_arrive(former: Plan, new: Plan) -> None:
    its = former.streams["around"]
    expected = its.latency_bound_ns + former.intent.streams["around"].period_ns
    expected += former.intent.network.clock_error_ns + former.recovery_ns.get("around", 0)
    assert transition(former, new).under_way_ns == expected


def test_a_plan_of_the_same_ways_keeps_nothing_of_the_one_before(former: Plan) -> None:
    assert transition(former, former) == Transition()
    assert transition(None, former) == Transition()


def test_a_routed_network_has_no_former_ways(former: Plan) -> None:
    intent = former.intent
    net = replace(intent.network, forwarding=Forwarding.ROUTED)
    routed = replace(former, intent=replace(intent, network=net), addresses={})
    assert transition(former, routed) == transition(routed, former) == Transition()
    assert judge_transition(routed, former, Transition()) == []


def test_a_stream_whose_address_another_one_gets_is_exposed(former: Plan, new: Plan) -> None:
    taken = replace(new, addresses={**new.addresses, "stays": former.addresses["around"]})
    assert transition(former, taken).exposed == {
        "around": f"stream stays gets its address, {former.addresses['around']}"
    }


def test_a_talker_by_hand_has_to_send_to_the_new_address(former: Plan, new: Plan) -> None:
    unmanaged = replace(
        new,
        intent=replace(
            new.intent,
            network=replace(
                new.intent.network, end_stations=plan(bridged(RING5)).intent.network.end_stations
            ),
        ),
    )
    assert transition(former, unmanaged).exposed == {
        "around": (
            "no push reaches its talker e1, which has no `management`: it has to send to "
            f"{new.addresses['around']} from the base time on"
        )
    }


def test_a_bridge_is_told_both_and_then_what_the_plan_says(former: Plan, new: Plan) -> None:
    goal = Goal.of(new, former=former)
    own = bridge_forwardings(new)["s1"]
    assert goal.ports["s1"]["br0"] == asked(own)
    after = goal.without_former_ways("removes")
    assert (after.plan, after.former, after.what) == (None, {}, "removes")
    assert after.ports == {
        "s1": {"br0": asked(own)},
        "s2": {"br0": asked(bridge_forwardings(new)["s2"])},
    }
    both = joined(own, goal.former["s1"])
    assert both.entries == {**own.entries, former.addresses["around"]: ("s2",)}
    assert both.vlans == {10: ("e1", "s2", "s5")}


class Counted(dict[str, StreamPlan]):
    """The streams of a plan, which count how often all of them are walked."""

    walks = 0

    def items(self) -> ItemsView[str, StreamPlan]:
        Counted.walks += 1
        return super().items()


def ring(switches: int) -> Plan:
    names = range(switches)
    cables = [f"s{n}-s{(n + 1) % switches}" for n in names] + [f"e{n}-s{n}" for n in names]
    return plan(managed(bridged(network(*cables), stream("around", "e0", "e1"))))


def test_a_push_walks_the_former_plan_as_often_on_20_switches_as_on_5() -> None:
    """Walked for each switch, the former plan of 200 switches took 6 s at each push."""
    walks = []
    for made in (ring(5), ring(20)):
        Counted.walks = 0
        Goal.of(made, former=replace(made, streams=Counted(made.streams)))
        walks.append(Counted.walks)
    assert walks[0] == walks[1] > 0


def test_gates_of_former_ways_are_kept_until_no_frame_comes_by_them(
    former: Plan, new: Plan
) -> None:
    with_cable = replace(new, intent=former.intent)
    goal = Goal.of(with_cable, former=former)
    assert goal.ports["s1"]["s2"] == NO_GATES
    gates = Goal.of(former).ports["s1"]["s2"]
    states = {name: SwitchState(None, {}, 0, 0) for name in goal.ports}
    assert goal.beside_former_ways(states).ports["s1"]["s2"] == gates
    assert goal.without_former_ways("removes").ports["s1"] == {
        "br0": asked(bridge_forwardings(new)["s1"]),
        "s2": NO_GATES,
    }
    assert Goal.of(with_cable, former=new).former_gates == {}


def test_nothing_is_kept_on_ports_that_a_bridge_has_lost(former: Plan, new: Plan) -> None:
    its = transition(former, new).former["s1"]
    assert on_ports(its, frozenset({"e1", "s5"})) == replace(
        its, entries={}, vlans={10: ("e1",)}, trusting=("e1",)
    )
    assert on_ports(its, frozenset({"e1", "s2", "s5"})) == its


# --- the judge -----------------------------------------------------------------------------------


def test_entries_of_both_plans_count_for_a_switch(former: Plan, new: Plan) -> None:
    limited = {
        name: replace(bridge, filtering_entries_max=1)
        for name, bridge in new.intent.network.bridges.items()
    }
    net = replace(new.intent.network, bridges=limited)
    small = replace(new, intent=replace(new.intent, network=net))
    with pytest.raises(PlanRejected) as refused:
        require_sound_transition(small, former, transition(former, small))
    told = (
        "needs 2 filtering entries until the streams that move have moved, 1 of them for their "
        "previous paths, and holds 1"
    )
    assert str(refused.value).splitlines() == [
        "the judge refuses the change from the plan that runs:",
        f"  filtering-entries s1: {told}",
        f"  filtering-entries s2: {told}",
    ]


def test_a_former_way_that_ends_too_early_is_found(former: Plan, new: Plan) -> None:
    between = transition(former, new)
    broken = replace(between, former={"s1": between.former["s1"]})
    found = judge_transition(new, former, broken)
    assert {(each.code, each.where) for each in found} == {
        ("forwarding-copies", "around"),
        ("forwarding-priority", "around"),
    }


def test_a_former_way_that_sends_frames_astray_is_found(former: Plan, new: Plan) -> None:
    between = transition(former, new)
    its = between.former["s2"]
    wrong = BridgeForwarding(
        {former.addresses["around"]: ("e2", "s3")}, {10: ("e2", "s1", "s3")}, its.trusting
    )
    broken = replace(between, former={**between.former, "s2": wrong})
    (found,) = judge_transition(new, former, broken)
    assert (found.code, found.where) == ("forwarding-stray", "around")


def by(*ports: str) -> tuple[Hop, ...]:
    return tuple(Hop(PortRef(*port.split("/")), 0, 6) for port in ports)


def on_way(base: Plan, *ports: str) -> Plan:
    return replace(base, streams={"a": StreamPlan((by(*ports),), 100_000)})


def test_a_circle_that_switches_close_by_two_plans_is_found() -> None:
    """s1 to s2, s3 and s4 in a triangle: one plan goes s2, s3, s4 and the other s4, s2."""
    cables = ("t-s1", "s1-s2", "s1-s4", "s2-s3", "s3-s4", "s4-s2", "l-s2", "m-s4")
    base = plan(bridged(network(*cables), stream("a", "t", "l", "m")))
    one = on_way(base, "t/s1", "s1/s2", "s2/l", "s2/s3", "s3/s4", "s4/m")
    other = on_way(base, "t/s1", "s1/s4", "s4/m", "s4/s2", "s2/l")
    (found,) = judge_transition(other, one, transition(one, other))
    assert (found.code, found.where) == ("forwarding-loop", "a")
    readdressed = replace(other, addresses={"a": StreamAddress("03:54:53:4e:00:55", 10)})
    assert judge_transition(readdressed, one, transition(one, readdressed)) == []


def test_two_ways_around_a_ring_close_no_circle(former: Plan) -> None:
    unmanaged = bridged(RING5, stream("a", "e1", "e2", "e3"))
    one = plan(unmanaged)
    other = plan(without_cable(unmanaged), addressed=one)
    assert one.addresses == other.addresses
    assert one.streams != other.streams
    assert judge_transition(other, one, transition(one, other)) == []
