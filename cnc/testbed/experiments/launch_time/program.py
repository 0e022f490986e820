"""A program of an end station that sends a stream, and says how late the kernel sent each frame.

    python program.py '{"offsets": FILE, "stream": NAME, "listener": ADDRESS, …}'

It wakes up to `late_ns` later than it meant to, by what `seed` draws, and prints how much
later than its instant each frame left, and how many did not. The kernel stamps frames as the driver
takes them.
"""

from __future__ import annotations

import json
import random
import socket
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from cnc.talker import (
    LaunchSocket,
    OffsetFile,
    OffsetsError,
    Talker,
    be_punctual,
    marked_socket,
    sleep_until,
    tai_ns,
)
from cnc.talker.clock import tai_offset_ns
from cnc.talker.error_queue import (
    OPT_ID,
    OPT_TSONLY,
    ORIGIN_TIMESTAMPING,
    SO_TIMESTAMPING,
    SOFTWARE,
    TX_SOFTWARE,
    read_report,
)
from cnc.talker.lateness import Lateness

PORT = 5005
SETTLED_NS = 100_000_000  # in which the kernel has reported the last frame
PAYLOAD = bytes(64)


class Collected(Lateness):
    """How late each frame left."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.late_ns: list[int] = []

    def add(self, late_ns: int) -> None:
        """One frame."""
        self.late_ns.append(late_ns)


class Stamped:
    """A socket whose frames leave when they are sent."""

    ahead_ns = 0

    def __init__(self, sock: socket.socket, collected: Collected) -> None:
        self._sock, self._collected = sock, collected
        self._due_ns: dict[int, int] = {}
        self._sent = 0
        self._tai_offset_ns = tai_offset_ns()
        stamps = TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, stamps)

    def send(self, frame: bytes, instant_ns: int) -> None:
        """Send at once a frame that is due at an instant."""
        self._due_ns[self._sent] = instant_ns
        self._sent += 1
        self._sock.send(frame)
        self.drain()

    def drain(self) -> None:
        """Take what the kernel reports."""
        while report := read_report(self._sock):
            if report.origin == ORIGIN_TIMESTAMPING and report.stamp_ns is not None:
                # A frame that crosses several interfaces of one kernel is stamped by each.
                due_ns = self._due_ns.pop(report.number, None)
                if due_ns is not None:
                    self._collected.add(report.stamp_ns + self._tai_offset_ns - due_ns)


def main(asked: dict[str, Any]) -> None:
    """Send, and print."""
    file, collected = OffsetFile(Path(asked["offsets"])), Collected()
    stream = Talker(file, asked["stream"]).wait_until_told(30)
    with marked_socket(stream, asked["listener"], PORT) as sock:
        sending: LaunchSocket | Stamped = Stamped(sock, collected)
        lead_ns = 0
        if asked["launches"]:
            found = file.offsets().sender(asked["stream"])
            if found is None:
                raise OffsetsError(f"{file.path} has no stream {asked['stream']}")
            sending = LaunchSocket(sock, found[0], stream.priority, collected)
            lead_ns = asked["lead_ns"] + sending.ahead_ns
        be_punctual(go_first=False)
        draw = random.Random(asked["seed"])  # noqa: S311  repeatable, not a secret
        talker = Talker(file, asked["stream"], lead_ns=lead_ns)
        for departure in islice(talker.departures(), asked["frames"]):
            if late_ns := draw.randint(0, asked["late_ns"]):
                sleep_until(departure.instant_ns - lead_ns + late_ns)
            sending.send(PAYLOAD, departure.instant_ns)
        sleep_until(tai_ns() + lead_ns + SETTLED_NS)
        sending.drain()
    did_not_leave = asked["frames"] - len(collected.late_ns)
    sys.stdout.write(json.dumps({"late_ns": collected.late_ns, "did_not_leave": did_not_leave}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
