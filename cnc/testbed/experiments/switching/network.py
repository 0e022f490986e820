"""Talker, switch and listener: three namespaces of this kernel, and the programs in them.

talker/eth0 ══ veth ══ switch/p1   switch/p2 ══ veth ══ listener/eth0
"""

from __future__ import annotations

import csv
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cnc.errors import CncError
from cnc.model import NS_PER_S
from cnc.testbed.experiments.switching.figures import BRIDGE, CABLE
from cnc.testbed.lab import iproute2, namespaces, topology
from cnc.testbed.lab.process import netns_argv
from cnc.testbed.traffic.probe import PROGRAM as PROBE

TWO_PORTS = Path(__file__).with_name("two-ports")
UNSUPPORTED = 3  # its exit code
NODES = TALKER, SWITCH, LISTENER = "talker", "switch", "listener"
ADDRESSES = {TALKER: "192.0.2.1", LISTENER: "192.0.2.2"}
MACS = {TALKER: "02:00:00:00:00:01", LISTENER: "02:00:00:00:00:02"}
UDP_AND_IP_OCTETS = 28
DRAIN_S = 1
# What a port would leave to hardware that is not there, and a socket of XDP would not get.
CHECKSUM = ("tx-checksum-ip-generic",)
# Without it veth takes no frame that XDP redirects in the driver: it has no queue for them.
GRO = ("rx-gro",)
FIRST = ["chrt", "--fifo", "50"]


class NotMeasuredError(Exception):
    """A way of switching that this kernel does not have; the text says what it lacks."""


class Packets:
    """Of one turn: how late the talker read its clock for each, and how long it then took to the
    listener's kernel; None: it did not arrive."""

    def __init__(self, sent: Path, received: Path) -> None:
        arrived_ns = {row["seq"]: int(row["rx_ns"]) for row in _rows(received)}
        self.rows = [
            (
                int(row["seq"]),
                int(row["app_ns"]) - int(row["planned_ns"]),
                arrived_ns[row["seq"]] - int(row["app_ns"]) if row["seq"] in arrived_ns else None,
            )
            for row in _rows(sent)
        ]


def _rows(table: Path) -> Iterator[Mapping[str, str]]:
    with table.open() as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


@contextmanager
def network(lab: str, way: str, mode: str) -> Iterator[None]:
    """The namespaces, with cables, for the time of a `with` block; XDP will run in this mode.

    Raises:
        CncError: they cannot be made, as by a user who is not root.
    """
    inside = {node: namespaces.of_node(lab, node) for node in NODES}
    try:
        _ip([f"netns add {name}" for name in inside.values()])
        _ip(_cables(inside, way))
        for node in (TALKER, LISTENER):
            namespaces.inside(inside[node], lambda: _prepare(mode))
            _ip(_station(node), inside[node])
        _ip(_switch(way), inside[SWITCH])
        yield
    finally:
        for name in filter(namespaces.exists, inside.values()):
            subprocess.run(["ip", "netns", "del", name], check=False)


def _ip(lines: Sequence[str], namespace: str | None = None) -> None:
    program = ["ip", "-n", namespace] if namespace else ["ip"]
    iproute2.batch(program, lines, aim="make the network", needs="root, and veth and bridge")


def _cables(inside: Mapping[str, str], way: str) -> list[str]:
    def cable(one: str, port: str, other: str, its: str) -> str:
        ends = f"{port} netns {inside[one]} type veth peer {its} netns {inside[other]}"
        return f"link add {ends}"

    if way == CABLE:
        return [cable(TALKER, "eth0", LISTENER, "eth0")]
    return [cable(TALKER, "eth0", SWITCH, "p1"), cable(LISTENER, "eth0", SWITCH, "p2")]


def _prepare(mode: str) -> None:
    """In the namespace of a station."""
    topology.set_offloads("eth0", CHECKSUM)
    topology.set_offloads("eth0", GRO, active=mode == "native")
    namespaces.sysctl("net/ipv6/conf/all/disable_ipv6", 1)  # or it would send now and then


def _station(node: str) -> list[str]:
    (far,) = ADDRESSES.keys() - {node}
    return [
        f"link set eth0 address {MACS[node]} up",
        f"address add {ADDRESSES[node]}/24 dev eth0",
        f"neighbour add {ADDRESSES[far]} lladdr {MACS[far]} dev eth0 nud permanent",
    ]


def _switch(way: str) -> list[str]:
    if way == CABLE:
        return []
    lines = ["link set p1 up", "link set p2 up"]
    if way == BRIDGE:
        lines += ["link add br0 up type bridge mcast_snooping 0"]
        lines += [f"link set {port} master br0" for port in ("p1", "p2")]
    return lines


@contextmanager
def two_ports(lab: str, kind: str, mode: str) -> Iterator[None]:
    """The program forwards for the time of a `with` block.

    Raises:
        NotMeasuredError: this kernel lacks what it needs.
        CncError: it failed.
    """
    # One that polls would have no processor left for anything else, at the priority of the others.
    first = ["nice", "-n", "-20"] if kind.endswith("polls") else FIRST
    command = [*first, TWO_PORTS, kind, mode, "p1", "p2"]
    with subprocess.Popen(
        _in(lab, SWITCH, command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdin is not None  # noqa: S101  all are pipes
            assert program.stdout is not None  # noqa: S101
            if program.stdout.readline() != "ready\n":
                _, said = program.communicate()
                why = said.strip().removeprefix("two-ports: ")
                if program.returncode == UNSUPPORTED:
                    raise NotMeasuredError(why)
                raise CncError(f"the switch by {kind} failed: {why}")
            yield
            program.stdin.close()
            program.wait(DRAIN_S)
        finally:
            program.kill()


def sent(lab: str, count: int, period_ns: int, packet_octets: int) -> Packets:
    """Send so many packets from talker to listener.

    Raises:
        CncError: a program failed, or no packet arrived.
    """
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        tables = Path(scratch, "sent.csv"), Path(scratch, "received.csv")
        to = ["--count", count, "-o"]
        listen = [*FIRST, PROBE, "receive", ADDRESSES[LISTENER], "--wait", f"{DRAIN_S}s", *to]
        receiver = stack.enter_context(
            subprocess.Popen(
                _in(lab, LISTENER, [*listen, tables[1]]), stderr=subprocess.PIPE, text=True
            )
        )
        stack.callback(receiver.kill)
        assert receiver.stderr is not None  # noqa: S101  it is a pipe
        if receiver.stderr.readline() != "ready\n":
            raise CncError("tsn-probe receive did not start")
        # Stamps of the kernel would be taken at each interface of some ways, and none of others.
        paced = ["--no-stamps", "--period", f"{period_ns}ns"]
        size = ["--size", packet_octets - UDP_AND_IP_OCTETS]
        send = [*FIRST, PROBE, "send", ADDRESSES[LISTENER], *paced, *size, *to, tables[0]]
        done = subprocess.run(_in(lab, TALKER, send), check=False, capture_output=True, text=True)
        if done.returncode:
            raise CncError(f"the talker failed: {done.stderr.strip()}")
        try:
            code = receiver.wait(2 * DRAIN_S + count * period_ns / NS_PER_S)
        except subprocess.TimeoutExpired:
            raise CncError("not one packet arrived through the switch") from None
        if code:
            raise CncError(f"the listener failed: {receiver.stderr.read().strip()}")
        return Packets(*tables)


def _in(lab: str, node: str, words: Sequence[object]) -> list[str]:
    return netns_argv(namespaces.of_node(lab, node), [str(word) for word in words])
