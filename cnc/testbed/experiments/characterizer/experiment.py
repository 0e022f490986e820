"""Where the time of a command goes, asked by echo commands.

A test PC asks the entry and exit of each component on the way of a command how far they are away.
The difference of an exit and its entry is the component's work, that of an entry and the exit
before it the link between; what all of them take alike is in none. Then the work of one component
is set to known values, and measured beside others that send. The network has no schedule. Times in
rows count from the start of each run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cnc.errors import InputError
from cnc.model import Intent
from cnc.support.format import duration, rate
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.characterizer import network, sheets
from cnc.testbed.experiments.characterizer.description import (
    AccuracyShape,
    CharacterizerDescription,
)
from cnc.testbed.experiments.characterizer.figures import Accuracy, Run, chain_disagreements, run_of
from cnc.testbed.experiments.characterizer.pictures import characterizer_pictures
from cnc.testbed.experiments.experiment import Progress, Report, not_judged, read_rows, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.echo import run
from cnc.testbed.traffic.echo.chain import Component, EchoPoint, echo_points
from cnc.testbed.traffic.echo.run import Asked, Echo
from cnc.testbed.traffic.echo.sampling import CONFIDENCE, WITHIN, Sampling
from cnc.testbed.traffic.flows import Flow

COLUMNS = ("work_ns", "rate_bps", "round", "point", "sent_ns", "received_ns")

Key = tuple[int | None, int]  # work that is set, or None: all as it is; rate of other frames


@dataclass(frozen=True, slots=True)
class Characterizer:
    """The experiment of a file of kind characterizer."""

    description: CharacterizerDescription
    emulated: Intent
    chain: Sequence[Component]

    @classmethod
    def of(cls, description: CharacterizerDescription, file: Path) -> Characterizer:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, is bridged, has no such stations, or cannot
                carry the other frames.
        """
        intent = planned.routed(description, file, "echo commands are packets to an address")
        _check_stations(description, intent, file)
        if description.accuracy:
            _check_loads(description, description.accuracy, intent, file)
        chain = [
            Component(each.name, each.station, each.work_ns, each.hold_until_moved_ns)
            for each in description.components
        ]
        return cls(description, intent, chain)

    @property
    def keys(self) -> list[Key]:
        """The runs: the chain as it is, then each work that is set beside each rate."""
        accuracy = self.description.accuracy
        if accuracy is None:
            return [(None, 0)]
        return [
            (None, 0),
            *((work_ns, each) for each in accuracy.rates_bps for work_ns in accuracy.works_ns),
        ]

    def asked(self, key: Key) -> tuple[Sequence[Component], Sequence[EchoPoint]]:
        """The chain of a run, and the echo points that are asked of it: all, or the entry and exit
        of the component whose work is set."""
        work_ns, _ = key
        accuracy = self.description.accuracy
        if work_ns is None or accuracy is None:
            return self.chain, echo_points(self.chain)
        chain = [
            replace(each, work_ns=work_ns) if each.name == accuracy.component else each
            for each in self.chain
        ]
        points = [
            point
            for point in echo_points(chain)
            if point.component.name == accuracy.component and point.exit_number <= 1
        ]
        return chain, points

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Ask the chain, and then the component whose work is set."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[list[object]]:
        for number, key in enumerate(self.keys):
            work_ns, rate_bps = key
            progress(
                f"a work of {duration(work_ns)} beside {rate(rate_bps)}"
                if work_ns
                else "each component"
            )
            with tempfile.TemporaryDirectory() as scratch, running.quiet():
                echoes = run.run(
                    running,
                    self._asked(key),
                    Path(scratch),
                    number=number,
                    others=self._others(rate_bps),
                )
            for echo in echoes:
                yield [*key, echo.round, echo.point, echo.sent_ns, echo.received_ns]

    def _asked(self, key: Key) -> Asked:
        its = self.description
        chain, points = self.asked(key)
        return Asked(
            test_pc=its.test_pc,
            chain=chain,
            points=points,
            packet_octets=its.packet_octets,
            interval_ns=its.interval_ns,
            least=its.least,
            most=its.most,
            seed=its.seed,
        )

    def _others(self, rate_bps: int) -> list[Flow]:
        accuracy = self.description.accuracy
        if accuracy is None:
            return []
        return network.others(
            self.emulated,
            accuracy.stations,
            rate_bps,
            accuracy.packet_octets,
            self.description.seed,
        )

    def report(self, directory: Path, platform: Platform) -> Report:
        by_key: dict[Key, list[Echo]] = {key: [] for key in self.keys}
        for row in read_rows(directory):
            by_key[_key(row)].append(_echo(row))
        runs = {key: self._run(key, echoes) for key, echoes in by_key.items()}
        run_of_chain = runs.pop((None, 0))
        study = [
            Accuracy(its.points[0].component, rate_bps, its) for (_, rate_bps), its in runs.items()
        ]
        wrong = chain_disagreements(run_of_chain)
        for each in study:
            wrong += each.disagreements()
        return Report(
            summary={
                "components": run_of_chain.document(),
                "accuracy": [each.document() for each in study],
            },
            sheets=[
                sheets.echo_points_sheet(run_of_chain),
                *([sheets.accuracy_sheet(study)] if study else []),
            ],
            pictures=characterizer_pictures(run_of_chain, study),
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform, run_of_chain, study),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _run(self, key: Key, echoes: Sequence[Echo]) -> Run:
        _, points = self.asked(key)
        its = self.description
        sampling = Sampling(len(points), its.least, its.most)
        return run_of(self.emulated.network, its.packet_octets, points, echoes, sampling)

    def _remarks(self, platform: Platform, chain: Run, study: Sequence[Accuracy]) -> list[str]:
        sampled = (
            "Echo points are asked in turn, each once a round, at random instants. After "
            f"{self.description.least} rounds sampling ends as soon as the mean of each difference "
            f"is known within {WITHIN:.0%} at {CONFIDENCE:.0%} confidence. N counts the rounds in "
            "which no echo was lost."
        )
        way = (
            "Echoes return by the same path, so a link counts twice. Work is a sleep: in virtual "
            "time computing takes none."
        )
        remarks = [sampled, way]
        named = [("components", chain), *((each.here, each.run) for each in study)]
        for here, its in named:
            remarks += [f"{here}: {its.short}."] if its.short else []
            remarks += [f"{here}: {its.lost_echoes}."] if its.lost else []
        remarks += not_judged(platform)
        return remarks


