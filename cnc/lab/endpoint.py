"""An end station's program: send frames on a timeline, or record when frames arrive.

Run as `python -I endpoint.py talk|listen SPEC.json` inside an end station's namespace; it needs the
standard library only, so that it starts fast. It prints `ready` once its sockets are open and then
reads the start instant (TAI, nanoseconds) from its standard input.

Every wait blocks in the kernel. A busy loop would be a little more punctual on a real clock, and
would never end in virtual time, where the clock stands still while anything computes.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import errno
import gc
import heapq
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PORT = 5005
PROBE = struct.Struct("!HI")  # flow number, sequence number
TIMESPEC = struct.Struct("@qq")
SO_TIMESTAMPNS = 35  # asm-generic; the socket module does not name it
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER_OCTETS = 64 << 20
REHEARSAL = 0xFFFF  # the flow number of frames that nobody counts
NS_PER_S = 1_000_000_000
DRAIN_NS = NS_PER_S  # how long after the last planned frame a listener still listens
TIMER_ABSTIME = 1
LIBC = ctypes.CDLL(None)
IP_AND_UDP_OCTETS = {4: 20 + 8, 6: 40 + 8}


def tai_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_TAI)


class Timespec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def sleep_until(instant_ns: int) -> None:
    """Return at an instant of CLOCK_TAI, at once if it is over.

    `time.sleep` takes a duration, for which the clock is read before and in it: in virtual time
    reading the clock is all that takes time.
    """
    until = Timespec(*divmod(instant_ns, NS_PER_S))
    deadline = ctypes.byref(until)
    while LIBC.clock_nanosleep(time.CLOCK_TAI, TIMER_ABSTIME, deadline, None) == errno.EINTR:
        pass


def wait_for_start() -> int:
    """Tell the parent that all is set up; returns the instant it chooses."""
    print("ready", flush=True)  # noqa: T201  the parent reads it
    return int(sys.stdin.readline())


def be_punctual() -> None:
    """Ask the kernel for exact timers, and for the processor when they fire."""
    Path("/proc/self/timerslack_ns").write_text("1")
    with contextlib.suppress(PermissionError):  # a container may withhold it: less exact, not wrong
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    gc.disable()


def timeline(number: int, flow: dict[str, Any], start_ns: int) -> Iterator[tuple[int, int, int]]:
    """Planned instant, flow number and sequence number of every frame of a flow."""
    first_ns = start_ns + flow["offset_ns"]
    return ((first_ns + seq * flow["period_ns"], number, seq) for seq in range(flow["frames"]))


def talker_socket(flow: dict[str, Any]) -> socket.socket:
    """A socket that gives its frames the flow's DSCP."""
    if flow["ip_version"] == 6:  # noqa: PLR2004
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, flow["dscp"] << 2)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, flow["dscp"] << 2)
    sock.connect((flow["destination"], PORT))
    return sock


def talk(spec: dict[str, Any]) -> None:
    """Send every flow's frames at their instants; writes flow, seq, planned_ns, sent_ns."""
    flows = spec["flows"]
    sockets = [talker_socket(flow) for flow in flows]
    filling = [
        bytes(flow["payload_octets"] - IP_AND_UDP_OCTETS[flow["ip_version"]] - PROBE.size)
        for flow in flows
    ]
    start_ns = wait_for_start()
    be_punctual()
    # A program's first wait and first frame take much longer than all others.
    sleep_until(tai_ns() + 1_000_000)
    for sock, rest in zip(sockets, filling, strict=True):
        sock.send(PROBE.pack(REHEARSAL, 0) + rest)
    sent: list[tuple[str, int, int, int]] = []
    for planned_ns, number, seq in heapq.merge(
        *(timeline(number, flow, start_ns) for number, flow in enumerate(flows))
    ):
        sleep_until(planned_ns)
        now_ns = tai_ns()
        sockets[number].send(PROBE.pack(flows[number]["id"], seq) + filling[number])
        sent.append((flows[number]["name"], seq, planned_ns, now_ns))
    # Not before the others have sent their last: writing would hold them up, at our priority.
    sleep_until(start_ns + spec["duration_ns"] + DRAIN_NS)
    write_rows(spec["output"], ("flow", "seq", "planned_ns", "sent_ns"), sent)


def listen(spec: dict[str, Any]) -> None:
    """Record every probe that arrives until all must have; writes flow, seq, received_ns."""
    names = {flow["id"]: flow["name"] for flow in spec["flows"]}
    poll = select.poll()
    sockets = {}
    for family, address in spec["addresses"]:
        sock = socket.socket(socket.AddressFamily[family], socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        with contextlib.suppress(PermissionError):  # then the system's limit holds
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)
        sock.bind((address, PORT))
        poll.register(sock, select.POLLIN)
        sockets[sock.fileno()] = sock
    # Socket time stamps are CLOCK_REALTIME; the difference to TAI is a whole number of seconds.
    tai_offset_ns = round((tai_ns() - time.time_ns()) / NS_PER_S) * NS_PER_S
    start_ns = wait_for_start()
    end_ns = start_ns + spec["duration_ns"] + DRAIN_NS
    received: list[tuple[str, int, int]] = []
    while (left_ns := end_ns - tai_ns()) > 0:
        for descriptor, _ in poll.poll(left_ns / 1_000_000):
            data, ancillary, _, _ = sockets[descriptor].recvmsg(2048, 64)
            number, seq = PROBE.unpack_from(data)
            if number == REHEARSAL:
                continue
            seconds, nanoseconds = TIMESPEC.unpack_from(ancillary[0][2])
            received.append((names[number], seq, seconds * NS_PER_S + nanoseconds + tai_offset_ns))
    write_rows(spec["output"], ("flow", "seq", "received_ns"), received)


def write_rows(path: str, header: tuple[str, ...], rows: list[Any]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    {"talk": talk, "listen": listen}[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
