"""A lab whose switches bridge: its addresses, its spanning tree, and what its talkers send."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.model import Intent, Link, Plan, PortRef, StreamAddress, StreamPlan
from cnc.planner import plan as compute
from cnc.testbed.lab.addressing import addresses, bridged_addresses, next_hops, port_addresses
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.spanning_tree import spanning_tree
from cnc.testbed.lab.supported import check_ports, check_rates
from cnc.testbed.traffic import recording
from cnc.testbed.traffic.ethernet import Arrival, Destination
from cnc.testbed.traffic.flows import BridgedFlow, flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.pairing import Stray
from cnc.testbed.traffic.recording import run
from tests.bridged_networks import line, ring, stream

GROUP = "03:54:53:4e:00:01"


@pytest.fixture(scope="module")
def planned() -> Plan:
    """Three switches in a line, a stream of two listeners and one of a single one."""
    torque = stream("t1", "l1", "l3", **{"destination-mac": GROUP, "vlan": 20})
    camera = stream("t2", "l2", **{"class": "slow"})
    return compute(line(torque=torque, camera=camera))


def test_every_node_of_a_bridged_network_has_one_address_in_one_subnet():
    network = ring().network
    found = bridged_addresses(network)
    assert found.keys() == {*network.bridges, *network.end_stations}
    for version in ("v4", "v6"):
        interfaces = [getattr(own, version) for own in found.values()]
        assert len({interface.ip for interface in interfaces}) == len(found)
        assert len({interface.network for interface in interfaces}) == 1
    ports = port_addresses(network)
    assert found["l3"].mac == ports[PortRef("l3", "eth0")].mac
    assert {found[node].mac for node in network.bridges}.isdisjoint(
        own.mac for own in ports.values()
    )
    assert addresses(ring())["s2"].v4 == found["s2"].v4.ip


def joined(intent: Intent, *joins: str) -> Intent:
    """The intent with further cables, written `node/port node/port`."""
    links = dict(intent.network.links)
    for join in joins:
        one, other = (PortRef(*end.split("/")) for end in join.split())
        links[one] = Link(one, other, 1_000_000_000, 100)
        links[other] = Link(other, one, 1_000_000_000, 100)
    return dataclasses.replace(intent, network=dataclasses.replace(intent.network, links=links))


def between_switches(intent: Intent, ports: frozenset[PortRef]) -> set[PortRef]:
    links, bridges = intent.network.links, intent.network.bridges
    return {port for port in ports if {port.node, links[port].target.node} <= bridges.keys()}


@pytest.mark.parametrize(
    "cables", [(), ("s1/x s3/x",), ("s1/x s2/x", "s2/y s4/y", "s5/z s3/z"), ("s1/x s1/y",)]
)
def test_ordinary_frames_reach_every_switch_by_one_way_only(cables: tuple[str, ...]):
    intent = joined(ring(), *cables)
    tree = spanning_tree(intent.network)
    links = intent.network.links
    assert all(links[port].target in tree for port in tree)
    assert len(between_switches(intent, tree)) == 2 * 4  # both ends of four cables
    reached, waiting = set(), ["s1"]
    while waiting:
        reached.add(node := waiting.pop())
        found = {links[port].target.node for port in between_switches(intent, tree)}
        waiting += [
            links[port].target.node
            for port in between_switches(intent, tree)
            if port.node == node and links[port].target.node not in reached
        ]
    assert reached == found == {*intent.network.bridges}


def test_every_cable_of_an_end_station_carries_ordinary_frames():
    network = ring().network
    stations = {port for port in network.links if port.node in network.end_stations}
    assert stations < spanning_tree(network)


def test_the_way_of_ordinary_frames_is_along_the_tree():
    network = ring().network
    # s3 and s4 are neighbours in the ring, and the tree from s1 leaves out their cable.
    assert PortRef("s3", "s4") not in spanning_tree(network)
    assert next_hops(network, "l4")["s3"].source == PortRef("s3", "s2")


def test_a_stream_of_several_listeners_is_one_transmission_measured_at_each(planned: Plan):
    at = {flow.listener: flow for flow in flows(planned) if flow.stream == "torque"}
    assert {flow.name for flow in at.values()} == {"torque to l1", "torque to l3"}
    for flow in at.values():
        assert (flow.destination_mac, flow.vlan_id, flow.pcp) == (GROUP, 20, 6)
        assert (flow.talker, flow.interface, flow.copies) == ("t1", "eth0", 1)
        assert flow.offset_ns == planned.streams["torque"].hops[0].offset_ns
        assert flow.latency_bound_ns == planned.streams["torque"].latency_bound_ns


def test_a_stream_is_sent_to_its_address_with_the_priority_of_its_class(planned: Plan):
    (camera,) = (flow for flow in flows(planned) if flow.stream == "camera")
    assert camera.name == "camera"
    sent_to = StreamAddress(camera.destination_mac, camera.vlan_id)
    assert (sent_to, camera.pcp) == (planned.addresses["camera"], 5)


def test_best_effort_is_untagged_and_flooded_once_by_each_first_switch(planned: Plan):
    beside = [flow for flow in flows(planned) if flow.latency_bound_ns is None]
    assert {(flow.stream, flow.talker, flow.interface) for flow in beside} == {
        ("background s1", "s1", "br0")
    }
    assert {flow.listener for flow in beside} == {"l1", "l2", "l3"}
    assert {(flow.vlan_id, flow.pcp) for flow in beside} == {(None, None)}
    taken = {own.mac for own in bridged_addresses(planned.intent.network).values()}
    assert taken.isdisjoint(flow.destination_mac for flow in beside)


def test_a_stream_that_would_leave_its_talker_twice_is_refused(planned: Plan):
    """Each of its two frames would be copied to both paths."""
    (path,) = planned.streams["camera"].paths
    later = (dataclasses.replace(path[0], offset_ns=path[0].offset_ns + 1), *path[1:])
    streams = {**planned.streams, "camera": StreamPlan((path, later), 1)}
    with pytest.raises(InputError, match="camera is planned to leave t2 2 times in a period"):
        flows(dataclasses.replace(planned, streams=streams))
    streams["camera"] = StreamPlan((path, path), 1)
    found = flows(dataclasses.replace(planned, streams=streams))
    assert {flow.copies for flow in found if flow.stream == "camera"} == {2}


def test_a_stream_of_two_paths_is_sent_once_and_is_to_arrive_twice():
    plan = compute(ring(twice=stream("t1", "l4", paths=2)))
    (flow,) = (flow for flow in flows(plan) if flow.latency_bound_ns)
    assert (flow.name, flow.copies) == ("twice", 2)
    assert {flow.offset_ns} == set(plan.streams["twice"].talker_offsets_ns)


def test_a_stream_whose_second_copies_switches_take_out_is_to_arrive_once():
    plan = compute(ring(once=stream("t1", "l4", paths=2, elimination="switch")))
    (flow,) = (flow for flow in flows(plan) if flow.latency_bound_ns)
    assert (flow.name, flow.copies) == ("once", 1)


@pytest.mark.parametrize("port", ["br0", "mgmt"])
def test_a_port_called_as_another_interface_of_its_switch_is_refused(port: str):
    with pytest.raises(InputError, match=f"port s1/{port}: a node of the lab has an interface"):
        check_ports(joined(ring(), f"s1/{port} s3/x"))
    check_ports(joined(ring(), "s1/y s3/x"))


def test_a_bridge_called_as_another_interface_of_its_switch_is_refused():
    intent = ring()
    switch = dataclasses.replace(intent.network.bridges["s2"], bridge_device="mgmt")
    bridges = {**intent.network.bridges, "s2": switch}
    network = dataclasses.replace(intent.network, bridges=bridges)
    with pytest.raises(InputError, match="switch s2: its bridge cannot be called mgmt"):
        check_ports(dataclasses.replace(intent, network=network))


def test_a_cable_too_slow_for_gates_is_refused_wherever_a_plan_may_send_a_stream():
    intent = ring(motion=stream("t1", "l2"))
    slow = PortRef("s3", "s4")  # not on the shortest way
    links = {**intent.network.links}
    links[slow] = dataclasses.replace(links[slow], rate_bps=10_000_000)
    network = dataclasses.replace(intent.network, links=links)
    with pytest.raises(InputError, match="stream motion: port s3/s4 would need gates"):
        check_rates(dataclasses.replace(intent, network=network))
    check_rates(intent)


MOTION = BridgedFlow(
    "motion to l1", "motion", "t1", "eth0", "l1", 6, GROUP, 20, 6, 100, 1_000_000, 0, 50_000
)
AT_L3 = dataclasses.replace(MOTION, name="motion to l3", listener="l3")
AT_L2 = dataclasses.replace(MOTION, name="motion to l2", listener="l2")
BACKGROUND = dataclasses.replace(
    MOTION,
    name="background s1 to l1",
    stream="background s1",
    talker="s1",
    vlan_id=None,
    pcp=None,
    latency_bound_ns=None,
)
TAG = (GROUP, 20, 6)


class NoProgram:
    """A station that neither sends nor receives."""

    ahead_ns, pid = 0, 1

    def __init__(self, _lab, verb, node, _turn, spec):
        self.verb, self.node, self.spec = verb, node, spec

    def start(self, *_): ...
    def await_ready(self): ...
    def send_start(self, start_ns): ...
    def finish(self, expected_s=0.0): ...
    def end(self): ...


def recorded(
    planned: Plan,
    sent: list[BridgedFlow],
    arrivals: dict[str, list[Arrival]],
    directory: Path,
    destination: Destination | None = None,
) -> recording.Recording:
    """A run in which each flow sends one frame, at 0, and the nodes receive these. `destination` is
    what the talkers' agents say to send to, if anything."""

    class Recorded(NoProgram):
        def sent(self):
            return [[flow["id"], 0, 0, 1, None, None] for flow in self.spec["flows"]]

        def destinations(self):
            for flow in self.spec["flows"]:
                stated = flow["destination_mac"], flow["vlan_id"], flow["pcp"]
                yield flow["id"], 0, destination or stated

        def arrivals(self):
            return arrivals.get(self.node, [])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "Station", Recorded)
        return run(Lab(planned.intent, directory), sent, 1_000_000, directory, grid_ns=1)


