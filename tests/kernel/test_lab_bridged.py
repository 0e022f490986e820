"""A lab whose switches bridge: every frame of a stream where its plan says, and nowhere else.

Best effort floods the ordinary VLAN beside the streams in all tests.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateState
from agent.switch import Switch
from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.switch.connection import open_to
from cnc.talker import tai_ns
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.lab.spanning_tree import spanning_tree
from cnc.testbed.traffic import iperf
from cnc.testbed.traffic.flows import BridgedFlow, flows
from cnc.testbed.traffic.measure import Summary, summarise
from cnc.testbed.traffic.recording import Recording, run
from tests.bridged_networks import line, ring, stream

MS = 1_000_000
FAST, SLOW, BEST_EFFORT = 6, 5, 0  # traffic classes and priorities


@contextmanager
def up(intent: Intent) -> Iterator[tuple[Lab, Plan]]:
    """The lab of an intent with its plan, once it runs."""
    plan = compute(intent)
    with lab(intent, timed_wires=True) as running:
        report = push(plan, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        yield running, plan


def sent_through(
    running: Lab, plan: Plan, sent: list[BridgedFlow], duration_ns: int, directory: Path
) -> tuple[Recording, list[Summary]]:
    with running.quiet():
        record = run(running, sent, duration_ns, directory)
    return record, summarise(plan, sent, record, timed_wires=True)


def frames_by_class(running: Lab, port: PortRef) -> list[int]:
    """The frames that have left a port of a switch, by traffic class."""

    def read_here() -> list[int]:
        opened = KernelPorts(MECHANISMS)
        try:
            return [each.frames for each in Switch(opened).read()[port.port][GateState].counters]
        finally:
            opened.close()

    return inside(running.namespace(port.node), read_here)


@contextmanager
def cut(running: Lab, *ends: PortRef) -> Iterator[None]:
    """The cable between two switches is cut for the time of a `with` block."""

    def set_links(state: str) -> None:
        for end in ends:
            with IPRoute(netns=running.namespace(end.node)) as ip:
                ip.link("set", index=ip.link_lookup(ifname=end.port)[0], state=state)

    set_links("down")
    try:
        yield
    finally:
        set_links("up")


@pytest.fixture(scope="module")
def three_switches() -> Iterator[tuple[Lab, Plan]]:
    intent = line(
        motion=stream("t1", "l1", **{"destination-mac": "02:00:5e:10:00:01", "vlan": 20}),
        torque=stream("t1", "l1", "l3", octets=100, period="500us"),
        camera=stream("t2", "l2", octets=1400, period="2ms", **{"class": "slow"}),
    )
    with up(intent) as found:
        yield found


@pytest.fixture(scope="module")
def five_switches() -> Iterator[tuple[Lab, Plan]]:
    """A ring, in which the cable between s3 and s4 carries streams and no ordinary traffic."""
    stated = {"destination-mac": "02:00:5e:10:00:02", "vlan": 20}
    document = ring(
        unicast=stream("t1", "l3", **stated),
        across=stream("t4", "l3", octets=600, **{"class": "slow"}),
        three=stream("t2", "l3", "l4", "l5", octets=100, period="500us"),
        twice=stream("t1", "l4", octets=300, paths=2),
    ).document
    # A test names a stream at switches that policing would name, too.
    with up(intents.from_document({**document, "policing": "off"}, "bridged-ring")) as found:
        yield found


@pytest.mark.virtual_time
def test_every_frame_arrives_in_its_bound_and_none_where_it_has_no_listener(
    three_switches: tuple[Lab, Plan], tmp_path: Path
):
    running, plan = three_switches
    record, found = sent_through(running, plan, flows(plan), NS_PER_S, tmp_path)
    # 1,000 of motion, twice 2,000 of torque, 500 of camera
    assert sum(each.sent for each in found if each.flow.latency_bound_ns) == 5_500
    assert [line for each in found for line in each.violations()] == []
    assert {frame.copies for frame in record} == {1}
    assert record.strays == ()


@pytest.mark.virtual_time
def test_frames_leave_a_switch_in_the_class_of_their_pcp(
    three_switches: tuple[Lab, Plan], tmp_path: Path
):
    running, plan = three_switches
    port = PortRef("s1", "s2")
    sent = [flow for flow in flows(plan) if flow.latency_bound_ns]
    before = frames_by_class(running, port)
    sent_through(running, plan, sent, 100 * MS, tmp_path)
    after = frames_by_class(running, port)
    # Each program sends one frame of each stream before those that are counted.
    assert after[FAST] - before[FAST] == (100 + 1) + (200 + 1)
    assert after[SLOW] - before[SLOW] == 50 + 1


@pytest.mark.virtual_time
def test_a_frame_that_no_member_port_forwards_is_lost_and_one_too_many_strays(
    three_switches: tuple[Lab, Plan], tmp_path: Path
):
    running, plan = three_switches
    address = plan.addresses["torque"]
    sent = [flow for flow in flows(plan) if flow.stream == "torque"]

    def batch(switch: str, program: str, line: str) -> None:
        command = running.command(switch, [program, "-batch", "-"])
        subprocess.run(command, input=line, text=True, check=True)

    # s1 sends a copy to the other talker, s3 nothing to l1; the agents, which would repair it, are
    # stopped meanwhile.
    with running.quiet():
        batch(
            "s1",
            "tc",
            "filter add dev t1 ingress prio 1 handle 1 protocol 802.1q flower "
            f"dst_mac {address.destination_mac} action mirred egress mirror dev t2 continue",
        )
        batch("s3", "bridge", f"vlan del dev l1 vid {address.vlan_id}")
        try:
            record = run(running, sent, 100 * MS, tmp_path)
        finally:
            batch("s3", "bridge", f"vlan add dev l1 vid {address.vlan_id}")
            batch("s1", "tc", "filter del dev t1 ingress prio 1 handle 1 protocol 802.1q flower")
    found = summarise(plan, sent, record, timed_wires=True)
    assert [stray.node for stray in record.strays] == ["t2"] * 200
    first, second = found
    assert first.violations() == [
        "torque to l1: 200 of 200 frames lost",
        (
            f"torque: 200 frames arrived at t2 to {address.destination_mac} (VLAN "
            f"{address.vlan_id}, PCP {FAST}), where the plan sends none"
        ),
    ]
    assert second.violations() == []


def test_a_push_restores_what_another_program_took_from_a_bridge(
    three_switches: tuple[Lab, Plan],
):
    running, plan = three_switches
    address = plan.addresses["torque"]
    entry = f"grp {address.destination_mac} permanent vid {address.vlan_id}"
    vlan = f"vid {address.vlan_id}"
    for taken in (f"mdb del dev br0 port l1 {entry}", f"vlan del dev l2 {vlan}"):
        subprocess.run(running.command("s3", ["bridge", *taken.split()]), check=True)
    differing = [each for each in status(plan, connect=running.connect) if not each.agrees]
    assert [str(each.port) for each in differing] == ["s3/br0"]
    report = push(plan, connect=running.connect)
    assert [str(change.port) for change in report.changes] == ["s3/br0"]
    assert all(each.agrees for each in status(plan, connect=running.connect))


@pytest.mark.virtual_time
def test_ordinary_ip_traffic_goes_through_the_bridges(three_switches: tuple[Lab, Plan]):
    running, _ = three_switches
    found = iperf.measure(running, "t1", "l2", NS_PER_S, 10_000_000)
    assert found.received_bps > 1_000_000
    assert iperf.measure(running, "l1", "s1", NS_PER_S, 10_000_000).received_bps > 1_000_000


@pytest.mark.virtual_time
def test_in_a_ring_every_copy_arrives_and_floods_do_not_loop(
    five_switches: tuple[Lab, Plan], tmp_path: Path
):
    running, plan = five_switches
    sent = flows(plan)
    record, found = sent_through(running, plan, sent, NS_PER_S, tmp_path)
    # 1,000 of unicast, across and twice, three times 2,000 of three
    assert sum(each.sent for each in found if each.flow.latency_bound_ns) == 9_000
    assert [line for each in found for line in each.violations()] == []
    assert record.strays == ()
    copies = {flow.name: flow.copies for flow in sent}
    assert {frame.flow: frame.copies for frame in record} == copies
    assert all(frame.copies == copies[frame.flow] for frame in record)
    assert copies["twice"] == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", [0, 1])
def test_with_one_path_cut_the_other_delivers_every_frame(
    five_switches: tuple[Lab, Plan], tmp_path: Path, path: int
):
    running, plan = five_switches
    sent = [flow for flow in flows(plan) if flow.stream == "twice"]
    links = plan.intent.network.links
    hop = plan.streams["twice"].paths[path][1].egress  # of the first switch
    with cut(running, hop, links[hop].target):
        record, found = sent_through(running, plan, sent, 100 * MS, tmp_path)
    assert [line for each in found for line in each.violations()] == []
    assert [frame.copies for frame in record] == [1] * 100
    time.sleep(1)  # for the ports to forward again
    record, _ = sent_through(running, plan, sent, 100 * MS, tmp_path)
    assert [frame.copies for frame in record] == [2] * 100


def test_a_cable_off_the_tree_is_no_member_of_the_ordinary_vlan(five_switches: tuple[Lab, Plan]):
    running, plan = five_switches
    links = plan.intent.network.links
    off = sorted(links.keys() - spanning_tree(plan.intent.network))
    assert off == [PortRef("s3", "s4"), PortRef("s4", "s3")]
    for switch in plan.intent.network.bridges:
        with IPRoute(netns=running.namespace(switch)) as ip:
            indices = {link["index"]: link.get("ifname") for link in ip.get_links()}
            members = {
                indices[each["index"]]
                for each in ip.get_vlans()
                for vlan in each.get("IFLA_AF_SPEC").get_attrs("IFLA_BRIDGE_VLAN_INFO")
                if vlan["vid"] == 1
            }
        own = {port.port for port in links if port.node == switch}
        assert members - {"br0"} == own - {port.port for port in off if port.node == switch}


def test_only_its_bridge_has_an_address_on_a_switch(five_switches: tuple[Lab, Plan]):
    running, plan = five_switches
    with IPRoute(netns=running.namespace("s3")) as ip:
        names = {link["index"]: link.get("ifname") for link in ip.get_links()}
        found = [
            (names[each["index"]], each.get("IFA_ADDRESS"))
            for each in ip.get_addr()
            if names[each["index"]] in {"br0", "s2", "s4", "l3", "t3"}
        ]
    own = addresses(plan.intent)["s3"]
    assert {name for name, _ in found} == {"br0"}
    assert {str(own.v4), str(own.v6)} < {address for _, address in found}


IDENTITY = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification"
FRER = "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer"


def _identity(plan: Plan, handle: int, ports: Sequence[str]) -> str:
    address = plan.addresses["twice"]
    mac = address.destination_mac.replace(":", "-").upper()
    return (
        f'<stream-identity xmlns="{IDENTITY}"><index>9</index><handle>{handle}</handle><out-facing>'
        + "".join(f"<input-port>{port}</input-port>" for port in ports)
        + "</out-facing><null-stream-identification>"
        f"<destination-mac>{mac}</destination-mac><tagged>tagged</tagged>"
        f"<vlan>{address.vlan_id}</vlan></null-stream-identification></stream-identity>"
    )


def _numbers(port: str, out_facing: str) -> str:
    return (
        f"<sequence-identification><stream>9</stream><port>{port}</port><direction-out-facing>"
        f"{out_facing}</direction-out-facing><active>true</active><encapsulation><r-tag/>"
        "</encapsulation></sequence-identification>"
    )


def _edit(running: Lab, switch: str, *nodes: str) -> None:
    bridge = running.intent.network.bridges[switch]
    with open_to(switch, bridge.management, running.connect) as session:
        config = '<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">'
        session.edit_config(target="candidate", config=f"{config}{''.join(nodes)}</config>")
        session.commit()


@contextmanager
def eliminating(running: Lab, plan: Plan) -> Iterator[None]:
    """Copies of the stream `twice` are eliminated at s4 for the time of a `with` block."""
    generation = "<sequence-generation><index>9</index><stream>9</stream>"
    recovery = "<sequence-recovery><index>9</index><stream>9</stream><port>s3</port><port>s5</port>"
    at_last = (
        f"{recovery}<direction-out-facing>true</direction-out-facing>"
        "<history-length>16</history-length><reset-timeout>500</reset-timeout></sequence-recovery>"
        f"{_numbers('s3', 'true')}{_numbers('s5', 'true')}"
    )
    at_first = (
        f"{generation}<direction-out-facing>false</direction-out-facing></sequence-generation>"
        f"{_numbers('t1', 'false')}"
    )
    tables = {"s4": (at_last, ("s3", "s5")), "s1": (at_first, ("t1",))}
    for switch, (node, ports) in tables.items():
        _edit(running, switch, _identity(plan, 9, ports), f'<frer xmlns="{FRER}">{node}</frer>')
    try:
        yield
    finally:
        gone = 'xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0" nc:operation="delete"'
        identity = f'<stream-identity xmlns="{IDENTITY}" {gone}><index>9</index></stream-identity>'
        for switch in reversed(tables):
            _edit(running, switch, identity, f'<frer xmlns="{FRER}" {gone}/>')


@pytest.mark.virtual_time
def test_a_switch_eliminates_second_copies_also_while_a_path_is_cut(
    five_switches: tuple[Lab, Plan], tmp_path: Path
):
    running, plan = five_switches
    sent = [flow for flow in flows(plan) if flow.stream == "twice"]
    links = plan.intent.network.links
    hop = plan.streams["twice"].paths[0][1].egress  # of the first switch
    with eliminating(running, plan):
        record, _ = sent_through(running, plan, sent, 100 * MS, tmp_path)
        assert [frame.copies for frame in record] == [1] * 100
        with cut(running, hop, links[hop].target):
            record, _ = sent_through(running, plan, sent, 100 * MS, tmp_path)
            assert [frame.copies for frame in record] == [1] * 100
        time.sleep(1)  # for the ports to forward again
    record, _ = sent_through(running, plan, sent, 100 * MS, tmp_path)
    assert [frame.copies for frame in record] == [2] * 100
