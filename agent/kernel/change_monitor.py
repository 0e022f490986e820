"""Notifies when the kernel reports a change of links, qdiscs, rules, entries of bridges or clocks.

What has changed is not taken from the messages: the caller reads everything again. So a message
that the kernel had to drop (ENOBUFS) loses nothing: that error counts as a notification, too. One
thing does not show when everything is read: that a port has left its bridge and come back, without
its VLANs. So that is counted.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from agent.kernel.bridge_announcements import (
    departed_port,
    listen_for_departures,
    listen_for_static_entries,
)
from agent.kernel.clock import ClockSetAlarm, tai_offset_s
from agent.kernel.netlink_batch import NETLINK_NETFILTER

# linux/rtnetlink.h
RTMGRP_LINK, RTMGRP_TC = 0x1, 0x8
# linux/netfilter/nfnetlink.h: the group NFNLGRP_NFTABLES, as a mask
NFNLGRP_NFTABLES_MASK = 1 << (7 - 1)

# Changes come in bursts: a link that comes up is a handful of messages.
BURST_S = 0.1
# The kernel does not announce a new TAI offset,
CLOCK_POLL_S = 1.0
# nor a change of the legacy tables or, with some drivers, of a link's speed.
FULL_POLL_S = 10.0
# Entries of bridges are looked at once in this time at most, however often they change: an entry
# that somebody made without `sticky` moves with each frame that a stranger sends from its address.
ENTRIES_S = 1.0
MS_PER_S = 1000
_MESSAGE_OCTETS = 1 << 16


class KernelChangeMonitor:
    """Monitors the network namespace in which it was made. Another thread may stop a wait."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._clock_set = ClockSetAlarm()
        self._departed = listen_for_departures()
        self._kernel = [self._departed, *_listening()]
        self._entries = listen_for_static_entries()
        self._entries_from_s = 0.0
        self._departures: Counter[int] = Counter()
        self._losses = 0
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
        if self._entries.fileno() in ready:
            self._entries_from_s = time.monotonic() + ENTRIES_S
            self._poll.unregister(self._entries)
        for source in (*self._kernel, self._entries):
            self._drain(source)
        self._tai_offset_s = tai_offset_s()
        return True

    def departures(self, ifindex: int) -> int:
        """How often this port may have left a bridge since the monitor was made."""
        return self._departures[ifindex] + self._losses

    def _ready(self) -> set[int]:
        """The descriptors that are readable; none when the TAI offset is new or a poll is due."""
        end_s = time.monotonic() + FULL_POLL_S
        while (now_s := time.monotonic()) < end_s:
            wait_s = min(CLOCK_POLL_S, end_s - now_s)
            if now_s >= self._entries_from_s:
                self._poll.register(self._entries, select.POLLIN)
            else:
                wait_s = min(wait_s, self._entries_from_s - now_s)
            # Rounded up: with 0 ms left it would not wait.
            if ready := self._poll.poll(math.ceil(wait_s * MS_PER_S)):
                return {source for source, _ in ready}
            if tai_offset_s() != self._tai_offset_s:
                break
        return set()

    def _drain(self, source: socket.socket) -> None:
        while True:
            try:
                message = source.recv(_MESSAGE_OCTETS)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                if source is self._departed:
                    self._losses += 1  # of a message that may have been of any port
                continue
            if source is self._departed:
                self._departures[departed_port(message)] += 1

    def stop(self) -> None:
        """End a `wait`, now or later."""
        os.write(self._stop, b"\0")

    def close(self) -> None:
        self._clock_set.close()
        for source in (*self._kernel, self._entries):
            source.close()
        os.close(self._stopped)
        os.close(self._stop)


def _listening() -> Iterator[socket.socket]:
    """A kernel without nf_tables has no rules that it could announce."""
    yield _listen(socket.NETLINK_ROUTE, RTMGRP_LINK | RTMGRP_TC)
    with suppress(OSError):
        yield _listen(NETLINK_NETFILTER, NFNLGRP_NFTABLES_MASK)


def _listen(family: int, groups: int) -> socket.socket:
    listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, family)
    listening.bind((0, groups))
    return listening
