"""An end station's program: send frames on a timeline, or record when frames arrive.

Run as `python -I endpoint.py talk|listen SPEC.json` inside an end station's namespace; it needs the
standard library, `cnc.talker` and few modules beside it only, so that it starts fast. It prints
`ready` once its sockets are open, and what its clock says then. A talker then reads the start
instant (TAI, nanoseconds) from its standard input; a listener listens until its standard input is
closed.

Every wait blocks in the kernel. A busy loop would be slightly more punctual on a real clock, but
would never end in virtual time, where the clock stops while a program computes. Clocks are read
only where needed: in virtual time each read takes time.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import heapq
import json
import platform
import random
import select
import socket
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cnc.talker import OffsetFile, StreamOffset, be_punctual, mark, sleep_until, tai_ns
from cnc.talker.clock import NS_PER_S, tai_offset_ns
from cnc.testbed.traffic.ethernet import Arrival, EthernetListener, EthernetOutlet
from cnc.testbed.traffic.probe_filter import Marks
from cnc.testbed.traffic.sockets import (
    PROBE,
    SO_TIMESTAMPNS,
    TIMESPEC,
    UNCOUNTED,
    SendingSocket,
    widen,
)
from cnc.testbed.traffic.tcp import TcpListener, TcpOutlet

PORT = 5005
REHEARSAL = 0xFFFF  # the flow number of frames that are not counted
REHEARSALS_AHEAD_NS = 500_000_000  # of the start; each talker has its turn
REHEARSAL_NS = 1_000_000
IP_AND_UDP_OCTETS = {4: 20 + 8, 6: 40 + 8}
FAMILIES = {4: "AF_INET", 6: "AF_INET6"}  # as a listener is told: names survive JSON

READING_A_STAMP_NS = 25_000  # several times its duration, so that it delays no frame


def program() -> str:
    """Name and Python version of this program, for the recording."""
    return f"{Path(__file__).name}, {platform.python_implementation()} {platform.python_version()}"


def report_ready() -> None:
    """Report to the parent that the sockets are open, and the node's time (TAI, nanoseconds)."""
    print(f"ready {tai_ns()}", flush=True)  # noqa: T201  the parent reads it


def wait_for_start() -> int:
    """The start instant, which the parent chooses when all programs are ready."""
    report_ready()
    return int(sys.stdin.readline())


class Outlet(SendingSocket):
    """A flow's socket: frames with the flow's DSCP go in, the kernel's time stamps come out."""

    def __init__(self, flow: dict[str, Any]) -> None:
        version = flow["ip_version"]
        family = socket.AddressFamily[FAMILIES[version]]
        super().__init__(socket.socket(family, socket.SOCK_DGRAM))
        self.flow = flow
        mark(self.socket, flow["dscp"], None)  # the lab's nodes give priorities by DSCP
        self._destination: tuple[str, int] | None = None
        if "port" in flow:
            # A connected socket remembers its port's transmit queue, and a frame keeps its socket
            # through veths and bridges of a lab: switches would send it from that queue, whatever
            # its priority (net/core/dev.c: netdev_pick_tx).
            self._destination = flow["destination"], flow["port"]
            self.socket.bind((flow["source"] or "", flow["source_port"] or 0))
        else:
            self.socket.connect((flow["destination"], PORT))
        self._filling = bytes(flow["payload_octets"] - IP_AND_UDP_OCTETS[version] - PROBE.size)

    def send_probe(
        self, number: int, seq: int, content: bytes = b"", due_ns: int | None = None
    ) -> None:
        """Send a packet with these two numbers in it, and with `content` behind them, that is due
        at an instant, or now."""
        packet = PROBE.pack(number, seq) + content + self._filling[len(content) :]
        self.transmit(packet, due_ns, self._destination)


