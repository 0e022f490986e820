"""An end station's program: send frames on a timeline, or record when frames arrive.

Run as `python -I endpoint.py talk|listen SPEC.json` inside an end station's namespace; it needs the
standard library and `cnc.talker` only, so that it starts fast. It prints `ready` once its sockets
are open. A talker then reads the start instant (TAI, nanoseconds) from its standard input; a
listener listens until its standard input is closed.

Every wait blocks in the kernel. A busy loop would be slightly more punctual on a real clock, but
would never end in virtual time, where the clock stops while a program computes. Clocks are read
only where needed: in virtual time each read takes time.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import heapq
import itertools
import json
import platform
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cnc.talker import OffsetFile, be_punctual, mark, sleep_until, tai_ns

PORT = 5005
PROBE = struct.Struct("!HI")  # flow number, sequence number
REHEARSAL = 0xFFFF  # the flow number of frames that are not counted
REHEARSALS_AHEAD_NS = 500_000_000  # of the start; each talker has its turn
REHEARSAL_NS = 1_000_000
IP_AND_UDP_OCTETS = {4: 20 + 8, 6: 40 + 8}
NS_PER_S = 1_000_000_000

# What the socket module does not name: asm-generic/socket.h, linux/net_tstamp.h, linux/errqueue.h.
SO_SNDTIMEO = 21
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SO_TIMESTAMPING = 37
IP_RECVERR = (socket.IPPROTO_IP, 11)
IPV6_RECVERR = (socket.IPPROTO_IPV6, 25)
TIMESPEC = struct.Struct("@qq")
EXTENDED_ERROR = struct.Struct("@IBBBBII")  # last fields: kind of time stamp, number of the frame
TX_SOFTWARE, SOFTWARE, OPT_ID, TX_SCHED, OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 8, 1 << 11
STAMP_FLAGS = TX_SCHED | TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
LEFT, SCHEDULED = 0, 1  # SCM_TSTAMP_SND, SCM_TSTAMP_SCHED

RECEIVE_BUFFER_OCTETS = 64 << 20
# A few frames, so that a talker blocks until frames have been sent.
SATURATING_BUFFER_OCTETS = 8 << 10
SEND_TIMEOUT = TIMESPEC.pack(0, 100_000)  # a timeval: how often to check for the end of the run
READING_A_STAMP_NS = 25_000  # several times its duration, so that it delays no frame


def program() -> str:
    """Name and Python version of this program, for the recording."""
    return f"{Path(__file__).name}, {platform.python_implementation()} {platform.python_version()}"


def tai_offset_ns() -> int:
    """TAI minus CLOCK_REALTIME, the clock of socket time stamps: a whole number of seconds."""
    return round((tai_ns() - time.time_ns()) / NS_PER_S) * NS_PER_S


def report_ready() -> None:
    """Report to the parent that the sockets are open."""
    print("ready", flush=True)  # noqa: T201  the parent reads it


def wait_for_start() -> int:
    """The start instant, which the parent chooses when all programs are ready."""
    report_ready()
    return int(sys.stdin.readline())


class Outlet:
    """A flow's socket: frames with the flow's DSCP go in, the kernel's time stamps come out."""

    def __init__(self, flow: dict[str, Any]) -> None:
        self.flow = flow
        version = flow["ip_version"]
        if version == 6:  # noqa: PLR2004
            self._socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        else:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mark(self._socket, flow["dscp"], None)  # the lab's nodes give priorities by DSCP
        self._socket.connect((flow["destination"], PORT))
        self._filling = bytes(flow["payload_octets"] - IP_AND_UDP_OCTETS[version] - PROBE.size)
        self._stamps: dict[tuple[int, int], int] = {}  # by kind and sequence number
        self._tai_offset_ns = tai_offset_ns()

    def rehearse(self) -> None:
        """Send a frame that is not counted: a program's first frame takes much longer than all
        others."""
        self._socket.send(PROBE.pack(REHEARSAL, 0) + self._filling)

    def stamp(self) -> None:
        """Have the kernel number all further frames, and time-stamp each."""
        widen(self._socket)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, STAMP_FLAGS)

    def narrow(self) -> None:
        """Limit the send buffer to a few frames; then `send` blocks, or fails after
        SEND_TIMEOUT."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SATURATING_BUFFER_OCTETS)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_SNDTIMEO, SEND_TIMEOUT)

    def send(self, seq: int) -> None:
        self._socket.send(PROBE.pack(self.flow["id"], seq) + self._filling)

    def read_stamp(self) -> bool:
        """Take one time stamp from the kernel; False if there is none."""
        flags = socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
        try:
            _, ancillary, _, _ = self._socket.recvmsg(0, 256, flags)
        except BlockingIOError:
            return False
        control = {(level, kind): data for level, kind, data in ancillary}
        seconds, nanoseconds = TIMESPEC.unpack_from(control[socket.SOL_SOCKET, SO_TIMESTAMPING])
        error = control.get(IP_RECVERR) or control[IPV6_RECVERR]
        *_, kind, seq = EXTENDED_ERROR.unpack_from(error)
        # The queues of the lab's cables report the frame again: the first stamp is used.
        self._stamps.setdefault((kind, seq), seconds * NS_PER_S + nanoseconds + self._tai_offset_ns)
        return True

    def row(self, seq: int, planned_ns: int, sent_ns: int) -> tuple[int | None, ...]:
        """A frame's flow number, sequence number and instants, as far as they are known."""
        stamps = (self._stamps.get((kind, seq)) for kind in (SCHEDULED, LEFT))
        return (self.flow["id"], seq, planned_ns, sent_ns, *stamps)


