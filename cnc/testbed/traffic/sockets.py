"""What a talker and a listener ask of their sockets: the kernel's time stamps, and room.

The standard library and `cnc.talker` only: `cnc.testbed.traffic.endpoint` is to start fast.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from array import array
from collections import defaultdict

from cnc.talker.clock import tai_ns, tai_offset_ns
from cnc.talker.error_queue import (
    ACKNOWLEDGED,
    LEFT,
    OPT_ID,
    OPT_TSONLY,
    SCHEDULED,
    SO_TIMESTAMPING,
    SOFTWARE,
    TX_SCHED,
    TX_SOFTWARE,
    read_report,
)
from cnc.talker.launch import allow_txtime, send_at
from cnc.talker.qdiscs import LaunchRefusedError, LaunchTime, launch_time

PROBE = struct.Struct("!HI")  # flow number, sequence number
UNCOUNTED = 0xFF00  # flow numbers from here on are of frames that no record has

# What the socket module does not name: asm-generic/socket.h, linux/socket.h.
SO_SNDTIMEO = 21
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SOL_PACKET = 263
TIMESPEC = struct.Struct("@qq")
STAMP_FLAGS = TX_SCHED | TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
_NO_STAMP = 0
LEAD_NS = 2_000_000  # in which the program of a talker wakes up on a loaded machine

RECEIVE_BUFFER_OCTETS = 64 << 20
# A few frames, so that a talker blocks until frames have been sent.
SATURATING_BUFFER_OCTETS = 8 << 10
SEND_TIMEOUT = TIMESPEC.pack(0, 100_000)  # a timeval: how often to check for the end of the run


def widen(sock: socket.socket) -> None:
    """Enlarge the receive buffer, for arrivals while the program is busy."""
    with contextlib.suppress(PermissionError):  # then the system's limit applies
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)


class SendingSocket:
    """A talker's socket, and the kernel's time stamps of the frames that it sent."""

    stamp_flags = STAMP_FLAGS

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        # By kind, and by sequence number: objects would take 200 octets each.
        self._stamps: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._tai_offset_ns = tai_offset_ns()
        self._launch: LaunchTime | None = None

    @property
    def lead_ns(self) -> int:
        """How long before its instant a frame is to be sent: 0 where its program keeps to that."""
        return LEAD_NS + self._launch.ahead_ns if self._launch else 0

    def launch(self, interface: str, priority: int) -> None:
        """Give all further frames a time of transmission, if the interface has frames of this
        priority keep to one."""
        with contextlib.suppress(LaunchRefusedError):
            self._launch = launch_time(interface, priority)
            allow_txtime(self.socket, interface)

    def transmit(
        self, frame: bytes, due_ns: int | None = None, address: tuple[str, int] | None = None
    ) -> None:
        """Send a frame that is due at an instant, or now. Raises OSError."""
        if self._launch is None:
            if address:
                self.socket.sendto(frame, address)
            else:
                self.socket.send(frame)
            return
        instant_ns = tai_ns() if due_ns is None else due_ns
        send_at(self.socket, frame, self._launch.txtime_ns(instant_ns), address)

    def stamp(self) -> None:
        """Have the kernel number all further frames, and time-stamp each."""
        widen(self.socket)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, self.stamp_flags)

    def narrow(self) -> None:
        """Limit the send buffer to a few frames; then `send` blocks, or fails after
        SEND_TIMEOUT."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SATURATING_BUFFER_OCTETS)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_SNDTIMEO, SEND_TIMEOUT)

    def read_stamp(self) -> bool:
        """Take one time stamp from the kernel; False if there is none."""
        report = read_report(self.socket)
        if report is None or report.stamp_ns is None:
            return report is not None
        stamps, seq = self._stamps[report.kind], self._seq(report.number)
        stamps.extend([_NO_STAMP] * (seq + 1 - len(stamps)))
        # The queues of the lab's cables report the frame again: the first stamp is used.
        if stamps[seq] == _NO_STAMP:
            stamps[seq] = report.stamp_ns + self._tai_offset_ns
        return True

    def stamps(self, seq: int) -> tuple[int | None, int | None, int | None]:
        """When a frame was scheduled, when it left, and when TCP had it acknowledged, as far as
        that is known."""
        return self._stamp(SCHEDULED, seq), self._stamp(LEFT, seq), self._stamp(ACKNOWLEDGED, seq)

    def _seq(self, number: int) -> int:
        """The sequence number of the frame that the kernel gives this number."""
        return number

    def _stamp(self, kind: int, seq: int) -> int | None:
        stamps = self._stamps[kind]
        return stamps[seq] or None if seq < len(stamps) else None
