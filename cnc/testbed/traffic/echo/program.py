"""The programs of a latency characterizer: the test PC, which asks, and a component, which echoes.

Run as `python -I program.py ask|echo SPEC.json` inside an end station's namespace, as
`traffic.endpoint` is; their frames are probes in which an echo point is named. A command goes
from component to component as far as its echo point, and its echo the same way back. What a
component computes is a sleep from the arrival of the command on: in virtual time computing takes
none. Echoes that pass are not worked on.

Commands are sent at random instants: at regular ones they would meet other periodic frames in few
of their phases (RFC 2330, section 11.1.1). One is on its way at a time; instants at which an echo
is still out are left out.
"""

from __future__ import annotations

import json
import random
import select
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cnc.talker import be_punctual, sleep_until, tai_ns
from cnc.talker.clock import tai_offset_ns
from cnc.testbed.traffic.echo.sampling import Sampling
from cnc.testbed.traffic.endpoint import (
    Outlet,
    PacketListener,
    report_ready,
    wait_for_start,
    write_rows,
)

CONTENT = struct.Struct("!?H")  # whether it is an echo, the number of the echo point
NS_PER_MS = 1_000_000


def listener_of(spec: dict[str, Any]) -> PacketListener:
    """The socket for commands and echoes."""
    return PacketListener(spec["family"], spec["address"], spec["port"], tai_offset_ns())


def instants(seed: int, first_ns: int, interval_ns: int) -> Iterator[int]:
    """When commands may leave: between half of the interval and one and a half apart."""
    chance = random.Random(seed)  # noqa: S311  repeatable, not a secret
    at_ns = first_ns
    while True:
        yield at_ns
        at_ns += interval_ns // 2 + chance.randrange(interval_ns)


class Asking:
    """Sends one command after the other, and waits for its echo."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._outlet, self._listener = Outlet(spec["behind"]), listener_of(spec["listener"])
        self._poll = select.poll()
        self._poll.register(self._listener.socket, select.POLLIN)
        self._run = spec["run"]
        self._gives_up_ms = spec["gives_up_ns"] // NS_PER_MS
        self._instants: Iterator[int] = iter(())
        self._free_ns = 0
        self._seq = 0

    def begin(self, instants_ns: Iterator[int]) -> None:
        """Tell it when commands may leave."""
        self._instants = instants_ns

    def ask(self, point: int) -> tuple[int, int | None]:
        """When a command to an echo point left, and when its echo came; None: it was lost."""
        sleep_until(next(at_ns for at_ns in self._instants if at_ns >= self._free_ns))
        self._seq += 1
        sent_ns = tai_ns()
        self._outlet.send_probe(self._run, self._seq, CONTENT.pack(False, point))
        while self._poll.poll(self._gives_up_ms):
            arrival = self._listener.receive()
            if (arrival.number, arrival.seq) == (self._run, self._seq):
                self._free_ns = arrival.received_ns
                return sent_ns, arrival.received_ns
        self._free_ns = tai_ns()
        return sent_ns, None


def ask_all(spec: dict[str, Any]) -> None:
    """Ask the echo points in turn until there are enough samples.

    Writes a row for each command: round, point, sent_ns, received_ns. Ends the program if a point
    does not answer in the first round, which does not count, since a program's first frame takes
    longer, and if there were fewer rounds without a lost echo than are asked for at least.
    """
    points = spec["points"]
    sampling = Sampling(len(points), spec["least"], spec["most"])
    asking = Asking(spec)
    start_ns = wait_for_start()
    be_punctual(go_first=True)
    asking.begin(instants(spec["seed"], start_ns + spec["lead_ns"], spec["interval_ns"]))
    rows: list[tuple[object, ...]] = []
    for point, name in zip(points, spec["names"], strict=True):
        if asking.ask(point)[1] is None:
            sys.exit(f"no echo came from {name}")
    while not sampling.is_over:
        echoes = [asking.ask(point) for point in points]
        rows += [(sampling.asked, point, *echo) for point, echo in zip(points, echoes, strict=True)]
        sampling.add([None if got is None else got - sent for sent, got in echoes])
    if sampling.rounds < spec["least"]:
        sys.exit(f"only {sampling.rounds} of {sampling.asked} rounds had all their echoes")
    write_rows(spec["output"], ("round", "point", "sent_ns", "received_ns"), rows)


def component(spec: dict[str, Any]) -> None:
    """Pass commands and echoes on, and turn commands back that are for an echo point of it, until
    the standard input is closed.

    Its points have the numbers from `entry` on: the entry, and an exit for each of `leaves_ns`,
    which says how long after its arrival a command is there; at the first one it goes on. Writes
    one row: how many commands came.
    """
    before = Outlet(spec["before"])
    behind = Outlet(spec["behind"]) if spec["behind"] else None
    listener = listener_of(spec["listener"])
    entry, leaves_ns = spec["entry"], spec["leaves_ns"]
    last = entry + len(leaves_ns)
    poll = select.poll()
    for descriptor in (listener.socket, sys.stdin):
        poll.register(descriptor, select.POLLIN)
    report_ready()
    be_punctual(go_first=True)
    commands = 0
    while any(fd == listener.socket.fileno() for fd, _ in poll.poll()):
        arrival, content = listener.receive_with_content(CONTENT.size)
        is_echo, point = CONTENT.unpack(content)
        if is_echo:
            before.send_probe(arrival.number, arrival.seq, content)
            continue
        commands += 1
        if point > entry:
            exit_ = point - entry - 1 if point <= last else 0
            sleep_until(arrival.received_ns + leaves_ns[exit_])
        if point <= last:
            before.send_probe(arrival.number, arrival.seq, CONTENT.pack(True, point))
        elif behind:
            behind.send_probe(arrival.number, arrival.seq, content)
    write_rows(spec["output"], ("commands",), [(commands,)])


if __name__ == "__main__":
    verbs = {"ask": ask_all, "echo": component}
    verbs[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
