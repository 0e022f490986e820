"""Flows through a chain of components: what comes to its end, and where its time goes.

Each component has a process for each flow. Rows have every message at every component; times in
them count from the instant at which the first component has it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.errors import InputError
from cnc.model import Intent
from cnc.support.format import counted
from cnc.testbed.experiments import pictures, planned, sending
from cnc.testbed.experiments.chain.description import BACKWARD, ChainDescription
from cnc.testbed.experiments.characterizer import network
from cnc.testbed.experiments.experiment import (
    Picture,
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.lab import wires
from cnc.testbed.lab.addressing import way
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.chain import roles
from cnc.testbed.traffic.chain.run import Chained, ChainFlow, Component, Loss, Passed, run
from cnc.testbed.traffic.measure import Spread, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("flow", "component", "seq", "received_ns", "left_ns", "value")
MS_PER_NS = 1e-6
_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Chain:
    """The experiment of a file of kind chain."""

    description: ChainDescription
    emulated: Intent
    chained: Chained

    @classmethod
    def of(cls, description: ChainDescription, file: Path) -> Chain:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, is bridged, has no such stations, or cannot
                carry the flows.
        """
        intent = planned.routed(description, file, "messages are packets to an address")
        named = [
            (f"components[{n}].station", each.station)
            for n, each in enumerate(description.components)
        ]
        planned.refuse_unknown_stations(intent, file, named)
        if apart := network.cut_off(intent.network, [*{name for _, name in named}]):
            raise InputError(
                f"{file}: network: {apart[0]} cannot reach {apart[1]}",
                hint="each of them is to reach each other one",
            )
        chained = Chained(
            chain=[Component(**each.model_dump()) for each in description.components],
            flows=[*_flows(description)],
            duration_ns=description.duration_ns,
            seed=description.seed,
            modules=file.parent,
        )
        for link, load in network.overloaded(intent.network, chained.links(intent)):
            raise InputError(
                f"{file}: flows: they are {load:.0%} of what {link.source.node}/{link.source.port} "
                "carries",
                hint="less than 100 %, or a queue grows for as long as they are sent",
            )
        return cls(description, intent, chained)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Send all flows at once."""
        progress(f"{counted(len(self.chained.flows), 'flow')} through {self._components}")
        with tempfile.TemporaryDirectory() as scratch, running.quiet():
            passed = run(running, self.chained, Path(scratch))
        write_rows(directory, COLUMNS, ([*asdict(each).values()] for each in passed))

    @property
    def _components(self) -> str:
        return counted(len(self.chained.chain), "component")

    def report(self, directory: Path, platform: Platform) -> Report:
        flows = [*self._came(directory)]
        wrong = [why for each in flows if (why := each.disagreement)]
        return Report(
            summary={"flows": [each.document() for each in flows]},
            sheets=[_ends(flows), _components(flows, self.chained.chain)],
            pictures=[
                Picture("latencies", "How long each message took through the chain.", _draw(flows))
            ],
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _came(self, directory: Path) -> Iterator[Came]:
        rows: dict[str, list[Passed]] = {flow.name: [] for flow in self.chained.flows}
        for row in read_rows(directory):
            rows[row["flow"]].append(_passed(row))
        for flow in self.chained.flows:
            yield Came(
                flow,
                self.chained.messages(flow),
                rows[flow.name],
                self._idle_ns(flow),
                self.chained,
            )

    def _idle_ns(self, flow: ChainFlow) -> int:
        """How long a message takes where no other is sent, as modelled; reading clocks takes
        longer."""
        its = flow.way(self.chained.chain)
        net = self.emulated.network
        links = sum(
            wires.travel_ns(net, link, flow.packet_octets)
            for one, other in pairwise(its)
            if one.station != other.station
            for link in way(net, one.station, other.station)
        )
        return links + sum(each.work_ns for each in its[:-1])

    def _remarks(self, platform: Platform) -> list[str]:
        said = (
            "Each flow has a process of its own in each component. A message is one packet; where "
            "two components share a station it does not leave that. What a component computes is "
            "a sleep: in virtual time computing takes none."
        )
        return [said, *not_judged(platform)]


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a flow."""

    flow: ChainFlow
    messages: int
    passed: Sequence[Passed]
    idle_ns: int
    chained: Chained

    @property
    def at_the_end(self) -> list[Passed]:
        return self.at(self.flow.way(self.chained.chain)[-1].role)

    def at(self, role: str) -> list[Passed]:
        """The messages that were at a component."""
        return [each for each in self.passed if each.role == role]

    @property
    def latency(self) -> Spread | None:
        """From the instant of a message until it came to the last component."""
        came_ns = [each.received_ns for each in self.at_the_end if each.received_ns is not None]
        return spread(came_ns) if came_ns else None

    @property
    def lost(self) -> int:
        return self.messages - len(self.at_the_end)

    @property
    def to_be_lost(self) -> int | None:
        """How many messages are not to come to the end; None: what is lost is predicted on from
        there, once there is a message to predict from."""
        loss = self.flow.loss
        if loss is None:
            return 0
        named = [each.role for each in self.flow.way(self.chained.chain)]
        behind = named[named.index(loss.at) : -1]
        work = roles.WORK[self.flow.name]
        if self.flow.predict_after_ns is not None and any(
            roles.PREDICT in work.get(role, ()) for role in behind
        ):
            return None
        return len(self.flow.lost(loss.at, self.messages, self.chained.seed))

    @property
    def disagreement(self) -> str | None:
        """What is not as the file says, if anything."""
        expected = self.to_be_lost
        if expected is None or self.lost == expected:
            return None
        of = counted(self.messages, "message")
        return f"{self.flow.name}: {self.lost} of {of} lost, and {expected} were to be"

    def document(self) -> dict[str, object]:
        return {
            "flow": self.flow.name,
            "messages": self.messages,
            "lost": self.lost,
            "idle_ns": self.idle_ns,
            "latency": self.latency and asdict(self.latency),
        }


