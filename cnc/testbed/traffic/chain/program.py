"""The program of one component for one flow: it passes the messages on, or is an end of the chain.

Run as `python -I program.py first|pass|predict|last SPEC.json` inside an end station's namespace,
as `traffic.endpoint` is. Each flow has a process of its own in each component, so that what
happens to one flow holds up no other. A message is a probe with its octets behind the numbers. What
a component computes is a sleep: in virtual time computing takes none.

Writes a row for each message: seq, received_ns, left_ns, value; empty: it did not.
"""

from __future__ import annotations

import json
import select
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnc.talker import be_punctual, sleep_until, tai_ns
from cnc.talker.clock import NS_PER_S, tai_offset_ns
from cnc.testbed.traffic.edge.predictors import Received
from cnc.testbed.traffic.endpoint import Outlet, PacketListener, wait_for_start, write_rows
from cnc.testbed.traffic.loop.own import made_by
from cnc.testbed.traffic.loop.program import rehearse

LENGTH = struct.Struct("!H")
WHOLE_OCTETS = 2048
COLUMNS = ("seq", "received_ns", "left_ns", "value")

Row = tuple[int, object, object, object]


def functions_of(spec: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """What the component calls for a message, one after the other."""
    return [made_by(each, spec["modules"]) for each in spec["functions"]]


def made_of(message: Any, functions: Sequence[Callable[[Any], Any]]) -> Any:
    for function in functions:
        message = function(message)
    return message


class Incoming:
    """The messages that come to a component, but for those that it loses."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        its = spec["listener"]
        self._listener = PacketListener(its["family"], its["address"], its["port"], tai_offset_ns())
        self._number, self._lost = spec["number"], frozenset(spec["lost"])
        self._poll = select.poll()
        for descriptor in (self._listener.socket, sys.stdin):
            self._poll.register(descriptor, select.POLLIN)

    def until_told(self) -> Iterator[tuple[int, int, bytes]]:
        """Number, arrival and octets of each, until the standard input is closed."""
        while any(fd == self._listener.socket.fileno() for fd, _ in self._poll.poll()):
            yield from self._one()

    def come(self) -> Iterator[tuple[int, int, bytes]]:
        """Those that have come by now."""
        while any(fd == self._listener.socket.fileno() for fd, _ in self._poll.poll(0)):
            yield from self._one()

    def _one(self) -> Iterator[tuple[int, int, bytes]]:
        arrival, content = self._listener.receive_with_content(WHOLE_OCTETS)
        if arrival.number == self._number and arrival.seq not in self._lost:
            (length,) = LENGTH.unpack_from(content)
            yield arrival.seq, arrival.received_ns, content[LENGTH.size : LENGTH.size + length]


class Outgoing:
    """The way of the messages to the next component."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._outlet = Outlet(spec["behind"])
        self._number, self._turn = spec["number"], spec["turn"]
        self._flow, self._room = spec["flow"], spec["room_octets"] - LENGTH.size

    def begin(self) -> int:
        """Wait for the start of the run, which it returns."""
        start_ns = wait_for_start()
        rehearse(self._outlet, start_ns, self._turn)
        return start_ns

    def send(self, seq: int, message: bytes) -> int:
        """When the message left."""
        if len(message) > self._room:
            sys.exit(
                f"flow {self._flow}: a message of {len(message)} octets is coded, and a packet has "
                f"room for {self._room}: give the flow a larger packet or code it shorter"
            )
        left_ns = tai_ns()
        self._outlet.send_probe(self._number, seq, LENGTH.pack(len(message)) + message)
        return left_ns


def first(spec: dict[str, Any]) -> Iterator[Row]:
    """Send what is received from a sensor, at each interval."""
    receive, *coding = functions_of(spec)
    outgoing = Outgoing(spec)
    start_ns = outgoing.begin()
    for n in range(spec["messages"]):
        due_ns = n * spec["interval_ns"]
        message = made_of(receive(n, due_ns / NS_PER_S), coding)
        sleep_until(start_ns + spec["offset_ns"] + due_ns + spec["work_ns"])
        yield n, "", outgoing.send(n, message), ""


def pass_on(spec: dict[str, Any]) -> Iterator[Row]:
    """Send what has come, once it has been worked on."""
    functions = functions_of(spec)
    incoming, outgoing = Incoming(spec), Outgoing(spec)
    outgoing.begin()
    for seq, received_ns, message in incoming.until_told():
        made = made_of(message, functions)
        sleep_until(received_ns + spec["work_ns"])
        yield seq, received_ns, outgoing.send(seq, made), ""


def predict(spec: dict[str, Any]) -> Iterator[Row]:
    """Send each message `after_ns` after its instant: as it has come by then, or as predicted from
    those that have; nothing before the first."""
    decode, predicted, code = functions_of(spec)
    incoming, outgoing = Incoming(spec), Outgoing(spec)
    start_ns = outgoing.begin()
    arrivals: dict[int, int] = {}
    values: dict[int, Received] = {}
    for n in range(spec["messages"]):
        sleep_until(start_ns + spec["offset_ns"] + n * spec["interval_ns"] + spec["after_ns"])
        for seq, received_ns, message in incoming.come():
            arrivals[seq], values[seq] = received_ns, Received(seq, decode(message))
        known = [values[seq] for seq in sorted(values) if seq <= n]
        value = predicted(known, n) if known else None
        if value is not None:
            yield n, arrivals.get(n, ""), outgoing.send(n, code(value)), ""


def last(spec: dict[str, Any]) -> Iterator[Row]:
    """Record what has come, as the actuator that it drives would have it."""
    functions = functions_of(spec)
    incoming = Incoming(spec)
    wait_for_start()
    be_punctual(go_first=True)
    for seq, received_ns, message in incoming.until_told():
        sleep_until(received_ns + spec["work_ns"])
        yield seq, received_ns, "", made_of(message, functions)


if __name__ == "__main__":
    verbs = {"first": first, "pass": pass_on, "predict": predict, "last": last}
    its = json.loads(Path(sys.argv[2]).read_text())
    rows = [*verbs[sys.argv[1]](its)]
    write_rows(its["output"], COLUMNS, rows)