def _check_stations(description: CharacterizerDescription, intent: Intent, file: Path) -> None:
    """Raise InputError if a station is not there, has two parts, or cannot be reached."""
    components, accuracy = description.components, description.accuracy
    others = accuracy.stations if accuracy else ()
    named = [
        ("test-pc", description.test_pc),
        *((f"components[{n}].station", each.station) for n, each in enumerate(components)),
        *((f"accuracy.stations[{n}]", each) for n, each in enumerate(others)),
    ]
    planned.refuse_unknown_stations(intent, file, named)
    taken: dict[str, str] = {}
    for key, name in named:
        if name in taken:
            raise InputError(
                f"{file}: {key}: found {name!r}, which is {taken[name]} already",
                hint="test PC, components and other talkers have a station each, lest they wait "
                "for each other",
            )
        taken[name] = key
    if apart := network.cut_off(intent.network, [*taken]):
        raise InputError(
            f"{file}: network: {apart[0]} cannot reach {apart[1]}",
            hint="each of them is to reach each other one",
        )


def _check_loads(
    description: CharacterizerDescription, accuracy: AccuracyShape, intent: Intent, file: Path
) -> None:
    """Raise InputError if a queue would grow for as long as others send."""
    for n, rate_bps in enumerate(accuracy.rates_bps):
        flows = network.others(
            intent, accuracy.stations, rate_bps, accuracy.packet_octets, description.seed
        )
        for link, load in network.overloaded(intent.network, flows):
            raise InputError(
                f"{file}: accuracy.rates[{n}]: {rate(rate_bps)} from each station to each other "
                f"one is {load:.0%} of what {link.source.node}/{link.source.port} carries",
                hint="less than 100 %, or a queue grows for as long as they send",
            )


def _key(row: Mapping[str, str]) -> Key:
    return int(row["work_ns"]) if row["work_ns"] else None, int(row["rate_bps"])


def _echo(row: Mapping[str, str]) -> Echo:
    received = row["received_ns"]
    return Echo(
        round=int(row["round"]),
        point=int(row["point"]),
        sent_ns=int(row["sent_ns"]),
        received_ns=int(received) if received else None,
    )
