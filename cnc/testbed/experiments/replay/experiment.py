"""A flow that was captured, over ways with links of different rates, beside captured traffic.

Times in rows count from the start of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.model import Intent, Link
from cnc.support.format import duration, rate
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.control_loop import queues
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.experiments.replay.figures import Point, disagreements, latencies_ns, waits_ns
from cnc.testbed.experiments.replay.pictures import replay_pictures
from cnc.testbed.experiments.replay.published import TABLE_I
from cnc.testbed.experiments.unplanned_description import ReplayDescription, ReplayWay
from cnc.testbed.lab import wires
from cnc.testbed.lab.addressing import way
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.supported import mtu_octets
from cnc.testbed.traffic.replay.flow import Replay, ReplayedFlow
from cnc.testbed.traffic.replay.flow import flows as replayed

COLUMNS = ("way", "speed", *planned.FRAME_COLUMNS)
FLOW, OTHERS = "flow", "others"
BUFFER_FRAMES = 1_000  # of a port: what it holds without this experiment, too
_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Replayed:
    """The experiment of a file of kind replay."""

    description: ReplayDescription
    emulated: Intent
    file: Path

    @classmethod
    def of(cls, description: ReplayDescription, file: Path) -> Replayed:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, is bridged or has no such stations, a capture
                cannot be sent through it, or a flow and its others share no link.
        """
        intent = planned.routed(description, file, "the ports of its switches get one queue here")
        for number, its in enumerate(description.ways):
            named = [("talker", its.talker), ("listener", its.listener)]
            named += [("others", name) for name in its.others]
            planned.refuse_unknown_stations(
                intent, file, [(f"ways[{number}].{key}", name) for key, name in named]
            )
        made = cls(description, intent, file)
        for number, its in enumerate(description.ways):
            made.flows(its, Decimal(1))
            if not made.shared(its):
                raise InputError(
                    f"{file}: ways[{number}]: found no link that frames from {its.talker} to "
                    f"{its.listener} and from {its.others[0]} to {its.others[1]} both cross, "
                    "expected one"
                )
        return made

    def shared(self, its: ReplayWay) -> list[Link]:
        """The links between switches that the flow and its others cross, in their order."""
        network = self.emulated.network
        others = [*way(network, *its.others)]
        return [link for link in way(network, its.talker, its.listener) if link in others]

    def flows(self, its: ReplayWay, speed: Decimal) -> list[ReplayedFlow]:
        """The flow of a way, and its others at a speed; 0: none."""
        description = self.description
        ends = its.talker, its.listener
        found = self._replayed(FLOW, description.flow, Decimal(1), ends)
        if speed:
            found += self._replayed(OTHERS, description.capture, speed, its.others)
        return found

    def _replayed(
        self, name: str, pcap: str, speed: Decimal, ends: tuple[str, str]
    ) -> list[ReplayedFlow]:
        asked = Replay(name, self.file.parent / pcap, speed, ends, {}, 4, 0, dscp=0)
        return replayed(asked, self.emulated, mtu_octets(self.emulated))

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Send on each way, at each speed of the others."""
        queues.buffered(running, BUFFER_FRAMES, scheduled_first=False)
        write_rows(directory, COLUMNS, self._rows(running, progress))
        queues.remove(running)

    def _rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        for number, its in enumerate(self.description.ways):
            for speed in its.speeds:
                progress(f"{self._name(its)}, others at {speed} times their speed")
                recording = sending.record(
                    running,
                    self.flows(its, speed),
                    self.description.duration_ns,
                    drain_ns=self._drain_ns,
                )
                for row in planned.frame_rows(recording):
                    yield number, speed, *row

    @property
    def _drain_ns(self) -> int:
        """Until the last frame has left even full buffers."""
        network = self.emulated.network
        frame_ns = max(
            network.occupation_ns(link, mtu_octets(self.emulated))
            for link in network.links.values()
        )
        return sending.DRAIN_NS + BUFFER_FRAMES * frame_ns

    def _name(self, its: ReplayWay) -> str:
        return f"{its.talker} to {its.listener} by {rate(self._slowest(its).rate_bps)}"

    def _slowest(self, its: ReplayWay) -> Link:
        return min(self.shared(its), key=lambda link: link.rate_bps)

    def computed_ns(self, its: ReplayWay, speed: Decimal) -> list[int]:
        """How long each packet of the flow takes if it waits for the slowest link that it shares,
        in order of arrival, and for nothing else."""
        network, slowest = self.emulated.network, self._slowest(its)
        arrivals: list[tuple[int, int, bool]] = []
        takes_ns: list[int] = []
        for flow in self.flows(its, speed):
            links = [*way(network, flow.talker, flow.listener)]
            for at_ns, octets in flow.timeline.until(self.description.duration_ns):
                on_way_ns = [wires.travel_ns(network, each, octets) for each in links]
                arrives_ns = at_ns + sum(on_way_ns[: links.index(slowest)])
                lasts_ns = network.occupation_ns(slowest, octets)
                arrivals.append((arrives_ns, lasts_ns, flow.name == FLOW))
                if flow.name == FLOW:
                    takes_ns.append(sum(on_way_ns))
        waits = waits_ns(sorted(arrivals))
        return [wait_ns + each_ns for wait_ns, each_ns in zip(waits, takes_ns, strict=True)]

    def report(self, directory: Path, platform: Platform) -> Report:
        points = self._points(directory)
        wrong = [
            line
            for its in self.description.ways
            for line in disagreements(
                [point for point in points if point.way == self._name(its)],
                is_overloaded=its.overloaded,
            )
        ]
        *_, others = self.flows(self.description.ways[0], Decimal(1))
        return Report(
            summary={"points": [point.document() for point in points]},
            sheets=[_table(points)],
            pictures=replay_pictures(points, others.timeline),
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _points(self, directory: Path) -> list[Point]:
        points = []
        for (number, speed), rows in groupby(
            read_rows(directory), lambda row: (row["way"], row["speed"])
        ):
            its = self.description.ways[int(number)]
            frames = [*planned.frames(rows)]
            of_flow = [frame for frame in frames if frame.flow == FLOW]
            took_ns = latencies_ns(of_flow)
            points.append(
                Point(
                    way=self._name(its),
                    rate_bps=self._slowest(its).rate_bps,
                    speed=Decimal(speed),
                    lost=len(of_flow) - len(took_ns),
                    latencies_ns=took_ns,
                    sent_within_ns=max(frame.sent_ns - frame.planned_ns for frame in frames),
                    computed_ns=self.computed_ns(its, Decimal(speed)),
                )
            )
            if not took_ns:
                raise CncError(
                    f"{points[-1].here}: not one frame came, and there is nothing to compare",
                    hint="send for longer",
                )
        return points

    def _remarks(self, platform: Platform) -> list[str]:
        its = self.description
        sent = (
            f"{Path(its.flow).name} is replayed for {duration(its.duration_ns)} on each way, and "
            f"{Path(its.capture).name} beside it at the speed that a row says. Each port of a "
            f"switch has one queue for {BUFFER_FRAMES:,} frames. Computed is how long frames take "
            "that wait in order of arrival for the slowest link, and for nothing else."
        )
        return [sent, *not_judged(platform)]


def _table(points: Sequence[Point]) -> Sheet:
    rows = []
    for point in points:
        its = point.latency
        computed_ns = sum(point.computed_ns) / len(point.computed_ns)
        measured = (its.min_ns, its.max_ns, its.mean_ns, point.deviation_ns, computed_ns)
        paper = TABLE_I.get((point.rate_bps, point.speed))
        rows.append(
            [
                *(rate(point.rate_bps), f"{point.speed}×" if point.speed else "none"),  # noqa: RUF001
                *(f"{time_ns / 1e6:.3f}" for time_ns in measured),
                " / ".join(f"{each:g}" for each in paper) if paper else _NOTHING,
                *(str(point.sent_within_ns), str(point.lost)),
            ]
        )
    return Sheet(
        "Latency of the flow over the slowest link and the speed of the others",
        [
            *("slowest link", "others", ">min, ms", ">max, ms", ">mean, ms", ">deviation, ms"),
            *(">computed mean, ms", ">in the paper", ">sent within, ns", ">lost"),
        ],
        rows,
    )