class PacketListener:
    """A socket for the packets to an address and port of the node."""

    columns = EthernetListener.columns[:3]

    def __init__(self, family: str, address: str, port: int, offset_ns: int) -> None:
        self._tai_offset_ns = offset_ns
        self.socket = socket.socket(socket.AddressFamily[family], socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        widen(self.socket)
        self.socket.bind((address, port))

    def receive(self) -> Arrival:
        """Take one probe that has arrived."""
        return self.receive_with_content()[0]

    def receive_with_content(self, content_octets: int = 0) -> tuple[Arrival, bytes]:
        """Take one probe that has arrived, and so much of what is behind its numbers."""
        data, ancillary, _, _ = self.socket.recvmsg(2048, 64)
        number, seq = PROBE.unpack_from(data)
        seconds, nanoseconds = TIMESPEC.unpack_from(ancillary[0][2])
        received_ns = seconds * NS_PER_S + nanoseconds + self._tai_offset_ns
        return Arrival(number, seq, received_ns), data[PROBE.size : PROBE.size + content_octets]


def outlet_of(flow: dict[str, Any]) -> Outlet | EthernetOutlet:
    """The socket for a flow: of frames to an address and VLAN, or of packets to a node.

    What an untagged flow is sent as is in `sending`.
    """
    sent = {**flow, **(flow.get("sending") or {})}
    outlet = Outlet(sent) if "ip_version" in sent else EthernetOutlet(sent)
    path = flow.get("offsets")
    found = OffsetFile(Path(path)).offsets().sender(flow["name"]) if path else None
    if found:
        interface, stream = found
        outlet.launch(interface, stream.priority)
    return outlet


def talk(spec: dict[str, Any]) -> None:
    """Send every flow's frames; writes flow, seq, planned_ns, sent_ns, scheduled_ns, left_ns,
    acked_ns."""
    outlets = [
        TcpOutlet(flow, socket.AddressFamily[FAMILIES[flow["ip_version"]]])
        if "tcp_port" in flow
        else outlet_of(flow)
        for flow in spec["flows"]
    ]
    saturating = spec["flows"][0]["pattern"] == "saturating"  # then it is the only one
    start_ns = wait_for_start()
    end_ns = start_ns + spec["duration_ns"]
    refuse_untold(spec["flows"], start_ns)
    be_punctual(go_first=not saturating)  # else it would starve other programs
    # Talkers that wake at one instant run in the order in which they went to sleep, which is
    # therefore fixed. And the first wait takes longer: it must not be one for a frame.
    sleep_until(start_ns - REHEARSALS_AHEAD_NS + spec["turn"] * REHEARSAL_NS)
    for outlet in outlets:
        # A program's first frame takes much longer than all others.
        outlet.send_probe(REHEARSAL, 0)
        if is_stamped(outlet, spec["stamps"]):
            outlet.stamp()
    if saturating:
        sent = saturate(outlets[0], start_ns, end_ns)
    else:
        stamped = [outlet for outlet in outlets if is_stamped(outlet, spec["stamps"])]
        sent = keep_to(outlets, start_ns, end_ns, stamped)
    # Not before the others have sent their last frame: at this priority, writing would delay them.
    sleep_until(end_ns + spec["drain_ns"])
    for outlet in outlets:
        if isinstance(outlet, TcpOutlet):
            outlet.await_acknowledged()
        while is_stamped(outlet, spec["stamps"]) and outlet.read_stamp():
            pass
    header = ("flow", "seq", "planned_ns", "sent_ns", "scheduled_ns", "left_ns", "acked_ns")
    write_rows(
        spec["output"],
        header,
        (
            (outlets[n].flow["id"], seq, planned_ns, sent_ns, *outlets[n].stamps(seq))
            for n, seq, planned_ns, sent_ns in sent
        ),
    )
    write_rows(
        destinations_file(spec["output"]),
        ("flow", "first_seq", "destination_mac", "vlan_id", "pcp"),
        (
            (outlet.flow["id"], first_seq, *destination)
            for outlet in outlets
            if isinstance(outlet, EthernetOutlet)
            for first_seq, destination in outlet.destinations
        ),
    )


def is_stamped(outlet: Outlet | EthernetOutlet | TcpOutlet, stamps: bool | list[int]) -> bool:
    """Whether the kernel stamps the frames of a flow: all do, none, or those with these numbers."""
    return stamps if isinstance(stamps, bool) else outlet.flow["id"] in stamps


def destinations_file(output: str) -> str:
    """Where a talker whose result is in `output` says to what it has sent."""
    return f"{output.removesuffix('.csv')}-destinations.csv"


class Sent:
    """Frames in the order of sending: number of the outlet, seq, planned_ns, sent_ns. A run may
    have a million, of which objects would take 200 octets each."""

    def __init__(self) -> None:
        self._columns = array("H"), array("I"), array("q"), array("q")

    def append(self, *row: int) -> None:
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*self._columns, strict=True)


def keep_to(
    outlets: Sequence[Outlet | EthernetOutlet | TcpOutlet],
    start_ns: int,
    end_ns: int,
    stamped: Sequence[Outlet | EthernetOutlet | TcpOutlet] = (),
) -> Sent:
    """Send every frame at its instant, and read stamps of those outlets that have any.

    A frame with a time of transmission, which the kernel keeps to, counts as sent then, unless the
    program is later than that.
    """
    sent = Sent()
    now_ns = start_ns
    for wake_ns, number, seq, told in heapq.merge(
        *(ahead(timeline(n, its.flow, start_ns, end_ns), its) for n, its in enumerate(outlets))
    ):
        planned_ns = wake_ns + outlets[number].lead_ns
        spare = (wake_ns - now_ns) // READING_A_STAMP_NS if stamped else 0
        for outlet in stamped:
            while spare > 0 and outlet.read_stamp():
                spare -= 1
        by = outlets[number]
        if told and told.destination_mac and isinstance(by, EthernetOutlet):
            by.send_to((told.destination_mac, told.vlan_id, told.priority), seq)
        sleep_until(wake_ns)
        now_ns = tai_ns()
        by.send_probe(by.flow["id"], seq, due_ns=planned_ns)
        sent.append(number, seq, planned_ns, max(now_ns, planned_ns))
    return sent


