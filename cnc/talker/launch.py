"""Sends frames that leave at an instant, whenever the program hands them over before it.

Each has its time of transmission (SO_TXTIME, SCM_TXTIME), and an etf qdisc keeps to it. What became
of it is in the socket's error queue: it was refused, since its time had passed, it missed its time
in the qdisc, or it left, and when.
"""

from __future__ import annotations

import errno
import socket
import struct
import time

from cnc.talker.clock import NS_PER_S, tai_ns, tai_offset_ns
from cnc.talker.error_queue import (
    OPT_ID,
    OPT_TSONLY,
    ORIGIN_TIMESTAMPING,
    ORIGIN_TXTIME,
    SO_TIMESTAMPING,
    SOFTWARE,
    TX_SOFTWARE,
    TXTIME_MISSED,
    Report,
    read_report,
)
from cnc.talker.lateness import Lateness
from cnc.talker.qdiscs import LaunchRefusedError, launch_time

_SO_TXTIME = 61  # asm-generic/socket.h
_TXTIME_CONFIG = struct.Struct("=iI")  # struct sock_txtime: clock, flags
_TXTIME = struct.Struct("=Q")
_REPORT_ERRORS = 1 << 1  # SOF_TXTIME_REPORT_ERRORS
_STAMPS = TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
LOOK_AGAIN_NS = NS_PER_S // 2  # whether a push has changed the qdisc


def allow_txtime(sock: socket.socket, interface: str) -> None:
    """Let frames of a socket have a time of transmission. Raises LaunchRefusedError where the
    program may not state one."""
    config = _TXTIME_CONFIG.pack(time.CLOCK_TAI, _REPORT_ERRORS)
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TXTIME, config)
    except PermissionError as refusal:
        raise LaunchRefusedError(
            f"{interface}: a time of transmission by CLOCK_TAI needs CAP_NET_ADMIN: {refusal}"
        ) from refusal


def send_at(sock: socket.socket, frame: bytes, txtime_ns: int, address: object = None) -> None:
    """Send a frame with this time of transmission. Raises OSError."""
    ancillary = [(socket.SOL_SOCKET, _SO_TXTIME, _TXTIME.pack(txtime_ns))]
    sock.sendmsg([frame], ancillary, 0, *(() if address is None else (address,)))


class LaunchSocket:
    """A socket whose frames, all of one `priority`, leave `interface` at instants of CLOCK_TAI.

    `lateness` counts frames that did not leave, and has how late the others left; with hardware the
    kernel does not see that. Not to be used by two threads.
    """

    def __init__(
        self, sock: socket.socket, interface: str, priority: int, lateness: Lateness
    ) -> None:
        """Raises LaunchRefusedError where a time of transmission would be ignored, or is not
        allowed (CLOCK_TAI needs CAP_NET_ADMIN), and OSError."""
        self._sock = sock
        self._interface, self._priority = interface, priority
        self._lateness = lateness
        self._launch = launch_time(interface, priority)
        self._look_again_ns = tai_ns() + LOOK_AGAIN_NS
        self._tai_offset_ns = tai_offset_ns()
        self._sent = 0
        self._has_stamps = False
        self._refused = self._lost = 0
        self._due_ns: dict[int, int] = {}  # by the number that its stamp will have
        if sock.family != socket.AF_PACKET:
            # By another interface frames would meet another qdisc.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _STAMPS)
        allow_txtime(sock, interface)
        lateness.missed = lateness.refused = 0

    @property
    def missed(self) -> int:
        """How many frames missed their time in the qdisc."""
        return self._lateness.missed or 0

    @property
    def refused(self) -> int:
        """How many were refused: their time had passed, or gates do not allow it."""
        return self._lateness.refused or 0

    @property
    def ahead_ns(self) -> int:
        """How long before its instant the qdisc must have a frame."""
        return self._launch.ahead_ns

    def send(self, frame: bytes, instant_ns: int, address: object = None) -> None:
        """Have a frame leave at an instant. Raises LaunchRefusedError once the qdisc is gone."""
        self.drain()
        now_ns = tai_ns()
        if now_ns >= self._look_again_ns:
            self._launch = launch_time(self._interface, self._priority)
            self._look_again_ns = now_ns + LOOK_AGAIN_NS
        try:
            send_at(self._sock, frame, self._launch.txtime_ns(instant_ns), address)
        except OSError as refusal:  # a qdisc has refused the frame
            if refusal.errno != errno.ENOBUFS:
                raise
        if not self._launch.in_hardware:
            self._forget(now_ns - NS_PER_S)
            self._due_ns[self._sent] = instant_ns
        self._sent += 1

    def drain(self) -> None:
        """Take what the kernel reports. `send` does so, too; who has sent the last frame waits
        until it has left, and calls this."""
        while report := read_report(self._sock):
            self._take(report)

    def _take(self, report: Report) -> None:
        if report.origin == ORIGIN_TXTIME:
            if report.code == TXTIME_MISSED:
                self._lateness.missed = (self._lateness.missed or 0) + 1
            else:
                self._refused += 1
                self._count()
        elif report.origin == ORIGIN_TIMESTAMPING and report.stamp_ns is not None:
            self._left(report.number, report.stamp_ns + self._tai_offset_ns)

    def _left(self, number: int, left_ns: int) -> None:
        # A frame that crosses several interfaces of one kernel is stamped by each.
        if (due_ns := self._due_ns.pop(number, None)) is not None:
            self._has_stamps = True
            self._lateness.add(left_ns - due_ns)

    def _forget(self, before_ns: int) -> None:
        """No stamp comes of frames that were due before: they did not leave."""
        while self._due_ns:
            number = next(iter(self._due_ns))
            if self._due_ns[number] >= before_ns:
                break
            del self._due_ns[number]
            self._lost += self._has_stamps  # else the driver of the interface makes none
        self._count()

    def _count(self) -> None:
        """A qdisc above the etf, such as gates in whose windows the time of transmission does not
        lie, refuses a frame without a report."""
        missed = self._lateness.missed or 0
        self._lateness.refused = max(self._refused, self._lost - missed)
