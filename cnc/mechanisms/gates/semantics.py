"""What a document says of gate control lists that are given, by port or as shares of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION
from cnc.mechanisms.gates.given import GivenList, GivenLists, operative
from cnc.mechanisms.gates.keys import GateControlList, GateStates, PortKeys
from cnc.mechanisms.gates.share_semantics import (
    ENTRIES_MAX,
    check_shares,
    given_shares,
    shared_list,
)
from cnc.mechanisms.runnable import obstacles
from cnc.model import GateEntry, GivenWindow, Intent, PortRef, Stream, TalkerInterference

if TYPE_CHECKING:
    from cnc.keys import shape

_KEY = "gate-control-list"


def _read(document: shape.Document, problems: Problems) -> Iterator[GivenLists]:
    """The lists of all ports that have one; none where anything of it is wrong by itself."""
    stated = dict(_stated(document, problems))
    shares = given_shares(document, problems)
    if not shares:
        yield GivenLists(stated)
        return
    switched = sorted(
        end for its in document.links for end in its.ends if end.node in document.switches
    )
    shared = dict.fromkeys(switched, shared_list(document, shares))
    lists = {**shared, **stated}
    yield GivenLists(
        {port: lists[port] for port in (*switched, *stated)},
        shares,
        frozenset(shared.keys() - stated.keys()),
    )


def _stated(document: shape.Document, problems: Problems) -> Iterator[tuple[PortRef, GivenList]]:
    """Those that ports state themselves."""
    for name, switch in document.switches.items():
        for port, its in switch.ports.items():
            stated = its[PortKeys].gate_control_list
            path = ("switches", name, "ports", port, _KEY)
            if stated and (entries := _entries(document, stated, path, problems)):
                yield (
                    PortRef(name, port),
                    GivenList(stated.cycle_ns, entries, stated.base_offset_ns),
                )


def _entries(
    document: shape.Document, stated: GateControlList, path: KeyPath, problems: Problems
) -> tuple[GateEntry, ...]:
    if stated.base_offset_ns >= stated.cycle_ns:
        found = DURATION.format(stated.base_offset_ns)
        expected = f"less than the cycle, {DURATION.format(stated.cycle_ns)}"
        problems.add((*path, "base-offset"), found, expected)
        return ()
    if len(stated.entries) > ENTRIES_MAX:
        found = f"{len(stated.entries)} entries"
        problems.add((*path, "entries"), found, f"at most {ENTRIES_MAX}")
        return ()
    masks = [
        _mask(document, each, (*path, "entries", index, "open"), problems)
        for index, each in enumerate(stated.entries)
    ]
    return tuple(
        GateEntry(mask, each.for_ns)
        for mask, each in zip(masks, stated.entries, strict=True)
        if mask is not None
    )


def _mask(
    document: shape.Document, entry: GateStates, path: KeyPath, problems: Problems
) -> int | None:
    """Which gates an entry opens; None where it names what there is not."""
    numbers = {name: its.traffic_class for name, its in document.classes.items()}
    if isinstance(entry.open_, int):
        known = sum(1 << number for number in set(numbers.values()))
        if strange := entry.open_ & ~known:
            found = f"{entry.open_:#04x}, which opens gates {strange:#04x} of no class"
            problems.add(path, found, f"gates of classes, {known:#04x} at most")
            return None
        return entry.open_
    for name in entry.open_:
        if name not in numbers:
            problems.add(path, shown(name), one_of(numbers, name))
            return None
    return sum({1 << numbers[name] for name in entry.open_})


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what ports cannot run, and what has no effect."""
    check_shares(document, problems)
    _check_streams(intent, problems)
    if not problems.empty:
        return
    told = set()
    for port, given in intent[GivenLists].by_port.items():
        its_own = document.switches[port.node].ports[port.port][PortKeys].gate_control_list
        path: KeyPath = ("switches", port.node, "ports", port.port, _KEY)
        if port not in intent.network.links:
            problems.add(path, f"a list of {port}, which has no link", "a port of a link")
            continue
        if not its_own:
            path = ("classes", next(iter(intent[GivenLists].shares)), "windows")
        obstacle = next(obstacles(intent, port, operative(given)), None)
        if obstacle and (path, obstacle.expected) not in told:
            told.add((path, obstacle.expected))  # ports are alike
            where = "" if its_own else f" at {port}"
            problems.add(path, f"{obstacle.found}{where}", obstacle.expected)


def _check_streams(intent: Intent, problems: Problems) -> None:
    """Frames of streams have windows that are planned, and at their talkers go before all that come
    at any time."""
    shares = intent[GivenLists].shares
    if not shares:
        return
    first = max(shares, key=lambda name: shares[name].number)
    for stream in intent.streams.values():
        path = ("streams", stream.name, "class")
        for index, name in enumerate(stream.traffic_classes):
            if name in shares:
                problems.add(
                    (*path, index),
                    f"{name}, whose windows are given by share",
                    "a class without: nothing is planned in these",
                )
            elif _may_be_behind(intent, stream, name, shares[first]):
                problems.add(
                    path,
                    f"{name}, and a talker that may send any number of frames of {first} before "
                    "its own, a class whose windows are given by share",
                    f"a class with a higher traffic-class than {first}, or `talker-interference: "
                    f"none` of {stream.talker}",
                )


def _may_be_behind(intent: Intent, stream: Stream, name: str, first: GivenWindow) -> bool:
    """Whether frames of a stream, in this class, may come behind such at their talker that it sends
    at any time: of late ones that is so beside gates, too."""
    talker = intent.network.end_stations.get(stream.talker)
    if talker is None or name not in intent.classes:
        return False  # which other checks report
    is_alone = talker.interference is TalkerInterference.NONE and talker.gate_mode is None
    return not is_alone and intent.classes[name].number < first.number


KEYS = Keys(
    {Level.PORT: PortKeys},
    read=_read,
    check=_check,
    founding={"gate-control-lists that are given": GivenLists},
)
