"""A flow over TCP at its two ends: each frame is a write of as many octets.

A write leaves as a segment of its own, since the kernel joins it with no later one (MSG_EOR) and
does not wait for the acknowledgement of those before (TCP_NODELAY). The first write of a connection
is a rehearsal of one octet, which is acknowledged before a frame follows; behind it a frame is
known by where its octets are in the stream.

The standard library and `cnc.talker` only: `cnc.testbed.traffic.endpoint` is to start fast.
"""

from __future__ import annotations

import fcntl
import os
import socket
import termios
from array import array
from typing import Any

from cnc.talker import mark, sleep_until, tai_ns
from cnc.talker.clock import NS_PER_S
from cnc.talker.error_queue import OPT_ID_TCP, TX_ACK
from cnc.testbed.traffic.ethernet import Arrival, EthernetListener
from cnc.testbed.traffic.sockets import (
    SO_TIMESTAMPNS,
    STAMP_FLAGS,
    TIMESPEC,
    UNCOUNTED,
    SendingSocket,
    widen,
)

REHEARSED_OCTETS = 1  # of a connection before those of its first frame
ACKNOWLEDGED_WITHIN_NS = 10 * NS_PER_S  # of the end: five losses of one segment in a row
_LOOK_AGAIN_NS = 10_000_000
_NOTHING = Arrival(UNCOUNTED, 0, 0)


def seq_of_write(end_octets: int, write_octets: int) -> int:
    """The frame of which the last octet is so far from the beginning of the stream, that one
    included; below 0: none, it is of the rehearsal."""
    return (end_octets - REHEARSED_OCTETS) // write_octets - 1


class TcpOutlet(SendingSocket):
    """The talker's end of a flow's connection, which its rehearsal opens."""

    # The kernel numbers octets from the next write on, each stamp with the last one of its write.
    stamp_flags = STAMP_FLAGS | TX_ACK | OPT_ID_TCP

    def __init__(self, flow: dict[str, Any], family: socket.AddressFamily) -> None:
        super().__init__(socket.socket(family, socket.SOCK_STREAM))
        self.flow = flow
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        mark(self.socket, flow["dscp"], None)
        self._write = bytes(flow["write_octets"])
        self._is_connected = False

    def send_probe(
        self, number: int, seq: int, content: bytes = b"", due_ns: int | None = None
    ) -> None:
        """Write a frame, or the first time the rehearsal. Its place in the stream says which."""
        del number, seq, content, due_ns
        if self._is_connected:
            self.socket.sendall(self._write, socket.MSG_EOR)
            return
        self.socket.connect((self.flow["destination"], self.flow["tcp_port"]))
        self._is_connected = True
        self.socket.sendall(bytes(REHEARSED_OCTETS), socket.MSG_EOR)
        self.await_acknowledged()  # else a loss of it would hold up the first frame

    def await_acknowledged(self) -> None:
        """Wait until the listener has all, or for as long as TCP may be expected to take."""
        until_ns = tai_ns() + ACKNOWLEDGED_WITHIN_NS
        while (now_ns := tai_ns()) < until_ns and self._outstanding_octets():
            sleep_until(now_ns + _LOOK_AGAIN_NS)

    def _outstanding_octets(self) -> int:
        octets = array("i", [0])
        fcntl.ioctl(self.socket, termios.TIOCOUTQ, octets)  # for sockets SIOCOUTQ
        return octets[0]

    def _seq(self, number: int) -> int:
        return seq_of_write(REHEARSED_OCTETS + number + 1, len(self._write))


class TcpListener:
    """The listener's end of the connection of a flow, of which this is the number."""

    columns = EthernetListener.columns[:3]

    def __init__(
        self,
        family: str,
        address: str,
        port: int,
        number: int,
        write_octets: int,
        *,
        tai_offset_ns: int,
    ) -> None:
        self._number, self._write_octets, self._tai_offset_ns = number, write_octets, tai_offset_ns
        self.socket = socket.socket(socket.AddressFamily[family], socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        widen(self.socket)
        self.socket.bind((address, port))
        self.socket.listen(1)
        self._octets: int | None = None  # received by the connection; None: there is none

    def receive(self) -> Arrival | None:
        """Take what has arrived, up to the end of a write; None: the connection has ended."""
        if self._octets is None:
            connection, _ = self.socket.accept()
            # In place of the socket that listened: who polls that one goes on with this one.
            os.dup2(connection.fileno(), self.socket.fileno())
            connection.close()
            self._octets = 0
            return _NOTHING
        missing = self._write_octets - (self._octets - REHEARSED_OCTETS) % self._write_octets
        if self._octets < REHEARSED_OCTETS:
            missing = REHEARSED_OCTETS
        data, ancillary, _, _ = self.socket.recvmsg(missing, 64)
        if not data:
            return None
        self._octets += len(data)
        seq = seq_of_write(self._octets, self._write_octets)
        if len(data) < missing or seq < 0:
            return _NOTHING
        if not ancillary:
            # The kernel begins to stamp a little after a socket has asked for it, and unlike UDP
            # TCP hands on no later time in place of that of the arrival.
            return Arrival(self._number, seq, tai_ns())
        seconds, nanoseconds = TIMESPEC.unpack_from(ancillary[0][2])
        received_ns = seconds * NS_PER_S + nanoseconds + self._tai_offset_ns
        return Arrival(self._number, seq, received_ns)
