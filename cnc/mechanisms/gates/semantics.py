"""What a document says of gate control lists that are given, by port or as shares of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION
from cnc.mechanisms.gates.given import GivenList, GivenLists, operative
from cnc.mechanisms.gates.keys import GateControlList, GateStates, PortKeys
from cnc.mechanisms.gates.runnable import obstacles
from cnc.mechanisms.gates.share_semantics import (
    ENTRIES_MAX,
    check_shares,
    classes_with_share,
    shared_list,
)
from cnc.model import GateEntry, Intent, PortRef

if TYPE_CHECKING:
    from cnc.keys import shape

_KEY = "gate-control-list"


def _read(document: shape.Document, problems: Problems) -> Iterator[GivenLists]:
    """The lists of all ports that have one; none where anything of it is wrong by itself."""
    stated = dict(_stated(document, problems))
    classes = tuple(classes_with_share(document))
    shared = shared_list(document, problems) if classes else None
    if shared:
        switched = sorted(
            end for its in document.links for end in its.ends if end.node in document.switches
        )
        stated = {port: stated.get(port, shared) for port in (*switched, *stated)}
    yield GivenLists(stated, classes)


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
            path = ("classes", intent[GivenLists].classes[0], "windows")
        obstacle = next(obstacles(intent, port, operative(given)), None)
        if obstacle and (path, obstacle.expected) not in told:
            told.add((path, obstacle.expected))  # ports are alike
            where = "" if its_own else f" at {port}"
            problems.add(path, f"{obstacle.found}{where}", obstacle.expected)


def _check_streams(intent: Intent, problems: Problems) -> None:
    """Frames of streams have windows that are planned."""
    given = set(intent[GivenLists].classes)
    for stream in intent.streams.values():
        for index, name in enumerate(stream.traffic_classes):
            if name in given:
                problems.add(
                    ("streams", stream.name, "class", index),
                    f"{name}, whose windows are given by share",
                    "a class without: nothing is planned in these",
                )


KEYS = Keys(
    {Level.PORT: PortKeys},
    read=_read,
    check=_check,
    founding={"gate-control-lists that are given": GivenLists},
)
