"""Which probe a frame holds: a frame of a flow, or a segment of one that goes over TCP.

A segment has no sequence number of a frame in it. It is the frame whose last octet it carries, by
its place in the stream, which begins where SYN said. One that was sent again is the same frame.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from cnc.testbed.traffic.endpoint import PORT
from cnc.testbed.traffic.flows import TcpFlow, marks
from cnc.testbed.traffic.probe_filter import IPV4, IPV6, MAC_HEADER_OCTETS, VLAN, probe_of
from cnc.testbed.traffic.recording import AnyFlow
from cnc.testbed.traffic.tcp import seq_of_write
from cnc.testbed.traffic.trace.passages import Probe

_TCP = struct.Struct("!2xHI4xBB")  # destination port, sequence number, header's length, flags
_IPV6_OCTETS = 40
_SYN = 0x02
_SEQUENCE_NUMBERS = 1 << 32


class Probes:
    """Those of the flows of a run. A port sees the SYN of a connection before all else of it."""

    def __init__(self, sent: Sequence[AnyFlow]) -> None:
        found = marks(sent)
        self._marks = found._replace(udp_ports=(PORT, *found.udp_ports))
        self._flows = {
            flow.tcp_port: (number, flow.write_octets)
            for number, flow in enumerate(sent)
            if isinstance(flow, TcpFlow)
        }
        self._begins: dict[int, int] = {}  # by port: the sequence number of the first octet

    def of(self, frame: bytes) -> Probe | None:
        """In the first octets of a frame as it is on a cable; None: there is none."""
        return probe_of(frame, self._marks) or (self._of_segment(frame) if self._flows else None)

    def _of_segment(self, frame: bytes) -> Probe | None:
        at = MAC_HEADER_OCTETS
        (ethertype,) = struct.unpack_from("!H", frame, at - 2)
        if ethertype == VLAN:
            at += 4
            (ethertype,) = struct.unpack_from("!H", frame, at - 2)
        if ethertype == IPV4:
            protocol, headers = frame[at + 9], 4 * (frame[at] & 0xF)
            (octets,) = struct.unpack_from("!H", frame, at + 2)
        elif ethertype == IPV6:
            protocol, headers = frame[at + 6], _IPV6_OCTETS
            octets = struct.unpack_from("!H", frame, at + 4)[0] + _IPV6_OCTETS
        else:
            return None
        if protocol != socket.IPPROTO_TCP or len(frame) < at + headers + _TCP.size:
            return None
        port, sequence_number, length, flags = _TCP.unpack_from(frame, at + headers)
        if port not in self._flows:
            return None
        if flags & _SYN:
            self._begins[port] = sequence_number + 1
            return None
        number, write_octets = self._flows[port]
        begin = (sequence_number - self._begins[port]) % _SEQUENCE_NUMBERS
        end = begin + octets - headers - 4 * (length >> 4)
        seq = seq_of_write(end, write_octets)
        return (number, seq) if seq > seq_of_write(begin, write_octets) and seq >= 0 else None
