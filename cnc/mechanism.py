"""What a mechanism is on the controller: one way in which the kernel treats frames, as a folder of
`cnc.mechanisms` and a line in its registry. It knows no other mechanism, and the rooms that roll
out, compare and report know none: they ask all of `MECHANISMS`.

What is asked of a switch's bridge is a part of `BridgeForwarding`, of a type of the mechanism's
own. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from cnc.model import Bridge, EndStation, Intent, Plan, Stream, StreamAddress
from cnc.support.wording import named

if TYPE_CHECKING:
    from cnc.intent import shape
    from cnc.intent.mapping import Shape
    from cnc.intent.problems import Problems

_Part = TypeVar("_Part")

Whose = Literal["configuration", "kernel"]
"""Of which of the two differences speak: what a rollout would change, or what the kernel does."""

Names = Mapping[StreamAddress, str]
"""The streams of addresses, as far as they are known, for messages."""


def described(address: StreamAddress, names: Names) -> str:
    """The stream of an address, and what its frames are known by."""
    what = f"{address.destination_mac}, VLAN {address.vlan_id}"
    return f"{names[address]} ({what})" if address in names else what


def streams_in_words(addresses: Collection[StreamAddress], names: Names) -> str:
    """These streams by name, or by address."""
    return named(names.get(each, str(each)) for each in sorted(addresses, key=str))


class Needs(NamedTuple):
    """What a switch cannot do without something, and what an operator states to do without it."""

    task: str
    otherwise: str


class Level(Enum):
    """Of what in an intent a mechanism may have keys, or another room."""

    NETWORK = auto()
    DEFAULTS = auto()
    CLASS = auto()
    SWITCH = auto()
    END_STATION = auto()
    LINK = auto()
    STREAM = auto()


@dataclass(frozen=True, slots=True)
class Keys:
    """What of an intent is a mechanism's, or another room's.

    `shapes` have its keys: `document[Shape]` reads those of the network, and so on. `read` are the
    parts of an intent that a document states; what is wrong with one by itself is added to the
    problems. `of_switch`, `of_station` and `of_stream` are the same with what is stated of them
    here. `check` adds to the problems what does not fit together, once all is read. `founding` are
    the parts that a plan is made from, by what they are called where two plans are compared.
    """

    shapes: Mapping[Level, type[Shape]]
    read: Callable[[shape.Document, Problems], Iterable[object]] = lambda _document, _problems: ()
    of_switch: Callable[[Bridge, shape.Switch], Bridge] = lambda bridge, _its: bridge
    of_station: Callable[[EndStation, shape.EndStation, shape.Document], EndStation] = (
        lambda station, _its, _document: station
    )
    of_stream: Callable[[Stream, shape.Stream, shape.Document], Stream] = (
        lambda stream, _its, _document: stream
    )
    check: Callable[[shape.Document, Intent, Problems], None] = lambda _document, _its, _found: None
    founding: Mapping[str, type[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned(Generic[_Part]):
    """What follows from a plan.

    `derive` has by switch the part that a plan asks of it, for those that are named; switches that
    it asks nothing of may be left out. `beside` has by switch what stays of a former plan's parts
    beside those of a plan. `known_by` is by what switches know the frames of a stream that its
    talker does not address, None: it does. `exposed` says why frames of a stream that keeps its
    address from one plan (the first) to the next may be lost; None: they are not. `cycles_ns` are
    the periods of what a part does by the clock.
    """

    derive: Callable[[Plan, Collection[str]], Mapping[str, _Part]]
    beside: Callable[[Plan, Mapping[str, _Part]], Mapping[str, _Part]] = lambda _plan, former: (
        former
    )
    known_by: Callable[[Plan, str], object] = lambda _plan, _stream: None
    exposed: Callable[[Plan, Plan, str], str | None] = lambda _former, _plan, _stream: None
    cycles_ns: Callable[[_Part], Iterator[int]] = lambda _part: iter(())


@dataclass(frozen=True, slots=True)
class Changed(Generic[_Part]):
    """From one part to the next.

    `within` is what of a part belongs to these VLANs: the rest is not a rollout's. `differences`
    are those of the first part, which is desired, from the second, in words. `joined` is what a
    switch is told while the first and the part of a former plan are both needed. `on_ports` is what
    is possible where a bridge has these ports alone, `of_streams` what these streams need.
    `while_clock_settles` is what the kernel does while it may not act by the clock.
    """

    within: Callable[[_Part, Collection[int]], _Part]
    differences: Callable[[_Part, _Part, Whose, Names], Iterator[str]]
    joined: Callable[[_Part, _Part], _Part]
    on_ports: Callable[[_Part, frozenset[str]], _Part]
    of_streams: Callable[[_Part, Collection[StreamAddress]], _Part]
    while_clock_settles: Callable[[_Part], _Part] = lambda part: part


@dataclass(frozen=True, slots=True)
class Switch(Generic[_Part]):
    """What a switch needs for it.

    `modules` are YANG modules, without the first of which that is missing it can do nothing;
    `kernel` and `yang` say what it then cannot do. `concerned` says whom a part is about, in words.
    `refers_to` are the streams that it names in the table of stream identities by the address their
    frames come in with, with the ports, unless the switch has `identified` them; `identifies` are
    those which it identifies itself. `names_streams`: the table is its own, and names
    streams for the others.
    """

    modules: tuple[str, ...]
    kernel: Needs
    yang: Needs
    concerned: Callable[[_Part, Names], str]
    refers_to: Callable[
        [_Part, Collection[StreamAddress]], Mapping[StreamAddress, Collection[str]]
    ] = lambda _part, _identified: {}
    identifies: Callable[[_Part], Collection[StreamAddress]] = lambda _part: ()
    names_streams: bool = False


@dataclass(frozen=True, slots=True)
class Kept(Generic[_Part]):
    """How a part is written into the history: `key` of a change, `row` the type of its rows."""

    key: str
    row: type[Any]
    rows: Callable[[_Part], Iterator[Any]]
    part: Callable[[tuple[Any, ...]], _Part]


@dataclass(frozen=True, slots=True)
class Mechanism(Generic[_Part]):
    """One mechanism; `name` is that of the agent's folder, `summary` counts what a part asks for:
    so many of what, for a table's cell. `keys` is called where intents are read, since what it
    imports is not light."""

    name: str
    part: type[_Part]
    planned: Planned[_Part]
    changed: Changed[_Part]
    switch: Switch[_Part]
    kept: Kept[_Part]
    keys: Callable[[], Keys]
    summary: Callable[[_Part], Iterator[tuple[int, str]]] = field(default=lambda _part: iter(()))