def test_a_frame_is_recorded_at_each_listener_with_its_copies(planned: Plan, tmp_path: Path):
    sent = [MOTION, AT_L3, AT_L2]
    copies = [Arrival(0, 0, 30, *TAG), Arrival(0, 0, 40, *TAG)]
    found = recorded(planned, sent, {"l1": copies, "l3": copies[1:]}, tmp_path)
    assert [(frame.flow, frame.received_ns, frame.copies) for frame in found] == [
        ("motion to l1", 30, 2),
        ("motion to l2", None, 0),
        ("motion to l3", 40, 1),
    ]
    twice, once, lost = summarise(planned, sent, found)
    assert twice.violations() == ["motion to l1: 1 frame arrived more often than 1 time"]
    assert once.violations() == []
    assert lost.violations() == ["motion to l2: 1 of 1 frame lost"]
    two_paths = dataclasses.replace(MOTION, copies=2)
    assert summarise(planned, [two_paths, *sent[1:]], found)[0].violations() == []


@pytest.mark.parametrize(
    ("node", "tag", "told"),
    [
        ("l2", TAG, "to 03:54:53:4e:00:01 (VLAN 20, PCP 6)"),
        ("l1", (GROUP, 20, 0), "to 03:54:53:4e:00:01 (VLAN 20, PCP 0)"),
        ("l1", (GROUP, 10, 6), "to 03:54:53:4e:00:01 (VLAN 10, PCP 6)"),
        ("l1", (GROUP, None, None), "to 03:54:53:4e:00:01 (untagged)"),
        ("l1", ("02:00:00:00:00:01", 20, 6), "to 02:00:00:00:00:01 (VLAN 20, PCP 6)"),
    ],
)
def test_a_frame_where_or_as_the_plan_sends_none_is_a_stray_and_a_violation(
    planned: Plan, tmp_path: Path, node: str, tag: tuple[str, int, int], told: str
):
    arrivals = {node: [Arrival(0, 0, 40, *tag)]}
    arrivals.setdefault("l1", []).append(Arrival(0, 0, 30, *TAG))
    found = recorded(planned, [MOTION], arrivals, tmp_path)
    assert found.strays == (Stray("motion", 0, node, 40, *tag),)
    assert [frame.copies for frame in found] == [1]
    (summary,) = summarise(planned, [MOTION], found)
    assert summary.violations() == [
        f"motion: 1 frame arrived at {node} {told}, where the plan sends none"
    ]
    (row,) = csv.DictReader((tmp_path / "strays.csv").read_text().splitlines())
    assert (row["stream"], row["node"], row["seq"]) == ("motion", node, "0")


