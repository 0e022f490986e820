"""What a talker and a listener ask of their sockets: the kernel's time stamps, and room.

The standard library and `cnc.talker` only: `cnc.traffic.endpoint` is to start fast.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from array import array
from collections import defaultdict

from cnc.talker import tai_ns

NS_PER_S = 1_000_000_000
PROBE = struct.Struct("!HI")  # flow number, sequence number
UNCOUNTED = 0xFF00  # flow numbers from here on are of frames that no record has

# What the socket module does not name: asm-generic/socket.h, linux/net_tstamp.h, linux/errqueue.h,
# linux/if_packet.h.
SO_SNDTIMEO = 21
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SO_TIMESTAMPING = 37
SOL_PACKET = 263
IP_RECVERR = (socket.IPPROTO_IP, 11)
IPV6_RECVERR = (socket.IPPROTO_IPV6, 25)
PACKET_TX_TIMESTAMP = (SOL_PACKET, 16)
TIMESPEC = struct.Struct("@qq")
EXTENDED_ERROR = struct.Struct("@IBBBBII")  # last fields: kind of time stamp, number of the frame
TX_SOFTWARE, SOFTWARE, OPT_ID, TX_SCHED, OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 8, 1 << 11
STAMP_FLAGS = TX_SCHED | TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
LEFT, SCHEDULED = 0, 1  # SCM_TSTAMP_SND, SCM_TSTAMP_SCHED
_NO_STAMP = 0

RECEIVE_BUFFER_OCTETS = 64 << 20
# A few frames, so that a talker blocks until frames have been sent.
SATURATING_BUFFER_OCTETS = 8 << 10
SEND_TIMEOUT = TIMESPEC.pack(0, 100_000)  # a timeval: how often to check for the end of the run


def tai_offset_ns() -> int:
    """TAI minus CLOCK_REALTIME, the clock of socket time stamps: a whole number of seconds."""
    return round((tai_ns() - time.time_ns()) / NS_PER_S) * NS_PER_S


def widen(sock: socket.socket) -> None:
    """Enlarge the receive buffer, for arrivals while the program is busy."""
    with contextlib.suppress(PermissionError):  # then the system's limit applies
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)


class SendingSocket:
    """A talker's socket, and the kernel's time stamps of the frames that it sent."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        # By kind, and by sequence number: objects would take 200 octets each.
        self._stamps: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._tai_offset_ns = tai_offset_ns()

    def stamp(self) -> None:
        """Have the kernel number all further frames, and time-stamp each."""
        widen(self.socket)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, STAMP_FLAGS)

    def narrow(self) -> None:
        """Limit the send buffer to a few frames; then `send` blocks, or fails after
        SEND_TIMEOUT."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SATURATING_BUFFER_OCTETS)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDTIMEO, SEND_TIMEOUT)

    def read_stamp(self) -> bool:
        """Take one time stamp from the kernel; False if there is none."""
        flags = socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
        try:
            _, ancillary, _, _ = self.socket.recvmsg(0, 256, flags)
        except BlockingIOError:
            return False
        control = {(level, kind): data for level, kind, data in ancillary}
        seconds, nanoseconds = TIMESPEC.unpack_from(control[socket.SOL_SOCKET, SO_TIMESTAMPING])
        error = next(
            control[kind]
            for kind in (IP_RECVERR, IPV6_RECVERR, PACKET_TX_TIMESTAMP)
            if kind in control
        )
        *_, kind, seq = EXTENDED_ERROR.unpack_from(error)
        stamps = self._stamps[kind]
        stamps.extend([_NO_STAMP] * (seq + 1 - len(stamps)))
        # The queues of the lab's cables report the frame again: the first stamp is used.
        if stamps[seq] == _NO_STAMP:
            stamps[seq] = seconds * NS_PER_S + nanoseconds + self._tai_offset_ns
        return True

    def stamps(self, seq: int) -> tuple[int | None, int | None]:
        """When a frame was scheduled and when it left, as far as that is known."""
        return self._stamp(SCHEDULED, seq), self._stamp(LEFT, seq)

    def _stamp(self, kind: int, seq: int) -> int | None:
        stamps = self._stamps[kind]
        return stamps[seq] or None if seq < len(stamps) else None
