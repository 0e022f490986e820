"""A flow through switches that others fill, over how many frames their ports hold.

It is sent at several intervals, and with the smallest of them once more in a queue of its own.
Times in rows count from the start of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.model import ClassRole, Intent
from cnc.support.format import duration, rate
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.bufferbloat.figures import APART, NAMES, TOGETHER, Point, disagreements
from cnc.testbed.experiments.bufferbloat.pictures import bufferbloat_pictures
from cnc.testbed.experiments.control_loop import queues
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.experiments.unplanned_description import BufferbloatDescription
from cnc.testbed.lab import wires
from cnc.testbed.lab.addressing import way
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.flows import Flow, JitteredFlow, cbr_period_ns, flow_of_class
from cnc.testbed.traffic.recording import Frame

COLUMNS = ("queues", "buffer", "interval_ns", *planned.FRAME_COLUMNS)
FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Bufferbloat:
    """The experiment of a file of kind bufferbloat."""

    description: BufferbloatDescription
    emulated: Intent

    @classmethod
    def of(cls, description: BufferbloatDescription, file: Path) -> Bufferbloat:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, is bridged, or has no such stations or classes.
        """
        intent = planned.routed(
            description, file, "a flow gets a queue of its own by its DSCP here"
        )
        others = (("others", name) for name in description.others)
        named = [("talker", description.talker), ("listener", description.listener), *others]
        planned.refuse_unknown_stations(intent, file, named)
        for role in (ClassRole.SCHEDULED, ClassRole.BEST_EFFORT):
            if not intent.classes_with(role):
                raise InputError(
                    f"{file}: network: {description.network} has no class of role {role}",
                    hint="the flow is of the first scheduled class, the others of best effort",
                )
        return cls(description, intent)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Send at each interval with each buffer."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        its = self.description
        ways = [(TOGETHER, each) for each in its.intervals_ns] + [(APART, its.intervals_ns[0])]
        for way_, interval_ns in ways:
            for buffer in its.buffers:
                progress(f"{NAMES[way_]}, every {duration(interval_ns)}, buffer {buffer}")
                queues.buffered(running, buffer, scheduled_first=way_ == APART)
                recording = sending.record(
                    running, self.flows(interval_ns), its.duration_ns, drain_ns=self._drain_ns
                )
                queues.remove(running)
                for row in planned.frame_rows(recording):
                    if row[0] == FLOW:
                        yield way_, buffer, interval_ns, *row

    def flows(self, interval_ns: int) -> list[Flow]:
        """The flow, and those of the others."""
        its, intent = self.description, self.emulated
        ends = its.talker, its.listener
        flow = flow_of_class(intent, ClassRole.SCHEDULED, ends, its.packet_octets, interval_ns)
        octets = its.others_packet_octets
        period_ns = cbr_period_ns(its.others_rate_bps, octets)
        pairs = [*permutations(its.others, 2)]
        evenly = (
            replace(
                flow_of_class(intent, ClassRole.BEST_EFFORT, pair, octets, period_ns),
                offset_ns=period_ns * number // len(pairs),
            )
            for number, pair in enumerate(pairs)
        )
        others = (JitteredFlow.of(each, its.jitter_ns, its.seed) for each in evenly)
        return [replace(flow, name=FLOW), *others]

    @property
    def _drain_ns(self) -> int:
        """Until the last frame of the others has left even the largest buffers."""
        its, network = self.description, self.emulated.network
        octets = max(its.others_packet_octets, its.packet_octets)
        frame_ns = max(network.occupation_ns(link, octets) for link in network.links.values())
        return sending.DRAIN_NS + its.jitter_ns + its.buffers[-1] * frame_ns * len(network.bridges)

    @property
    def longest_ns(self) -> int:
        """What a frame of the flow takes at most in a queue of its own, if it is never behind
        another of the flow: at each switch one frame of the others is just being sent."""
        its, network = self.description, self.emulated.network
        return sum(
            wires.travel_ns(network, link, its.packet_octets)
            + (link.source.node in network.bridges)
            * network.occupation_ns(link, its.others_packet_octets)
            for link in way(network, its.talker, its.listener)
        )

    def report(self, directory: Path, platform: Platform) -> Report:
        points = self._points(directory)
        wrong = disagreements(points, self.description.bound_ns, self.longest_ns)
        return Report(
            summary={
                "bound_ns": self.description.bound_ns,
                "longest_ns": self.longest_ns,
                "points": [point.document() for point in points],
            },
            sheets=[_table(points)],
            pictures=bufferbloat_pictures(points),
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _points(self, directory: Path) -> list[Point]:
        key = ("queues", "buffer", "interval_ns")
        points = []
        for (way_, buffer, interval_ns), rows in groupby(
            read_rows(directory), lambda row: tuple(row[each] for each in key)
        ):
            frames: Sequence[Frame] = [*planned.frames(rows)]
            points.append(Point.of(way_, int(buffer), int(interval_ns), frames))
            if not points[-1].latencies_ns:
                raise CncError(
                    f"{points[-1].here}: not one frame came, and there is nothing to compare",
                    hint="send for longer, or have the others send less",
                )
        return points

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        pairs = len(its.others) * (len(its.others) - 1)
        sent = (
            f"Each of {', '.join(its.others)} sends to each other, {pairs} flows of "
            f"{rate(its.others_rate_bps)} in packets of {its.others_packet_octets} octets, each "
            f"up to {duration(its.jitter_ns)} later than at a constant rate. A buffer counts the "
            "frame that is being sent. In a queue of its own the flow goes first, and the buffer "
            "is the others'."
        )
        return [sent, *not_judged(platform)]


def _table(points: Sequence[Point]) -> Sheet:
    rows = []
    for point in points:
        its = point.latency
        milliseconds = (its.min_ns, its.mean_ns, its.p99_ns, its.max_ns)
        rows.append(
            [
                *(NAMES[point.queues], f"{point.interval_ns / 1e6:g}", str(point.buffer)),
                *(f"{time_ns / 1e6:.3f}" for time_ns in milliseconds),
                f"{point.loss_percent:.1f}",
            ]
        )
    return Sheet(
        "Latency and loss of the flow",
        [
            *("queues", ">interval, ms", ">buffer", ">min, ms", ">mean, ms", ">p99, ms"),
            *(">max, ms", ">lost, %"),
        ],
        rows,
    )
