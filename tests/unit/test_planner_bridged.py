"""Plans of bridged networks: addresses that stay, copies that switches make, and their limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import app
from cnc import intent as intents_of
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import AddressRange, Forwarding, Intent, StreamAddress
from cnc.planner import moves, plan
from cnc.planner.copies import keep_apart, node_disjoint_pair
from cnc.planner.graph import Graph
from cnc.planner.route import Member, Placement
from cnc.plans.difference import Change, difference
from cnc.switch import ConnectOptions
from tests.unit.asked import bridge_forwarding
from tests.unit.bridged_networks import RING5, bridged, deliveries
from tests.unit.planner_networks import MS, RING, US, examples, intents, network, problem, stream

SCHEDULES = Path(__file__).parents[2] / "schedules"
FEW = AddressRange("03:54:53:4e:00:00", "03:54:53:4e:00:02", (10, 11))


def address(last: int, vlan_id: int = 10) -> StreamAddress:
    return StreamAddress(f"03:54:53:4e:00:{last:02x}", vlan_id)


def named(*names: str, **requirements: object) -> Intent:
    """Streams from t to l in a ring of four switches."""
    return bridged(RING, *(stream(name, "t", "l", **requirements) for name in names))


def test_streams_get_the_addresses_of_the_range_in_the_order_of_the_intent() -> None:
    assert plan(named("b", "a")).addresses == {"b": address(0), "a": address(1)}


def test_a_routed_network_has_no_addresses() -> None:
    routed = named("a")
    routed = replace(routed, network=replace(routed.network, forwarding=Forwarding.ROUTED))
    assert plan(routed).addresses == {}


def test_the_next_vlan_is_used_when_one_is_full() -> None:
    wanted = replace(named("a", "b", "c", "d"), assignable=FEW)
    assert plan(wanted).addresses["d"] == address(0, vlan_id=11)


def test_what_the_operator_states_of_an_address_holds_and_is_given_to_nobody_else() -> None:
    wanted = bridged(
        RING,
        stream("first", "t", "l"),
        stream("all", "t", "l", destination_mac="03:54:53:4e:00:00", vlan_id=10),
        stream("mac", "t", "l", destination_mac="02:00:00:00:00:07"),
        stream("vlan", "t", "l", vlan_id=30),
    )
    assert plan(wanted).addresses == {
        "first": address(1),
        "all": address(0),
        "mac": StreamAddress("02:00:00:00:00:07", 10),
        "vlan": address(0, vlan_id=30),
    }


@pytest.mark.parametrize("kept_in_place", [True, False])
def test_streams_that_run_keep_their_addresses_and_new_ones_take_none_of_them(
    kept_in_place: bool,
) -> None:
    running = plan(named("a", "b", "gone"))
    wanted = named("new", "b", "a")
    planned = plan(wanted, keep=running if kept_in_place else None, addressed=running)
    assert planned.addresses == {"new": address(3), "b": address(1), "a": address(0)}
    assert judge(planned) == []


def test_an_address_that_may_not_be_assigned_any_more_is_not_kept() -> None:
    running = plan(named("a"))
    elsewhere = AddressRange("03:54:53:4e:01:00", "03:54:53:4e:01:ff", (10,))
    planned = plan(replace(named("a"), assignable=elsewhere), addressed=running)
    assert planned.addresses == {"a": StreamAddress("03:54:53:4e:01:00", 10)}


def test_an_address_that_the_operator_gives_to_another_stream_is_not_kept() -> None:
    running = plan(named("a"))
    stated = stream("b", "t", "l", destination_mac="03:54:53:4e:00:00", vlan_id=10)
    planned = plan(bridged(RING, stream("a", "t", "l"), stated), addressed=running)
    assert planned.addresses == {"a": address(1), "b": address(0)}


def test_removed_streams_hold_their_addresses_for_one_push() -> None:
    running = plan(replace(named("a", "b"), assignable=replace(FEW, vlan_ids=(10,))))
    wanted = replace(named("c", "d"), assignable=replace(FEW, vlan_ids=(10,)))
    with pytest.raises(InputError, match="stream d: test may assign 3 addresses, 2 of which run"):
        plan(wanted, addressed=running)


def test_a_stream_with_another_address_moves_in_the_eyes_of_its_talker() -> None:
    running = plan(named("a"))
    planned = replace(running, addresses={"a": address(9)})
    (move,) = moves(running, planned)
    assert move.reason == f"sent to {address(9)}"


def test_plans_that_differ_in_an_address_only_differ() -> None:
    running = plan(named("a"))
    assert difference(running, running).same
    found = difference(running, replace(running, addresses={"a": address(9)}))
    assert not found.same
    assert found.addresses == {"a": Change(address(0), address(9))}


def test_a_push_keeps_addresses_also_where_all_streams_may_move(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(app, "limit", lambda its, **_: its)
    running = plan(named("a", "b"))
    connect = ConnectOptions(tmp_path / "key", tmp_path / "known_hosts")
    planned = app.plan_to_push(named("c", "b"), connect=connect, addressed=running)
    assert planned.addresses == {"c": address(2), "b": address(1)}


def test_the_pcp_of_a_stream_chooses_its_class(tmp_path: Path) -> None:
    text = (SCHEDULES / "bridged5.yaml").read_text()
    assert "vlan: 20, pcp: 5}" in text
    for pcp, name in ((5, "cyclic"), (6, "motion")):
        (tmp_path / "intent.yaml").write_text(text.replace("pcp: 5", f"pcp: {pcp}"))
        wanted = intents_of.load(tmp_path / "intent.yaml")
        assert wanted.streams["orders"].traffic_classes == (name,)
    assert wanted.streams["log"].traffic_classes == ("cyclic",)


def test_nothing_of_a_routed_plan_is_kept_in_a_bridged_one() -> None:
    wanted = named("a")
    routed = replace(wanted, network=replace(wanted.network, forwarding=Forwarding.ROUTED))
    with pytest.raises(InputError, match="for another forwarding"):
        plan(wanted, keep=plan(routed))


def test_a_switch_copies_the_frame_of_two_paths_that_its_talker_sends_once() -> None:
    planned = plan(named("twice", paths=2))
    one, other = planned.streams["twice"].paths
    assert one[0] == other[0]
    assert bridge_forwarding(planned, "s1").entries == {address(0): ("s2", "s4")}
    assert bridge_forwarding(planned, "s3").entries == {address(0): ("l",)}
    assert judge(planned) == []


@pytest.mark.parametrize("algorithm", ["waiting", "ejection", "exact", "auto"])
def test_every_algorithm_gives_both_copies_one_start(algorithm: str) -> None:
    """Six streams are sent twice, beside six longer ones."""
    if algorithm == "exact":
        pytest.importorskip("ortools")
    twice = [stream(f"twice{n}", "t", "l", paths=2) for n in range(6)]
    once = [stream(f"once{n}", "t", "m", payload_octets=1000) for n in range(6)]
    planned = plan(bridged(RING, *twice, *once), algorithm=algorithm)
    assert all(its.paths[0][0] == its.paths[-1][0] for its in planned.streams.values())
    assert judge(planned) == []


def test_copies_start_where_both_miss_the_frames_of_others() -> None:
    """`one` is in the way of the first start that suits the copy by s4, and `other` in the way of
    the first one after that which suits the copy by s2."""
    net = network(
        *("t-s1", "s1-s2", "s1-s4", "s2-s3", "s4-s5", "s5-s6", "s6-s3", "s3-l"),
        *("x-s1", "y-s1", "m-s2", "n-s4"),
    )
    fixed = {"period_ns": MS // 2, "payload_octets": 1000}
    wanted = bridged(
        net,
        stream("one", "x", "m", earliest_ns=0, latest_ns=0, **fixed),
        stream("other", "y", "n", earliest_ns=12 * US, latest_ns=12 * US, **fixed),
        stream("twice", "t", "l", paths=2),
    )
    assert judge(plan(wanted, algorithm="no-wait")) == []


def test_the_exact_algorithm_finds_no_solution_in_which_copies_start_apart() -> None:
    pytest.importorskip("ortools")
    from cnc.planner.exact_model import PlacementModel, solve  # noqa: PLC0415

    wanted = bridged(RING, stream("twice", "t", "l", paths=2), stream("once", "t", "m"))
    model = PlacementModel(problem(wanted))
    outcome = solve(model.placing(model.placed), seed=1, limit=30.0)
    assert outcome.values is not None
    starts = {
        member: placement.offsets_ns[0]
        for member, placement in model.placements(outcome.values).items()
    }
    assert starts[Member("twice", 0)] == starts[Member("twice", 1)]
    for copy in (0, 1):
        apart = model.at(
            {
                member: delayed(placement, copy * US)
                for member, placement in model.placements(outcome.values).items()
            }
        )
        assert solve(apart, seed=1, limit=30.0).is_impossible is bool(copy)


def delayed(placement: Placement, later_ns: int) -> Placement:
    """With the second path of a stream so much later."""
    if placement.route.member.path == 0:
        return placement
    return placement._replace(offsets_ns=tuple(t + later_ns for t in placement.offsets_ns))


def test_a_talker_with_two_links_sends_a_copy_on_each() -> None:
    net = network("t-s1", "t-s2", "s1-s3", "s2-s3", "s3-l")
    planned = plan(bridged(net, stream("twice", "t", "l", paths=2)))
    assert {path[0].egress.port for path in planned.streams["twice"].paths} == {"s1", "s2"}
    assert judge(planned) == []


def test_several_listeners_get_two_copies_each_around_a_ring() -> None:
    wanted = bridged(RING5, stream("twice", "e1", "e3", "e4", paths=2))
    planned = plan(wanted)
    arrived, _ = deliveries(planned, bridge_forwardings(planned), "twice")
    assert arrived == {"e3": 2, "e4": 2}


@pytest.mark.parametrize(
    "cables",
    [
        # Disjoint links lead through s3 twice, which would send each copy on by both its ports.
        ("t-s1", "s1-s2", "s1-s4", "s2-s3", "s4-s3", "s3-s5", "s3-s6", "s5-s7", "s6-s7", "s7-l"),
        # Both stations are at one switch.
        ("t-s1", "l-s1", "s1-s2"),
    ],
)
def test_two_paths_that_switches_would_not_keep_apart_are_refused(cables: tuple[str, ...]) -> None:
    with pytest.raises(Unschedulable, match="no two disjoint paths"):
        plan(bridged(network(*cables), stream("twice", "t", "l", paths=2)))


def test_a_way_around_a_switch_is_taken_where_two_paths_would_meet_there() -> None:
    """The cheapest two paths without a common link meet in s3; s8 and s9 lead around it."""
    cables = ("t-s1", "s1-s2", "s1-s4", "s2-s3", "s4-s3", "s3-s5", "s3-s6", "s5-s7", "s6-s7")
    net = network(*cables, "s4-s8", "s8-s9", "s9-s6", "s7-l")
    planned = plan(bridged(net, stream("twice", "t", "l", paths=2)))
    assert judge(planned) == []
    one, other = ({hop.egress.node for hop in path} for path in planned.streams["twice"].paths)
    assert one & other == {"t", "s1", "s7"}


def test_the_pair_of_least_price_is_found_where_the_first_path_is_in_the_way_of_all_others() -> (
    None
):
    """The cheapest path, s1 s2 s5 s6, blocks both other ones: it is taken back in part."""
    cables = ("t-s1", "s1-s2", "s1-s3", "s2-s5", "s2-s4", "s3-s5", "s4-s6", "s5-s6", "s6-l")
    graph = Graph(network(*cables))
    prices = [1.0] * len(graph.links)
    prices[graph.number[("s2", "s5")]] = 0.1
    pair = node_disjoint_pair(graph, graph.node["t"], graph.node["l"], prices)
    assert pair is not None
    nodes = {tuple(graph.links[link].target.node for link in path) for path in pair}
    assert nodes == {("s1", "s2", "s4", "s6", "l"), ("s1", "s3", "s5", "s6", "l")}
    assert keep_apart(graph, pair)


def test_streams_that_a_switch_has_no_filtering_entries_for_are_refused_with_the_count() -> None:
    wanted = bridged(RING, *(stream(f"f{n}", "t", "m") for n in range(5)), entries_max=3)
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    assert refused.value.reasons == dict.fromkeys(
        ("f3", "f4"),
        "5 streams cross switch s1, which holds 3 filtering entries (filtering-entries-max)",
    )
    planned = plan(wanted, best_effort=True)
    assert list(planned.streams) == ["f0", "f1", "f2"] == list(planned.addresses)
    assert judge(planned) == []


def test_streams_that_run_have_the_first_claim_on_filtering_entries() -> None:
    running = plan(bridged(RING, *(stream(f"f{n}", "t", "m") for n in (3, 4)), entries_max=3))
    wanted = bridged(RING, *(stream(f"f{n}", "t", "m") for n in range(5)), entries_max=3)
    assert list(plan(wanted, keep=running, best_effort=True).streams) == ["f0", "f3", "f4"]


@examples(max_examples=60)
@given(intents(streams_max=8), st.booleans())
def test_frames_of_random_bridged_networks_go_where_the_plan_says_and_nowhere_else(
    wanted: Intent, twice: bool
) -> None:
    """Walked by this test itself, with what every switch is told."""
    if twice:
        streams = {name: replace(its, paths=2) for name, its in wanted.streams.items()}
        wanted = replace(wanted, streams=streams)
    wanted = bridged(wanted.network, *wanted.streams.values())
    try:
        planned = plan(wanted, best_effort=True)
    except Unschedulable:
        return
    assert judge(planned) == []
    forwarding = bridge_forwardings(planned)
    for name, its in planned.streams.items():
        listeners = planned.intent.streams[name].listeners
        arrived, crossed = deliveries(planned, forwarding, name)
        assert arrived == dict.fromkeys(listeners, planned.intent.streams[name].paths)
        assert crossed.keys() == {hop.egress for hop in its.hops}
    assert len(set(planned.addresses.values())) == len(planned.streams)


@pytest.mark.parametrize("stations", [(1, 2), (1, 3), (2, 5), (4, 1)])
def test_every_listener_of_a_ring_has_two_ways_of_its_own(stations: tuple[int, int]) -> None:
    talker, listener = stations
    wanted = bridged(RING5, stream("twice", f"e{talker}", f"e{listener}", paths=2))
    planned = plan(wanted)
    assert deliveries(planned, bridge_forwardings(planned), "twice")[0] == {f"e{listener}": 2}
