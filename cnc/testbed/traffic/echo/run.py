"""Echo commands through a lab: the programs of test PC and components, and their record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnc.model import NS_PER_S
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import recording
from cnc.testbed.traffic.echo import program
from cnc.testbed.traffic.echo.chain import Component, EchoPoint, echo_points
from cnc.testbed.traffic.endpoint import FAMILIES
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.station import Station

PORT = 5007  # beside those of `cnc.testbed.traffic.endpoint` and of control loops
IP_VERSION = 4
LEAD_NS = 100_000_000  # other frames are there when the first command leaves
GIVES_UP_NS = 2 * NS_PER_S  # beside what components take: the echo is lost
DSCP = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a test PC does: whom it asks, how often, and by which seed it draws the instants.

    It asks each of the `points` in turn, `least` to `most` times.
    """

    test_pc: str
    chain: Sequence[Component]
    points: Sequence[EchoPoint]
    packet_octets: int
    interval_ns: int
    least: int
    most: int
    seed: int

    @property
    def longest_ns(self) -> int:
        """No run takes longer, whatever is lost."""
        one_ns = 2 * self.interval_ns + self.gives_up_ns
        return LEAD_NS + (self.most + 1) * len(self.points) * one_ns

    @property
    def gives_up_ns(self) -> int:
        return GIVES_UP_NS + sum(each.work_ns + (each.moving_ns or 0) for each in self.chain)


@dataclass(frozen=True, slots=True)
class Echo:
    """One command, as the test PC has it; instants count from the start of the run. None: its echo
    did not come."""

    round: int
    point: int
    sent_ns: int
    received_ns: int | None

    @property
    def round_trip_ns(self) -> int | None:
        return None if self.received_ns is None else self.received_ns - self.sent_ns


def run(
    lab: Lab, asked: Asked, directory: Path, *, number: int = 0, others: Sequence[Flow] = ()
) -> list[Echo]:
    """Ask the echo points through the lab, beside other flows, until there are enough samples.

    Runs that follow each other have different numbers, below that of rehearsals. Writes the files
    of the programs into `directory`.

    Raises:
        CncError: a program failed, or an echo point does not answer at all.
    """
    listeners, talkers = recording.listeners_and_talkers(lab, others)
    components = _components(lab, asked)
    asking = _test_pc(lab, asked, number)
    stations = [*listeners, *talkers, *components, asking]
    parameters = {"duration_ns": asked.longest_ns, "drain_ns": 0}
    parameters |= {"stamps": False, "deliveries": False}
    try:
        for station in stations:
            station.start(directory, parameters)
        for station in stations:
            station.await_ready()
        grid_ns = recording.start_grid_ns(lab.intent.hyperperiod_ns())
        start_ns = recording.next_start_ns(grid_ns, stations)
        for station in (*talkers, asking):
            station.send_start(start_ns)
        asking.finish(asked.longest_ns / NS_PER_S)
        for station in components:
            station.finish()
    finally:
        # The talkers would go on for as long as a run may take, and what they sent is not asked.
        for station in stations:
            station.end()
    return [
        Echo(
            int(round_),
            int(point),
            int(sent) - start_ns,
            int(received) - start_ns if received else None,
        )
        for round_, point, sent, received in asking.rows()
    ]


def _test_pc(lab: Lab, asked: Asked, number: int) -> Station:
    spec = {
        "listener": _heard(lab, asked.test_pc),
        "behind": _sent(lab, asked, asked.chain[0].station),
        "run": number,
        "seed": asked.seed,
        "points": [point.number for point in asked.points],
        "names": [point.name for point in asked.points],
        "least": asked.least,
        "most": asked.most,
        "interval_ns": asked.interval_ns,
        "gives_up_ns": asked.gives_up_ns,
        "lead_ns": LEAD_NS,
    }
    return Station(lab, "ask", asked.test_pc, 0, spec, file=program.__file__)


def _components(lab: Lab, asked: Asked) -> list[Station]:
    """Their programs, from the one next to the test PC on."""
    entries = [point.number for point in echo_points(asked.chain) if point.exit_number == 0]
    before = [asked.test_pc, *(each.station for each in asked.chain)]
    behind = [*before[2:], None]
    found = []
    for each, entry, one, other in zip(asked.chain, entries, before, behind, strict=False):
        moved = [] if each.moving_ns is None else [each.work_ns + each.moving_ns]
        spec = {
            "listener": _heard(lab, each.station),
            "before": _sent(lab, asked, one),
            "behind": _sent(lab, asked, other) if other else None,
            "entry": entry,
            "leaves_ns": [each.work_ns, *moved],
        }
        found.append(Station(lab, "echo", each.station, 0, spec, file=program.__file__))
    return found


def _sent(lab: Lab, asked: Asked, station: str) -> Mapping[str, Any]:
    """Frames to a station, as `cnc.testbed.traffic.endpoint.Outlet` is told."""
    return {
        "ip_version": IP_VERSION,
        "dscp": DSCP,
        "payload_octets": asked.packet_octets,
        "destination": str(addresses(lab.intent)[station].of_version(IP_VERSION)),
        "port": PORT,
        "source": None,
        "source_port": None,
    }


def _heard(lab: Lab, station: str) -> Mapping[str, Any]:
    own = addresses(lab.intent)[station].of_version(IP_VERSION)
    return {"family": FAMILIES[IP_VERSION], "address": str(own), "port": PORT}
