"""A packet socket at a port of the lab: which frames pass, when, and which way.

It sees a frame that leaves when the port's queueing discipline has let it go, so its time stamp is
later than the gate; it sees one that arrives before the switch does.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cnc.errors import InputError
from cnc.model import NS_PER_S, VLAN_TAG_OCTETS, PortRef
from cnc.testbed.lab import namespaces
from cnc.testbed.traffic.sockets import (
    RECEIVE_BUFFER_OCTETS,
    SO_RCVBUFFORCE,
    SO_TIMESTAMPNS,
    TIMESPEC,
)

# linux/if_ether.h, linux/if_packet.h
_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_STATISTICS, _PACKET_AUXDATA = 6, 8
_STATISTICS = struct.Struct("=II")  # struct tpacket_stats: received, dropped
_AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata: status, length, ..., tci, tpid
_VLAN_VALID = 1 << 4
_MAC_ADDRESSES_OCTETS = 12
_CONTROL_OCTETS = socket.CMSG_SPACE(TIMESPEC.size) + socket.CMSG_SPACE(_AUXDATA.size)
FRAME_OCTETS_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class TappedFrame:
    """A frame at a port: when (ns since 1970, CLOCK_REALTIME), whether it leaves, its first octets
    with the VLAN tag that it has on the cable, and how long it is from the MAC header on."""

    time_ns: int
    is_leaving: bool
    octets: bytes
    length_octets: int


class Tap:
    """All frames at a port of a lab from now on, as they wait in the socket's buffer.

    Raises:
        InputError: this process may not.
    """

    def __init__(self, lab: str, port: PortRef) -> None:
        self.port = port
        try:
            self.socket = namespaces.inside(namespaces.of_node(lab, port.node), self._opened)
        except PermissionError as error:
            raise InputError(
                f"{port} cannot be tapped: {error.strerror}",
                hint="who taps a port needs CAP_SYS_ADMIN to be in the network namespace of its "
                "node, CAP_NET_RAW for a packet socket and CAP_NET_ADMIN for its buffer: run this "
                "as root",
            ) from error

    def _opened(self) -> socket.socket:
        # With a protocol it would get frames of all ports before `bind`.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        opened.bind((self.port.port, _ETH_P_ALL))
        return opened

    def take(self, octets_max: int = FRAME_OCTETS_MAX, flags: int = 0) -> TappedFrame:
        """Take one frame, as `recvmsg` does with these flags; at most so many octets of it."""
        octets, control, _, address = self.socket.recvmsg(octets_max, _CONTROL_OCTETS, flags)
        time_ns, length_octets, tag = _time_length_and_tag(control)
        octets = octets[:_MAC_ADDRESSES_OCTETS] + tag + octets[_MAC_ADDRESSES_OCTETS:]
        is_leaving = address[2] == socket.PACKET_OUTGOING
        return TappedFrame(time_ns, is_leaving, octets, length_octets)

    def dropped(self) -> int:
        """How many frames found no room in the buffer since this was last asked."""
        raw = self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        dropped: int = _STATISTICS.unpack(raw)[1]
        return dropped

    def close(self) -> None:
        self.socket.close()


def _time_length_and_tag(control: Sequence[tuple[int, int, bytes]]) -> tuple[int, int, bytes]:
    """When the frame was seen, its length, and the VLAN tag that the kernel has taken out of it."""
    time_ns, length_octets, tag = 0, 0, b""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = TIMESPEC.unpack(data)
            time_ns = seconds * NS_PER_S + nanoseconds
        elif (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, length_octets, *_, control_information, ethertype = _AUXDATA.unpack(data)
            if status & _VLAN_VALID:
                tag = struct.pack("!HH", ethertype, control_information)
                length_octets += VLAN_TAG_OCTETS
    return time_ns, length_octets, tag
