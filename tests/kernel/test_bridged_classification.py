"""The priority of frames that a bridge forwards: filters at the ingress and egress of its ports.

Frames come in by p2 and leave by p1; which class they were in, the gates of p1 count.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.kernel.cls_flower import EGRESS, INGRESS
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.bridged_classification.kernel import HOOK, filters_of
from agent.mechanisms.bridged_classification.model import BridgedConfig, BridgedState
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.received_priority.model import (
    PriorityTable,
    ReceivedPriorityConfig,
    ReceivedPriorityState,
)
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from tests.kernel.conftest import FAR, inside
from tests.stack.recording_kernel import configured

EF, BEST_EFFORT = 46, 0
IPV4, IPV6, VLAN, EXPERIMENTAL = 0x0800, 0x86DD, 0x8100, 0x88B5
MAC_ADDRESSES = bytes.fromhex("020000000201020000000202")
FRAMES = 10


@pytest.fixture
def switch(ports) -> Iterator[Switch]:
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def master(ports, eventually) -> Callable[..., None]:
    """Puts p1 into br0, which has p2, or takes it out again; it is there, and forwards."""
    with IPRoute() as ipr:
        ipr.link("add", ifname="br0", kind="bridge", state="up")
        (bridge,) = ipr.link_lookup(ifname="br0")
        p1, p2 = (ipr.link_lookup(ifname=name)[0] for name in ports)
        ipr.link("set", index=p2, master=bridge)

    def set_master(*, joined: bool = True) -> None:
        with IPRoute() as ipr:
            ipr.link("set", index=p1, master=bridge if joined else 0)

    set_master()
    eventually(lambda: forwarding(p1) and forwarding(p2))
    return set_master


def forwarding(port: int) -> bool:
    """Whether the bridge forwards the frames of this port (BR_STATE_FORWARDING)."""
    with IPRoute() as ipr:
        (link,) = ipr.get_links(port)
    return link.get(("linkinfo", "slave_data", "IFLA_BRPORT_STATE")) == 3


@pytest.fixture
def asked(two_classes) -> PortConfig:
    """Gates of two classes that never close, and DSCP 46 in class 1."""
    config = configured("p1", two_classes((0x3, 1_000_000)), {EF: 1})
    return replace(config, parts=(*config.parts, BridgedConfig({EF: 1})))


def packet(version: int, dscp: int) -> bytes:
    """A header without payload; that of IPv4 has the checksum that br_netfilter asks for."""
    if version == IPV6:
        return struct.pack("!IHBB32x", 6 << 28 | dscp << 22, 0, 59, 64)
    words = [0x4500 | dscp << 2, 20, 0, 0, 64 << 8 | 59]
    carried = sum(words)
    return struct.pack("!6H8x", *words, 0xFFFF - (carried % 0x10000 + carried // 0x10000))


def send(ethertype: int, dscp: int, *, pcp: int | None) -> None:
    """Send frames into p2, with a VLAN tag if there is a priority code point for it."""
    tag = b"" if pcp is None else struct.pack("!HH", VLAN, pcp << 13)
    frame = MAC_ADDRESSES + tag + struct.pack("!H", ethertype) + packet(ethertype, dscp)
    with inside(FAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("q2", 0))
        for _ in range(FRAMES):
            sender.send(frame.ljust(60, b"\0"))


def counted(switch: Switch) -> list[int]:
    """The frames that have left p1, by class."""
    return [each.frames for each in switch.read()["p1"][GateState].counters]


@pytest.mark.parametrize("is_tagged", [False, True])
@pytest.mark.parametrize("ethertype", [IPV4, IPV6])
def test_bridged_frames_are_in_the_class_of_their_dscp(switch, master, asked, ethertype, is_tagged):
    switch.apply({"p1": asked})
    for dscp, in_class_1 in ((EF, FRAMES), (BEST_EFFORT, 0)):
        before = counted(switch)
        send(ethertype, dscp, pcp=6 if is_tagged else None)
        time.sleep(0.1)
        after = counted(switch)
        assert after[1] - before[1] == in_class_1
        # Beside frames of the kernel's own.
        assert after[0] - before[0] >= FRAMES - in_class_1


@pytest.mark.parametrize(
    ("table", "pcp", "class_"),
    [
        (PriorityTable(), 1, 1),
        (PriorityTable(), 3, 0),
        (PriorityTable((0, 0, 2, 1, 4, 5, 6, 7)), 3, 1),
        (PriorityTable((0, 0, 2, 1, 4, 5, 6, 7)), 1, 0),
        (PriorityTable((0, 0, 2, 3, 4, 1, 6, 7), decoded=(0, 1, 2, 3, 4, 3, 6, 7)), 5, 1),
        (PriorityTable(default=1), None, 1),
        (PriorityTable(default=1), 0, 0),
        (None, 1, 0),
    ],
)
def test_bridged_frames_are_in_the_class_of_their_regenerated_priority(  # noqa: PLR0917
    switch, master, asked, table, pcp, class_
):
    wanted = {"p1": asked, "p2": PortConfig("p2", (ReceivedPriorityConfig(table),))}
    switch.apply(wanted)
    assert switch.read()["p2"][ReceivedPriorityState].table == table
    assert switch.apply(wanted).steps == ()
    before = counted(switch)
    send(EXPERIMENTAL, 0, pcp=pcp)
    time.sleep(0.1)
    # Beside a few of the kernel's own, which have no tag either.
    assert FRAMES * class_ <= counted(switch)[1] - before[1] < FRAMES * (class_ + 1)
    switch.apply({"p1": asked})
    assert hooks("p2") == []


def test_rules_are_read_back_changed_in_place_and_removed_with_their_hook(switch, master, asked):
    switch.apply({"p1": asked})
    assert switch.read()["p1"][BridgedState] == BridgedState({EF: 1})
    assert switch.apply({"p1": asked}).steps == ()
    other = replace(asked, parts=(*asked.parts[:-1], BridgedConfig({EF: 2, 34: 1})))
    applied = switch.apply({"p1": other})
    assert switch.read()["p1"][BridgedState] == BridgedState({34: 1, EF: 2})
    applied.undo()
    assert switch.read()["p1"][BridgedState] == BridgedState({EF: 1})
    switch.apply({})
    assert switch.read()["p1"][BridgedState] == BridgedState()
    assert hooks("p1") == []


def test_a_port_that_joins_a_bridge_later_differs_until_it_is_configured(switch, master, asked):
    master(joined=False)
    switch.apply({"p1": asked})
    assert switch.read()["p1"][BridgedState] == BridgedState()
    master()
    (step,) = switch.apply({"p1": asked}).steps
    assert step.changes[0].difference == "DSCP 46 to priority 1 is missing for bridged frames"
    master(joined=False)
    (step,) = switch.apply({"p1": asked}).steps
    assert step.after == ()
    assert hooks("p1") == []


def test_gates_go_on_when_a_port_gets_its_first_filter_and_loses_its_last(
    switch, master, two_classes
):
    """The kernel stops them each time."""
    gates = configured("p1", two_classes((0x2, 500_000), (0x1, 500_000)))
    switch.apply({"p1": gates})
    for rules in ({EF: 1}, {}):
        switch.apply({"p1": replace(gates, parts=(*gates.parts, BridgedConfig(rules)))})
        assert hooks("p1") == (["clsact"] if rules else [])
        before = counted(switch)
        for pcp in (None, 6):
            send(IPV4, BEST_EFFORT, pcp=pcp)
        time.sleep(0.1)
        assert counted(switch)[0] - before[0] >= 2 * FRAMES


def test_filters_of_others_stay_and_ours_are_repaired(switch, master, asked):
    with IPRoute() as ipr:
        (p1,) = ipr.link_lookup(ifname="p1")
        ipr.tc("add", "clsact", p1)
        foreign = {"keys": ["0x0/0x0+0"], "target": 0x10000, "action": "ok"}
        ipr.tc("add-filter", "u32", p1, parent=INGRESS, prio=1, protocol=3, **foreign)
        switch.apply({"p1": asked})
        tagged = filters_of({EF: 1})[2]
        place = {"parent": EGRESS, "prio": tagged.prio, "protocol": HOOK.protocols[tagged.prio]}
        ipr.tc("del-filter", "flower", p1, handle=tagged.handle, **place)
        assert switch.read()["p1"][BridgedState] == BridgedState()
        switch.apply({"p1": asked})
        assert switch.read()["p1"][BridgedState] == BridgedState({EF: 1})
        # One of another kind in our place, while all four of the rule are there.
        ipr.tc("add-filter", "flower", p1, handle=500, vlan_prio=1, action="drop", **place)
        (step,) = switch.apply({"p1": asked}).steps
        assert step.changes[0].description.endswith("which another program has changed")
        assert switch.apply({"p1": asked}).steps == ()
        switch.apply({})
        assert len(list(ipr.get_filters(index=p1, parent=INGRESS))) > 0
    assert hooks("p1") == ["clsact"]


def test_a_refused_filter_leaves_none_of_the_others_and_says_why(switch, master, asked):
    with IPRoute() as ipr:
        (p1,) = ipr.link_lookup(ifname="p1")
        ipr.tc("add", "clsact", p1)
        foreign = {"keys": ["0x0/0x0+0"], "target": 0x10000, "action": "ok"}
        ipr.tc("add-filter", "u32", p1, parent=EGRESS, prio=0x7A02, protocol=3, **foreign)
        with pytest.raises(AgentError, match=r"^port p1: the kernel refused a filter .*\(EINVAL\)"):
            switch.apply({"p1": asked})
        assert switch.read()["p1"][GateState].taprio is None
        left = {each["info"] >> 16 for each in ipr.get_filters(index=p1, parent=EGRESS)}
    assert left == {0x7A02}


def hooks(port: str) -> list[str]:
    """The qdiscs of a port that carry filters."""
    with IPRoute() as ipr:
        (index,) = ipr.link_lookup(ifname=port)
        kinds = [qdisc.get("TCA_KIND") for qdisc in ipr.get_qdiscs(index)]
    return [kind for kind in kinds if kind in {"clsact", "ingress"}]
