"""The bridges of switches as members of a rollout: compared, refused, watched, recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent as intents
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, BridgeReport, PortReport, Recoding
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.model import (
    BridgeForwarding,
    Management,
    Plan,
    PortRef,
    PortSettings,
    StoredPort,
    StreamAddress,
)
from cnc.planner import plan as compute
from cnc.rollout.compare import difference_between, difference_of, needs_change
from cnc.rollout.goal import Goal
from cnc.rollout.history.record import SwitchChange
from cnc.rollout.preflight import Verdict
from cnc.switch.device import Managed, StoredSwitch
from cnc.switch.payload import desired_nodes
from cnc.watch.observation import Poll
from cnc.watch.observer import Observer
from tests.unit.asked import asked, desired_ports
from tests.unit.places import bridge_report, stored_bridge

LINE3 = yaml.safe_load((Path(__file__).parents[2] / "schedules" / "line3.yaml").read_text())
CAMERA = StreamAddress("91:e0:f0:00:fe:01", 10)
TOLD = BridgeForwarding(
    {CAMERA: ("l1", "s2")}, {10: ("l1", "s2", "t1")}, ("t1",), {CAMERA: "camera"}
)
FRAMES = "frames of camera (91:e0:f0:00:fe:01, VLAN 10)"


def stored(told: BridgeForwarding) -> StoredPort:
    return stored_bridge(told)


def kernel(told: BridgeForwarding, **options: Any) -> PortReport:
    """A bridge that does this."""
    return bridge_report(BridgeReport(tuple(sorted(TOLD.members)), told, **options))


def leaving(ports: tuple[str, ...] | None) -> BridgeForwarding:
    """As it is told, but the camera's frames leave by `ports`; None: without an entry."""
    return replace(TOLD, entries={} if ports is None else {CAMERA: ports})


def bridged(vlan: int = 10) -> Plan:
    document = {**LINE3, "forwarding": "bridged", "addresses": {"vlans": [vlan]}}
    return compute(intents.from_document(document, "line3"))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return bridged()


def forwarding_of(ports: Mapping[str, PortSettings]) -> BridgeForwarding:
    return ports["br0"][BridgeForwarding]


# --- the goal ------------------------------------------------------------------------------------


def test_the_bridge_of_each_switch_is_configured_beside_its_ports(plan: Plan) -> None:
    ports = desired_ports(plan, "s1")
    assert list(ports) == ["t1", "t2", "s2", "br0"]
    told = forwarding_of(ports)
    assert set(told.entries) == set(plan.addresses.values())
    assert set(told.entries.values()) == {("s2",)}
    assert told.names[plan.addresses["motion"]] == "motion"
    assert desired_nodes(plan)["s1"] == ports


def test_a_network_that_routes_has_no_bridge_to_configure() -> None:
    routed = compute(intents.from_document(LINE3, "line3"))
    assert list(desired_ports(routed, "s1")) == ["t1", "t2", "s2"]
    assert all(not switch.bridges for switch in Goal.of(routed).switches)


def test_only_the_bridge_that_is_configured_is_asked_for(plan: Plan) -> None:
    assert {switch.bridges for switch in Goal.of(plan).switches} == {frozenset({"br0"})}


def test_forwarding_is_compared_where_bridges_are_configured(plan: Plan) -> None:
    assert Goal.of(plan).has_forwarding
    assert not Goal.of(compute(intents.from_document(LINE3, "line3"))).has_forwarding


def test_a_vlan_that_all_streams_leave_is_configured_as_empty(plan: Plan) -> None:
    told = forwarding_of(Goal.of(bridged(20), former=plan).ports["s2"])
    assert told.vlans == {10: (), 20: ("s1", "s3")}


def test_a_network_that_stops_bridging_forgets_the_vlans_of_its_streams(plan: Plan) -> None:
    goal = Goal.of(compute(intents.from_document(LINE3, "line3")), former=plan)
    assert forwarding_of(goal.ports["s2"]) == BridgeForwarding({}, {10: ()}, ())
    assert {switch.bridges for switch in goal.switches} == {frozenset({"br0"})}


# --- the comparison ------------------------------------------------------------------------------


def test_a_bridge_that_stores_and_does_what_is_desired_is_not_changed() -> None:
    assert needs_change(asked(TOLD), stored(TOLD), kernel(TOLD)) is None


