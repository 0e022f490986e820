"""What a bridge does with the frames of streams: filtering entries, groups, VLANs.

q1 ══ p1 ┐
q2 ══ p2 ├ br0, with VLAN 10 for streams and VLAN 1 for all other traffic
q3 ══ p3 ┘
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from queue import SimpleQueue
from typing import NamedTuple

import pytest
from pyroute2 import IPRoute

from agent import operational
from agent.composition import Contribution, Step
from agent.datastore.changes import Changes
from agent.datastore.watch import Watch
from agent.events import Event, PortDrift, PortRestored, PortStateChange
from agent.kernel import bridge_entries, netlink_batch, nft_bridge
from agent.kernel.bridge_entries import BridgeEntry, VlanMember
from agent.kernel.netlink_batch import NetlinkSocket, raise_first
from agent.kernel.nft_bridge import BridgeTable, Listed
from agent.kernel.ports import KernelPorts
from agent.mechanism import BRIDGES
from agent.mechanisms import MECHANISMS
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.mechanisms.forwarding.rules import FilteringDatabase
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
from agent.model import AgentError, PortConfig
from agent.switch import Switch, differences
from tests.kernel.conftest import FAR, QUEUES, inside, routes_of
from tests.stack.filtering_entries import BRIDGE, PORTS, bridges, entry
from tests.stack.recording_kernel import configured

STREAMS, ORDINARY = 10, 1
EXPERIMENTAL, TAGGED = 0x88B5, 0x8100
TO_ONE, TO_GROUP = "02-AA-00-00-00-02", "91-E0-F0-00-FE-01"
UNKNOWN, UNKNOWN_GROUP = "02-AA-00-00-00-77", "91-E0-F0-00-FE-77"
TALKER = "02-BB-00-00-00-01"
SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 263, 8, 3
TP_STATUS_VLAN_VALID = 0x10
RTMGRP_LINK, RTMGRP_NEIGH, RTMGRP_TC, RTNLGRP_MDB = 0x1, 0x4, 0x8, 26
NETLINK_NETFILTER, NFNLGRP_NFTABLES = 12, 7
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1

ONE, GROUP = Address(TO_ONE, STREAMS), Address(TO_GROUP, STREAMS)
TABLE = ForwardingTable(
    frozenset({Entry(ONE, "p2"), Entry(GROUP, "p2"), Entry(GROUP, "p3")}),
    frozenset(Member(STREAMS, name) for name in PORTS),
)


class Received(NamedTuple):
    """A frame at the far end of a port."""

    port: str
    vlan_id: int
    pcp: int


@pytest.fixture
def switch(bridge) -> Iterator[Switch]:
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def bridge(ports, eventually) -> Iterator[int]:
    """br0 with VLAN filtering and multicast snooping, whose ports forward; its index."""
    with IPRoute() as ipr:
        queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
        peer = {"ifname": "q3", "net_ns_fd": FAR, **queues}
        ipr.link("add", ifname="p3", kind="veth", peer=peer, state="up", **queues)
        with routes_of(FAR) as far:
            far.link("set", index=far.link_lookup(ifname="q3")[0], state="up")
        ipr.link("add", ifname="br0", kind="bridge", br_vlan_filtering=1, br_mcast_snooping=1)
        (index,) = ipr.link_lookup(ifname="br0")
        ipr.link("set", index=index, state="up")
        for name in PORTS:
            ipr.link("set", index=port(name), master=index)
        eventually(lambda: all(forwards(ipr, name) for name in PORTS))
        yield index


def port(name: str) -> int:
    return socket.if_nametoindex(name)


def forwards(ipr: IPRoute, name: str) -> bool:
    (link,) = ipr.get_links(port(name))
    return link.get(("linkinfo", "slave_data", "IFLA_BRPORT_STATE")) == 3


def wanted(table: ForwardingTable = TABLE) -> dict[str, PortConfig]:
    return {"br0": PortConfig("br0", (ForwardingConfig(table),))}


@pytest.fixture
def send(bridge) -> Iterator[Callable[..., list[Received]]]:
    """Send a frame into the far end of a port; where it comes out, and how."""
    with ExitStack() as stack:
        sockets = {}
        for name in PORTS:
            with inside(FAR):
                far = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                far.bind((name.replace("p", "q"), ETH_P_ALL))
            far.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            far.setblocking(False)
            sockets[name] = far

        def run(
            mac: str, *, vlan_id: int = STREAMS, pcp: int = 5, source: str = TALKER, at: str = "p1"
        ) -> list[Received]:
            for each in sockets.values():
                list(arrived(each))
            addresses = bytes.fromhex(mac.replace("-", "") + source.replace("-", ""))
            tag = struct.pack("!HH", TAGGED, pcp << 13 | vlan_id) if vlan_id != ORDINARY else b""
            frame = addresses + tag + struct.pack("!H", EXPERIMENTAL)
            sockets[at].send(frame.ljust(64, b"\0"))
            time.sleep(0.05)
            return [
                Received(name, tci & 0xFFF, tci >> 13)
                for name, each in sockets.items()
                for tci in arrived(each)
            ]

        yield run


def arrived(receiver: socket.socket) -> Iterator[int]:
    """The tag control information of each frame of a test, 0 without a tag."""
    while True:
        try:
            frame, ancillary, _flags, address = receiver.recvmsg(128, 64)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING or frame[12:14] != struct.pack("!H", EXPERIMENTAL):
            continue
        status, _len, _snaplen, _mac, _net, tci, _tpid = struct.unpack("=IIIHHHH", ancillary[0][2])
        yield tci if status & TP_STATUS_VLAN_VALID else 0


def test_an_individual_address_leaves_by_its_port_and_no_other(switch, send):
    switch.apply(wanted())
    assert send(TO_ONE) == [Received("p2", STREAMS, 5)]
    assert send(TO_ONE, at="p3", pcp=6) == [Received("p2", STREAMS, 6)]


def test_a_group_address_leaves_by_each_of_its_ports(switch, send):
    switch.apply(wanted())
    assert send(TO_GROUP) == [Received("p2", STREAMS, 5), Received("p3", STREAMS, 5)]


def test_what_no_entry_names_goes_nowhere_in_the_vlan_of_streams(switch, send):
    switch.apply(wanted())
    assert [send(each) for each in (UNKNOWN, UNKNOWN_GROUP, "FF-FF-FF-FF-FF-FF")] == [[], [], []]
    assert send(TO_ONE, vlan_id=11) == []


def test_what_the_bridge_learns_in_the_vlan_of_streams_leads_nowhere(switch, send):
    switch.apply(wanted())
    send(TO_ONE, source=UNKNOWN, at="p3")
    assert send(UNKNOWN) == []
    send(UNKNOWN, source=TO_ONE, at="p3")  # an address that moves does not take its entry along
    assert send(TO_ONE) == [Received("p2", STREAMS, 5)]


def test_other_traffic_is_flooded_and_learned_as_before(switch, send):
    switch.apply(wanted())
    assert {each.port for each in send(UNKNOWN, vlan_id=ORDINARY)} == {"p2", "p3"}
    send(TALKER, vlan_id=ORDINARY, source=UNKNOWN, at="p3")
    assert {each.port for each in send(UNKNOWN, vlan_id=ORDINARY)} == {"p3"}
    assert {each.port for each in send("FF-FF-FF-FF-FF-FF", vlan_id=ORDINARY)} == {"p2", "p3"}


def test_streams_are_in_the_class_of_their_code_point_beside_their_entries(
    switch, send, two_classes
):
    table = PriorityTable((0, 0, 0, 0, 0, 1, 0, 0))
    asked = {
        "p1": PortConfig("p1", (ReceivedPriorityConfig(table),)),
        "p2": configured("p2", two_classes((0x3, 1_000_000))),
    }
    switch.apply(wanted() | asked)

    def counted() -> int:
        return switch.read()["p2"][GateState].counters[1].frames

    before = counted()
    assert [send(TO_ONE) for _ in range(5)] == [[Received("p2", STREAMS, 5)]] * 5
    assert counted() - before == 5


def test_what_is_read_back_is_what_was_asked_and_changes_no_more(switch, bridge):
    switch.apply(wanted())
    found = switch.read()["br0"]
    assert found[ForwardingState].table == TABLE
    assert found.as_bridge == replace(BRIDGE, port_states=dict.fromkeys(PORTS, "forwarding"))
    time.sleep(5)  # until the kernel has learned and reported what its own first frames bring
    with ExitStack() as stack:
        listening = [stack.enter_context(each) for each in monitors()]
        assert switch.apply(wanted()).steps == ()
        time.sleep(0.05)
        assert [list(messages(each)) for each in listening] == [[], []]
        switch.apply({})
        time.sleep(0.05)
        assert all(list(messages(each)) for each in listening)


@pytest.mark.usefixtures("bridge")
def test_vlans_of_others_and_what_ports_do_with_frames_and_tags_are_reported(switch):
    switch.apply(wanted())
    with IPRoute() as ipr:
        ipr.vlan_filter("add", index=port("p2"), vlan_info={"vid": 20})
        ipr.vlan_filter("add", index=port("p2"), vlan_info={"vid": 21})
    # Without a protocol the kernel lets a port that is set to block forward at once.
    subprocess.run(["bridge", "link", "set", "dev", "p3", "state", "learning"], check=True)
    for name, offload in (("p1", "on"), ("p2", "off"), ("p3", "off")):
        subprocess.run(["ethtool", "-K", name, "rxvlan", offload], check=True)
    (reported,) = operational.bridges(MECHANISMS, switch.read())[BRIDGES]["bridge"]
    (component,) = reported["component"]
    assert [tuple(row.values()) for row in component["tsn-linux:port"]] == [
        ("p1", "forwarding", True),
        ("p2", "forwarding", False),
        ("p3", "learning", False),
    ]
    assert {row["interface"]: row["vids"] for row in component["tsn-linux:foreign-vlans"]} == {
        "br0": "1",
        "p1": "1",
        "p2": "1,20-21",
        "p3": "1",
    }


def test_entries_of_others_are_reported_and_those_of_the_agent_are_not(switch, bridge):
    switch.apply(wanted())
    by_hand(
        bridge_entries.add_mdb(bridge, kernel_entry(Address(TO_GROUP, 1), "p3")),
        bridge_entries.set_fdb(kernel_entry(Address(TO_ONE, 1), "p3")),
    )
    (reported,) = operational.bridges(MECHANISMS, switch.read())[BRIDGES]["bridge"]
    (component,) = reported["component"]
    places = component["tsn-linux:foreign-entries"]
    assert {(TO_ONE, "p3", "1"), (TO_GROUP, "p3", "1")} == {
        (row["address"], row["interface"], row["vids"])
        for row in places
        if row["address"] in (TO_ONE, TO_GROUP)
    }
    own = [row["address"] for row in places if row["interface"] == "p1"]
    assert own == [switch.read()["p1"].mac_address.replace(":", "-").upper()]


def monitors() -> list[socket.socket]:
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK)
    route.bind((0, RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_TC))
    route.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, RTNLGRP_MDB)
    netfilter = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, NETLINK_NETFILTER
    )
    netfilter.bind((0, 1 << (NFNLGRP_NFTABLES - 1)))
    return [route, netfilter]


def messages(listening: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield listening.recv(1 << 16)
        except BlockingIOError:
            return


def test_a_change_is_undone_and_a_withdrawn_agent_leaves_nothing(switch, bridge, send):
    untouched = present(bridge)
    switch.apply(wanted())
    moved = ForwardingTable(
        frozenset({Entry(ONE, "p3"), Entry(GROUP, "p2")}), TABLE.members | {Member(20, "p3")}
    )
    applied = switch.apply(wanted(moved))
    assert switch.read()["br0"][ForwardingState].table == moved
    assert send(TO_ONE) == [Received("p3", STREAMS, 5)]
    applied.undo()
    assert switch.read()["br0"][ForwardingState].table == TABLE
    assert send(TO_ONE) == [Received("p2", STREAMS, 5)]
    with closing(KernelPorts(MECHANISMS)) as restarted:
        assert Switch(restarted).apply(wanted()).steps == ()
        Switch(restarted).apply({})
    assert present(bridge) == untouched
    with closing(NetlinkSocket(NETLINK_NETFILTER)) as netfilter:
        assert BridgeTable(netfilter, "br0").read() == Listed()


def present(bridge: int) -> tuple[set[BridgeEntry], set[VlanMember]]:
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        fdb = bridge_entries.read_fdb(kernel, bridge)
        found = {*fdb, *bridge_entries.read_mdb(kernel, bridge)}
        return found, set(bridge_entries.read_vlans(kernel))


def by_hand(*requests: netlink_batch.Message) -> None:
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        for each in requests:
            raise_first(kernel.send([each]))


def kernel_entry(address: Address, name: str) -> BridgeEntry:
    return BridgeEntry(bytes.fromhex(address.mac.replace("-", "")), address.vlan_id, port(name))


def test_what_others_have_made_is_refused_and_left_alone(switch, bridge):
    by_hand(
        bridge_entries.add_vlans(port("p3"), [20]),
        bridge_entries.add_mdb(bridge, kernel_entry(Address(TO_GROUP, 1), "p3")),
        bridge_entries.set_fdb(kernel_entry(Address(TO_ONE, 1), "p3")),
    )
    untouched = present(bridge)
    for foreign, why in (
        (Entry(Address(TO_ONE, 1), "p2"), f"there is an entry for {TO_ONE} in VLAN 1 at p3"),
        (Entry(Address(TO_GROUP, 1), "p3"), f"there is an entry for {TO_GROUP} in VLAN 1 at p3"),
        (Entry(Address(TO_ONE, 20), "p3"), "p3: a member of VLAN 20 that the agent has not made"),
    ):
        members = frozenset({Member(foreign.address.vlan_id, foreign.port)})
        with pytest.raises(AgentError, match=why):
            switch.apply(wanted(ForwardingTable(frozenset({foreign}), members)))
    switch.apply(wanted())
    switch.apply({})
    assert present(bridge) == untouched


def test_what_is_removed_by_hand_is_a_difference_until_it_is_configured_again(switch, bridge):
    switch.apply(wanted())
    by_hand(
        bridge_entries.delete_fdb(kernel_entry(ONE, "p2")),
        bridge_entries.delete_mdb(bridge, kernel_entry(GROUP, "p3")),
    )
    assert differences(MECHANISMS, wanted(), switch.read()) == {
        "br0": f"frames to {ONE} do not leave by p2, frames to {GROUP} do not leave by p3"
    }
    switch.apply(wanted())
    assert switch.read()["br0"][ForwardingState].table == TABLE


def test_a_port_that_left_the_bridge_gets_its_entries_back_with_the_bridge(switch, bridge, send):
    switch.apply(wanted())
    with IPRoute() as ipr:
        ipr.link("set", index=port("p2"), master=0)
        with pytest.raises(AgentError, match="p2 is no port of this bridge; its ports: p1, p3"):
            switch.apply(wanted())
        ipr.link("set", index=port("p2"), master=bridge)
    switch.apply(wanted())
    assert switch.read()["br0"][ForwardingState].table == TABLE


@pytest.fixture
def events(switch) -> Iterator[SimpleQueue[Event]]:
    """What an agent notifies of, whose configuration is `TABLE`."""
    tree = bridges(entry(TO_ONE, "p2"), entry(TO_GROUP, "p2", "p3"))
    changes = Changes(switch, lambda: tree)
    changes.reconcile(tree)
    queue: SimpleQueue[Event] = SimpleQueue()

    def keep(event: Event) -> None:
        if not isinstance(event, PortStateChange):  # br0 finds out its speed
            queue.put(event)

    watch = Watch(switch, changes, keep)
    yield queue
    watch.close()
    changes.close()


def test_an_agent_notices_what_was_removed_by_hand(switch, bridge, events):
    by_hand(bridge_entries.delete_mdb(bridge, kernel_entry(GROUP, "p3")))
    assert events.get(timeout=60) == PortDrift("br0", f"frames to {GROUP} do not leave by p3")
    by_hand(bridge_entries.add_mdb(bridge, kernel_entry(GROUP, "p3")))
    assert events.get(timeout=60) == PortRestored("br0")
    by_hand(bridge_entries.delete_fdb(kernel_entry(ONE, "p2")))
    assert events.get(timeout=60) == PortDrift("br0", f"frames to {ONE} do not leave by p2")


def test_an_agent_restores_the_entries_of_a_port_that_returns(switch, bridge, events):
    with IPRoute() as ipr:
        ipr.link("set", index=port("p2"), master=0)
        drift = events.get(timeout=60)
        assert isinstance(drift, PortDrift)
        assert drift.difference.startswith("p2 is no member of VLAN 10, frames to")
        ipr.link("set", index=port("p2"), master=bridge)
        assert events.get(timeout=60) == PortRestored("br0")
    assert TABLE.entries <= {*entries_of(bridge)}


def entries_of(bridge: int) -> Iterator[Entry]:
    for each in present(bridge)[0]:
        mac = each.mac.hex("-").upper()
        yield Entry(Address(mac, each.vlan_id), socket.if_indextoname(each.ifindex))


def test_a_refusal_of_the_kernel_leaves_what_was_there(switch, bridge):
    switch.apply(wanted())
    untouched = present(bridge)
    more = ForwardingTable(
        TABLE.entries | {Entry(ONE._replace(vlan_id=30), "p2")}, TABLE.members | {Member(20, "p2")}
    )
    before, after = (Contribution("forwarding", "br0", 0, each) for each in (TABLE, more))
    with pytest.raises(
        AgentError, match=r"^port br0: the kernel refused static forwarding: .*EINV"
    ):
        switch.ports.execute(Step(FilteringDatabase("br0", bridge), (before,), (after,)))
    assert switch.read()["br0"][ForwardingState].table == TABLE
    assert present(bridge) == untouched


def test_a_kernel_that_takes_no_such_table_says_why_before_anything_changes(bridge, monkeypatch):
    before = tables()
    with closing(KernelPorts(MECHANISMS)) as ports:
        assert "forwarding" not in ports.capabilities()
        assert "forwarding-refused" not in ports.leaves()
    # A kernel without nft_meta_bridge knows no more of this key than of any that there is not.
    monkeypatch.setattr(nft_bridge, "_META_BRI_OIFNAME", 200)
    with closing(KernelPorts(MECHANISMS)) as ports:
        why = ports.capabilities()["forwarding"]
        assert ports.leaves()["forwarding-refused"] == why
        with pytest.raises(AgentError, match="takes no table of nftables for bridges"):
            Switch(ports).apply(wanted())
    assert why == (
        "this kernel takes no table of nftables for bridges: Operation not supported (ENOTSUP); "
        "boot a kernel with CONFIG_NF_TABLES_BRIDGE and CONFIG_NFT_BRIDGE_META"
    )
    assert tables() == before


def tables() -> str:
    """All tables of nftables, as nft(8) lists them."""
    listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return listed.stdout


def test_a_thousand_streams_take_little_more_than_a_thousand_messages(switch, bridge, monkeypatch):
    table = ForwardingTable(
        frozenset(
            Entry(Address(f"02-CC-00-00-{number >> 8:02X}-{number & 255:02X}", STREAMS), "p2")
            for number in range(1000)
        ),
        TABLE.members,
    )
    encoded, sent = netlink_batch._encoded, []

    def recorded(message, *arguments):
        sent.append(message)
        return encoded(message, *arguments)

    monkeypatch.setattr(netlink_batch, "_encoded", recorded)
    switch.apply(wanted(table))
    assert len(sent) < 1_100
    assert switch.read()["br0"][ForwardingState].table == table
    assert switch.apply(wanted(table)).steps == ()
