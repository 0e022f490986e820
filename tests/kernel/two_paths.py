"""A talker and a listener, and two ways between the two bridges where they are.

talker ══ t ┬ br0 ┬ a ══ a0 → a1 ══ a ┬ br1 ┬ l ══ listener
            │     └ b ══ b0 → b1 ══ b ┘     │
      first switch       wires        last switch

The wires carry frames one way; netem loses and delays them there.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.forwarding import model as forwarding_model
from agent.mechanisms.forwarding.model import Entry, ForwardingConfig, ForwardingTable, Member
from agent.mechanisms.frer.model import (
    Address,
    Counts,
    FrerConfig,
    FrerState,
    Generated,
    Recovered,
    Recovery,
)
from agent.model import PortConfig
from agent.switch import Switch
from tests.kernel.conftest import (
    FAR,
    MS,
    NS_PER_S,
    QUEUES,
    SO_RCVBUFFORCE,
    SO_TIMESTAMPNS,
    SWITCH,
    inside,
    new_namespace,
)

WIRES = "tsn-wires"
PATHS = ("a", "b")
MAC, VLAN_ID, PCP = "91-E0-F0-00-FE-01", 10, 0
HANDLE = 7
STREAM = Address(MAC, VLAN_ID)
VLAN_TAG, RTAG, EXPERIMENTAL = 0x8100, 0xF1C1, 0x88B5
SENDER = "02-00-00-00-00-AA"
CONTENT_OCTETS = 178
MTU_OCTETS = 9000
ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA = 263, 8
RESET_TIMEOUT_MS = 200

GENERATED = Generated(HANDLE, STREAM, entry=1)
VECTOR = Recovery(1, "vector", history_length=64, reset_timeout_ms=RESET_TIMEOUT_MS)
MATCH = Recovery(1, "match", history_length=0, reset_timeout_ms=RESET_TIMEOUT_MS)


class Arrived(NamedTuple):
    """`number` is the talker's, `sequence` that of the R-TAG if there is one."""

    number: int
    sequence: int | None
    at_ns: int
    is_as_sent: bool


def frame(number: int, sequence: int | None = None, octets: int = CONTENT_OCTETS) -> bytes:
    """A frame of the stream with so long a content, with an R-TAG if a sequence number is given."""
    rtag = b"" if sequence is None else struct.pack("!HHH", RTAG, 0, sequence)
    addresses = bytes.fromhex((MAC + SENDER).replace("-", ""))
    tag = struct.pack("!HH", VLAN_TAG, PCP << 13 | VLAN_ID)
    content = struct.pack("!HI", EXPERIMENTAL, number).ljust(octets, b"x")
    return addresses + tag + rtag + content


def parsed(octets: bytes, at_ns: int) -> Arrived:
    (kind,) = struct.unpack_from("!H", octets, 16)
    sequence, start = None, 16
    if kind == RTAG:
        (sequence,) = struct.unpack_from("!H", octets, 20)
        start = 22
    (number,) = struct.unpack_from("!I", octets, start + 2)
    is_as_sent = octets == frame(number, sequence, len(octets) - start)
    return Arrived(number, sequence, at_ns, is_as_sent)