def test_what_others_configured_in_other_vlans_is_no_difference() -> None:
    other = StreamAddress("02:00:00:00:00:63", 99)
    whole = replace(
        TOLD,
        entries={**TOLD.entries, other: ("p9",)},
        vlans={**TOLD.vlans, 99: ("p9",)},
        trusting=("p9", "t1"),
    )
    assert needs_change(asked(TOLD), stored(whole), kernel(whole)) is None


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (leaving(("s3",)), f"{FRAMES} leave by l1 and s2 instead of s3"),
        (leaving(None), f"{FRAMES} leave by l1 and s2, by a new filtering entry"),
        (replace(TOLD, vlans={10: ("l1",)}), "VLAN 10 is registered at s2 and t1"),
        (
            replace(TOLD, trusting=("l1", "t1")),
            "the PCP of received frames no longer sets their priority at l1",
        ),
        (
            replace(TOLD, trusting=()),
            "the PCP of received frames sets their priority at t1",
        ),
    ],
)
def test_a_change_says_which_frames_leave_where(before: BridgeForwarding, reason: str) -> None:
    assert needs_change(asked(TOLD), stored(before), kernel(before)) == reason


def test_a_switch_that_has_nothing_yet_is_told_all() -> None:
    reason = needs_change(asked(TOLD), None, kernel(BridgeForwarding({}, {}, ())))
    assert reason == "no filtering entry of streams yet"


def test_a_stream_that_ends_loses_its_entry() -> None:
    assert needs_change(asked(leaving(None)), stored(TOLD), kernel(TOLD)) == (
        f"{FRAMES} have no filtering entry any more"
    )


@pytest.mark.parametrize(
    ("running", "difference"),
    [
        (leaving(None), f"{FRAMES} do not leave by l1 and s2: the kernel has no filtering entry"),
        (leaving(("l1",)), f"{FRAMES} do not leave by s2"),
        (leaving(("l1", "s2", "s3")), f"{FRAMES} leave by s3, which is not planned"),
        (
            leaving(("l1", "s3")),
            f"{FRAMES} do not leave by s2 and leave by s3, which is not planned",
        ),
        (replace(TOLD, vlans={10: ("l1", "s2")}), "VLAN 10 is not registered at t1"),
        (
            replace(TOLD, vlans={10: ("l1", "s2", "s3", "t1")}),
            "VLAN 10 is registered, but not planned, at s3",
        ),
    ],
)
def test_a_kernel_that_drifted_is_described_by_what_frames_do(
    running: BridgeForwarding, difference: str
) -> None:
    assert difference_of(asked(TOLD), kernel(running), None) == difference
    reason = needs_change(asked(TOLD), stored(TOLD), kernel(running))
    assert reason == f"the kernel drifted: {difference}"


def test_an_entry_in_a_vlan_of_streams_that_no_plan_has_is_a_difference() -> None:
    stray = replace(TOLD, entries={**TOLD.entries, StreamAddress("02:00:00:00:00:07", 10): ("s2",)})
    assert difference_of(asked(TOLD), kernel(stray), None) == (
        "frames of 02:00:00:00:00:07, VLAN 10 leave by s2: the filtering entry is not in the plan"
    )


def test_a_switch_without_the_bridge_differs() -> None:
    assert difference_of(asked(TOLD), None, None) == "the switch has no such bridge"


def test_a_bridge_that_ignores_vlans_differs() -> None:
    difference = difference_of(asked(TOLD), kernel(TOLD, filters_vlans=False), None)
    assert difference == "its VLAN filtering is off: it forwards by address alone"


def test_a_rollback_is_compared_with_what_the_bridge_did() -> None:
    assert difference_between(kernel(TOLD), kernel(TOLD)) is None
    assert difference_between(kernel(TOLD), kernel(leaving(("l1",))))


def test_a_change_knows_what_the_bridge_had_in_the_vlans_of_streams() -> None:
    other = StreamAddress("02:00:00:00:00:63", 99)
    before = BridgeForwarding({other: ("p9",)}, {99: ("p9",)}, ("t1",))
    change = SwitchChange(Management("10.99.0.1"), {"br0": stored(before)}, {"br0": asked(TOLD)})
    assert change.previous("br0") == asked(BridgeForwarding({}, {10: ()}, ("t1",)))


# --- the checks before a change ------------------------------------------------------------------


def failures(report: PortReport | None, told: BridgeForwarding = TOLD) -> list[str]:
    found = examine_bridge(PortRef("s1", "br0"), told, report)
    return [each.text for each in found if each.verdict is Verdict.FAILED]