def test_a_frame_that_a_push_readdressed_is_no_stray(planned: Plan, tmp_path: Path):
    now = ("03:54:53:4e:00:09", 30, 6)
    arrivals = {"l1": [Arrival(0, 0, 30, *now), Arrival(0, 0, 40, *TAG)]}
    found = recorded(planned, [MOTION], arrivals, tmp_path, now)
    assert [frame.copies for frame in found] == [1]
    assert found.strays == (Stray("motion", 0, "l1", 40, *TAG),)


def test_flooded_frames_may_arrive_anywhere(planned: Plan, tmp_path: Path):
    untagged = (GROUP, None, None)
    arrivals = {node: [Arrival(0, 0, 30, *untagged)] for node in ("l1", "l2", "t1")}
    found = recorded(planned, [BACKGROUND], arrivals, tmp_path)
    assert (found.strays, [frame.copies for frame in found]) == ((), [1])


def test_the_record_says_to_which_address_each_flow_was_sent(planned: Plan, tmp_path: Path):
    recorded(planned, [MOTION, AT_L3], {}, tmp_path)
    about = json.loads((tmp_path / "frames.json").read_text())
    assert [(flow["name"], flow["destination_mac"]) for flow in about["flows"]] == [
        ("motion to l1", GROUP),
        ("motion to l3", GROUP),
    ]
