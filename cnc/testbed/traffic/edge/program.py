"""The programs of a signal's source, of the edge that predicts it, and of the device behind it.

Run as `python -I program.py source|edge|device SPEC.json` inside an end station's namespace, as
`traffic.endpoint` is. All count in periods of the edge. It looks for a value, and sends one, in
the middle of each; the device looks at its end, and has 0 until something has come.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cnc.talker import be_punctual, sleep_until
from cnc.testbed.traffic.edge.predictors import PREDICTORS, Received
from cnc.testbed.traffic.endpoint import outlet_of, wait_for_start, write_rows
from cnc.testbed.traffic.loop.program import (
    NO_SAMPLE,
    Mailbox,
    content_of,
    listener_of,
    number_of,
    rehearse,
)

CONTENT = content_of(1)


def source(spec: dict[str, Any]) -> None:
    """Send each value at its interval; writes a row for each: value."""
    outlet = outlet_of(spec["flow"])
    start_ns = wait_for_start()
    rehearse(outlet, start_ns, spec["turn"])
    number = number_of(start_ns, actuator=False)
    for n, value in enumerate(spec["values"]):
        sleep_until(start_ns + n * spec["interval_ns"])
        outlet.send_probe(number, n, CONTENT.pack(n, value))
    write_rows(spec["output"], ("value",), ((repr(value),) for value in spec["values"]))


def edge(spec: dict[str, Any]) -> None:
    """Predict, and send what that gives; writes a row for each period: the value sent, if any."""
    outlet, listener = outlet_of(spec["flow"]), listener_of(spec["listener"])
    predict = PREDICTORS[spec["predictor"]]
    start_ns = wait_for_start()
    rehearse(outlet, start_ns, spec["turn"])
    number = number_of(start_ns, actuator=True)
    mailbox = Mailbox(listener, number_of(start_ns, actuator=False), CONTENT)
    received: list[Received] = []
    read = None
    sent: list[object] = []
    for n in range(spec["periods"]):
        at_ns = start_ns + n * spec["period_ns"] + spec["period_ns"] // 2
        sleep_until(at_ns)
        newest = mailbox.newest(NO_SAMPLE, at_ns)
        if newest and newest[0] != read:
            read = newest[0]
            received.append(Received(n, *newest[1].numbers))
        value = predict(received, n) if received else None
        if value is not None:
            outlet.send_probe(number, n, CONTENT.pack(n, value))
        sent.append("" if value is None else repr(value))
    write_rows(spec["output"], ("sent",), ((each,) for each in sent))


def device(spec: dict[str, Any]) -> None:
    """Be where the last value says; writes a row for each period: position, received_ns."""
    listener = listener_of(spec["listener"])
    start_ns = wait_for_start()
    be_punctual(go_first=True)
    mailbox = Mailbox(listener, number_of(start_ns, actuator=True), CONTENT)
    positions: list[float] = []
    for n in range(spec["periods"]):
        at_ns = start_ns + (n + 1) * spec["period_ns"]
        sleep_until(at_ns)
        newest = mailbox.newest(n, at_ns)
        positions.append(newest[1].numbers[0] if newest else 0.0)
    write_rows(
        spec["output"],
        ("position", "received_ns"),
        ((repr(position), mailbox.received_ns.get(n, "")) for n, position in enumerate(positions)),
    )


if __name__ == "__main__":
    programs = {"source": source, "edge": edge, "device": device}
    programs[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
