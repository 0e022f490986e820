"""Frames of streams that both schedules have, sent all the while: one copy of each has to come.

Talkers follow what the agents of their stations publish, so that a stream that gets another way is
sent to its new address from the base time of the new schedule on.
"""

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
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from pyroute2 import netns

from cnc.model import Elimination, Forwarding, Plan, Stream
from cnc.talker import OffsetFile, Talker, be_punctual, sleep_until
from cnc.testbed.lab import Lab
from cnc.testbed.lab.namespaces import inside

_ETHERTYPE = 0x88B5  # IEEE 802: for local experiments
_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL
_PORT = "eth0"  # of every end station of the networks here
# With the stream's number it is the source address: the destination changes with the way.
_SENDER = bytes.fromhex("0200000001")
_TAG, _FRAME = struct.Struct("!HH"), struct.Struct("!HQ")
_MAC_OCTETS = 6
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


def kept(old: Plan, new: Plan) -> tuple[str, ...]:
    """The streams of bridges that both plans have, maybe by other ways, and of which one copy of
    each frame comes: they have one path, or switches take out their second copies."""
    if old.intent.network.forwarding is Forwarding.ROUTED:
        return ()
    its = new.intent.streams
    both = (stream for name, stream in old.intent.streams.items() if its.get(name) == stream)
    return tuple(stream.name for stream in both if _is_passed_once(stream))


def _is_passed_once(stream: Stream) -> bool:
    return stream.paths == 1 or stream.elimination is Elimination.SWITCH


def _socket(protocol: int) -> socket.socket:
    """A packet socket at the one port of an end station."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.bind((_PORT, protocol))
    return made


class Flow:
    """One stream that is sent, by a process, and listened to, by a thread."""

    def __init__(self, lab: Lab, number: int, stream: Stream) -> None:
        self._lab = lab
        self._stream = stream
        self._source = _SENDER + bytes([number])
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
        station = self._stream.talker
        where = self._lab.namespace(station), self._lab.offsets_file(station)
        arguments = (*where, self._stream.name, self._source, self._sent)
        return self._context.Process(target=_talk, args=arguments, daemon=True)

    def listener(self, stack: ExitStack, ended: Event) -> Thread:
        """Counts what comes until `ended`; its socket closes with the stack."""
        (listener,) = self._stream.listeners
        opened = inside(self._lab.namespace(listener), partial(_socket, _ALL_PROTOCOLS))
        listening = stack.enter_context(opened)
        return Thread(target=self._listen, args=(listening, ended), name="copies")

    def _listen(self, listening: socket.socket, ended: Event) -> None:
        listening.settimeout(_LISTEN_S)
        while not ended.is_set():
            with suppress(TimeoutError):
                frame, (_, _, packet_type, *_) = listening.recvfrom(_RECEIVED_OCTETS_MAX)
                if packet_type != socket.PACKET_OUTGOING:
                    self._count(frame[_MAC_OCTETS:])

    def _count(self, frame: bytes) -> None:
        """`frame` begins with its source; the kernel has taken the tag off."""
        if frame.startswith(self._source):
            ethertype, number = _FRAME.unpack_from(frame, _MAC_OCTETS)
            if ethertype == _ETHERTYPE:
                self._copies[number] += 1


def _talk(namespace: str, offsets: Path, stream: str, source: bytes, sent: ctypes.c_uint64) -> None:
    """A process of its own that goes first: in a thread it would wait for others of its process
    while the clock goes on, by what they ask it, until filters drop what it sends."""
    netns.setns(namespace, flags=0)
    with _socket(0) as talking:
        be_punctual(go_first=True)
        for departure in Talker(OffsetFile(offsets), stream).departures():
            its = departure.stream
            assert its.destination_mac is not None
            assert its.vlan_id is not None
            mac = bytes.fromhex(its.destination_mac.replace(":", ""))
            head = mac + source + _TAG.pack(0x8100, its.priority << 13 | its.vlan_id)
            number = _FRAME.pack(_ETHERTYPE, sent.value)
            sleep_until(departure.instant_ns + _LATE_NS)
            talking.send(head + number + bytes(its.payload_octets - _FRAME.size))
            sent.value += 1


class Copies:
    """Talkers that send as planned, whatever becomes of the switches; and how it is received."""

    def __init__(self, lab: Lab, names: Iterable[str]) -> None:
        streams = lab.intent.streams
        self._flows = [Flow(lab, number, streams[name]) for number, name in enumerate(names)]

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