def widen(sock: socket.socket) -> None:
    """Enlarge the receive buffer, for arrivals while the program is busy."""
    with contextlib.suppress(PermissionError):  # then the system's limit applies
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)


def talk(spec: dict[str, Any]) -> None:
    """Send every flow's frames; writes flow, seq, planned_ns, sent_ns, scheduled_ns, left_ns."""
    outlets = [Outlet(flow) for flow in spec["flows"]]
    saturating = spec["flows"][0]["pattern"] == "saturating"  # then it is the only one
    start_ns = wait_for_start()
    end_ns = start_ns + spec["duration_ns"]
    refuse_untold(spec["flows"], start_ns)
    be_punctual(go_first=not saturating)  # else it would starve other programs
    # Talkers that wake at one instant run in the order in which they went to sleep, which is
    # therefore fixed. And the first wait takes longer: it must not be one for a frame.
    sleep_until(start_ns - REHEARSALS_AHEAD_NS + spec["turn"] * REHEARSAL_NS)
    for outlet in outlets:
        outlet.rehearse()
        if spec["stamps"]:
            outlet.stamp()
    if saturating:
        sent = saturate(outlets[0], start_ns, end_ns)
    else:
        sent = keep_to(outlets, start_ns, end_ns, stamps=spec["stamps"])
    # Not before the others have sent their last frame: at this priority, writing would delay them.
    sleep_until(end_ns + spec["drain_ns"])
    for outlet in outlets:
        while spec["stamps"] and outlet.read_stamp():
            pass
    header = ("flow", "seq", "planned_ns", "sent_ns", "scheduled_ns", "left_ns")
    write_rows(
        spec["output"], header, (outlets[n].row(seq, *instants) for n, seq, *instants in sent)
    )


Sent = list[tuple[int, int, int, int]]  # number of the outlet, seq, planned_ns, sent_ns


def keep_to(outlets: Sequence[Outlet], start_ns: int, end_ns: int, *, stamps: bool) -> Sent:
    """Send every frame at its instant."""
    sent: Sent = []
    now_ns = start_ns
    for planned_ns, number, seq in heapq.merge(
        *(timeline(n, outlet.flow, start_ns, end_ns) for n, outlet in enumerate(outlets))
    ):
        if stamps:
            spare = (planned_ns - now_ns) // READING_A_STAMP_NS
            for outlet in outlets:
                while spare > 0 and outlet.read_stamp():
                    spare -= 1
        sleep_until(planned_ns)
        now_ns = tai_ns()
        outlets[number].send(seq)
        sent.append((number, seq, planned_ns, now_ns))
    return sent


