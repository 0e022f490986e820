"""What a mechanism is on the controller: one way in which the kernel treats frames, as a folder of
`cnc.mechanisms` and a line in its registry. It knows no other mechanism, and the rooms that roll
out, compare and report know none: they ask all of `MECHANISMS`.

What is asked of a switch's bridge is a part of `BridgeForwarding`, of a type of the mechanism's
own. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from cnc.mechanisms.handles import Handles, KnownStream
from cnc.model import Parts, Plan, StreamAddress
from cnc.support.wording import named

if TYPE_CHECKING:
    from cnc.mechanisms.composition import Reply
    from cnc.switch.counters import PortCounters
    from cnc.switch.reply import Element
    from cnc.switch.tree import BridgeReport

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


class Edit(NamedTuple):
    """What the parts of an edit have in common: the base time of what is done by the clock, the
    handles of all streams that tables refer to, and the `tables` that are stored, whole."""

    base_time_ns: int
    handles: Handles
    tables: Parts


class Stored(NamedTuple):
    """What is configured of a bridge: the part that a rollout could have set, and the whole table,
    of a type of the mechanism's own, which an edit gets; None: an edit needs none."""

    part: Any
    table: object = None


@dataclass(frozen=True, slots=True)
class IdentityTable(Generic[_Part]):
    """The table in which streams have handles (`cnc.mechanisms.handles`).

    `edit` has the elements that set these parts, name the streams of these addresses at these
    ports, and remove what is stored beside them in the VLANs. `known` has by handle the streams
    that tables may refer to.
    """

    edit: Callable[
        [
            Collection[_Part],
            Mapping[StreamAddress, tuple[str, ...]],
            Collection[int],
            Parts,
        ],
        tuple[list[Element], Handles],
    ]
    known: Callable[[Reply], Mapping[int, KnownStream]]


@dataclass(frozen=True, slots=True)
class Tree(Generic[_Part]):
    """How a part is set and read in the YANG data tree of a switch.

    `filters` are subtree filters of what stands beside the bridges, `port_statistics` of what it
    has in the statistics of an interface. `stored` reads the configuration of a bridge's component,
    None: the bridge has none, but its switch may have entries in the table. `reported` adds to a
    report what the kernel does in a component, `counted` to the counters of a port those of an
    interface. `edit` are the elements of the whole switch that set the parts of its bridges, and
    `edit_bridge` those of a component that set the first part, where the second is stored; both
    remove what is stored beside them, and leave what others have. `streams` is of the one mechanism
    that `names_streams`.
    """

    stored: Callable[[Reply, Element | None], Stored]
    reported: Callable[[BridgeReport, Reply, Element], BridgeReport]
    filters: Callable[[], list[Element]] = list
    port_statistics: Callable[[], list[Element]] = list
    counted: Callable[[PortCounters, Reply, Element], PortCounters] = (
        lambda counters, _reply, _interface: counters
    )
    edit: Callable[[Collection[_Part], Edit], list[Element]] = lambda _parts, _edit: []
    edit_bridge: Callable[[_Part, _Part, Edit], list[Element]] = lambda _part, _stored, _edit: []
    streams: IdentityTable[_Part] | None = None


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
    so many of what, for a table's cell. `tree` is called when a switch is asked or told something:
    it imports what takes long to import."""

    name: str
    part: type[_Part]
    planned: Planned[_Part]
    changed: Changed[_Part]
    switch: Switch[_Part]
    kept: Kept[_Part]
    tree: Callable[[], Tree[_Part]]
    summary: Callable[[_Part], Iterator[tuple[int, str]]] = field(default=lambda _part: iter(()))
