"""Notifies when the kernel reports a change of links, qdiscs, rules, groups or clocks.

What has changed is not taken from the messages: the caller reads everything again. So a message
that the kernel had to drop (ENOBUFS) loses nothing: that error counts as a notification, too.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

from agent.kernel.clock import ClockSetAlarm, tai_offset_s

# linux/rtnetlink.h
RTMGRP_LINK, RTMGRP_TC = 0x1, 0x8
# RTNLGRP_MDB, as a mask; Python has no name for it
RTMGRP_MDB = 1 << (26 - 1)
# linux/netfilter/nfnetlink.h: the group NFNLGRP_NFTABLES, as a mask; Python has no name for it
NETLINK_NETFILTER = 12
NFNLGRP_NFTABLES_MASK = 1 << (7 - 1)

# Changes come in bursts: a link that comes up is a handful of messages.
BURST_S = 0.1
# The kernel does not announce a new TAI offset,
CLOCK_POLL_S = 1.0
# nor a change of the legacy tables or, with some drivers, of a link's speed. It announces each
# address that a bridge learns with the changes of its fdb: too often to read all ports for it.
FULL_POLL_S = 10.0
MS_PER_S = 1000


class KernelChangeMonitor:
    """Monitors the network namespace in which it was made. Another thread may stop a wait."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._clock_set = ClockSetAlarm()
        self._kernel = list(_listening())
        self._stopped, self._stop = os.pipe()
        self._tai_offset_s = tai_offset_s()
        self._poll = select.poll()
        self._poll.register(self._stopped, select.POLLIN)
        self._poll.register(self._clock_set, select.POLLIN)
        for source in self._kernel:
            self._poll.register(source, select.POLLIN)

    def wait(self) -> bool:
        """True when something may have changed, after FULL_POLL_S at the latest; False: stopped."""
        ready = self._ready()
        if self._stopped in ready:
            return False
        if self._clock_set.fileno() in ready:
            self._clock_set.acknowledge()
        elif ready:
            time.sleep(BURST_S)
        for source in self._kernel:
            _drain(source)
        self._tai_offset_s = tai_offset_s()
        return True

    def _ready(self) -> set[int]:
        """The descriptors that are readable; none when the TAI offset is new or a poll is due."""
        for _ in range(round(FULL_POLL_S / CLOCK_POLL_S)):
            if ready := self._poll.poll(CLOCK_POLL_S * MS_PER_S):
                return {source for source, _ in ready}
            if tai_offset_s() != self._tai_offset_s:
                break
        return set()

    def stop(self) -> None:
        """End a `wait`, now or later."""
        os.write(self._stop, b"\0")

    def close(self) -> None:
        self._clock_set.close()
        for source in self._kernel:
            source.close()
        os.close(self._stopped)
        os.close(self._stop)


def _listening() -> Iterator[socket.socket]:
    """A kernel without nf_tables has no rules that it could announce."""
    yield _listen(socket.NETLINK_ROUTE, RTMGRP_LINK | RTMGRP_TC | RTMGRP_MDB)
    with suppress(OSError):
        yield _listen(NETLINK_NETFILTER, NFNLGRP_NFTABLES_MASK)


def _listen(family: int, groups: int) -> socket.socket:
    listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, family)
    listening.bind((0, groups))
    return listening


def _drain(source: socket.socket) -> None:
    while True:
        try:
            source.recv(1)  # the rest of the message goes with it
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
