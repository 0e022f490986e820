"""What a document says of classes that are forwarded once each interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.shaping import Shaping
from cnc.mechanisms.cqf.interval import chosen_interval_ns, open_ns
from cnc.mechanisms.cqf.model import DEFAULT_SHARE_PPB, Cyclic, CyclicClass, cyclic_of
from cnc.mechanisms.cqf.obstacles import beside, obstacles
from cnc.mechanisms.loading import loaded
from cnc.mechanisms.without_instants import refuse_instants
from cnc.model import (
    ClassRole,
    CyclicQueuing,
    Forwarding,
    Intent,
    Stream,
)

if TYPE_CHECKING:
    from cnc.keys import shape


def _shaped(document: shape.Document) -> dict[str, Shaping]:
    stated = {name: its.shaping for name, its in document.classes.items()}
    return {name: its for name, its in stated.items() if its is not None and its.is_cyclic}


def _path(name: str, *keys: str) -> KeyPath:
    return ("classes", name, "shaping", *keys)


def _read(document: shape.Document, problems: Problems) -> Iterator[CyclicClass]:
    """The class and that of its second queue; none where they are not stated as they should."""
    shaped = _shaped(document)
    if document.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(
            ((_path(name), its.by) for name, its in shaped.items()),
            "no stream gate tells in which interval a frame has come",
        )
        return
    evens = [name for name, its in shaped.items() if its.odd_of is None]
    for name in evens[1:]:
        problems.add(_path(name), f"cqf, which class {evens[0]} has", "one such class, or odd-of")
    odds = [name for name, its in shaped.items() if its.odd_of is not None]
    for name in odds:
        its = shaped[name]
        if its.odd_of not in evens:
            problems.add(_path(name, "odd-of"), shown(its.odd_of), one_of(evens))
        for key, value in (("cycle", its.cycle_ns), ("share", its.share_ppb)):
            if value is not None:
                problems.add(_path(name, key), f"a {key}, and odd-of", "that of the other class")
    for name in odds[1:]:
        problems.add(_path(name), f"odd-of, which class {odds[0]} has", "one second queue")
    if evens and not odds:
        problems.add(
            _path(evens[0]),
            "cqf, and no class with its second queue",
            f"a class with shaping: {{odd-of: {evens[0]}}}, for what is sent in odd intervals",
        )
    if evens and odds and problems.empty:
        its = shaped[evens[0]]
        yield CyclicClass(evens[0], odds[0], its.cycle_ns, its.share_ppb or DEFAULT_SHARE_PPB)


def _completed(intent: Intent) -> Intent:
    """With the interval of its class, if it has one."""
    stated = intent[CyclicClass]
    if not stated.name:
        return intent
    interval_ns = stated.interval_ns or chosen_interval_ns(intent, stated)
    queuing = CyclicQueuing(interval_ns, open_ns(intent.network, stated, interval_ns), stated.odd)
    its = replace(intent.classes[stated.name], cyclic=queuing)
    return replace(intent, classes={**intent.classes, stated.name: its})


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what does not go together with cyclic queuing."""
    for name, stated in _shaped(document).items():
        its = document.classes[name]
        if its.role is not ClassRole.SCHEDULED:
            found = f"{stated.by}, and the role {its.role}"
            problems.add(_path(name), found, "a class with the role scheduled")
        if its.windows is not None:
            problems.add(("classes", name, "windows"), "windows, and shaping", "one of both")
        if its.reserve_ppb is not None and stated.odd_of is not None:
            problems.add(("classes", name, "reserve"), "a reserve, and odd-of", "that of the other")
    cyclic = cyclic_of(intent)
    if cyclic is not None and problems.empty:
        _check_network(intent, cyclic, problems)


def _check_network(intent: Intent, cyclic: Cyclic, problems: Problems) -> None:
    for each in loaded():
        if each.name != "cqf" and each.admission.lists(intent):
            problems.add(
                _path(cyclic.even.name),
                "cqf beside gate control lists, or windows by share, that are given",
                "one of both: all ports of switches have the windows of the class",
            )
    if intent.network.recovery_required:
        problems.add(
            _path(cyclic.even.name),
            "cqf, and recovery that is required",
            "a recovery of which no stream needs a bound: none is known of such a class",
        )
    for stream in intent.streams.values():
        _check_stream(intent, cyclic, stream, problems)
    if problems.empty and (its_first := next(obstacles(intent), None)):
        at = f" at {its_first.port}"
        problems.add(_path(cyclic.even.name), its_first.found + at, its_first.expected)


def _check_stream(intent: Intent, cyclic: Cyclic, stream: Stream, problems: Problems) -> None:
    path: KeyPath = ("streams", stream.name)
    even, odd = cyclic.even.name, cyclic.odd.name
    if odd in stream.traffic_classes:
        problems.add((*path, "class"), f"{odd}, the second queue of {even}", f"{even}")
    if even not in stream.traffic_classes:
        if intent.has_instants(stream):
            _check_beside(intent, cyclic, stream, problems)
        return
    refuse_instants(intent, stream, even, "cqf", problems)


def _check_beside(intent: Intent, cyclic: Cyclic, stream: Stream, problems: Problems) -> None:
    """A planned frame waits for one of the cyclic class at its talker, but not for more."""
    even, talkers = cyclic.even.name, intent.network.end_stations
    has_both = any(
        its.talker == stream.talker and even in its.traffic_classes
        for its in intent.streams.values()
    )
    is_known = stream.talker in talkers and {*stream.traffic_classes} <= intent.classes.keys()
    if has_both and is_known and (why := beside(intent, cyclic, stream)):
        problems.add(("streams", stream.name), why, f"a talker of its own, or what {even} allows")


KEYS = Keys(
    {},
    read=_read,
    gives_windows=lambda its: its.shaping is not None and its.shaping.is_cyclic,
    completed=_completed,
    check=_check,
    founding={"cyclic queuing": CyclicClass},
)
