"""A signal that comes to a device over an edge: three programs, and what they record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc.model import NS_PER_S
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import recording
from cnc.testbed.traffic.edge import program
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.loop.stations import TURN, listening, sending
from cnc.testbed.traffic.station import Station


@dataclass(frozen=True, slots=True)
class Period:
    """One period of the edge: what it sent, when that arrived at the device, from the start of the
    run on, and where the device was at the end. None: nothing."""

    sent: float | None
    received_ns: int | None
    position: float


def run(
    lab: Lab, flows: tuple[Flow, Flow], values: Sequence[float], predictor: str, directory: Path
) -> list[Period]:
    """Send the values; blocks until the end.

    `flows` are that from the source to the edge, with the interval of the values, and that from the
    edge to the device, with its period. The programs leave their files in `directory`.

    Raises:
        CncError: a program failed.
    """
    inwards, outwards = flows
    duration_ns = len(values) * inwards.period_ns
    common = {"periods": duration_ns // outwards.period_ns, "period_ns": outwards.period_ns}
    source = {
        "flow": sending(lab, inwards),
        "interval_ns": inwards.period_ns,
        "values": [*values],
        "turn": TURN,
    }
    edge = {
        **common,
        "flow": sending(lab, outwards),
        "listener": listening(lab, inwards),
        "predictor": predictor,
        "turn": TURN + 1,
    }
    device = {**common, "listener": listening(lab, outwards)}
    stations = [
        Station(lab, verb, node, 0, spec, file=program.__file__)
        for verb, node, spec in (
            ("device", outwards.listener, device),
            ("edge", outwards.talker, edge),
            ("source", inwards.talker, source),
        )
    ]
    try:
        for station in stations:
            station.start(directory, {})
        for station in stations:
            station.await_ready()
        start_ns = recording.next_start_ns(NS_PER_S, stations)
        for station in stations:
            station.send_start(start_ns)
        for station in stations:
            station.finish((2 * recording.START_AHEAD_NS + duration_ns) / NS_PER_S)
    finally:
        for station in stations:
            station.end()
    at_device, at_edge, _ = stations
    return [
        Period(
            sent=float(sent) if sent else None,
            received_ns=int(received_ns) - start_ns if received_ns else None,
            position=float(position),
        )
        for (sent,), (position, received_ns) in zip(at_edge.rows(), at_device.rows(), strict=True)
    ]
