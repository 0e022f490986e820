"""What a mechanism is on the controller: one way in which the kernel treats frames, as a folder of
`cnc.mechanisms` and a line in its registry. It knows no other mechanism, and the rooms that roll
out, compare and report know none: they ask all of `MECHANISMS`.

What is asked of a switch's bridge is a part of `BridgeForwarding`, of a type of the mechanism's
own. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from cnc.keys.keys import Keys
from cnc.mechanisms.handles import Handles, KnownStream, NamedAt
from cnc.model import (
    BridgeForwarding,
    GateControlList,
    GivenWindow,
    Intent,
    Link,
    Parts,
    Plan,
    PortRef,
    PortSettings,
    PriorityAddress,
    StoredPort,
    Stream,
    StreamAddress,
    StreamPlan,
)
from cnc.support.wording import named

if TYPE_CHECKING:
    from cnc.account.judge import Judge
    from cnc.data_tree.counters import PortCounters
    from cnc.data_tree.reply import Element, Reply
    from cnc.data_tree.state import SwitchState
    from cnc.data_tree.stated import StatedPorts
    from cnc.data_tree.tree import AgentReport, BridgeReport, PortReport
    from cnc.finding import Check, Finding

_Part = TypeVar("_Part")
_Row = TypeVar("_Row")

Whose = Literal["configuration", "kernel"]
"""Of which of the two differences speak: what a rollout would change, or what the kernel does."""

Names = Mapping[StreamAddress, str]
"""The streams of addresses, as far as they are known, for messages."""


def stream_of(address: StreamAddress, names: Names) -> str | None:
    """The stream of an address, or those that share it; of frames of one priority alone their own.
    None: it is not known."""
    found = names.get(address)
    if found is None and isinstance(address, PriorityAddress):
        return names.get(address.shared)
    return found


def described(address: StreamAddress, names: Names) -> str:
    """The stream of an address, and what its frames are known by."""
    what = f"{address.destination_mac}, VLAN {address.vlan_id}"
    if isinstance(address, PriorityAddress) and address in names:
        what += f", PCP {address.priority}"
    name = stream_of(address, names)
    return what if name is None else f"{name} ({what})"


def streams_in_words(addresses: Collection[StreamAddress], names: Names) -> str:
    """These streams by name, or by address."""
    return named(names.get(each, str(each)) for each in sorted(addresses, key=str))


class Needs(NamedTuple):
    """What a switch cannot do without something, and what an operator states to do without it."""

    task: str
    otherwise: str


class SinceRevision(NamedTuple):
    """What a YANG module has from this revision on, and what a switch cannot do without it."""

    module: str
    revision: str
    node: str
    needs: Needs


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


class Start(NamedTuple):
    """Frames of a stream, of a class, come from its talker over a link, by its number."""

    stream: str
    class_name: str
    link: int


class Room(Protocol):
    """What the switches of a network still have room for while streams come and go."""

    def refused(self, starts: Collection[Start]) -> Mapping[str, str]:
        """The streams for which there is none, and why."""
        ...

    def add(self, starts: Collection[Start]) -> None:
        """Count streams that come."""
        ...

    def remove(self, starts: Collection[Start]) -> None:
        """Count no longer streams that are gone."""
        ...


class Admitted(NamedTuple):
    """The streams that have a place without a planned instant, and why others have none."""

    streams: Mapping[str, StreamPlan]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Admission:
    """What a plan allows for the mechanism. The judge computes it by itself.

    `added_octets` is what the first switch puts before the payload of a stream's frames, and the
    last one takes away, and `added_name` what that is. `may_drop`: the first switch may drop frames
    of a stream, in one of these classes, that come otherwise than planned. `lists` are the gate
    control lists that an operator gives: by those ports no stream has a way, but where these follow
    from `windows`, beside which it may leave. `impossible` is why it cannot do that to frames that
    come over a link from the talker, within a shared window of so many ns if that is not 0,
    `refused` by switch why a plan cannot be; `room` is the same while streams come and go, for
    links by their numbers. `admits` has which streams of cyclic classes have a place on these ways,
    trees of ports, those first that come first, such that no bound of those rises to whom some
    latency is promised; `serves` the same of classes that have what the lists of ports leave them,
    beside what was `decided` of those that run already.
    A hook that is None does nothing.
    """

    added_octets: Callable[[Stream], int] | None = None
    added_name: str = ""
    lists: Callable[[Intent], Mapping[PortRef, GateControlList]] = lambda _intent: {}
    windows: Callable[[Intent], Mapping[PortRef, tuple[GivenWindow, ...]]] = lambda _intent: {}
    may_drop: Callable[[Intent, str, Collection[str]], bool] | None = None
    impossible: Callable[[Intent, Stream, Link, int], str | None] | None = None
    refused: Callable[[Plan], Mapping[str, str]] = lambda _plan: {}
    admits: (
        Callable[[Intent, Mapping[str, Sequence[Sequence[PortRef]]], Mapping[str, int]], Admitted]
        | None
    ) = None
    room: Callable[[Intent, Collection[Link]], Room] | None = None
    serves: (
        Callable[
            [
                Intent,
                Mapping[str, Sequence[Sequence[PortRef]]],
                Mapping[PortRef, GateControlList],
                Mapping[str, int],
                Parts,
            ],
            Admitted,
        ]
        | None
    ) = None


_NOTHING_ALLOWED = Admission()


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
    frames come in with, unless the switch has `identified` them, each with sets of ports: at those
    of one set a stream has one handle, at those of two sets it may have two; `identifies` are
    those which it identifies itself. `names_streams`: the table is its own, and names
    streams for the others. `program` is that of the kernel which does it, in words, where no
    hardware can. `since` is what a part needs of modules that older agents have without
    it. `preflight` is what prevents it on a bridge, a device of this name, of which more may be
    asked, and what to do about that.
    """

    modules: tuple[str, ...]
    kernel: Needs
    yang: Needs
    concerned: Callable[[_Part, Names], str]
    refers_to: Callable[
        [_Part, Collection[StreamAddress]], Mapping[StreamAddress, Collection[frozenset[str]]]
    ] = lambda _part, _identified: {}
    identifies: Callable[[_Part], Collection[StreamAddress]] = lambda _part: ()
    names_streams: bool = False
    program: str = ""
    since: Callable[[_Part], Iterator[SinceRevision]] = lambda _part: iter(())
    preflight: Callable[[str, BridgeForwarding, BridgeReport], Iterator[tuple[str, str]]] = (
        lambda _device, _desired, _report: iter(())
    )


