"""The judge walks frames through what switches are told, and finds every way that is not planned.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘         and m at s2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.check.forwarding import judge_forwarding
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import BridgeForwarding, Forwarding, Plan, PortRef, StreamAddress
from cnc.planner import plan
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import RING, stream

PLANNED = plan(bridged(RING, stream("once", "t", "l"), stream("twice", "t", "l", paths=2)))
ONCE, TWICE = (PLANNED.addresses[name] for name in ("once", "twice"))
TOLD = bridge_forwardings(PLANNED)


def found(plan: Plan = PLANNED, told: Mapping[str, BridgeForwarding] = TOLD) -> list[str]:
    return [f"{each.code} {each.where}: {each.text}" for each in judge_forwarding(plan, told)]


def told_with(
    switch: str,
    entries: Mapping[StreamAddress, tuple[str, ...]] | None = None,
    **changes: object,
) -> dict[str, BridgeForwarding]:
    """What the switches of the plan are told, with one of them told otherwise."""
    its = TOLD[switch]
    changed = replace(its, entries={**its.entries, **(entries or {})}, **changes)
    return {**TOLD, switch: changed}


def with_address(name: str, mac: str, vlan_id: int = 10) -> Plan:
    """The plan with another address of a stream."""
    return replace(PLANNED, addresses={**PLANNED.addresses, name: StreamAddress(mac, vlan_id)})


def test_what_the_switches_of_a_plan_are_told_brings_its_frames_where_they_belong() -> None:
    assert found() == []
    assert TOLD["s1"].entries == {ONCE: ("s2",), TWICE: ("s2", "s4")}
    assert TOLD["s1"].vlans == {10: ("s2", "s4", "t")}
    assert TOLD["s1"].trusting == ("t",)


def test_a_listener_that_a_switch_does_not_forward_to_gets_no_frame() -> None:
    assert found(told=told_with("s3", {ONCE: ()})) == [
        "forwarding-copies once: brings l no copies of each frame, 1 asked for"
    ]


def test_a_listener_misses_the_copy_that_only_one_path_brings() -> None:
    assert found(told=told_with("s1", {TWICE: ("s2",)})) == [
        "forwarding-copies twice: brings l 1 copy of each frame, 2 asked for"
    ]


def test_a_station_that_nothing_is_planned_for_must_not_get_a_copy() -> None:
    assert found(told=told_with("s2", {ONCE: ("m", "s3")}, vlans={10: ("m", "s1", "s3")})) == [
        "forwarding-stray once: leaves by s2/m to m, where it is not planned"
    ]


def test_a_frame_leaves_by_members_of_its_vlan_only() -> None:
    assert found(told=told_with("s2", {ONCE: ("m", "s3")})) == []
    assert found(told=told_with("s3", vlans={10: ("s2", "s4")})) == [
        "forwarding-copies once: brings l no copies of each frame, 1 asked for",
        "forwarding-copies twice: brings l no copies of each frame, 2 asked for",
    ]


def test_a_frame_enters_by_members_of_its_vlan_only() -> None:
    assert found(told=told_with("s3", vlans={10: ("l", "s4")})) == [
        "forwarding-copies once: brings l no copies of each frame, 1 asked for",
        "forwarding-copies twice: brings l 1 copy of each frame, 2 asked for",
    ]


def test_a_frame_never_goes_back_by_the_port_that_it_came_by() -> None:
    assert found(told=told_with("s2", {ONCE: ("s1", "s3")})) == []


def test_a_frame_that_comes_back_around_the_ring_is_a_loop() -> None:
    told = told_with("s3", {ONCE: ("l", "s4")})
    told["s4"] = replace(told["s4"], entries={**told["s4"].entries, ONCE: ("s1",)})
    once = PLANNED.streams["once"]
    (path,) = once.paths
    back = [replace(path[-1], egress=PortRef(*ends)) for ends in (("s3", "s4"), ("s4", "s1"))]
    streams = {**PLANNED.streams, "once": replace(once, paths=((*path, *back),))}
    violations = found(replace(PLANNED, streams=streams), told)
    assert violations[-1] == "forwarding-loop once: comes back to s1/s2, without end"


def test_copies_that_meet_before_the_last_switch_multiply() -> None:
    """Both copies of `twice` would be sent on by s3 to s4 and s2, by which the others came."""
    told = told_with("s3", {TWICE: ("l", "s2", "s4")})
    assert found(told=told)[0].startswith("forwarding-stray twice: leaves by s3/")


def test_a_talker_that_sends_two_frames_to_a_switch_that_copies_each_is_refused() -> None:
    one, other = PLANNED.streams["twice"].paths
    later = (replace(other[0], offset_ns=other[0].offset_ns + 20_000), *other[1:])
    streams = {**PLANNED.streams, "twice": replace(PLANNED.streams["twice"], paths=(one, later))}
    (violation,) = found(replace(PLANNED, streams=streams))
    assert violation.startswith("forwarding-stray twice: crosses s1/s")


def test_a_port_that_trusts_no_priority_is_reported_once_for_each_stream() -> None:
    assert found(told=told_with("s1", trusting=())) == [
        f"forwarding-priority {name}: enters by s1/t, "
        "which does not give it the priority of its PCP"
        for name in ("once", "twice")
    ]


def test_a_switch_holds_so_many_filtering_entries_and_no_more() -> None:
    bridges = {
        name: replace(its, filtering_entries_max=1)
        for name, its in PLANNED.intent.network.bridges.items()
    }
    intent = replace(PLANNED.intent, network=replace(PLANNED.intent.network, bridges=bridges))
    violations = found(replace(PLANNED, intent=intent))
    assert "filtering-entries s1: needs 2 filtering entries, and holds 1" in violations


def test_an_address_is_of_one_stream() -> None:
    planned = with_address("once", TWICE.destination_mac)
    assert any(
        each == f"address twice: has {TWICE}, as stream once of the same class"
        for each in found(planned, bridge_forwardings(planned))
    )


@pytest.mark.parametrize(
    ("mac", "vlan_id", "text"),
    [
        ("03:54:53:4e:00:09", 0, "is in VLAN 0, outside 2 to 4094"),
        ("03:54:53:4e:00:09", 1, "is in VLAN 1, outside 2 to 4094"),
        ("03:54:53:4e:00:09", 4095, "is in VLAN 4095, outside 2 to 4094"),
        ("01:80:c2:00:00:0e", 10, "has 01:80:c2:00:00:0e: bridges never forward it"),
        ("01:1b:19:00:00:00", 10, "has 01:1b:19:00:00:00: it is the group of PTP"),
        ("01:80:c2:00:00:21", 10, "has 01:80:c2:00:00:21: it is for the applications of MRP"),
        ("01:00:5e:7f:ff:ff", 10, "has 01:00:5e:7f:ff:ff: a Linux bridge looks up IPv4 multicast"),
        ("33:33:00:00:00:01", 10, "has 33:33:00:00:00:01: a Linux bridge looks up IPv6 multicast"),
        ("ff:ff:ff:ff:ff:ff", 10, "has ff:ff:ff:ff:ff:ff: it is for broadcasts"),
        (
            "02:00:00:00:00:01",
            10,
            "has 02:00:00:00:00:01, the address of one station, for 1 listener on 2 paths",
        ),
    ],
)
def test_an_address_is_one_that_streams_may_have(mac: str, vlan_id: int, text: str) -> None:
    planned = with_address("twice", mac, vlan_id)
    (violation,) = found(planned, bridge_forwardings(planned))
    assert violation.startswith(f"address twice: {text}")


def test_an_address_is_what_the_operator_states() -> None:
    stated = replace(PLANNED.intent.streams["once"], vlan_id=30)
    streams = {**PLANNED.intent.streams, "once": stated}
    planned = replace(PLANNED, intent=replace(PLANNED.intent, streams=streams))
    assert found(planned) == [
        f"address once: has {ONCE}, where the intent states any address in VLAN 30"
    ]


def test_every_stream_of_a_bridged_plan_has_an_address_and_no_other_one_has() -> None:
    without = replace(PLANNED, addresses={"once": ONCE, "gone": TWICE})
    assert found(without) == [
        "address twice: has none",
        f"address gone: is no stream of the plan, and has {TWICE}",
    ]


def test_a_routed_plan_has_no_addresses() -> None:
    network = replace(PLANNED.intent.network, forwarding=Forwarding.ROUTED)
    routed = replace(PLANNED, intent=replace(PLANNED.intent, network=network))
    assert [each.where for each in judge(routed) if each.code == "address"] == ["once", "twice"]


def test_a_frame_that_a_switch_copies_takes_the_talkers_link_once() -> None:
    assert judge(PLANNED) == []
    network = replace(PLANNED.intent.network, forwarding=Forwarding.ROUTED)
    routed = replace(PLANNED, addresses={}, intent=replace(PLANNED.intent, network=network))
    assert [each.code for each in judge(routed)] == ["overlap"]
