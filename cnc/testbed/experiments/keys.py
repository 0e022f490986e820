"""What the files of several kinds of experiment have in common: keys, types, rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, TypeVar

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath
from cnc.keys.units import SIZE
from cnc.keys.values import Name, integer, quantity, text
from cnc.model import ORDINARY_MTU_OCTETS

FRAMES_MAX = 10_000_000
_LEAST_PACKET_OCTETS = 54  # IPv6 and UDP headers, a flow number, a sequence number

Frames = Annotated[int, integer(1, FRAMES_MAX)]
Percent = Annotated[int, integer(1, 99, "a percentage from 1 to 99")]
Seed = Annotated[int, integer(0, 2**31 - 1)]
PacketOctets = Annotated[int, quantity(SIZE, _LEAST_PACKET_OCTETS, ORDINARY_MTU_OCTETS)]

# In the annotation of a key whose value is the path of a file; a relative one counts from the
# experiment's file.
NAMES_A_FILE = object()


class Description(Shape):
    """The keys of every experiment file; each kind adds its own."""

    kind: Annotated[str, text("[a-z-]+", "the kind of the experiment")] = Field(
        description="what is measured"
    )
    name: Name = Field(description="name of the experiment, and of the lab that it brings up")
    title: Annotated[str, text(".{1,200}", "one line of text")] = Field(
        description="one line for the report"
    )
    seed: Seed = Field(1, description="of all that is left to chance")

    @classmethod
    def file_keys(cls) -> list[str]:
        """The keys whose values are paths of files."""
        fields = cls.model_fields.values()
        return [str(its.alias) for its in fields if NAMES_A_FILE in its.metadata]

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        """What is wrong with keys together that are right each by itself: where, what is found
        there, and what was expected."""
        yield from ()


class NetworkDescription(Description):
    """A network that an intent file describes."""

    network: Annotated[str, text(".+", "the path of an intent file"), NAMES_A_FILE] = Field(
        description="path of an intent file; a relative one counts from this file"
    )


def repeated(
    path: KeyPath, values: Sequence[object], one: str
) -> Iterator[tuple[KeyPath, str, str]]:
    """What is wrong with a list in which each is to be there once; `one` of them is what it is."""
    for n, value in enumerate(values):
        if value in values[:n]:
            yield (*path, n), str(value), f"{one} that is not before it"


Rising = TypeVar("Rising", int, Decimal)


def not_rising(
    path: KeyPath, values: Sequence[Rising], written: Callable[[Rising], str]
) -> Iterator[tuple[KeyPath, str, str]]:
    """What is wrong with a list that is to go up."""
    for n, (one, other) in enumerate(pairwise(values), start=1):
        if other <= one:
            yield (*path, n), written(other), f"more than {written(one)}, which is before it"
