"""A talker and a listener that know no VLANs, and two bridges between them: what tests have of it.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingTable,
    Member,
)
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationTable,
    Incoming,
    Match,
    Named,
    Outgoing,
    Stream,
)
from agent.model import PortConfig
from agent.switch import Switch
from tests.kernel.conftest import FAR, QUEUES, SO_RCVBUFFORCE, SWITCH, inside, routes_of

UNKNOWN = "02-00-00-00-00-09"
STREAM, TALKER, LISTENER = "02-54-53-4E-00-07", "02-00-00-00-02-01", "02-00-00-00-01-03"
VLAN_ID, PCP = 10, 1
TALKER_IP, LISTENER_IP, LISTENER_IPV6 = "10.0.1.2", "10.0.1.77", "fd00:1::77"
UDP_PORT, OTHER_PORT = 5000, 5001
EXPERIMENTAL, IPV4, IPV6 = 0x88B5, 0x0800, 0x86DD
FRAMES = 10
EF = 46
SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 263, 8, 3
TP_STATUS_VLAN_VALID = 0x10
RTMGRP_TC = 0x8

UDP = Match(
    ip_source=TALKER_IP,
    ip_destination=LISTENER_IP,
    protocol="udp",
    destination_port=UDP_PORT,
)
INCOMING = Incoming(7, 1, 2, UDP, STREAM, VLAN_ID, PCP)
OUTGOING = Outgoing(7, 3, STREAM, VLAN_ID, LISTENER)
NAMED = Named(7, 4, STREAM, VLAN_ID, is_out_facing=True)


class OnTheWire(NamedTuple):
    """A frame between the bridges; None: it has no tag."""

    destination: str
    vlan_id: int | None
    pcp: int | None


TRANSLATED = OnTheWire(STREAM, VLAN_ID, PCP)
AS_SENT = OnTheWire(LISTENER, None, None)


def table(*streams: Stream) -> IdentificationConfig:
    return IdentificationConfig(
        IdentificationTable(
            frozenset(each for each in streams if isinstance(each, Incoming)),
            frozenset(each for each in streams if isinstance(each, Outgoing)),
            frozenset(each for each in streams if isinstance(each, Named)),
        )
    )


def asked(port: str, *parts: object) -> dict[str, PortConfig]:
    return {port: PortConfig(port, parts)}


def forwarded(bridge: str, *ports: str, to: str) -> dict[str, PortConfig]:
    entries = frozenset({Entry(Address(STREAM, VLAN_ID), to)})
    members = frozenset(Member(VLAN_ID, port) for port in ports)
    return asked(bridge, ForwardingConfig(ForwardingTable(entries, members)))


FIRST = asked("p1", table(INCOMING)) | forwarded("br0", "p1", "p2", to="p2")
LAST = asked("q3", table(OUTGOING)) | forwarded("br1", "q2", "q3", to="q3")


@pytest.fixture
def bridges(ports, eventually) -> None:
    """br0 and br1 with VLAN filtering, whose ports forward, and the addresses of the end stations.

    The talker finds the listener by a permanent neighbour, as after its address resolution.
    """
    queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
    with IPRoute() as near, routes_of(FAR) as far:
        peer = {"ifname": "q3", "net_ns_fd": FAR, **queues}
        near.link("add", ifname="p3", kind="veth", peer=peer, **queues)
        p3 = index_of(near, "p3")
        near.link("set", index=p3, address=LISTENER.replace("-", ":").lower(), state="up")
        near.addr("add", index=p3, address=LISTENER_IP, prefixlen=32)
        near.addr("add", index=p3, address=LISTENER_IPV6, prefixlen=128, flags=0x02)
        far.link("set", index=index_of(far, "q3"), state="up")
        for ipr, bridge, members in ((near, "br0", ("p1", "p2")), (far, "br1", ("q2", "q3"))):
            ipr.link("add", ifname=bridge, kind="bridge", br_vlan_filtering=1, state="up")
            for name in members:
                ipr.link("set", index=index_of(ipr, name), master=index_of(ipr, bridge))
            eventually(
                lambda ipr=ipr, members=members: all(forwards(ipr, name) for name in members)
            )
        for address in (LISTENER_IP, LISTENER_IPV6):
            far.neigh(
                "replace",
                ifindex=index_of(far, "q1"),
                dst=address,
                lladdr=LISTENER.replace("-", ":").lower(),
                state=0x80,
            )


def index_of(ipr: IPRoute, name: str) -> int:
    return ipr.link_lookup(ifname=name)[0]


def forwards(ipr: IPRoute, name: str) -> bool:
    (link,) = ipr.get_links(index_of(ipr, name))
    return link.get(("linkinfo", "slave_data", "IFLA_BRPORT_STATE")) == 3


@pytest.fixture
def first(bridges) -> Iterator[Switch]:
    """The switch of br0."""
    opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def last(bridges) -> Iterator[Switch]:
    """The switch of br1."""
    with inside(FAR):
        opened = KernelPorts(MECHANISMS)
    yield Switch(opened)
    opened.close()


@pytest.fixture
def wire(bridges) -> Iterator[Callable[[], list[OnTheWire]]]:
    """The frames with a test's payload that have passed between the bridges since the last call."""
    with inside(FAR):
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        capture.bind(("q2", ETH_P_ALL))
    with closing(capture):
        capture.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
        capture.setblocking(False)
        yield lambda: list(captured(capture))