class Edit(NamedTuple):
    """What the parts of an edit have in common: the base time, at or after which the first cycle
    begins of what is done by the clock, the handles of all streams that tables refer to, and the
    `tables` that are stored, whole."""

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
            Mapping[StreamAddress, NamedAt],
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
class Interfaces:
    """The interfaces of an edit, as its mechanisms have filled them, by name."""

    elements: dict[str, Element]
    make: Callable[[str], Element]

    def of(self, name: str) -> Element:
        """The interface of this name, which is there then."""
        if name not in self.elements:
            self.elements[name] = self.make(name)
        return self.elements[name]


class PlaceEdit(NamedTuple):
    """What the mechanisms of an edit have in common: the base time, at or after which the first
    cycle begins of what is done by the clock, what is `stored` at each place, and the interfaces,
    to which they add what is theirs."""

    base_time_ns: int
    stored: Mapping[str, StoredPort | None]
    interfaces: Interfaces


class Around(NamedTuple):
    """What is known around a port, or a bridge, that is to be asked: its link in the intent, and
    the traffic class of each priority at its switch."""

    link: Link | None
    classes: Sequence[int]


@dataclass(frozen=True, slots=True)
class AtPlace(Generic[_Part]):
    """How a part of the type `part` is asked, stored and reported at a place: at a port, or as
    `of_bridges` at a bridge, of which the part has all that mechanisms do there.

    `derive` has by place what a plan asks of these nodes; `leaving` adds to the settings of nodes
    what only a former plan had, and has to go. `cycles_ns` are the periods of what a part does by
    the clock. `edit` adds to the interfaces what sets these parts, by place, and returns what is
    set beside interfaces. `stored` and `reported` have by place what a reply has of it: values of
    types of its own, by which the other hooks find them in a `StoredPort` and a `PortReport`.
    `filters` select what is configured of these bridges, `state` what is reported of them, `told`
    what an end station publishes of a port, and `of_stations` both of what it has beside its
    ports; `settings` what all bridges of a switch are set
    to, which `bridges` reads.

    Why a place has to be changed is `needs_change`, which looks at what is stored and reported;
    `configured` is how what is stored differs, `differs` how the kernel does, from a base time that
    is known or any; `drifted` is how the kernel differs from what is stored of it, which is this
    part; `since` is how it does otherwise than before. `lost` names frames that did not leave for
    it, and how many; `goes_on` says what there is now that no plan has, such as connections.
    `waits`: it does what an agent does that waits for its clock; `pends`: some of it begins at a
    base time to come. `does` says what a port, or a bridge, does that does all of
    it; None: nothing, which is `idle`. `previous` is what was stored in place of a part. `kept` is
    how the history has a part; None: as its first format had it. What is stored of a part with
    `kept` is of the part's type, and is written likewise.

    Before a change, `examine` checks a place, `examine_node` a node by what is asked of its places
    and by its agent, and `examine_network` all of these places of a plan together.
    """

    part: type[_Part]
    derive: Callable[[Plan, Collection[str]], Mapping[PortRef, _Part]]
    needs_change: Callable[[_Part, StoredPort, PortReport | None], str | None]
    configured: Callable[[_Part, StoredPort], str | None]
    differs: Callable[[_Part, PortReport | None, int | None], str | None]
    drifted: Callable[[_Part, StoredPort, PortReport | None], str | None]
    since: Callable[[PortReport, PortReport], str | None]
    waits: Callable[[_Part, PortReport], bool]
    does: Callable[[_Part], str | None]
    idle: str
    previous: Callable[[_Part, StoredPort], _Part]
    edit: Callable[[Mapping[str, _Part], PlaceEdit], list[Element]]
    stored: Callable[[Reply, Collection[str]], Mapping[str, object]]
    reported: Callable[[Reply, Collection[str]], Mapping[str, object]]
    of_bridges: bool = False
    kept: Kept[_Part] | None = None
    lost: Callable[[PortReport], str | None] = lambda _report: None
    pends: Callable[[PortReport], bool] = lambda _report: False
    cycles_ns: Callable[[_Part], Iterator[int]] = lambda _part: iter(())
    leaving: Callable[
        [Mapping[str, dict[str, PortSettings]], Plan], Mapping[str, dict[str, PortSettings]]
    ] = lambda desired, _former: desired
    filters: Callable[[Collection[str]], list[Element]] = lambda _bridges: []
    state: Callable[[Collection[str]], list[Element]] = lambda _bridges: []
    told: Callable[[], list[Element]] = list
    of_stations: Callable[[], list[Element]] = list
    settings: Callable[[], list[Element]] = list
    bridges: Callable[[Element], Mapping[str, BridgeReport]] = lambda _data: {}
    examine: Callable[[PortRef, _Part, PortReport | None, Around], Iterator[Finding]] = (
        lambda _place, _part, _report, _around: iter(())
    )
    examine_node: Callable[[str, Mapping[str, PortSettings], AgentReport], Iterator[Finding]] = (
        lambda _node, _settings, _agent: iter(())
    )
    examine_network: Callable[
        [Plan, Mapping[PortRef, _Part], Mapping[PortRef, PortReport]], Iterator[Finding]
    ] = lambda _plan, _parts, _reports: iter(())
    goes_on: Callable[[PortReport], str | None] = lambda _report: None


