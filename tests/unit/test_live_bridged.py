"""A plan of a bridged network held ready for changes: addresses come, stay and go with streams."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import FilterCapacity, Policing, PolicingRules
from cnc.model import (
    AddressRange,
    Forwarding,
    Intent,
    IpIdentification,
    Plan,
    Stream,
    StreamAddress,
)
from cnc.planner import Changes, Live, plan
from tests.unit.bridged_networks import RING5, bridged, deliveries
from tests.unit.planner_fuzz import random_intent
from tests.unit.planner_networks import US, seeded, stream, with_streams

FIRST, SECOND, THIRD = (StreamAddress(f"03:54:53:4e:00:0{n}", 10) for n in range(3))
EVENTS = 12


def ring(*streams: Stream, entries_max: int = 2048, macs: int = 3) -> Intent:
    """The ring of five with as many addresses as told."""
    its = AddressRange("03:54:53:4e:00:00", f"03:54:53:4e:00:{macs - 1:02x}", (10,))
    return replace(bridged(RING5, *streams, entries_max=entries_max), assignable=its)


def named(name: str, **requirements: object) -> Stream:
    return stream(name, "e1", "e3", **requirements)


def after(running: Plan, changes: Changes, *streams: Stream, without: str = "") -> Plan:
    """The running plan with what a live plan changed."""
    gates = {port: its for port, its in {**running.gates, **changes.gates}.items() if its}
    wanted = {**running.intent.streams, **{its.name: its for its in streams}}
    present = [its for name, its in wanted.items() if name != without]
    kept = {name: its for name, its in running.streams.items() if name != without}
    addresses = {name: its for name, its in running.addresses.items() if name != without}
    jitter = {name: its for name, its in running.jitter_ns.items() if name != without}
    return Plan(
        with_streams(running.intent, *present),
        {**kept, **changes.streams},
        gates,
        running.algorithm,
        addresses={**addresses, **changes.addresses},
        jitter_ns={**jitter, **changes.jitter_ns},
    )


def policed(wanted: Intent, random: Random) -> Intent:
    """With filters of some streams, and switches that hold few of them."""
    rules = PolicingRules(
        random.choice([None, *Policing]),
        {"cyclic": random.choice([*Policing])} if random.random() < 0.5 else {},
        {name: random.choice([*Policing]) for name in wanted.streams if random.random() < 0.3},
    )
    capacity = {name: random.choice((4, 8, 99)) for name in wanted.network.bridges}
    return wanted.having(rules, FilterCapacity(capacity))


def test_a_stream_that_comes_gets_the_next_address() -> None:
    running = plan(ring(named("a")))
    changes = Live(running).add([named("b")])
    assert running.addresses == {"a": FIRST}
    assert changes.addresses == {"b": SECOND}
    assert judge(after(running, changes, named("b"))) == []


def test_an_address_that_a_stream_has_left_is_assigned_last() -> None:
    live = Live(plan(ring(named("a"))))
    live.remove(["a"])
    assert live.add([named("b")]).addresses == {"b": SECOND}
    assert live.add([named("c"), named("d")]).addresses == {"c": THIRD, "d": FIRST}


def test_where_no_address_is_left_nothing_changes() -> None:
    running = plan(ring(named("a"), named("b")))
    live = Live(running)
    with pytest.raises(Unschedulable) as refused:
        live.add([named("c"), named("d")])
    assert refused.value.reasons == {"d": "no address is left: test may assign 3 addresses"}
    assert live.add([named("c")]) == Live(running).add([named("c")])


def test_an_address_that_a_stream_states_is_its_own() -> None:
    stated = named("b", destination_mac="03:54:53:4e:00:01", vlan_id=10)
    live = Live(plan(ring(named("a"))))
    assert live.add([stated]).addresses == {"b": SECOND}
    assert live.add([named("c")]).addresses == {"c": THIRD}
    with pytest.raises(Unschedulable) as refused:
        live.add([replace(stated, name="d")])
    assert refused.value.reasons == {
        "d": f"states {SECOND}, which stream b has: streams that share an address state all of it, "
        "and each a PCP of its own"
    }


def test_what_a_stream_states_of_its_address_holds() -> None:
    live = Live(plan(ring(named("a"))))
    assert live.add([named("b", vlan_id=20)]).addresses == {"b": replace(FIRST, vlan_id=20)}


def test_a_stream_to_several_listeners_needs_a_group_address() -> None:
    live = Live(plan(ring(named("a"))))
    stated = stream("b", "e1", "e3", "e4", destination_mac="02:00:00:00:00:01", vlan_id=10)
    with pytest.raises(Unschedulable) as refused:
        live.add([stated])
    assert "which is no group address" in refused.value.reasons["b"]


def test_an_untagged_stream_gets_an_address_of_one_station_beside_tagged_ones() -> None:
    live = Live(plan(ring(named("a"), macs=9)))
    untagged = named("c", identification=IpIdentification("192.0.2.1"), ip_version=4)
    assert live.add([named("b")]).addresses["b"].is_group
    assert not live.add([untagged]).addresses["c"].is_group
    assert live.add([named("d")]).addresses["d"].is_group


def test_no_switch_gets_more_entries_than_it_holds() -> None:
    running = plan(ring(named("a"), entries_max=2, macs=9))
    live = Live(running)
    with pytest.raises(Unschedulable) as refused:
        live.add([named("b"), named("c")])
    assert refused.value.reasons["b"] == (
        "3 streams cross switch s1, which holds 2 filtering entries (filtering-entries-max)"
    )
    live.add([named("b")])
    live.remove(["a"])
    live.add([named("c")])


def test_both_copies_of_a_frame_start_as_one_and_take_their_ways() -> None:
    twice = named("b", paths=2)
    running = plan(ring(named("a")))
    planned = after(running, Live(running).add([twice]), twice)
    assert judge(planned) == []
    arrived, _ = deliveries(planned, bridge_forwardings(planned), "b")
    assert arrived == {"e3": 2}


def test_a_stream_that_comes_may_limit_its_jitter() -> None:
    limited = named("b", max_jitter_ns=20 * US, paths=2)
    running = plan(ring(named("a")))
    changes = Live(running).add([limited])
    assert changes.jitter_ns["b"]["e3"] <= 20 * US
    assert judge(after(running, changes, limited)) == []


def test_in_a_routed_network_no_stream_gets_an_address() -> None:
    net = replace(RING5, forwarding=Forwarding.ROUTED)
    running = plan(replace(ring(named("a")), network=net))
    assert Live(running).add([named("b")]).addresses == {}


def held(most: int, rules: PolicingRules, *streams: Stream) -> Intent:
    """The ring, with so many stream filters at s1 at most."""
    return ring(*streams, macs=9).having(rules, FilterCapacity({"s1": most}))


def test_no_switch_gets_more_stream_filters_than_it_holds() -> None:
    # Two classes of strangers, and three streams.
    live = Live(plan(held(5, PolicingRules(Policing.COUNT), named("a"))))
    with pytest.raises(Unschedulable) as refused:
        live.add([named("b"), named("c", paths=2), named("d")])
    assert refused.value.reasons["d"] == (
        "switch s1 would need 6 stream filters, with those for frames of no stream, and holds 5 "
        "(stream-filters-max)"
    )
    live.add([named("b"), named("c", paths=2)])
    with pytest.raises(Unschedulable, match="holds 5"):
        live.add([named("d")])
    live.add([stream("e", "e3", "e1")])  # it comes in by another switch
    live.remove(["c"])
    live.add([named("d")])


def test_filters_that_nobody_asked_for_make_no_stream_impossible() -> None:
    for rules in (PolicingRules(None), PolicingRules(Policing.OFF)):
        live = Live(plan(held(1, rules, named("a"))))
        live.add([named("b"), named("c")])


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_live_plan_of_a_random_bridged_network_stays_sound(seed: int) -> None:
    """As many streams as filtering entries, stream filters and addresses allow come and go."""
    random = seeded(seed)
    drawn = random_intent(seed)
    wanted = bridged(drawn.network, *drawn.streams.values(), entries_max=random.choice((3, 6, 99)))
    macs = AddressRange("03:54:53:4e:00:00", f"03:54:53:4e:00:{random.randint(4, 15):02x}", (10,))
    wanted = replace(policed(wanted, random), assignable=macs, classes=drawn.classes)
    names = list(wanted.streams)
    try:
        running = plan(with_streams(wanted, *list(wanted.streams.values())[:4]), best_effort=True)
    except (InputError, Unschedulable):
        return
    present = [running.intent.streams[name] for name in running.streams]
    running = replace(running, intent=with_streams(wanted, *present), refused={})
    live = Live(running)
    for _ in range(EVENTS):
        before = running
        name = random.choice(names)
        try:
            if name in running.streams:
                running = after(running, live.remove([name]), without=name)
            else:
                running = after(running, live.add([wanted.streams[name]]), wanted.streams[name])
        except Unschedulable:
            continue
        assert judge(running) == []
        kept = before.addresses.keys() & running.addresses.keys()
        assert {its: before.addresses[its] for its in kept} == {
            its: running.addresses[its] for its in kept
        }