@dataclass
class Network:
    """The two switches and both ends. Frames are sent and read in the namespace of the wires."""

    first: Switch
    last: Switch
    talker: socket.socket
    listener: socket.socket

    def send(
        self,
        numbers: Sequence[int],
        at: Mapping[int, Callable[[], None]] | None = None,
        *,
        period_ns: int = MS,
        phase_ns: int = 0,
    ) -> None:
        """A frame a period, at this phase of it; before the frame of a number, what is to be
        done `at` it. Returns when the last one has arrived by either path."""
        start_ns = (time.clock_gettime_ns(time.CLOCK_TAI) // period_ns + 2) * period_ns + phase_ns
        for index, number in enumerate(numbers):
            if at and number in at:
                at[number]()
            sleep_until(start_ns + index * period_ns)
            self.talker.send(frame(number))
        time.sleep(0.1)

    def received(self) -> list[Arrived]:
        """The frames of the stream that the listener has got since the last call."""
        arrived = []
        while True:
            try:
                octets, ancillary, _flags, _address = self.listener.recvmsg(MTU_OCTETS + 100, 256)
            except BlockingIOError:
                return arrived
            if octets[:6].hex("-").upper() == MAC:
                told = {kind: value for _level, kind, value in ancillary}
                seconds, ns = struct.unpack("=qq", told[SO_TIMESTAMPNS])
                # The kernel has taken the VLAN tag off before a packet socket sees the frame.
                tci, tpid = struct.unpack_from("=HH", told[PACKET_AUXDATA], 16)
                tag = struct.pack("!HH", tpid, tci)
                arrived.append(parsed(octets[:12] + tag + octets[12:], seconds * NS_PER_S + ns))

    def counts(self) -> dict[str, Counts]:
        """What each receiving port of the last switch has counted."""
        states = self.last.read()
        return {path: states[path][FrerState].counts[STREAM] for path in PATHS}

    def total(self, counter: str) -> int:
        return sum(getattr(each, counter) for each in self.counts().values())

    def close(self) -> None:
        """Take back what the switches have, and close them."""
        for switch in (self.first, self.last):
            switch.apply({})
            switch.ports.close()


def sleep_until(instant_ns: int) -> None:
    """An instant of TAI; time.sleep() would round to where the clock is."""
    while (left_ns := instant_ns - time.clock_gettime_ns(time.CLOCK_TAI)) > 0:
        time.sleep(left_ns / NS_PER_S)


def wire(path: str, *netem: str) -> None:
    """What becomes of frames on the wire of this path."""
    with inside(WIRES):
        subprocess.run(
            [
                "tc",
                "qdisc",
                "replace",
                "dev",
                f"{path}1",
                "root",
                "netem",
                "limit",
                "10000",
                *netem,
            ],
            check=True,
        )


def inject(path: str, *frames: bytes) -> None:
    """Frames that come to the last switch by this path, whoever has sent them."""
    with inside(WIRES), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((f"{path}1", 0))
        for each in frames:
            sender.send(each)
    time.sleep(0.05)


def generation(*streams: Generated) -> PortConfig:
    return PortConfig("t", (FrerConfig(generated=frozenset(streams)),))


def recovery(
    combined: Recovery | None = VECTOR, individual: Mapping[str, Recovery] | None = None
) -> dict[str, PortConfig]:
    """At both ports of the last switch."""
    return {
        path: PortConfig(
            path,
            (
                FrerConfig(
                    recovered=frozenset(
                        {Recovered(HANDLE, STREAM, combined, (individual or {}).get(path))}
                    )
                ),
            ),
        )
        for path in PATHS
    }


def forwarding(bridge: str, members: Sequence[str], *to: str) -> dict[str, PortConfig]:
    table = ForwardingTable(
        frozenset(Entry(forwarding_model.Address(MAC, VLAN_ID), port) for port in to),
        frozenset(Member(VLAN_ID, port) for port in members),
    )
    return {bridge: PortConfig(bridge, (ForwardingConfig(table),))}


FIRST = forwarding("br0", ("t", *PATHS), *PATHS)
LAST = forwarding("br1", (*PATHS, "l"), "l")


def first_config(*streams: Generated) -> dict[str, PortConfig]:
    """Of the first switch: it forwards by both paths; with streams, it numbers their frames."""
    return FIRST | ({"t": generation(*streams)} if streams else {})


def last_config(
    combined: Recovery | None = VECTOR, individual: Mapping[str, Recovery] | None = None
) -> dict[str, PortConfig]:
    return LAST | recovery(combined, individual)


@pytest.fixture
def wire_action() -> str:
    """How a wire carries frames on, as an action of mirred: as in the lab."""
    return "redirect"


@pytest.fixture
def network(tmp_path, eventually, wire_action) -> Iterator[Network]:
    """Both switches numbering, forwarding and eliminating."""
    with ExitStack() as cleanup:
        for name in (SWITCH, FAR, WIRES):
            cleanup.enter_context(new_namespace(name))
        _cable((WIRES, "talker"), (SWITCH, "t"))
        _cable((FAR, "l"), (WIRES, "listener"))
        for path in PATHS:
            _cable((SWITCH, path), (WIRES, f"{path}0"))
            _cable((WIRES, f"{path}1"), (FAR, path))
            _join(path, wire_action)
            wire(path)
        for namespace, bridge, members in (
            (SWITCH, "br0", ("t", *PATHS)),
            (FAR, "br1", (*PATHS, "l")),
        ):
            _bridge(namespace, bridge, members, eventually)
        talker, listener = (cleanup.enter_context(_socket(name)) for name in ("talker", "listener"))
        network = Network(
            _switch(SWITCH, tmp_path / "first"), _switch(FAR, tmp_path / "last"), talker, listener
        )
        cleanup.callback(lambda: unmount(tmp_path))
        cleanup.callback(network.close)
        network.last.apply(last_config())
        network.first.apply(first_config(GENERATED))
        yield network


def started_again(switch: Switch, namespace: str, state_dir) -> Switch:
    """What comes after an agent that was killed: nothing was taken back."""
    switch.ports.close()
    return _switch(namespace, state_dir)


def unmount(directory) -> None:
    for each in directory.glob("*/bpf"):
        subprocess.run(["umount", each], check=False, capture_output=True)


def _switch(namespace: str, state_dir) -> Switch:
    with inside(namespace):
        return Switch(KernelPorts(mechanisms(state_dir)))


def _cable(one: tuple[str, str], other: tuple[str, str]) -> None:
    queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
    with inside(one[0]), IPRoute() as ipr:
        peer = {"ifname": other[1], "net_ns_fd": other[0], **queues}
        ipr.link("add", ifname=one[1], kind="veth", peer=peer, **queues)
    for namespace, name in (one, other):
        # XDP sees no VLAN tag that is handed over beside the frame.
        with inside(namespace), IPRoute() as ipr:
            offload = ["txvlan", "off", "rxvlan", "off"]
            subprocess.run(["ethtool", "-K", name, *offload], check=True, capture_output=True)
            ipr.link("set", index=ipr.link_lookup(ifname=name)[0], mtu=MTU_OCTETS, state="up")


def _join(path: str, action: str) -> None:
    with inside(WIRES):
        carried = f"matchall action mirred egress {action} dev {path}1 action drop"
        for words in (
            f"qdisc add dev {path}0 ingress",
            f"filter add dev {path}0 ingress {carried}",
        ):
            subprocess.run(["tc", *words.split()], check=True)


def _bridge(namespace: str, bridge: str, members: Sequence[str], eventually) -> None:
    with inside(namespace), IPRoute() as ipr:
        ipr.link(
            "add",
            ifname=bridge,
            kind="bridge",
            br_vlan_filtering=1,
            br_mcast_snooping=1,
            br_mcast_querier=0,
            state="up",
        )
        indices = {name: ipr.link_lookup(ifname=name)[0] for name in (bridge, *members)}
        for name in members:
            ipr.link("set", index=indices[name], master=indices[bridge])
        for name in members:
            eventually(
                lambda name=name: (
                    ipr.get_links(indices[name])[0].get(
                        ("linkinfo", "slave_data", "IFLA_BRPORT_STATE")
                    )
                    == 3
                )
            )


def _socket(name: str) -> socket.socket:
    with inside(WIRES):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.bind((name, ETH_P_ALL))
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    opened.setblocking(False)
    return opened
