"""Frames of a bridged network at an end station: sent to an address and VLAN, and received.

Probes are frames with an EtherType for local experiments (IEEE 802 Std 9.2.3), since a bridge looks
into frames with IP packets for their group (net/bridge/br_multicast.c) and not at their MAC
address, or with that of their stream; those of streams that talkers send untagged may be in UDP
packets. The standard library and `cnc.talker` only: `traffic.endpoint` is to start fast.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Any, NamedTuple

from cnc.talker.clock import NS_PER_S
from cnc.testbed.traffic.probe_filter import (
    ETHERTYPE,
    HEADERS_OCTETS,
    Marks,
    probe_filter,
    probe_offset,
)
from cnc.testbed.traffic.sockets import (
    PROBE,
    SO_TIMESTAMPNS,
    SOL_PACKET,
    TIMESPEC,
    SendingSocket,
    widen,
)

VLAN_ETHERTYPE = 0x8100
LEAST_PAYLOAD_OCTETS = 46  # IEEE 802.3: a shorter one is filled up

# linux/if_ether.h, linux/if_packet.h, asm-generic/socket.h
ETH_P_ALL = 3
PACKET_ADD_MEMBERSHIP, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 1, 8, 23
PACKET_MR_PROMISC = 1
MEMBERSHIP = struct.Struct("=IHH8x")  # struct packet_mreq: index of the interface, type
AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata; at last vlan_tci and vlan_tpid
VLAN_VALID = 1 << 4
SO_ATTACH_FILTER = 26
CONTROL_OCTETS = socket.CMSG_SPACE(TIMESPEC.size) + socket.CMSG_SPACE(AUXDATA.size)


Destination = tuple[str, "int | None", "int | None"]
"""A MAC address, and VLAN and PCP of the tag; both are None of frames that are sent untagged."""


class EthernetOutlet(SendingSocket):
    """A flow's socket: frames with its address and tag go in, the kernel's time stamps come out.

    The frame's payload, the MAC client data, has the flow's size; its EtherType is the flow's, or
    that of probes. A flow without a VLAN is sent untagged. `destinations` are what frames were sent
    to: from which sequence number on to which address, VLAN and PCP.
    """

    def __init__(self, flow: dict[str, Any]) -> None:
        super().__init__(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self.flow = flow
        self._ethertype = flow.get("ethertype") or ETHERTYPE
        self.socket.bind((flow["interface"], 0))
        self.destinations: list[tuple[int, Destination]] = []
        self.send_to((flow["destination_mac"], flow["vlan_id"], flow["pcp"]), 0)
        payload_octets = max(flow["payload_octets"], LEAST_PAYLOAD_OCTETS)
        self._filling = bytes(payload_octets - PROBE.size)

    def send_to(self, destination: Destination, seq: int) -> None:
        """Send to this destination from the frame with this sequence number on."""
        if self.destinations and self.destinations[-1][1] == destination:
            return
        self.destinations.append((seq, destination))
        mac, vlan_id, pcp = destination
        tag = b""
        if vlan_id is not None and pcp is not None:
            tag = struct.pack("!HH", VLAN_ETHERTYPE, pcp << 13 | vlan_id)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, pcp)
        stated = self.flow.get("source_mac")
        source = octets_of(stated) if stated else self.socket.getsockname()[4]
        self._header = octets_of(mac) + source + tag + struct.pack("!H", self._ethertype)

    def send_probe(
        self, number: int, seq: int, content: bytes = b"", due_ns: int | None = None
    ) -> None:
        """Send a frame with these two numbers in it, and with `content` behind them, that is due at
        an instant, or now."""
        payload = PROBE.pack(number, seq) + content + self._filling[len(content) :]
        self.transmit(self._header + payload, due_ns)


class Arrival(NamedTuple):
    """A probe that arrived. Of one that a socket for packets got address and tag are not known; a
    frame without a tag has the address only. `delivered_ns` is when the listener's program had it,
    if it was to say so."""

    number: int
    seq: int
    received_ns: int
    destination_mac: str | None = None
    vlan_id: int | None = None
    pcp: int | None = None
    delivered_ns: int | None = None


class EthernetListener:
    """A socket for all probes that arrive at an interface, whatever their address and VLAN: of
    their own EtherType, and in what `marks` says."""

    columns = ("flow", *Arrival._fields[1:-1])

    def __init__(self, interface: str, marks: Marks, tai_offset_ns: int) -> None:
        self._tai_offset_ns = tai_offset_ns
        # With a protocol it would get frames of all ports before `bind`; and only a socket for all
        # protocols gets a frame while the kernel still knows of its tag (net/core/dev.c).
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        widen(self.socket)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        instructions = probe_filter(marks)
        program = ctypes.create_string_buffer(instructions)
        length = len(instructions) // 8
        self.socket.setsockopt(
            socket.SOL_SOCKET,
            SO_ATTACH_FILTER,
            struct.pack("@HP", length, ctypes.addressof(program)),
        )
        index = socket.if_nametoindex(interface)
        membership = MEMBERSHIP.pack(index, PACKET_MR_PROMISC, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        self.socket.bind((interface, ETH_P_ALL))

    def receive(self) -> Arrival:
        """Take one probe that has arrived."""
        return self.receive_with_content()[0]

    def receive_with_content(self, content_octets: int = 0) -> tuple[Arrival, bytes]:
        """Take one probe that has arrived, and so much of what is behind its numbers."""
        length = HEADERS_OCTETS + PROBE.size + content_octets
        octets, control, _, _ = self.socket.recvmsg(length, CONTROL_OCTETS)
        offset = probe_offset(octets)
        number, seq = PROBE.unpack_from(octets, offset)
        received_ns, vlan_id, pcp = 0, None, None
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = TIMESPEC.unpack(data)
                received_ns = seconds * NS_PER_S + nanoseconds + self._tai_offset_ns
            elif (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, *_, control_information, _ = AUXDATA.unpack(data)
                if status & VLAN_VALID:
                    vlan_id, pcp = control_information & 0xFFF, control_information >> 13
        arrival = Arrival(number, seq, received_ns, octets[:6].hex(":"), vlan_id, pcp)
        behind = offset + PROBE.size
        return arrival, octets[behind : behind + content_octets]


def octets_of(mac: str) -> bytes:
    """An address that is written as pairs of hexadecimal digits with colons."""
    return bytes.fromhex(mac.replace(":", ""))
