"""Frames of streams that both schedules have, sent all the while: one copy of each has to come."""

from __future__ import annotations

import ctypes
import multiprocessing
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.context import ForkServerProcess
from threading import Event, Thread
from typing import NamedTuple

from pyroute2 import netns

from cnc.lab import Lab
from cnc.lab.namespaces import inside
from cnc.model import Elimination, Plan
from cnc.talker import be_punctual, sleep_until, tai_ns
from cnc.talkers import Transmission, transmissions

_ETHERTYPE = 0x88B5  # IEEE 802: for local experiments
_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL
_PORT = "eth0"  # of every end station of the networks here
_SENDER = bytes.fromhex("0200000000fe")
_TAG, _FRAME = struct.Struct("!HH"), struct.Struct("!HQ")
_MACS_OCTETS = 12
_RECEIVED_OCTETS_MAX = 128
# The cables of this lab take no time, and filters wait for frames that have passed one: these are
# sent later than planned, within the lateness that a talker may have (500 us).
_LATE_NS = 50_000
_LISTEN_S = 1.0
# Far longer than the slower copy of a frame is under way.
_UNDER_WAY_S = 0.05


class Tally(NamedTuple):
    """Frames that were sent in a span, and those of which no copy or several came."""

    sent: int = 0
    lost: int = 0
    doubled: int = 0


def kept(old: Plan, new: Plan) -> tuple[Transmission, ...]:
    """What talkers send alike by both plans, of streams whose second copies switches take out."""
    both = (each for each in transmissions(old) if each in transmissions(new))
    return tuple(each for each in both if _is_passed_once(old, each.stream))


def _is_passed_once(plan: Plan, name: str) -> bool:
    stream = plan.intent.streams[name]
    return stream.paths > 1 and stream.elimination is Elimination.SWITCH


def _socket(protocol: int) -> socket.socket:
    """A packet socket at the one port of an end station."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.bind((_PORT, protocol))
    return made


class Flow:
    """One stream that is sent, by a process, and listened to, by a thread."""

    def __init__(self, lab: Lab, its: Transmission) -> None:
        assert its.address is not None
        self._lab = lab
        self._its = its
        self._mac = bytes.fromhex(its.address.destination_mac.replace(":", ""))
        self._context = multiprocessing.get_context("forkserver")
        self._sent = self._context.RawValue(ctypes.c_uint64)
        self._first = 0
        self._copies: Counter[int] = Counter()

    def begin(self) -> None:
        """Count the frames that are sent from now on."""
        self._first = self._sent.value

    def sent(self) -> range:
        """The numbers of the frames since then."""
        return range(self._first, self._sent.value)

    def copies(self, numbers: Iterable[int]) -> list[int]:
        """How many of each of these frames have come."""
        return [self._copies[number] for number in numbers]

    def talker(self) -> ForkServerProcess:
        """Sends the frames until it is ended."""
        namespace = self._lab.namespace(self._its.talker)
        arguments = (namespace, self._its, self._sent)
        return self._context.Process(target=_talk, args=arguments, daemon=True)

    def listener(self, stack: ExitStack, ended: Event) -> Thread:
        """Counts what comes until `ended`; its socket closes with the stack."""
        (listener,) = self._its.listeners
        opened = inside(self._lab.namespace(listener), partial(_socket, _ALL_PROTOCOLS))
        listening = stack.enter_context(opened)
        return Thread(target=self._listen, args=(listening, ended), name="copies")

    def _listen(self, listening: socket.socket, ended: Event) -> None:
        listening.settimeout(_LISTEN_S)
        while not ended.is_set():
            with suppress(TimeoutError):
                frame, (_, _, packet_type, *_) = listening.recvfrom(_RECEIVED_OCTETS_MAX)
                if packet_type != socket.PACKET_OUTGOING and frame.startswith(self._mac):
                    self._count(frame[_MACS_OCTETS:])

    def _count(self, after_macs: bytes) -> None:
        """The kernel has taken the tag off a frame before it hands it over."""
        ethertype, number = _FRAME.unpack_from(after_macs)
        if ethertype == _ETHERTYPE:
            self._copies[number] += 1


def _talk(namespace: str, its: Transmission, sent: ctypes.c_uint64) -> None:
    """A process of its own that goes first: in a thread it would wait for others of its process
    while the clock goes on, by what they ask it, until filters drop what it sends."""
    assert its.address is not None
    netns.setns(namespace, flags=0)
    mac = bytes.fromhex(its.address.destination_mac.replace(":", ""))
    tag = _TAG.pack(0x8100, its.priority << 13 | its.address.vlan_id)
    head, padding = mac + _SENDER + tag, bytes(its.payload_octets - _FRAME.size)
    with _socket(0) as talking:
        be_punctual(go_first=True)
        instant_ns = tai_ns() // its.period_ns * its.period_ns + its.offset_ns + _LATE_NS
        while True:
            instant_ns += its.period_ns
            sleep_until(instant_ns)
            talking.send(head + _FRAME.pack(_ETHERTYPE, sent.value) + padding)
            sent.value += 1


class Copies:
    """Talkers that send as planned, whatever becomes of the switches; and how it is received."""

    def __init__(self, lab: Lab, sent: Iterable[Transmission]) -> None:
        self._flows = [Flow(lab, each) for each in sent]

    @contextmanager
    def sending(self) -> Iterator[Copies]:
        """Frames are sent, from `with` to its end."""
        ended = Event()
        with ExitStack() as stack:
            for flow in self._flows:
                listener = flow.listener(stack, ended)
                listener.start()
                stack.callback(listener.join)
            stack.callback(ended.set)
            for flow in self._flows:
                talker = flow.talker()
                talker.start()
                stack.callback(talker.join)
                stack.callback(talker.kill)
            yield self

    def begin(self) -> None:
        """Count the frames that are sent from now on."""
        for flow in self._flows:
            flow.begin()

    def tally(self) -> Tally:
        """What has become of the frames since `begin`."""
        sent = [(flow, flow.sent()) for flow in self._flows]
        if not sent:
            return Tally()
        time.sleep(_UNDER_WAY_S)
        found = [count for flow, numbers in sent for count in flow.copies(numbers)]
        return Tally(len(found), found.count(0), sum(count > 1 for count in found))
