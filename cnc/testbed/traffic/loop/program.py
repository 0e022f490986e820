"""The programs of a control loop: the plant, which samples, and the controller, which answers.

Run as `python -I program.py plant|control SPEC.json` inside an end station's namespace, as
`traffic.endpoint` is; their frames are probes with a value for each axis in them. Both count in
periods: what arrives by its instant counts as in time, whenever it came. So the loop's curve
depends on which frames were in time and on nothing else, neither on the microsecond of an arrival
nor on a clock. Each goes by the CLOCK_TAI of its own node, and a frame has the number of its period
in it: where two clocks differ, a frame may be late, and is never taken for that of another period.

Where nothing newer has come, the controller goes on with the last sample, and the plant with the
last command (zero-order hold); before the first, samples are where the plant rests, and commands 0.
"""

from __future__ import annotations

import json
import select
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

from cnc.talker import be_punctual, sleep_until, tai_ns
from cnc.talker.clock import NS_PER_S, tai_offset_ns
from cnc.testbed.traffic.endpoint import (
    REHEARSAL,
    REHEARSAL_NS,
    REHEARSALS_AHEAD_NS,
    Outlet,
    PacketListener,
    outlet_of,
    wait_for_start,
    write_rows,
)
from cnc.testbed.traffic.ethernet import EthernetListener, EthernetOutlet
from cnc.testbed.traffic.loop.parts import (
    SAMPLE,
    answer_of,
    controlled_of,
    events,
    references_of,
    undisturbed_of,
)
from cnc.testbed.traffic.probe_filter import Marks
from cnc.testbed.traffic.sockets import UNCOUNTED

NO_SAMPLE = 0xFFFFFFFF
RUNS = 127  # so many runs have flow numbers of their own, two each, below that of rehearsals


def content_of(values: int) -> struct.Struct:
    """What is in a frame: the number of the sample that its values come from, and so many values:
    of a sample one for each output, of a command one for each input."""
    return struct.Struct(f"!I{values}d")


class Values(NamedTuple):
    """What came in one frame: the period of the sample that it comes from, and the values."""

    sample: int
    numbers: tuple[float, ...]


class Mailbox:
    """What has arrived of one stream, by period: the first copy of each frame."""

    def __init__(
        self, listener: PacketListener | EthernetListener, number: int, content: struct.Struct
    ) -> None:
        self._listener = listener
        self._number = number
        self._content = content
        self._poll = select.poll()
        self._poll.register(listener.socket, select.POLLIN)
        self._newest: int | None = None
        self._waiting: list[int] = []
        self._values: dict[int, Values] = {}
        self.received_ns: dict[int, int] = {}

    def collect(self) -> None:
        """Take what has arrived, without waiting for more."""
        while self._poll.poll(0):
            arrival, content = self._listener.receive_with_content(self._content.size)
            if arrival.number == self._number and arrival.seq not in self.received_ns:
                self.received_ns[arrival.seq] = arrival.received_ns
                sample, *numbers = self._content.unpack(content)
                self._values[arrival.seq] = Values(sample, tuple(numbers))
                self._waiting.append(arrival.seq)

    def newest(self, of: int, by_ns: int) -> tuple[int, Values] | None:
        """The last period up to `of` of which a frame had arrived by an instant, and its values."""
        self.collect()
        came = [n for n in self._waiting if n <= of and self.received_ns[n] <= by_ns]
        self._waiting = [n for n in self._waiting if n not in came]
        if came:
            self._newest = max(came) if self._newest is None else max(*came, self._newest)
        return None if self._newest is None else (self._newest, self._values[self._newest])


def listener_of(spec: dict[str, Any]) -> PacketListener | EthernetListener:
    """The socket for the frames of the other end."""
    offset_ns = tai_offset_ns()
    if "interface" in spec:
        known = Marks(ethertypes=spec["ethertypes"])
        return EthernetListener(spec["interface"], known, offset_ns)
    return PacketListener(spec["family"], spec["address"], spec["port"], offset_ns)