PAYLOAD = b"a frame of a test"


def captured(capture: socket.socket) -> Iterator[OnTheWire]:
    while True:
        try:
            frame, ancillary, _flags, address = capture.recvmsg(2048, 64)
        except BlockingIOError:
            return
        if address[2] == socket.PACKET_OUTGOING or PAYLOAD not in frame:
            continue
        status, _len, _snaplen, _mac, _net, tci, _tpid = struct.unpack("=IIIHHHH", ancillary[0][2])
        tag = (tci & 0xFFF, tci >> 13) if status & TP_STATUS_VLAN_VALID else (None, None)
        yield OnTheWire(frame[:6].hex("-").upper(), *tag)


def send_udp(port: int = UDP_PORT, *, to: str = LISTENER_IP, dscp: int = 0) -> None:
    """Send by an ordinary socket of the talker."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    level, option = (
        (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
        if family == socket.AF_INET6
        else (socket.IPPROTO_IP, socket.IP_TOS)
    )
    with inside(FAR), socket.socket(family, socket.SOCK_DGRAM) as talker:
        talker.setsockopt(level, option, dscp << 2)
        for _ in range(FRAMES):
            talker.sendto(PAYLOAD, (to, port))
    time.sleep(0.05)


def send_frames(ethertype: int = EXPERIMENTAL, *, to: str = LISTENER, tci: int | None = None):
    """Send frames of this kind by the talker, with a VLAN tag if there is something to put in."""
    addresses = bytes.fromhex((to + TALKER).replace("-", ""))
    tag = b"" if tci is None else struct.pack("!HH", 0x8100, tci)
    with inside(FAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
        talker.bind(("q1", 0))
        for _ in range(FRAMES):
            talker.send((addresses + tag + struct.pack("!H", ethertype) + PAYLOAD).ljust(60, b"\0"))
    time.sleep(0.05)


@pytest.fixture
def received() -> Iterator[Callable[[], int]]:
    """The packets that an ordinary socket of the listener has got since the last call."""
    with inside(SWITCH), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((LISTENER_IP, UDP_PORT))
        listener.setblocking(False)

        def count() -> int:
            packets = 0
            while True:
                try:
                    packets += listener.recv(2048) == PAYLOAD
                except BlockingIOError:
                    return packets

        yield count


def hooks(port: str) -> list[str]:
    """The qdiscs of a port that carry filters."""
    with IPRoute() as ipr:
        kinds = [qdisc.get("TCA_KIND") for qdisc in ipr.get_qdiscs(index_of(ipr, port))]
    return [kind for kind in kinds if kind in {"clsact", "ingress"}]


def tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True)
