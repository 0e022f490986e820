"""The code point in the tag of frames that a bridge sends, on the wire behind its ports.

q1 ══ p1 ┐
q2 ══ p2 ├ br0, with the VLANs 10 and 20 for streams and VLAN 1, untagged, for other traffic
q3 ══ p3 ┘
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from pyroute2 import IPRoute

from agent.kernel.cls_flower import EGRESS
from agent.mechanisms.bridged_classification.model import BridgedConfig
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingTable,
    Member,
)
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
from agent.mechanisms.sent_priority.model import SentPriorityConfig, SentPriorityState
from agent.model import AgentError, PortConfig
from tests.kernel.conftest import FAR, inside
from tests.kernel.test_bridged_classification import hooks, packet
from tests.kernel.test_forwarding import (  # noqa: F401
    ETH_P_ALL,
    PACKET_AUXDATA,
    SOL_PACKET,
    TP_STATUS_VLAN_VALID,
    bridge,
    port,
    switch,
)
from tests.stack.filtering_entries import PORTS

GROUP, TALKER = bytes.fromhex("91E0F000FE01"), bytes.fromhex("02BB00000001")
EXPERIMENTAL, IPV4, TAGGED, UNTAGGED = 0x88B5, 0x0800, 0x8100, 0
DEI = 0x1000
FIVE_TO_THREE = PriorityTable((0, 1, 2, 3, 4, 3, 6, 7))
THREE_TO_SIX, THREE_TO_ONE = (0, 1, 2, 6, 4, 5, 6, 7), (7, 7, 7, 1, 7, 7, 7, 7)
EXPEDITED = 46


class Tag(NamedTuple):
    """The tag of a frame on the wire; a VLAN of 0 means that it has none."""

    vlan_id: int
    code_point: int
    drop_eligible: bool = False


@pytest.fixture
def send(bridge) -> Iterator[Callable[..., Mapping[str, list[Tag]]]]:  # noqa: F811
    """Send a frame into the far end of p1; with which tags it comes out of the others, unharmed."""
    with ExitStack() as stack:
        far = {}
        for name in PORTS:
            with inside(FAR):
                far[name] = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                far[name].bind((name.replace("p", "q"), ETH_P_ALL))
            far[name].setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            far[name].setblocking(False)

        def run(tag: Tag, *, ethertype: int = EXPERIMENTAL, dscp: int = 0):
            for each in far.values():
                list(arrived(each, ethertype, b""))
            payload = packet(IPV4, dscp) if ethertype == IPV4 else b"payload of a frame"
            content = struct.pack("!H", ethertype) + payload.ljust(64, b".")
            tci = tag.code_point << 13 | DEI * tag.drop_eligible | tag.vlan_id
            on_wire = struct.pack("!HH", TAGGED, tci) if tag.vlan_id else b""
            far["p1"].send(GROUP + TALKER + on_wire + content)
            time.sleep(0.05)
            return {name: list(arrived(far[name], ethertype, content)) for name in PORTS[1:]}

        yield run


def arrived(receiver: socket.socket, ethertype: int, content: bytes) -> Iterator[Tag]:
    """The tag of each frame of this Ethertype with this content behind its addresses."""
    while True:
        try:
            frame, ancillary, _flags, address = receiver.recvmsg(200, 64)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING or frame[:12] != GROUP + TALKER:
            continue
        assert frame[12:].startswith(content) or not content, hex(ethertype)
        status, _len, _snaplen, _mac, _net, tci, _tpid = struct.unpack("=IIIHHHH", ancillary[0][2])
        is_tagged = status & TP_STATUS_VLAN_VALID
        yield Tag(tci & 0xFFF, tci >> 13, bool(tci & DEI)) if is_tagged else Tag(UNTAGGED, 0)


@pytest.fixture
def wanted(bridge) -> dict[str, PortConfig]:  # noqa: F811
    """A group that leaves by p2 and p3 in both VLANs; code point 5 means priority 3 at p1."""
    address = GROUP.hex("-").upper()
    table = ForwardingTable(
        frozenset(Entry(Address(address, vlan), name) for vlan in (10, 20) for name in PORTS[1:]),
        frozenset(Member(vlan, name) for vlan in (10, 20) for name in PORTS),
    )
    return {
        "br0": PortConfig("br0", (ForwardingConfig(table),)),
        "p1": PortConfig("p1", (ReceivedPriorityConfig(FIVE_TO_THREE),)),
        "p2": PortConfig("p2", (SentPriorityConfig(THREE_TO_SIX),)),
        "p3": PortConfig("p3", (SentPriorityConfig(THREE_TO_ONE),)),
    }


def test_a_frame_leaves_with_the_code_point_of_its_priority_whatever_its_vlan(switch, wanted, send):  # noqa: F811
    switch.apply(wanted | {"p2": PortConfig("p2"), "p3": PortConfig("p3")})
    assert send(Tag(10, 5)) == {"p2": [Tag(10, 5)], "p3": [Tag(10, 5)]}
    switch.apply(wanted)
    for vlan_id in (10, 20):
        assert send(Tag(vlan_id, 5)) == {"p2": [Tag(vlan_id, 6)], "p3": [Tag(vlan_id, 1)]}
        assert send(Tag(vlan_id, 4)) == {"p2": [Tag(vlan_id, 4)], "p3": [Tag(vlan_id, 7)]}
    assert send(Tag(UNTAGGED, 0)) == {"p2": [Tag(UNTAGGED, 0)], "p3": [Tag(UNTAGGED, 0)]}
    switch.apply({"br0": wanted["br0"]})
    assert send(Tag(10, 5)) == {"p2": [Tag(10, 5)], "p3": [Tag(10, 5)]}
    assert hooks("p2") == []


def test_no_frame_leaves_drop_eligible_where_code_points_are_written(switch, wanted, send):  # noqa: F811
    switch.apply(wanted | {"p3": PortConfig("p3")})
    frame = Tag(10, 5, drop_eligible=True)
    assert send(frame) == {"p2": [Tag(10, 6)], "p3": [frame]}


def test_the_code_point_is_that_of_the_priority_that_dscp_rules_gave(switch, wanted, send):  # noqa: F811
    rules = BridgedConfig({EXPEDITED: 3})
    switch.apply(wanted | {"p2": PortConfig("p2", (rules, SentPriorityConfig(THREE_TO_SIX)))})
    found = send(Tag(20, 0), ethertype=IPV4, dscp=EXPEDITED)
    assert found == {"p2": [Tag(20, 6)], "p3": [Tag(20, 7)]}


def test_code_points_are_read_back_changed_in_place_and_undone(switch, wanted):  # noqa: F811
    switch.apply(wanted)
    assert switch.read()["p2"][SentPriorityState].code_points == THREE_TO_SIX
    assert switch.apply(wanted).steps == ()
    other = {"p2": PortConfig("p2", (SentPriorityConfig(THREE_TO_ONE),))}
    applied = switch.apply(wanted | other)
    assert len(applied.steps) == 1
    assert switch.read()["p2"][SentPriorityState].code_points == THREE_TO_ONE
    applied.undo()
    assert switch.read()["p2"][SentPriorityState].code_points == THREE_TO_SIX


def test_a_changed_filter_is_a_difference_and_repaired(switch, wanted, send):  # noqa: F811
    switch.apply(wanted)
    with IPRoute() as ipr:
        place = {"parent": EGRESS, "prio": 0x7C00, "protocol": TAGGED}
        ipr.tc("del-filter", "basic", port("p2"), handle=4, **place)
        assert switch.read()["p2"][SentPriorityState].code_points is None
        switch.apply(wanted)
        # One of another kind in our place, while all of ours are there.
        other = {"skb_priority": 9, "action": "drop"}
        ipr.tc("add-filter", "basic", port("p2"), handle=50, **other, **place)
    (step,) = switch.apply(wanted).steps
    assert step.changes[0].description.endswith("which another program has changed")
    assert switch.apply(wanted).steps == ()
    assert send(Tag(10, 5))["p2"] == [Tag(10, 6)]


def test_a_refused_filter_leaves_all_as_it_was_and_says_why(switch, wanted):  # noqa: F811
    with IPRoute() as ipr:
        ipr.tc("add", "clsact", port("p2"))
        foreign = {"keys": ["0x0/0x0+0"], "target": 0x10000, "action": "ok"}
        ipr.tc("add-filter", "u32", port("p2"), parent=EGRESS, prio=0x7C00, protocol=3, **foreign)
    with pytest.raises(AgentError, match=r"^port p2: the kernel refused a filter \(basic, at egr"):
        switch.apply(wanted)
    assert switch.read()["p3"][SentPriorityState].code_points is None
