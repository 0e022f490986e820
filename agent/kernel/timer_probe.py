"""Measures how late this kernel's timers send, on an interface that leads nowhere.

taprio opens a gate like this (net/sched/sch_taprio.c): a high-resolution timer expires, its
interrupt asks for the transmit softirq (`__netif_schedule`), and that takes the frames from the
queue. The ETF qdisc (sch_etf.c) goes the same way for a frame with a time of transmission. So a
dummy interface with ETF sends a frame at instants of CLOCK_TAI, the kernel notes when it did
(SO_TIMESTAMPING), and the difference is how late a gate of this machine would have opened. The
process does not have to be on time for that: it sends a batch ahead, and reads the notes later.

What this does not see: the driver of a port and its lock, other timers of the very same instant
beyond those of whole milliseconds, and the offset of the clock itself.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel import clock, tc_plugins
from agent.kernel.link import WAKE_UP_PROBE
from agent.kernel.refusal import reason
from agent.model import NS_PER_S, Clock
from agent.run_context import STEP_MIN_NS

tc_plugins.register()

BATCH_S = 5.0
INTERVAL_NS = 50_000_000  # 20 wake-ups a second: 100,000 after 83 minutes
_LEAD_NS = 100_000_000  # from sending the batch to its first instant
# ETF drops a frame later than this (int32): no timer that is later is seen.
_DELTA_NS = 2 * NS_PER_S
# RFC 5737: an address that nobody has. The interface leads nowhere, and asks for no neighbour.
_ADDRESS = ("192.0.2.1", 9)
# The golden ratio spreads instants evenly over an interval, the same ones each time.
_GOLDEN = 0.6180339887498949
_ALIGN_NS = 1_000_000  # what schedules start their cycles at: gates of many ports open together

# linux/net_tstamp.h, asm-generic/socket.h; Python has no names for them
_SO_TIMESTAMPING, _SO_TXTIME = 37, 61
_TX_SOFTWARE, _SOFTWARE = 1 << 1, 1 << 4
_TXTIME_CONFIG = struct.Struct("=iI")  # struct sock_txtime: clockid, flags
_TXTIME = struct.Struct("=Q")
_ROOT = 0x7A2_0000  # 7a2:, the handle of the root qdisc
_PRIORITY = 6  # of the probe's frames; the highest that needs no right
_PRIOMAP = bytes(0 if priority == _PRIORITY else 1 for priority in range(16))  # to bands
_TIMESPEC = struct.Struct("@ll")
_PAYLOAD = struct.Struct("=qQ")  # when the frame is due, and the number of its batch
_ANCILLARY_MAX = 512


class ProbeRefused(Exception):
    """This kernel does not let the probe measure; the message says why."""


class TimerProbe:
    """One interface, `tsn-wake-ups`, from construction until `close`. Needs CAP_NET_ADMIN."""

    def __init__(self) -> None:
        """Raises `ProbeRefused`."""
        self._ipr = IPRoute(ext_ack=True)
        self._sent = 0  # batches
        self._first_counted = 0  # those before it were under way when the clock was set
        self._cpus = sorted(os.sched_getaffinity(0))
        try:
            remove_interface(self._ipr)
            _add_interface(self._ipr)
            self._socket = _socket()
            alarm = clock.ClockSetAlarm()
        except (NetlinkError, OSError) as refusal:
            self._abandon()
            raise ProbeRefused(reason(refusal)) from refusal
        self._offset_ns = clock.offsets_ns()[Clock.TAI]
        self._clock_set = alarm

    def send(self) -> None:
        """Ask for the wake-ups of the next BATCH_S."""
        allowed = os.sched_getaffinity(0)
        # Each batch from another processor, where its timer then is. What forbids it, a system
        # call filter, leaves the choice to the scheduler.
        with suppress(OSError):
            os.sched_setaffinity(0, {self._cpus[self._sent % len(self._cpus)]})
        try:
            for due_ns in self._instants(clock.now_ns(Clock.TAI)):
                time_ns = _TXTIME.pack(due_ns + _DELTA_NS)
                ancillary = [(socket.SOL_SOCKET, _SO_TXTIME, time_ns)]
                self._socket.sendmsg([_PAYLOAD.pack(due_ns, self._sent)], ancillary, 0, _ADDRESS)
        finally:
            self._sent += 1
            with suppress(OSError):
                os.sched_setaffinity(0, allowed)

    def receive(self) -> list[int]:
        """By how many nanoseconds each wake-up since the last call was late.

        None of those that were under way when the clock was set, also there and back: such a timer
        is late or early by the step. Some of them may be noted only after the step was seen.
        """
        tai_offset_ns = clock.tai_offset_s() * NS_PER_S
        notes = list(_notes(self._socket))
        offset_ns, before_ns = clock.offsets_ns()[Clock.TAI], self._offset_ns
        self._offset_ns = offset_ns
        if self._clock_set.acknowledge() or abs(offset_ns - before_ns) >= STEP_MIN_NS:
            self._first_counted = self._sent
        return [
            sent_ns + tai_offset_ns - due_ns
            for batch, due_ns, sent_ns in notes
            if batch >= self._first_counted
        ]

    def close(self) -> None:
        """Remove the interface."""
        self._socket.close()
        self._clock_set.close()
        self._abandon()

    def _abandon(self) -> None:
        with suppress(NetlinkError, OSError):
            remove_interface(self._ipr)
        self._ipr.close()

    def _instants(self, now_ns: int) -> Iterator[int]:
        """One in each interval; every other one at a whole millisecond."""
        first_ns = now_ns + _LEAD_NS
        for number in range(round(BATCH_S * NS_PER_S / INTERVAL_NS)):
            phase_ns = round(number * _GOLDEN % 1 * INTERVAL_NS)
            due_ns = first_ns + number * INTERVAL_NS + phase_ns
            yield due_ns if number % 2 else due_ns // _ALIGN_NS * _ALIGN_NS


def remove_interface(ipr: IPRoute) -> None:
    """Remove the probe's interface, also one that a killed agent left. Raises NetlinkError."""
    for index in ipr.link_lookup(ifname=WAKE_UP_PROBE):
        ipr.link("del", index=index)