Timeline = Iterator[tuple[int, int, int, "StreamOffset | None"]]


def ahead(timeline: Timeline, outlet: Outlet | EthernetOutlet | TcpOutlet) -> Timeline:
    """The same with the instants at which its program has to send."""
    lead_ns = outlet.lead_ns
    return ((due_ns - lead_ns, number, seq, told) for due_ns, number, seq, told in timeline)


def timeline(number: int, flow: dict[str, Any], start_ns: int, end_ns: int) -> Timeline:
    """Planned instant, number and sequence number of a flow's frames, those of each whole period.

    All frames of a period have the instant of the first, from which their latency counts. A stream
    of a station with an agent leaves when, and is sent to what, the agent says by then, which is
    the fourth: a push may move it.
    """
    if flow.get("offsets"):
        return followed(number, flow, start_ns, end_ns)
    period_ns = flow["period_ns"]
    first_ns = start_ns + flow["offset_ns"]
    frames = flow["frames"]
    periods = (end_ns - start_ns) // period_ns
    instants: Iterator[int] = (
        first_ns + seq // frames * period_ns for seq in range(periods * frames)
    )
    if flow.get("jitter_ns"):
        instants = jittered(instants, flow)
    return ((instant_ns, number, seq, None) for seq, instant_ns in enumerate(instants))


def jittered(instants_ns: Iterator[int], flow: dict[str, Any]) -> Iterator[int]:
    """The instants, each later by what the flow's seed draws for it, in order of time: the same in
    every run."""
    chance = random.Random(f"{flow['seed']} {flow['name']}")  # noqa: S311  not a secret
    return iter(sorted(each + chance.randint(0, flow["jitter_ns"]) for each in instants_ns))


def followed(number: int, flow: dict[str, Any], start_ns: int, end_ns: int) -> Timeline:
    """As `timeline`, for a stream that the agent of the station tells about."""
    file = OffsetFile(Path(flow["offsets"]))
    begin_ns, seq = start_ns, 0
    while True:
        departure = file.offsets().departure(flow["name"], begin_ns)
        if departure is None or departure.period_begin_ns + departure.stream.period_ns > end_ns:
            return
        for _ in range(departure.stream.frames):
            yield departure.instant_ns, number, seq, departure.stream
            seq += 1
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


def saturate(outlet: Outlet | EthernetOutlet | TcpOutlet, start_ns: int, end_ns: int) -> Sent:
    """Send a frame whenever the send buffer has room, at most at the rate of the cable.

    A loop without waits would not end in virtual time, where the clock advances only during them.
    """
    outlet.narrow()
    sent = Sent()
    while True:
        seq = len(sent)
        sleep_until(start_ns + seq * outlet.flow["period_ns"])
        now_ns = tai_ns()
        if now_ns >= end_ns:
            return sent
        with contextlib.suppress(BlockingIOError):  # the buffer is full: the gate is closed
            outlet.send_probe(outlet.flow["id"], seq)
            sent.append(0, seq, now_ns, now_ns)


def listen(spec: dict[str, Any]) -> None:
    """Record every probe that arrives, copies as well; writes the columns of the listeners, and, if
    `deliveries` asks for that, when this program had the probe: it costs a reading of the clock."""
    offset_ns = tai_offset_ns()
    listeners: list[PacketListener | EthernetListener | TcpListener] = [
        *(TcpListener(*each, tai_offset_ns=offset_ns) for each in spec.get("connections", ())),
        *(
            PacketListener(family, address, port, offset_ns)
            for family, address, port in spec["addresses"]
        ),
        *(
            EthernetListener(each, Marks(spec["udp_ports"], spec["ethertypes"]), offset_ns)
            for each in spec["interfaces"]
        ),
    ]
    columns = listeners[-1].columns  # those of frames are the longer ones
    poll = select.poll()
    by_descriptor = {listener.socket.fileno(): listener for listener in listeners}
    for descriptor in (*by_descriptor, sys.stdin):
        poll.register(descriptor, select.POLLIN)
    report_ready()
    received = []
    # Ends when only the end of the standard input is ready.
    while ready := [by_descriptor[fd] for fd, _ in poll.poll() if fd in by_descriptor]:
        for listener in ready:
            arrival = listener.receive()
            if arrival is None:  # its talker has closed the connection
                poll.unregister(listener.socket)
                continue
            delivered_ns = tai_ns() if spec["deliveries"] else None
            if arrival.number < UNCOUNTED:
                received.append((*arrival[: len(columns)], delivered_ns))
    write_rows(spec["output"], (*columns, "delivered_ns"), received)


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
