"""The file of a latency characterizer: its keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath, one_of, shown
from cnc.keys.units import DURATION, RATE
from cnc.keys.values import Name, integer, quantity, text
from cnc.model import NS_PER_S
from cnc.testbed.experiments.keys import NetworkDescription, PacketOctets, not_rising

INTERLEAVED = "interleaved"
_WHY_INTERLEAVED = (
    f"{INTERLEAVED}: in batches, what drifts from one to the next would be read as latency"
)
# A difference that is none has no relative error.
Work = Annotated[int, quantity(DURATION, 1_000, NS_PER_S)]


class ComponentShape(Shape):
    """A component of the chain that a command passes."""

    name: Name = Field(description="what its echo points are called by")
    station: Name = Field(description="the end station that it runs on, alone")
    work_ns: Work = Field(description="from the arrival of a command until it leaves, slept")
    hold_until_moved_ns: Work | None = Field(
        None,
        description="how long after that its actuator has moved, until when the echo of its second "
        "exit is held; default: it has no actuator",
    )


class AccuracyShape(Shape):
    """How exactly a component's work is measured, beside other frames."""

    component: Name = Field(description="the one whose work is set")
    works_ns: list[Work] = Field(min_length=1, description="what it is set to, from the least on")
    rates_bps: list[Annotated[int, quantity(RATE)]] = Field(
        min_length=1,
        description="of the other frames from each of the stations to each other one, from the "
        "least on",
    )
    stations: list[Name] = Field(min_length=2, description="which send them")
    packet_octets: PacketOctets = Field(description="an IP packet of them with its headers")


class CharacterizerDescription(NetworkDescription):
    """Where the time of a command goes: components of a chain and the links between, measured by
    echo commands of a test PC."""

    test_pc: Name = Field(description="the end station that asks")
    components: list[ComponentShape] = Field(
        min_length=1, description="in the order in which a command passes them"
    )
    packet_octets: PacketOctets = Field(description="an IP packet of a command, and of its echo")
    order: Annotated[str, text(INTERLEAVED, _WHY_INTERLEAVED)] = Field(
        INTERLEAVED, description="in which echo points are asked: in turn, each once a round"
    )
    interval_ns: Work = Field(description="between commands, on average")
    least: Annotated[int, integer(30, 100_000)] = Field(
        description="rounds, however alike they are"
    )
    most: Annotated[int, integer(30, 100_000)] = Field(
        description="rounds, however far they are apart"
    )
    accuracy: AccuracyShape | None = Field(
        None, description="the study of what differences are worth; default: there is none"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        if self.most < self.least:
            yield ("most",), str(self.most), f"at least {self.least}, which is `least`"
        for key in ("name", "station"):
            values = [getattr(each, key) for each in self.components]
            for n, value in enumerate(values):
                if value in values[:n]:
                    yield ("components", n, key), shown(value), f"a {key} that is not before it"
        if accuracy := self.accuracy:
            names = [each.name for each in self.components]
            if accuracy.component not in names:
                expected = one_of(names, accuracy.component)
                yield ("accuracy", "component"), shown(accuracy.component), expected
            yield from not_rising(("accuracy", "works"), accuracy.works_ns, DURATION.format)
            yield from not_rising(("accuracy", "rates"), accuracy.rates_bps, RATE.format)