def _add_interface(ipr: IPRoute) -> None:
    ipr.link("add", ifname=WAKE_UP_PROBE, kind="dummy")
    (index,) = ipr.link_lookup(ifname=WAKE_UP_PROBE)
    # ETF refuses frames without a time of transmission, and daemons send some on every interface:
    # lldpd would log each refusal. They get a band of their own.
    ipr.tc("add", "prio", index, _ROOT, bands=2, priomap=_PRIOMAP)
    etf = {"clockid": time.CLOCK_TAI, "delta_ns": _DELTA_NS}
    ipr.tc("add", "etf", index, parent=_ROOT | 1, **etf)
    ipr.link("set", index=index, state="up")


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, WAKE_UP_PROBE.encode())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, _PRIORITY)
    made.setsockopt(socket.SOL_SOCKET, _SO_TXTIME, _TXTIME_CONFIG.pack(time.CLOCK_TAI, 0))
    made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _TX_SOFTWARE | _SOFTWARE)
    return made


def _notes(source: socket.socket) -> Iterator[tuple[int, int, int]]:
    """Of each frame its batch, when it was due, by CLOCK_TAI, and when it was sent, by
    CLOCK_REALTIME."""
    while True:
        try:
            frame, ancillary, _, _ = source.recvmsg(
                _ANCILLARY_MAX, _ANCILLARY_MAX, socket.MSG_ERRQUEUE
            )
        except BlockingIOError:
            return
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPING):
                seconds, nanoseconds = _TIMESPEC.unpack_from(value)
                # The payload is at the end of the frame that the kernel returns.
                due_ns, batch = _PAYLOAD.unpack(frame[-_PAYLOAD.size :])
                yield batch, due_ns, seconds * NS_PER_S + nanoseconds