def _flows(description: ChainDescription) -> Iterator[ChainFlow]:
    for name, its in description.flows.by_name.items():
        yield ChainFlow(
            name=name,
            is_backward=its.direction == BACKWARD,
            interval_ns=its.interval_ns,
            packet_octets=its.packet_octets,
            functions=its.functions,
            predict_after_ns=its.predict_after_ns,
            loss=Loss(its.loss.at, its.loss.percent) if its.loss else None,
        )


def _passed(row: Mapping[str, str]) -> Passed:
    received, left = row["received_ns"], row["left_ns"]
    return Passed(
        flow=row["flow"],
        role=row["component"],
        seq=int(row["seq"]),
        received_ns=int(received) if received else None,
        left_ns=int(left) if left else None,
        value=row["value"],
    )


def _ends(flows: Sequence[Came]) -> Sheet:
    rows = []
    for each in flows:
        its = each.latency
        times = (
            [_NOTHING] * 3 if its is None else [*map(_ms, (its.min_ns, its.mean_ns, its.max_ns))]
        )
        direction = BACKWARD if each.flow.is_backward else "forward"
        rows.append(
            [
                *(each.flow.name, direction, str(each.messages), str(each.lost)),
                *(_ms(each.idle_ns), *times),
            ]
        )
    return Sheet(
        "Flows, from one end of the chain to the other",
        [
            *("flow", "direction", ">messages", ">lost", ">idle network, ms"),
            *(">min, ms", ">mean, ms", ">max, ms"),
        ],
        rows,
    )


def _components(flows: Sequence[Came], chain: Sequence[Component]) -> Sheet:
    """When messages come to each component on average."""
    rows = []
    for component in chain:
        cells = []
        for each in flows:
            came_ns = [
                it.received_ns for it in each.at(component.role) if it.received_ns is not None
            ]
            cells.append(_ms(sum(came_ns) / len(came_ns)) if came_ns else _NOTHING)
        rows.append([component.role, component.station, *cells])
    names = (f">{each.flow.name}, ms" for each in flows)
    return Sheet("When messages come to each component, mean", ["component", "on", *names], rows)


def _ms(time_ns: float) -> str:
    return f"{time_ns * MS_PER_NS:.4f}"


def _draw(flows: Sequence[Came]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for each in flows:
            came = [it for it in each.at_the_end if it.received_ns is not None]
            axes.plot(
                [it.seq * each.flow.interval_ns * MS_PER_NS for it in came],
                [(it.received_ns or 0) * MS_PER_NS for it in came],
                ".",
                markersize=3,
                label=each.flow.name,
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time, ms")
        axes.set_ylabel("latency, ms")
        pictures.legend_above(axes, columns_max=4)

    return draw
