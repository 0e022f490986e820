"""Which of the frames at an interface hold a probe: a filter for sockets, and where the probe is.

The standard library only: `cnc.testbed.traffic.endpoint` is to start fast.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cnc.testbed.traffic.sockets import PROBE

ETHERTYPE = 0x88B5  # for local experiments (IEEE 802 Std 9.2.3)
IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
MAC_HEADER_OCTETS = 14
_IPV6_OCTETS, _UDP_OCTETS = 40, 8
# An IPv4 header may have options.
HEADERS_OCTETS = MAC_HEADER_OCTETS + 60 + _UDP_OCTETS

# linux/filter.h, linux/bpf_common.h: load a half-word or an octet; the length of the IPv4 header at
# an offset into X, and a half-word behind it; go on, go on if equal, end.
_HALF, _OCTET, _HEADER_LENGTH, _HALF_BEHIND = 0x28, 0x30, 0xB1, 0x48
_GO, _IF, _END = 0x05, 0x15, 0x06
_Instruction = tuple[int, int, int, int]  # operation, steps if equal, steps if not, operand
_ACCEPT: _Instruction = (_END, 0, 0, 0xFFFF)
_REFUSE: _Instruction = (_END, 0, 0, 0)


class Marks(NamedTuple):
    """In what probes are beside frames with `ETHERTYPE`: in UDP packets to these ports, and in
    frames with these EtherTypes, none of which is of IP."""

    udp_ports: Sequence[int] = ()
    ethertypes: Sequence[int] = ()


def probe_filter(marks: Marks) -> bytes:
    """A filter for frames that may hold a probe.

    The kernel has taken VLAN tags out of a frame before a filter sees it.
    """
    udp_over_ipv6: list[_Instruction] = [
        (_IF, 1, 0, IPV6),
        _REFUSE,
        (_OCTET, 0, 0, MAC_HEADER_OCTETS + 6),
        (_IF, 1, 0, socket.IPPROTO_UDP),
        _REFUSE,
        (_HALF, 0, 0, MAC_HEADER_OCTETS + _IPV6_OCTETS + 2),
    ]
    udp_over_ipv4: list[_Instruction] = [
        (_OCTET, 0, 0, MAC_HEADER_OCTETS + 9),
        (_IF, 1, 0, socket.IPPROTO_UDP),
        _REFUSE,
        (_HEADER_LENGTH, 0, 0, MAC_HEADER_OCTETS),
        (_HALF_BEHIND, 0, 0, MAC_HEADER_OCTETS + 2),
        (_GO, 0, 0, len(udp_over_ipv6)),
    ]
    program = [
        (_HALF, 0, 0, MAC_HEADER_OCTETS - 2),
        *_accepting((ETHERTYPE, *marks.ethertypes)),
        (_IF, 0, len(udp_over_ipv4), IPV4),
        *udp_over_ipv4,
        *udp_over_ipv6,
        *_accepting(marks.udp_ports),
        _REFUSE,
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _accepting(values: Sequence[int]) -> Iterator[_Instruction]:
    """To accept the frame if what is loaded is one of these."""
    return (step for value in values for step in ((_IF, 0, 1, value), _ACCEPT))


def probe_offset(frame: bytes) -> int:
    """Where in a frame that has passed the filter its probe begins."""
    (ethertype,) = struct.unpack_from("!H", frame, MAC_HEADER_OCTETS - 2)
    if ethertype == IPV4:
        return MAC_HEADER_OCTETS + 4 * (frame[MAC_HEADER_OCTETS] & 0xF) + _UDP_OCTETS
    if ethertype == IPV6:
        return MAC_HEADER_OCTETS + _IPV6_OCTETS + _UDP_OCTETS
    return MAC_HEADER_OCTETS


def probe_of(frame: bytes, marks: Marks) -> tuple[int, int] | None:
    """Flow number and sequence number in a frame as it is on a cable, with or without a VLAN tag;
    None: it holds no probe."""
    (ethertype,) = struct.unpack_from("!H", frame, MAC_HEADER_OCTETS - 2)
    if ethertype == VLAN:
        frame = frame[: MAC_HEADER_OCTETS - 2] + frame[MAC_HEADER_OCTETS + 2 :]
        (ethertype,) = struct.unpack_from("!H", frame, MAC_HEADER_OCTETS - 2)
    if ethertype in (IPV4, IPV6):
        protocol = frame[MAC_HEADER_OCTETS + (9 if ethertype == IPV4 else 6)]
        offset = probe_offset(frame)
        if protocol != socket.IPPROTO_UDP or len(frame) < offset + PROBE.size:
            return None
        (port,) = struct.unpack_from("!H", frame, offset - _UDP_OCTETS + 2)
        if port not in marks.udp_ports:
            return None
    elif ethertype not in (ETHERTYPE, *marks.ethertypes):
        return None
    number, seq = PROBE.unpack_from(frame, probe_offset(frame))
    return number, seq