def leaving_former(
    derive: Callable[[Plan, Collection[str]], Mapping[PortRef, _Part]], nothing: _Part
) -> Callable[[Mapping[str, dict[str, PortSettings]], Plan], dict[str, dict[str, PortSettings]]]:
    """`leaving` of a part that is asked of ports: `nothing` where only the plan before has one."""

    def leaving(
        desired: Mapping[str, dict[str, PortSettings]], former: Plan
    ) -> dict[str, dict[str, PortSettings]]:
        before = derive(former, desired.keys())
        return {
            name: {
                port: its.having(nothing)
                if PortRef(name, port) in before and its.get(type(nothing)) is None
                else its
                for port, its in settings.items()
            }
            for name, settings in desired.items()
        }

    return leaving


def configured_or_drifted(
    what: str,
    configured: Callable[[_Part, StoredPort], str | None],
    drifted: Callable[[_Part, StoredPort, PortReport | None], str | None],
) -> Callable[[_Part, StoredPort, PortReport | None], str | None]:
    """Why a place must be configured again, in words; None when it stores and does all of a part:
    `configured` is how what is stored differs, or else `drifted` how `what` does otherwise."""

    def needs_change(desired: _Part, its: StoredPort, report: PortReport | None) -> str | None:
        if change := configured(desired, its):
            return change
        difference = drifted(desired, its, report)
        return f"{what} drifted: {difference}" if difference else None

    return needs_change


