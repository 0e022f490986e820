"""A station's program: send the frames of streams that come and go while it runs.

Run as `python -I talker.py send SPEC.json` inside an end station's namespace. Once it is ready it
takes an order a line from its standard input:

    {"begin": {"number", "interface", "destination_mac", "vlan_id", "pcp", "payload_octets",
               "period_ns", "offset_ns", "from_ns"}}    a frame in each period from that instant on
    {"end": number}

At the end of its input it writes number, seq, planned_ns, sent_ns of each frame into the file that
`output` of its SPEC names.
"""

from __future__ import annotations

import csv
import heapq
import json
import os
import select
import sys
from array import array
from pathlib import Path
from typing import Any

from cnc.talker import be_punctual, sleep_until, tai_ns
from cnc.testbed.traffic.endpoint import report_ready
from cnc.testbed.traffic.ethernet import EthernetOutlet

NS_PER_MS = 1_000_000
_READ_OCTETS = 65_536


class Orders:
    """The lines of the standard input."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._poll = select.poll()
        self._poll.register(self._input, select.POLLIN)
        self._rest = b""
        self.have_ended = False

    def heard(self, within_ms: int | None) -> list[dict[str, Any]]:
        """Those that have come by then, as soon as there is one; None: however long it takes."""
        if not self._poll.poll(within_ms):
            return []
        octets = os.read(self._input, _READ_OCTETS)
        self.have_ended = not octets
        *lines, self._rest = (self._rest + octets).split(b"\n")
        return [json.loads(line) for line in lines]


class Sender:
    """The streams of a station, and what was sent of them."""

    def __init__(self) -> None:
        self._outlets: dict[int, EthernetOutlet] = {}
        self._due: list[tuple[int, int, int]] = []  # instant, number, seq
        self.sent = array("H"), array("I"), array("q"), array("q")

    def spare_ms(self) -> int | None:
        """How long there is nothing to do; None: until there is another stream."""
        if not self._outlets:
            return None
        return max(0, (self._due[0][0] - tai_ns()) // NS_PER_MS - 1)

    def take(self, order: dict[str, Any]) -> None:
        if (number := order.get("end")) is not None:
            del self._outlets[number]
            return
        flow = order["begin"]
        self._outlets[flow["number"]] = EthernetOutlet(flow)
        periods = -(-flow["from_ns"] // flow["period_ns"])
        first_ns = periods * flow["period_ns"] + flow["offset_ns"]
        heapq.heappush(self._due, (first_ns, flow["number"], 0))

    def send_next(self) -> None:
        """Wait for the next frame, and send it."""
        planned_ns, number, seq = heapq.heappop(self._due)
        outlet = self._outlets.get(number)
        if outlet is None:
            return
        sleep_until(planned_ns)
        now_ns = tai_ns()
        outlet.send_probe(number, seq)
        heapq.heappush(self._due, (planned_ns + outlet.flow["period_ns"], number, seq + 1))
        for column, value in zip(self.sent, (number, seq, planned_ns, now_ns), strict=True):
            column.append(value)


def send(spec: dict[str, Any]) -> None:
    orders, sender = Orders(), Sender()
    report_ready()
    be_punctual(go_first=True)
    while not orders.have_ended:
        heard = orders.heard(sender.spare_ms())
        for order in heard:
            sender.take(order)
        if not heard and not orders.have_ended:
            sender.send_next()
    with Path(spec["output"]).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("number", "seq", "planned_ns", "sent_ns"))
        writer.writerows(zip(*sender.sent, strict=True))


if __name__ == "__main__":
    send(json.loads(Path(sys.argv[2]).read_text()))
