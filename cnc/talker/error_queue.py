"""What the kernel reports of frames that a socket sent (linux/errqueue.h): time stamps, and times
of transmission that were not kept."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from cnc.talker.clock import NS_PER_S

# What the socket module does not name: asm-generic/socket.h, linux/net_tstamp.h, linux/if_packet.h
SO_TIMESTAMPING = 37
TX_SOFTWARE, SOFTWARE, OPT_ID, TX_SCHED, OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 8, 1 << 11
TX_ACK, OPT_ID_TCP = 1 << 9, 1 << 16
LEFT, SCHEDULED, ACKNOWLEDGED = 0, 1, 2  # SCM_TSTAMP_SND, SCM_TSTAMP_SCHED, SCM_TSTAMP_ACK
ORIGIN_TIMESTAMPING, ORIGIN_TXTIME = 4, 6
TXTIME_MISSED = 2  # the code of a frame that missed its time; the other is of an invalid one

_SOL_PACKET = 263
IP_RECVERR = (socket.IPPROTO_IP, 11)
_REPORTS = {
    IP_RECVERR,
    (socket.IPPROTO_IPV6, 25),  # IPV6_RECVERR
    (_SOL_PACKET, 16),  # PACKET_TX_TIMESTAMP
}
_TIMESPEC = struct.Struct("@qq")
EXTENDED_ERROR = struct.Struct("@IBBBBII")  # struct sock_extended_err
_ANCILLARY_MAX = 256


class Report(NamedTuple):
    """One report: `kind` of a time stamp and `number` of its frame (OPT_ID), and the stamp by
    CLOCK_REALTIME; or of the `origin` ORIGIN_TXTIME a `code`."""

    origin: int
    code: int
    kind: int
    number: int
    stamp_ns: int | None


def read_report(sock: socket.socket) -> Report | None:
    """The next report; None: there is none now. Raises OSError."""
    flags = socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
    while True:
        try:
            _, ancillary, _, _ = sock.recvmsg(0, _ANCILLARY_MAX, flags)
        except BlockingIOError:
            return None
        control = {(level, kind): value for level, kind, value in ancillary}
        error = next((control[each] for each in _REPORTS if each in control), None)
        if error is None:
            continue
        _, origin, _, code, _, kind, number = EXTENDED_ERROR.unpack_from(error)
        stamp = control.get((socket.SOL_SOCKET, SO_TIMESTAMPING))
        if stamp is None:
            return Report(origin, code, kind, number, None)
        seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
        return Report(origin, code, kind, number, seconds * NS_PER_S + nanoseconds)