def test_a_bridge_that_can_do_it_is_fine() -> None:
    (found,) = examine_bridge(PortRef("s1", "br0"), TOLD, kernel(TOLD))
    assert (found.where, found.verdict, found.text) == ("s1/br0", "ok", "3 ports, filters VLANs")


def test_a_bridge_that_is_not_there_prevents_a_change() -> None:
    assert failures(None) == ["the switch has no such bridge"]


def test_a_bridge_that_is_to_forward_nothing_need_not_be_there() -> None:
    assert failures(None, BridgeForwarding({}, {10: ()}, ())) == []


def test_a_port_that_is_no_member_of_the_bridge_prevents_a_change() -> None:
    report = bridge_report(BridgeReport(("l1", "s2"), TOLD))
    assert failures(report) == ["is not the bridge of t1, by which frames of streams pass"]


@pytest.mark.parametrize(
    ("port", "row", "refused"),
    [
        (
            "t1",
            Recoding("pcp-decoding-table", 5, 3),
            ["the pcp-decoding-table of t1 makes 5 3"],
        ),
        (
            "l1",
            Recoding("pcp-encoding-table", 6, 0),
            ["the pcp-encoding-table of l1 makes 6 0"],
        ),
        ("l1", Recoding("pcp-encoding-table", 1, 0), []),
        ("p9", Recoding("pcp-encoding-table", 6, 0), []),
    ],
)
def test_a_table_that_leads_a_code_point_to_another_class_prevents_a_change(
    port: str, row: Recoding, refused: list[str]
) -> None:
    """Not one that leads to the same class, nor one of a port that streams do not pass."""
    report, classes = kernel(TOLD, recoded={port: (row,)}), (0, 0, 0, 0, 0, 1, 2, 2)
    found = examine_bridge(PortRef("s1", "br0"), TOLD, report, classes)
    texts = [each.text for each in found if each.verdict is Verdict.FAILED]
    suffix = ", which is the priority of another traffic class"
    assert texts == [each + suffix for each in refused]


def test_a_bridge_that_ignores_vlans_prevents_a_change() -> None:
    assert failures(kernel(TOLD, filters_vlans=False)) == [
        "its VLAN filtering is off: it forwards by address alone"
    ]


def test_a_bridge_that_floods_group_addresses_prevents_a_change_that_has_some() -> None:
    assert failures(kernel(TOLD, snoops_multicast=False)) == [
        "its multicast snooping is off: frames of a group address would leave by all ports"
    ]
    alone = StreamAddress("02:00:00:00:00:2a", 10)
    assert (
        failures(kernel(TOLD, snoops_multicast=False), replace(TOLD, entries={alone: ("s2",)}))
        == []
    )


# --- the watch -----------------------------------------------------------------------------------


def seen(plan: Plan, configured: BridgeForwarding, running: BridgeForwarding) -> Poll:
    """s2 as a watch sees it, with the gates of the plan left out."""
    return Poll(
        switch="s2",
        at=datetime(2026, 11, 23, tzinfo=UTC),
        state=SwitchState(AgentReport(37, 100), {"br0": kernel(running)}, 0, 0),
        stored=StoredSwitch({"br0": stored(configured)}, None),
        counters={},
    )


def of_bridge(plan: Plan, poll: Poll) -> list[tuple[str, str]]:
    events = Observer(plan, lambda _id: True).take(poll)
    return [(event.kind, event.text) for event in events if event.port == "br0"]


def test_a_watch_says_nothing_of_a_bridge_that_follows_the_plan(plan: Plan) -> None:
    told = forwarding_of(desired_ports(plan, "s2"))
    assert of_bridge(plan, seen(plan, told, told)) == []


def test_a_watch_reports_a_missing_entry_as_drift_and_a_changed_configuration(plan: Plan) -> None:
    told = forwarding_of(desired_ports(plan, "s2"))
    motion = plan.addresses["motion"]
    without = replace(told, entries={a: its for a, its in told.entries.items() if a != motion})
    ((kind, text),) = of_bridge(plan, seen(plan, told, without))
    assert kind == "drift"
    assert text.startswith("frames of motion (")
    assert text.endswith("do not leave by s3: the kernel has no filtering entry")
    ((kind, text),) = of_bridge(plan, seen(plan, without, told))
    assert kind == "configuration"


def test_a_rollout_asks_a_node_for_the_bridges_that_it_configures(plan: Plan) -> None:
    node = plan.intent.network.bridges["s1"]
    assert Managed.of(node, desired_ports(plan, "s1")).bridges == {"br0"}
