"""The etf qdisc that frames of a priority meet on an interface, as the kernel shows it.

A dump of qdiscs (RTM_GETQDISC, rtnetlink(7)) needs no right. The octets are those of
linux/pkt_sched.h: what the root says of priorities and queues (struct tc_mqprio_qopt), and the
etf below it (struct tc_etf_qopt).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from cnc.talker.offsets import OffsetsError

_NLMSG = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=B3xiIII")  # family, interface, handle, parent, info
_NLA = struct.Struct("=HH")
_MQPRIO_QOPT = struct.Struct("=B16sB16H16H")
_ETF_QOPT = struct.Struct("=iiI")  # delta, clock, flags
_RTM_GETQDISC, _NLM_F_DUMP_REQUEST = 38, 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TCA_TAPRIO_ATTR_PRIOMAP, _TCA_ETF_PARMS = 1, 1
_NLA_TYPE = 0x3FFF
_TC_H_ROOT = 0xFFFF_FFFF
_ETF_OFFLOAD = 0x2
_RECEIVE_OCTETS = 1 << 16


class LaunchRefusedError(OffsetsError):
    """Frames cannot be given a time of transmission; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """How an etf keeps to the time of transmission of frames.

    By `in_hardware` the device sends a frame then, which leaves the qdisc `delta_ns` before; else
    it leaves the interface when it leaves the qdisc.
    """

    delta_ns: int
    in_hardware: bool

    def txtime_ns(self, instant_ns: int) -> int:
        """The time of transmission of a frame that is to leave the interface at an instant."""
        return instant_ns if self.in_hardware else instant_ns + self.delta_ns

    @property
    def ahead_ns(self) -> int:
        """How long before its instant the qdisc must have a frame."""
        return self.delta_ns if self.in_hardware else 0


def launch_time(interface: str, priority: int) -> LaunchTime:
    """That of frames of a priority. Raises LaunchRefusedError where the kernel would ignore their
    time of transmission, or keep another clock."""
    where = f"{interface}: frames of priority {priority}"
    etf = _etf(interface, priority)
    if etf is None:
        raise LaunchRefusedError(
            f"{where} meet no etf qdisc, so that the kernel would ignore their time of "
            "transmission: state `launch-time: software` of this end station in the intent and "
            "push it"
        )
    delta_ns, clock, flags = etf
    if clock != time.CLOCK_TAI:
        raise LaunchRefusedError(
            f"{where} meet an etf qdisc with clock {clock}, not CLOCK_TAI ({time.CLOCK_TAI}): "
            "remove it, and let tsn-agent set its own"
        )
    return LaunchTime(delta_ns, bool(flags & _ETF_OFFLOAD))


def refuse_launch(interface: str, priority: int) -> None:
    """Raise LaunchRefusedError where an etf would discard frames without a time of transmission."""
    if _has_interface(interface) and _etf(interface, priority) is not None:
        raise LaunchRefusedError(
            f"{interface}: frames of priority {priority} need a time of transmission, since the "
            "etf qdisc there discards others: have the talker launch them (--launch), or push an "
            "intent without `launch-time` of this end station"
        )


def _has_interface(name: str) -> bool:
    """Offsets may be of a node in memory (`tsn-agent --rehearse`)."""
    return name in {its for _, its in socket.if_nameindex()}


def _etf(interface: str, priority: int) -> tuple[int, int, int] | None:
    """The options of the etf below the root for this priority; None: there is none."""
    index = socket.if_nametoindex(interface)
    root, queue, children = None, 0, {}
    for message in _dump():
        _, its_index, handle, parent, _ = _TCMSG.unpack_from(message)
        if its_index != index:
            continue
        attributes = dict(_attributes(message[_TCMSG.size :]))
        kind, options = attributes[_TCA_KIND].rstrip(b"\0"), attributes.get(_TCA_OPTIONS, b"")
        if parent == _TC_H_ROOT:
            root, queue = handle, _first_queue(kind, options, priority)
        elif kind == b"etf":
            children[parent] = _ETF_QOPT.unpack_from(dict(_attributes(options))[_TCA_ETF_PARMS])
    return None if root is None else children.get(root | (queue + 1))


def _first_queue(kind: bytes, options: bytes, priority: int) -> int:
    """Of the traffic class of a priority; of a root without classes it is 0."""
    if kind == b"taprio":
        options = dict(_attributes(options))[_TCA_TAPRIO_ATTR_PRIOMAP]
    elif kind != b"mqprio":
        return 0
    _, classes, _, *counts_and_offsets = _MQPRIO_QOPT.unpack_from(options)
    offset: int = counts_and_offsets[16 + classes[priority]]
    return offset


def _dump() -> Iterator[bytes]:
    """What follows the header of each message of a dump of qdiscs. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        request = _TCMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        size = _NLMSG.size + len(request)
        netlink.send(_NLMSG.pack(size, _RTM_GETQDISC, _NLM_F_DUMP_REQUEST, 1, 0) + request)
        while True:
            received = netlink.recv(_RECEIVE_OCTETS)
            start = 0
            while start < len(received):
                length, kind, *_ = _NLMSG.unpack_from(received, start)
                body = received[start + _NLMSG.size : start + length]
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    raise OSError(-number, "the kernel does not show its qdiscs")
                yield body
                start += (length + 3) & ~3


def _attributes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _NLA.size <= len(octets):
        length, kind = _NLA.unpack_from(octets, start)
        yield kind & _NLA_TYPE, octets[start + _NLA.size : start + length]
        start += (length + 3) & ~3
