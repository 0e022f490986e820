"""A station with two uplinks to a server, in a lab: what these carry, how a push configures them,
and a connection over them.

Kernel and agent are real, radio there is none: an uplink is a cable with the delay of the intent,
before which frames wait for a rate that the experiment sets.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cnc.errors import CncError, InputError
from cnc.intent import from_document
from cnc.keys.units import SIZE
from cnc.model import NS_PER_S, Intent, Link, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.support.format import duration
from cnc.testbed.experiments import planned
from cnc.testbed.experiments.multipath.description import UplinksDescription
from cnc.testbed.lab.addressing import port_addresses
from cnc.testbed.lab.iproute2 import batch
from cnc.testbed.lab.namespaces import inside, sysctl
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

UPLINKS = 2
SERVICE_PORT = 5201
SOL_MPTCP, MPTCP_INFO = 284, 1  # linux/mptcp.h
SUBFLOWS_TOTAL = 80  # offset in struct mptcp_info of all subflows, the first one among them
AT_ONCE = struct.pack("=ii", 1, 0)  # struct linger
QUIET_S = 1
STEP_NS = 10_000_000
SENT_OCTETS, RECEIVED_OCTETS, ALL_OCTETS = 1 << 16, 1 << 20, 1 << 40
DEFAULT_BUFFER = "6291456B"  # of the kernel's, for what a socket receives
# Pages for all sockets: data that are on their way, and that programs have not read yet.
MEMORY, MEMORY_PAGES = Path("/proc/sys/net/ipv4/tcp_mem"), (60_000, 70_000, 80_000)
TIMER_SLACK = Path("/proc/self/timerslack_ns")


class Download(NamedTuple):
    """A connection on which the server sends as much as the paths take; instants count from its
    beginning."""

    socket: socket.socket
    begun_ns: int

    def receive(self, octets: int) -> int:
        """Read what has come, but no more than that.

        Raises:
            CncError: the connection has ended.
        """
        received = 0
        with suppress(BlockingIOError):
            while received < octets:
                most = min(RECEIVED_OCTETS, octets - received)
                if not (data := self.socket.recv(most, socket.MSG_DONTWAIT)):
                    raise CncError("the server has ended the connection", hint="see its kernel log")
                received += len(data)
        return received

    def wait(self, step_ns: int) -> int:
        """Return at the next multiple of a time after the beginning, and which instant that is."""
        time.sleep((step_ns - self._at_ns % step_ns) / NS_PER_S)
        return self._at_ns

    def samples(self, until_ns: int) -> Iterator[tuple[int, int]]:
        """Read what comes, every 10 ms: the instant and the octets of each time, until so long
        after the beginning."""
        at_ns = self._at_ns
        while at_ns < until_ns:
            at_ns = self.wait(STEP_NS)
            yield at_ns, self.receive(ALL_OCTETS)

    @property
    def _at_ns(self) -> int:
        return time.monotonic_ns() - self.begun_ns

    @property
    def subflows(self) -> int:
        """All of the connection."""
        return self.socket.getsockopt(SOL_MPTCP, MPTCP_INFO, 256)[SUBFLOWS_TOTAL]


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The station, its server, and the cables between them: of the path that is no backup, and of
    the other one."""

    intent: Intent
    station: str
    server: str
    links: Sequence[Link]

    @classmethod
    def of(cls, description: UplinksDescription, file: Path) -> Uplinks:
        """Those that an experiment's file names.

        Raises:
            InputError: the network cannot be read, or has no such stations; or these have not two
                cables, which are both paths of multipath TCP and of which one is a backup.
        """
        why = "a station has an address at each port only where its network is routed"
        intent = planned.routed(description, file, why)
        its, server = description.station, description.server
        planned.refuse_unknown_stations(intent, file, [("station", its), ("server", server)])
        backups = {
            port: path.get("backup", False)
            for port, path in _multipath(intent, its).get("paths", {}).items()
        }
        ports = sorted(backups, key=lambda port: backups[port])
        links = [intent.network.links.get(PortRef(its, port)) for port in ports]
        found = [link for link in links if link and link.target.node == server]
        if len(found) != UPLINKS or [backups[port] for port in ports] != [False, True]:
            raise InputError(
                f"{file}: station: found {its}, expected a station with `multipath` over two "
                f"cables to {server}, of which one is a backup",
            )
        return cls(intent, its, server, found)

    @contextmanager
    def ready(self, running: Lab) -> Iterator[None]:
        """Give the station a default route by each uplink, and the server what the station has of
        settings of TCP, for the time of a `with` block.

        IPv4 alone: the lab's kernel has no rules for IPv6, by which a subflow would leave by the
        port that has its address.
        """
        ends = zip(self.addresses, self.links, strict=True)
        batch(
            running.command(self.station, ["ip"]),
            [
                f"route replace default via {gateway} dev {link.source.port} metric {100 * number}"
                for number, (gateway, link) in enumerate(ends, start=1)
            ],
            aim=f"give {self.station} its routes",
            needs="IPv4",
        )
        disable = partial(sysctl, "net/ipv6/conf/all/disable_ipv6", 1)
        inside(running.namespace(self.station), disable)
        buffer = _multipath(self.intent, self.station).get("max-buffer", DEFAULT_BUFFER)
        inside(running.namespace(self.server), partial(_tune, SIZE.parse(buffer)))
        before = MEMORY.read_text()
        MEMORY.write_text(" ".join(map(str, map(max, MEMORY_PAGES, map(int, before.split())))))
        slack = TIMER_SLACK.read_text()
        TIMER_SLACK.write_text("1")
        try:
            yield
        finally:
            TIMER_SLACK.write_text(slack)
            MEMORY.write_text(before)

    @property
    def addresses(self) -> Sequence[str]:
        """Those of the far ends of both uplinks."""
        ports = port_addresses(self.intent.network)
        return [str(ports[link.target].v4.ip) for link in self.links]

    def push(self, running: Lab, **keys: Any) -> None:
        """Push the intent with other keys of `multipath` at the station.

        Raises:
            RolloutError: its agent refused them.
        """
        document, name = self.intent.document, self.intent.name
        stations = document["end-stations"]
        multipath = {**_multipath(self.intent, self.station), **keys}
        station = {**stations[self.station], "multipath": multipath}
        changed = {**document, "end-stations": {**stations, self.station: station}}
        push(compute(replace(from_document(changed, name), name=name)), connect=running.connect)

    def shape(
        self, running: Lab, rates_bps: Sequence[int], queue_frames: int, *, lost: str | None = None
    ) -> None:
        """Have uplinks carry so much in both directions, of frames as the kernel counts them, and
        so many frames wait before each; those of the port `lost` of the station are lost.

        Raises:
            CncError: the kernel refused.
        """
        for node in (self.station, self.server):
            lines = []
            for link, rate_bps in zip(self.links, rates_bps, strict=True):
                port = link.source.port if node == self.station else link.target.port
                loss = "100%" if link.source.port == lost else "0%"
                lines.append(
                    f"qdisc replace dev {port} root handle 5: netem rate {rate_bps}bit "
                    f"limit {queue_frames} loss {loss}"
                )
            batch(running.command(node, ["tc"]), lines, aim="set rates", needs="sch_netem")

    def received_octets(self, running: Lab) -> tuple[int, ...]:
        """What has come to the station by each uplink, with all headers."""
        lines = inside(running.namespace(self.station), partial(_lines, "dev"))
        columns = {name.strip(): its.split() for name, _, its in (e.partition(":") for e in lines)}
        return tuple(int(columns[link.source.port][0]) for link in self.links)

    def counters(self, running: Lab) -> Counter[str]:
        """Those of multipath TCP, of both ends together."""
        found: Counter[str] = Counter()
        for node in (self.station, self.server):
            lines = inside(running.namespace(node), partial(_lines, "netstat"))
            names, values = (line.split()[1:] for line in lines if line.startswith("MPTcpExt"))
            found.update(dict(zip(names, map(int, values), strict=True)))
        return found

    def counted_since(self, before: Counter[str], running: Lab) -> str:
        """What they have counted since, as words of a row."""
        counted = self.counters(running) - before
        return " ".join(f"{name}={counted[name]}" for name in sorted(counted))

    def modelled(self, platform: Platform) -> str | None:
        """The emulated delays, in a few words."""
        if not platform.exact:
            return None
        delays = (duration(link.propagation_ns) for link in self.links)
        return f"uplinks that take {' and '.join(delays)} one way"

    def remarks(self, platform: Platform) -> list[str]:
        """Of all reports."""
        real = "Kernel, agent and push are real; radio there is none, and IPv4 alone."
        return [real, *([] if platform.exact else ["On this clock nothing is judged."])]

    @contextmanager
    def download(self, running: Lab, address: str) -> Iterator[Download]:
        """A connection to an address of the server."""
        with (
            inside(running.namespace(self.server), _socket) as listener,
            inside(running.namespace(self.station), _socket) as receiver,
        ):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, SERVICE_PORT))
            listener.listen()
            begun_ns = time.monotonic_ns()
            receiver.connect((address, SERVICE_PORT))
            sender, _ = listener.accept()
            thread = threading.Thread(target=_send, args=(sender,), daemon=True)
            thread.start()
            try:
                yield Download(receiver, begun_ns)
            finally:
                # What the server has not sent yet goes with the connection.
                receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                receiver.close()
                thread.join()
                sender.close()
                self._wait_until_quiet(running)

    def _wait_until_quiet(self, running: Lab) -> None:
        """Return once nothing of a connection is on its way any more."""
        before = None
        while before != (before := self.received_octets(running)):
            time.sleep(QUIET_S)


def _multipath(intent: Intent, station: str) -> Mapping[str, Any]:
    """The key of that name at a station, empty if there is none."""
    stations = intent.document["end-stations"]
    its = stations[station] if isinstance(stations, Mapping) else None
    found: Mapping[str, Any] = (its or {}).get("multipath", {})
    return found


def _tune(buffer_octets: int) -> None:
    """Runs inside the server's namespace."""
    sysctl("net/ipv4/tcp_no_metrics_save", 1)
    for name in ("tcp_rmem", "tcp_wmem"):
        path = Path("/proc/sys/net/ipv4", name)
        least, default, _ = path.read_text().split()
        path.write_text(f"{least} {default} {buffer_octets}\n")


def _lines(name: str) -> list[str]:
    return Path("/proc/thread-self/net", name).read_text(encoding="ascii").splitlines()


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)


def _send(sender: socket.socket) -> None:
    content = bytes(SENT_OCTETS)
    with suppress(OSError):
        while True:
            sender.sendall(content)