def timeline(
    number: int, flow: dict[str, Any], start_ns: int, end_ns: int
) -> Iterator[tuple[int, int, int]]:
    """Planned instant, number and sequence number of a flow's frames, one in each whole period.

    A stream of a station with an agent leaves when the agent says by then: a push may move it.
    """
    if flow.get("offsets"):
        return followed(number, flow, start_ns, end_ns)
    period_ns = flow["period_ns"]
    first_ns = start_ns + flow["offset_ns"]
    frames = (end_ns - start_ns) // period_ns
    return ((first_ns + seq * period_ns, number, seq) for seq in range(frames))


def followed(
    number: int, flow: dict[str, Any], start_ns: int, end_ns: int
) -> Iterator[tuple[int, int, int]]:
    """As `timeline`, for a stream that the agent of the station tells about."""
    file = OffsetFile(Path(flow["offsets"]))
    begin_ns = start_ns
    for seq in itertools.count():
        departure = file.offsets().departure(flow["name"], begin_ns)
        if departure is None or departure.period_begin_ns + departure.stream.period_ns > end_ns:
            return
        yield departure.instant_ns, number, seq
        begin_ns = departure.period_begin_ns + departure.stream.period_ns


def refuse_untold(flows: Sequence[dict[str, Any]], start_ns: int) -> None:
    """End the program if the agent of the station does not say when a stream is to leave."""
    for flow in flows:
        path = flow.get("offsets")
        if path and OffsetFile(Path(path)).offsets().departure(flow["name"], start_ns) is None:
            sys.exit(
                f"the agent of this end station publishes no offset of stream {flow['name']} "
                f"({path}): push the plan first"
            )


def saturate(outlet: Outlet, start_ns: int, end_ns: int) -> Sent:
    """Send a frame whenever the send buffer has room, at most at the rate of the cable.

    A loop without waits would not end in virtual time, where the clock advances only during them.
    """
    outlet.narrow()
    sent: Sent = []
    while True:
        seq = len(sent)
        sleep_until(start_ns + seq * outlet.flow["period_ns"])
        now_ns = tai_ns()
        if now_ns >= end_ns:
            return sent
        with contextlib.suppress(BlockingIOError):  # the buffer is full: the gate is closed
            outlet.send(seq)
            sent.append((0, seq, now_ns, now_ns))


def listen(spec: dict[str, Any]) -> None:
    """Record every probe that arrives, copies as well; writes flow, seq, received_ns."""
    poll = select.poll()
    sockets = {}
    for family, address in spec["addresses"]:
        sock = socket.socket(socket.AddressFamily[family], socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        widen(sock)
        sock.bind((address, PORT))
        poll.register(sock, select.POLLIN)
        sockets[sock.fileno()] = sock
    poll.register(sys.stdin, select.POLLIN)
    offset_ns = tai_offset_ns()
    report_ready()
    received: list[tuple[int, int, int]] = []
    # Ends when only the end of the standard input is ready.
    while ready := [sockets[fd] for fd, _ in poll.poll() if fd in sockets]:
        for sock in ready:
            data, ancillary, _, _ = sock.recvmsg(2048, 64)
            number, seq = PROBE.unpack_from(data)
            if number == REHEARSAL:
                continue
            seconds, nanoseconds = TIMESPEC.unpack_from(ancillary[0][2])
            received.append((number, seq, seconds * NS_PER_S + nanoseconds + offset_ns))
    write_rows(spec["output"], ("flow", "seq", "received_ns"), received)


def write_rows(path: str, header: tuple[str, ...], rows: Any) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def main(verb: str, spec: str) -> None:
    try:
        {"talk": talk, "listen": listen}[verb](json.loads(Path(spec).read_text()))
    except OSError as error:
        if error.errno not in {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH}:
            raise
        sys.exit(
            f"{error.strerror}: the kernel drops a lab's routes when one of its links goes down; "
            "`cnc lab down` and `cnc lab up` restore them"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