def number_of(start_ns: int, *, actuator: bool) -> int:
    """The flow number of one of the two streams: another one than in the runs before, of which
    frames may still be in a queue."""
    return UNCOUNTED + 2 * (start_ns // NS_PER_S % RUNS) + actuator


def rehearse(outlet: Outlet | EthernetOutlet, start_ns: int, turn: int) -> None:
    """Send a frame that does not count: a program's first one takes much longer than others.

    Ends the program if the loop has begun already, which it would take for frames that are late.
    """
    if (late_ns := tai_ns() - start_ns) > 0:
        sys.exit(f"by the clock of this station the loop began {late_ns / NS_PER_S:g} s ago")
    be_punctual(go_first=True)
    sleep_until(start_ns - REHEARSALS_AHEAD_NS + turn * REHEARSAL_NS)
    outlet.send_probe(REHEARSAL, 0)


def plant(spec: dict[str, Any]) -> None:
    """Send a sample in each period, and let the newest command act at its deadline.

    Writes a row for each period: step, acting, acting_sample, received_ns; then all outputs, and
    all commands.
    """
    outlet, listener = outlet_of(spec["flow"]), listener_of(spec["listener"])
    controlled = controlled_of(spec["controlled"])
    content = content_of(len(spec["resting"]))
    start_ns = wait_for_start()
    rehearse(outlet, start_ns, spec["turn"])
    number = number_of(start_ns, actuator=False)
    mailbox = Mailbox(listener, number_of(start_ns, actuator=True), content_of(spec["inputs"]))
    outputs: list[tuple[float, ...]] = []
    acted: list[tuple[tuple[float, ...], object, object]] = []
    acting: tuple[object, object] = ("", "")
    first_ns = start_ns + spec["sampled_ns"]
    now_ns, commands = first_ns, (0.0,) * spec["inputs"]
    for offset_ns, kind, n in events(spec["periods"], spec["period_ns"], spec["deadline_ns"]):
        at_ns = first_ns + offset_ns
        controlled.advance(at_ns - now_ns, commands)
        now_ns = at_ns
        sleep_until(at_ns)
        if kind == SAMPLE:
            outputs.append(controlled.outputs)
            outlet.send_probe(number, n, content.pack(n, *outputs[-1]))
            continue
        if newest := mailbox.newest(n, at_ns):
            acting = newest[0], "" if newest[1].sample == NO_SAMPLE else newest[1].sample
            commands = newest[1].numbers
        acted.append((commands, *acting))
    sleep_until(now_ns + spec["drain_ns"])
    mailbox.collect()
    write_rows(
        spec["output"],
        (
            *("step", "acting", "acting_sample", "received_ns"),
            *(f"output_{n}" for n in range(1, len(spec["resting"]) + 1)),
            *(f"command_{n}" for n in range(1, spec["inputs"] + 1)),
        ),
        (
            [n, *by, mailbox.received_ns.get(n, ""), *map(repr, (*values, *commands))]
            for n, (values, (commands, *by)) in enumerate(zip(outputs, acted, strict=True))
        ),
    )


def control(spec: dict[str, Any]) -> None:
    """Answer each sample at the offset of the actuator's stream.

    Writes a row for each period: step, first number of the command, sample, received_ns.
    """
    outlet, listener = outlet_of(spec["flow"]), listener_of(spec["listener"])
    references = references_of(spec)
    resting = spec["resting"]
    answer = answer_of(spec["answering"])
    content = content_of(spec["inputs"])
    start_ns = wait_for_start()
    rehearse(outlet, start_ns, spec["turn"])
    number = number_of(start_ns, actuator=True)
    mailbox = Mailbox(listener, number_of(start_ns, actuator=False), content_of(len(resting)))
    answered: list[tuple[float, object]] = []
    for n in range(spec["periods"]):
        leaves_ns = start_ns + spec["leaves_ns"] + n * spec["period_ns"]
        begins_ns = leaves_ns - spec["compute_ns"]
        sleep_until(begins_ns)
        newest = mailbox.newest(n, begins_ns)
        sample, values = (newest[0], newest[1].numbers) if newest else (NO_SAMPLE, resting)
        commands = answer(references[n], values)
        sleep_until(leaves_ns)
        outlet.send_probe(number, n, content.pack(sample, *commands))
        answered.append((commands[0], "" if newest is None else sample))
    sleep_until(
        start_ns + spec["leaves_ns"] + spec["periods"] * spec["period_ns"] + spec["drain_ns"]
    )
    mailbox.collect()
    write_rows(
        spec["output"],
        ("step", "command", "sample", "received_ns"),
        (
            (n, repr(command), sample, mailbox.received_ns.get(n, ""))
            for n, (command, sample) in enumerate(answered)
        ),
    )


def ideal(spec: dict[str, Any]) -> None:
    """Compute what `parts.undisturbed_of` does; writes a row for each period: all outputs."""
    write_rows(spec["output"], (), (map(repr, each) for each in undisturbed_of(spec)))


if __name__ == "__main__":
    verbs = {"plant": plant, "control": control, "ideal": ideal}
    verbs[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