@dataclass(frozen=True, slots=True)
class Kept(Generic[_Part]):
    """How a part is written into files that outlive a program: `key` is its name there, `row` the
    type of its rows, or types. `version` counts what these rows were; `former` reads rows of older
    versions, as plain data."""

    key: str
    row: type[Any] | UnionType
    rows: Callable[[_Part], Iterator[Any]]
    part: Callable[[tuple[Any, ...]], _Part]
    version: int = 1
    former: Mapping[int, Callable[[list[Any]], _Part]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decided(Generic[_Part]):
    """What a mechanism decides of a plan that has all offsets and lists: a part of the plan, by
    whose type `plan[Type]` has it; until then the plan has what was decided of the one that it
    comes after. `kept` is how plan files have it, and with them the history."""

    decide: Callable[[Plan], _Part]
    part: type[_Part]
    kept: Kept[_Part]


class Observed(Protocol):
    """What a switch reports at one time: its state, and what its ports have counted, by name."""

    @property
    def state(self) -> SwitchState: ...

    @property
    def counters(self) -> Mapping[str, PortCounters]: ...


@dataclass(frozen=True, slots=True)
class Counts:
    """What a bridge has counted of the frames of streams since that was set: `rows` of the types
    of mechanisms. `past` and `problems` say in words what was, and what goes on, `hints` what to do
    about that."""

    rows: tuple[object, ...] = ()
    past: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def of(self, row: type[_Row]) -> tuple[_Row, ...]:
        """The rows of one type."""
        return tuple(each for each in self.rows if isinstance(each, row))


class Trouble(NamedTuple):
    """A condition of a port or a bridge, as of a look."""

    kind: StrEnum
    port: str
    text: str


class Conditions(Protocol):
    """Compares the looks at one bridge, one after the other."""

    def update(self, bridge: str, desired: BridgeForwarding, look: Observed) -> Iterator[Trouble]:
        """The conditions as of this look."""
        ...


class Metric(NamedTuple):
    """A metric of switches: `samples` are the values of its labels, and its own."""

    name: str
    text: str
    labels: tuple[str, ...]
    is_counter: bool
    samples: list[tuple[tuple[str, ...], int]]


@dataclass(frozen=True, slots=True)
class Watched:
    """What a bridge counts.

    `counted` is what it has counted by the second of two looks, and what goes on since the first;
    `key` is that of these rows, which are of type `row`, in a document. `again_ns` has after which
    times a second look can tell more than this one. `needs_counters`: not only the state has to be
    asked for, but what ports count. `kinds` are those that `conditions` can find, which is made
    once for each bridge. `metrics` are those of the switches that answer, by name. `table` is how
    rows are told to people; None: `past` and `problems` say all.
    """

    key: str
    row: type[Any]
    counted: Callable[[str, BridgeForwarding, Observed, Observed], Counts]
    again_ns: Callable[[str, BridgeForwarding, Observed, Intent], Iterator[int]]
    kinds: type[StrEnum]
    conditions: Callable[[], Conditions]
    metrics: Callable[[Mapping[str, Observed]], Iterator[Metric]]
    needs_counters: Callable[[BridgeForwarding], bool] = lambda _desired: False
    table: CountedTable | None = None


class CountedTable(NamedTuple):
    """A table of what bridges have counted: `cells` of a row that a switch has counted, and whether
    that is in order. The name of a column begins with ">" where it is aligned to the right."""

    title: str
    columns: tuple[str, ...]
    cells: Callable[[str, Any], tuple[tuple[str, ...], bool]]


class AtHop(NamedTuple):
    """What a switch does with frames of a stream that come in by one of its ports, in words; None:
    nothing. `deviation` is how it does otherwise than planned; None: it does not. `ends`: frames
    go no further for that."""

    does: str | None
    deviation: str | None = None
    ends: bool = False


class StreamTable(NamedTuple):
    """A table with a row for each of `size` streams. The name of a column begins with ">" where it
    is aligned to the right."""

    title: str
    columns: tuple[str, ...]
    size: int
    rows: Iterator[tuple[str, ...]]


class Lack(NamedTuple):
    """What switches do without, in words, how it is `where` they do, and the key that tells more of
    them."""

    text: str
    where: Sequence[str]
    key: str


@dataclass(frozen=True, slots=True)
class Shown(Generic[_Part]):
    """How it is told to people and programs.

    A document has the `rows` of a part, of type `row`, under `key`, if there are any. `at_hop`
    compares a part with the planned one for a stream and a port; what the switch does is in a
    document under `hop_key`, and in the column `hop_column` of a table, or in a line below where
    that is None; `at_hop_of_class` is the same of all frames of a priority, where it does nothing
    for the stream alone. `key_text` and `hop_text` describe these keys in the JSON schemas.
    `guards` are what a switch does for single streams, for the page: stream, key and value, of
    which the page has a list; under `told` it shows texts as they are. `table` is what a plan has
    switches do for streams; None: nothing. `lack` is what switches do without by a plan; None:
    nothing.
    """

    key: str
    row: type[Any]
    rows: Callable[[_Part, Names], Iterator[Any]]
    key_text: str
    hop_key: str
    hop_text: str
    hop_column: str | None
    at_hop: Callable[[_Part, _Part, StreamAddress, str], AtHop]
    guards: Callable[[_Part, str], Iterator[tuple[StreamAddress, str, object]]] = (
        lambda _part, _switch: iter(())
    )
    table: Callable[[Plan], StreamTable | None] = lambda _plan: None
    lack: Callable[[Plan], Lack | None] = lambda _plan: None
    at_hop_of_class: Callable[[_Part, _Part, int, str], AtHop] = (
        lambda _part, _planned, _priority, _port: AtHop(None)
    )


class Exceeded(NamedTuple):
    """A figure on which a plan rests that nodes have exceeded while it ran, in words.

    `planned_ns` is what a push of the intent would plan with now; None where the operator states
    the figure. `hint` says what to do then.
    """

    text: str
    planned_ns: int | None
    hint: str


class Figure(NamedTuple):
    """A figure of a plan, and where it comes from. `takes_share`: it is part of latency bounds, and
    takes time from best effort."""

    name: str
    value_ns: int
    source: str
    takes_share: bool = False


class OnPort(NamedTuple):
    """What a port has measured, in words, and whether the plan allows for it. `finding` is what a
    check says of it, which may take long to find. `is_of_node`: it is the same on all ports of the
    node."""

    text: str
    is_allowed: bool
    finding: Callable[[], Finding]
    is_of_node: bool = False


OnPorts: TypeAlias = "Callable[[PortRef, PortSettings | None, PortReport], OnPort | None]"


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of the intent that nodes measure where the operator does not state it.

    `taken` is the intent with what was measured; what the running plan has stays while it is
    enough. `kept` is the intent with what another one rests on, unless that is stated. `refuse`
    raises InputError where what was measured refutes what is stated, `require` where it has to be
    measured and was not; nodes have not been asked where nothing is stated. `exceeded` compares the
    intent that runs, and the same as a push would plan it now, with what nodes state. `figures` are
    those of a plan that an operator is told. `warnings` say, with what to do, on what a plan rests
    that a network may not do, of one that is new or of any; `unmeasured` says the same of a node
    that was asked. `on_ports` judges ports for an intent, for the finding `check` and the condition
    `kind`.
    """

    check: Check
    taken: Callable[[Intent, StatedPorts, Plan | None], Intent]
    kept: Callable[[Intent, Intent], Intent]
    refuse: Callable[[Intent, StatedPorts], None] = lambda _intent, _stated: None
    require: Callable[[Intent, StatedPorts | None], None] = lambda _intent, _stated: None
    exceeded: Callable[[Intent, Intent, StatedPorts], Iterator[Exceeded]] = (
        lambda _running, _now, _stated: iter(())
    )
    figures: Callable[[Plan], Iterator[Figure]] = lambda _plan: iter(())
    warnings: Callable[[Plan, bool], Iterator[tuple[str, str]]] = lambda _plan, _is_new: iter(())
    unmeasured: Callable[[Plan, str, SwitchState], Iterator[Finding]] = (
        lambda _plan, _node, _state: iter(())
    )
    on_ports: Callable[[Intent], OnPorts] = lambda _intent: lambda _ref, _desired, _report: None
    kind: StrEnum | None = None


class Looks(Protocol):
    """Compares what one node reports, look by look."""

    def update(self, state: SwitchState) -> Mapping[str, str]:
        """What is wrong after this look, by port."""
        ...

    @property
    def next_poll_s(self) -> float:
        """How long to wait for a look that can decide; 0 where none is needed."""
        ...


@dataclass(frozen=True, slots=True)
class Followed:
    """What only several looks at a node tell: `hint` says what to do about it. `looks` is made once
    for each node, by name. It is the finding `check`, and the condition `kind`."""

    check: Check
    kind: StrEnum
    hint: str
    looks: Callable[[Intent, str], Looks]


@dataclass(frozen=True, slots=True)
class Noted:
    """Notifications of a module that `cnc watch` tells as events.

    `kinds` have their names. `told` is, of one with these leaves, the port that it is about, or ""
    for the whole node, and the words.
    """

    namespace: str
    kinds: type[StrEnum]
    told: Callable[[StrEnum, Mapping[str, str]], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Openings:
    """What a class of a port has of a gate control list that is given, other frames apart.

    `open_ns` of each `cycle_ns` its gate is open, which is `rate_bps` at most, with preambles and
    gaps. A frame at the head of its queue, as long as the class has them, waits `wait_ns` at most
    until it may start; None: no bound. `frame_octets` is the longest, from MAC header to FCS, that
    is sent at all; None: any, as its gate never shuts.
    """

    port: PortRef
    class_name: str
    cycle_ns: int
    open_ns: int
    rate_bps: int
    wait_ns: int | None
    frame_octets: int | None


@dataclass(frozen=True, slots=True)
class FoundLists:
    """What becomes of a gate control list that a port runs, from an offset in each cycle on, in an
    intent that has its classes: `obstacle` is why it is refused there, None: it is not;
    `longest_octets` the longest frame of the class of a number that fits, None: any, 0: none."""

    obstacle: Callable[[Intent, PortRef, GateControlList, int], str | None]
    longest_octets: Callable[[Intent, PortRef, GateControlList, int, int], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What a folder registers; `name` is that of the agent's. `keys` and `judge` are called where
    intents are read, and plans judged: they import what takes long to import. None: there is
    nothing of the mechanism to state, or to be wrong in a plan. `openings` are those of lists that
    are given, `found_lists` what becomes of lists that switches run: one knows. `forwards` is how
    bridges of a plan forward, by switch, without what mechanisms do there: one knows. `at_place` is
    called when a switch is compared, asked or told something, `noted` when switches are watched."""

    name: str
    keys: Callable[[], Keys] | None = None
    admission: Admission = _NOTHING_ALLOWED
    decided: Decided[Any] | None = None
    judge: Callable[[], Judge] | None = None
    openings: Callable[[Plan], Iterator[Openings]] = lambda _plan: iter(())
    found_lists: Callable[[], FoundLists] | None = None
    measured: Measured | None = None
    followed: tuple[Followed, ...] = ()
    forwards: Callable[[Plan, Collection[str]], Mapping[str, BridgeForwarding]] | None = None
    at_place: Callable[[], AtPlace[Any]] | None = None
    noted: Callable[[], Noted] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism(Registered, Generic[_Part]):
    """A mechanism that a rollout configures on bridges. `summary` counts what a part asks for: so
    many of what, for a table's cell. `tree` is called when a switch is asked or told something.
    `watched` is None where nothing is counted."""

    part: type[_Part]
    planned: Planned[_Part]
    changed: Changed[_Part]
    switch: Switch[_Part]
    kept: Kept[_Part]
    tree: Callable[[], Tree[_Part]]
    shown: Shown[_Part]
    summary: Callable[[_Part], Iterator[tuple[int, str]]] = field(default=lambda _part: iter(()))
    watched: Watched | None = None
