"""What the gates of every port do, as the kernels show it, and when they did not do the same."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from queue import Queue
from threading import Thread
from typing import Self

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import RTMGRP_TC

from agent.kernel import clock
from agent.mechanisms.gates import taprio_dump
from agent.mechanisms.gates.model import GateSchedule
from agent.model import Clock
from cnc.model import GateControlList, Plan, PortRef
from cnc.testbed.lab import Lab
from cnc.testbed.lab.namespaces import inside

ANSWER_TIMEOUT_S = 60.0


class Side(StrEnum):
    """Which schedule a port is on."""

    OLD = "old"
    NEW = "new"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Gates:
    """A port's running list and the one that waits for its base time, read at `read_ns` (TAI)."""

    read_ns: int
    running: GateSchedule | None
    pending: GateSchedule | None = None

    @property
    def switch_over_ns(self) -> int | None:
        """When the waiting list starts: the next of its cycles (taprio_get_start_time)."""
        if self.pending is None:
            return None
        past_ns = max(0, self.read_ns - self.pending.base_time_ns)
        cycles = -(-past_ns // self.pending.cycle_time_ns)
        return self.pending.base_time_ns + cycles * self.pending.cycle_time_ns

    def in_force(self, now_ns: int) -> GateSchedule | None:
        """The list that opens and closes the gates at an instant after `read_ns`."""
        begins_ns = self.switch_over_ns
        return self.pending if begins_ns is not None and begins_ns <= now_ns else self.running


Snapshot = Mapping[PortRef, Gates]


@dataclass(frozen=True, slots=True)
class Sides:
    """Tells the old schedule from the new one."""

    old: Plan
    new: Plan

    def of(self, port: PortRef, schedule: GateSchedule | None) -> Side:
        """The side whose list the port has, whatever its base time."""
        for side, plan in ((Side.OLD, self.old), (Side.NEW, self.new)):
            if _is(schedule, plan.gates.get(port)):
                return side
        return Side.NEITHER

    def at_rest(self, snapshot: Snapshot) -> dict[PortRef, Side]:
        """The side of each port; neither, too, where a list still waits or is out of phase."""
        sides = {
            port: Side.NEITHER if gates.pending else self.of(port, gates.running)
            for port, gates in snapshot.items()
        }
        phases = {
            (side, gates.running.base_time_ns % gates.running.cycle_time_ns)
            for (port, gates), side in zip(snapshot.items(), sides.values(), strict=True)
            if gates.running
        }
        if len(phases) > len(set(sides.values())):
            return dict.fromkeys(snapshot, Side.NEITHER)
        return sides

    def mixed_ns(self, snapshots: Sequence[Snapshot], until_ns: int) -> int:
        """How long, from the first snapshot on, the gates in force were not all on one side."""
        return sum(
            end_ns - begin_ns
            for snapshot, begin_ns, end_ns in _constant_spans(snapshots, until_ns)
            if len({self.of(port, gates.in_force(begin_ns)) for port, gates in snapshot.items()})
            > 1
        )


def _is(schedule: GateSchedule | None, wanted: GateControlList | None) -> bool:
    if schedule is None or wanted is None:
        return schedule is None and wanted is None
    return schedule.cycle_time_ns == wanted.cycle_ns and [
        (entry.gate_states, entry.interval_ns) for entry in schedule.entries
    ] == [(entry.gate_states, entry.interval_ns) for entry in wanted.entries]


def _constant_spans(
    snapshots: Sequence[Snapshot], until_ns: int
) -> Iterator[tuple[Snapshot, int, int]]:
    """Spans in which no gate goes from one list to another, each with the snapshot it lies in."""
    begins_ns = [max(gates.read_ns for gates in snapshot.values()) for snapshot in snapshots]
    for snapshot, begin_ns, end_ns in zip(
        snapshots, begins_ns, [*begins_ns[1:], until_ns], strict=True
    ):
        changes_ns = {gates.switch_over_ns for gates in snapshot.values()}
        cuts_ns = sorted(at for at in changes_ns if at is not None and begin_ns < at < end_ns)
        for start_ns, stop_ns in zip([begin_ns, *cuts_ns], [*cuts_ns, end_ns], strict=True):
            yield snapshot, start_ns, stop_ns


class Kernels:
    """Reads the ports that a plan gates. For one thread alone."""

    def __init__(self, lab: Lab, ports: Iterable[PortRef]) -> None:
        self._routes: dict[str, IPRoute] = {}
        self._indices: dict[str, dict[int, PortRef]] = {}
        for port in sorted(ports):
            if port.node not in self._routes:
                self._routes[port.node] = IPRoute(netns=lab.namespace(port.node))
            (index,) = self._routes[port.node].link_lookup(ifname=port.port)
            self._indices.setdefault(port.node, {})[index] = port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for route in self._routes.values():
            route.close()

    def read(self) -> dict[PortRef, Gates]:
        """Every port, now."""
        return {port: gates for node in self._routes for port, gates in self.read_of(node).items()}

    def read_of(self, switch: str) -> dict[PortRef, Gates]:
        """The ports of one switch, now."""
        qdiscs = taprio_dump.read(self._routes[switch], clock.now_ns, {})
        read_ns = clock.now_ns(Clock.TAI)
        gates = {}
        for index, port in self._indices[switch].items():
            qdisc = qdiscs.get(index)
            gates[port] = (
                Gates(read_ns, qdisc.running, qdisc.pending) if qdisc else Gates(read_ns, None)
            )
        return gates


class Recorder:
    """Reads all ports when asked, and by itself at every change that a kernel announces.

    In virtual time it has read the ports before the clock moves on.
    """

    def __init__(self, lab: Lab, ports: Iterable[PortRef]) -> None:
        self._lab = lab
        self._ports = tuple(ports)
        self._snapshots: list[Snapshot] = []
        self._asked, self._ask = socket.socketpair()
        self._answers: Queue[Snapshot] = Queue()
        self._thread = Thread(target=self._record, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ask.close()
        self._thread.join()
        self._asked.close()

    def now(self) -> Snapshot:
        """Every port."""
        self._ask.send(b"?")
        return self._answers.get(timeout=ANSWER_TIMEOUT_S)

    def begin(self) -> None:
        """Forget all snapshots so far, and take the first new one."""
        self._snapshots = []
        self.now()

    def snapshots(self) -> list[Snapshot]:
        """Those taken since `begin`, with one of now as the last."""
        self.now()
        return list(self._snapshots)

    def _record(self) -> None:
        with ExitStack() as stack:
            kernels = stack.enter_context(Kernels(self._lab, self._ports))
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(self._asked, selectors.EVENT_READ)
            for switch in {port.node for port in self._ports}:
                source = inside(self._lab.namespace(switch), _announcements)
                stack.enter_context(source)
                selector.register(source, selectors.EVENT_READ, (switch, source))
            snapshot: Snapshot = {}
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        if not self._asked.recv(1):
                            return
                        snapshot = kernels.read()
                        self._answers.put(snapshot)
                    else:
                        switch, source = key.data
                        _drain(source)
                        snapshot = {**snapshot, **kernels.read_of(switch)}
                    self._snapshots.append(snapshot)


def _announcements() -> socket.socket:
    """Of the qdiscs of the namespace that this thread is in."""
    announced = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    announced.bind((0, RTMGRP_TC))
    announced.setblocking(False)
    return announced


def _drain(announced: socket.socket) -> None:
    with suppress(BlockingIOError):
        while announced.recv(1):  # what they say is read from the kernel anyway
            pass
