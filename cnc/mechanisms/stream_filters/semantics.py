"""What a document says of filtering and policing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems
from cnc.mechanisms.stream_filters.keys import ClassKeys, NetworkKeys, StreamKeys, SwitchKeys
from cnc.mechanisms.stream_filters.model import (
    FilterCapacity,
    Policing,
    PolicingRules,
    policed_classes,
)
from cnc.model import Forwarding, Intent

if TYPE_CHECKING:
    from cnc.keys import shape


def _read(
    document: shape.Document, _problems: Problems
) -> Iterator[PolicingRules | FilterCapacity]:
    """What is stated, of the network, of classes and of streams. A routed network has none."""
    if document.forwarding is Forwarding.ROUTED:
        return
    classes = {name: its[ClassKeys].policing for name, its in document.classes.items()}
    yield PolicingRules(
        document[NetworkKeys].policing,
        {name: stated for name, stated in classes.items() if stated},
        _of_streams(document),
    )
    capacity = {name: its[SwitchKeys].stream_filters_max for name, its in document.switches.items()}
    stated = {name: most for name, most in capacity.items() if most}
    yield FilterCapacity(stated | dict.fromkeys(_without_filters(document), 0))


def _without_filters(document: shape.Document) -> list[str]:
    """Switches that hold no stream filters: of those with a profile none are known."""
    return [name for name, its in document.switches.items() if its.profile]


def _of_streams(document: shape.Document) -> dict[str, Policing]:
    streams = {name: its[StreamKeys].policing for name, its in document.streams.items()}
    return {name: stated for name, stated in streams.items() if stated}


def _with_streams(
    intent: Intent, document: shape.Document, gone: Collection[str]
) -> Iterator[PolicingRules]:
    rules, stated = intent[PolicingRules], _of_streams(document)
    if stated or not rules.streams.keys().isdisjoint(gone):
        staying = {name: its for name, its in rules.streams.items() if name not in gone}
        yield replace(rules, streams={**staying, **stated})


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is policed without effect."""
    if intent.network.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(_stated(document), "nothing is policed")
        return
    _check_profiles(document, intent, problems)
    policed_as = {its.name: name for its, name in policed_classes(intent)}
    for name, stated in intent[PolicingRules].classes.items():
        if policed_as.get(name, name) != name:
            problems.add(
                ("classes", name, "policing"),
                f"{stated}, and odd-of",
                f"that of {policed_as[name]}, whose second queue it is",
            )
        elif intent.classes[name].windows_are_given and name not in policed_as:
            problems.add(
                ("classes", name, "policing"),
                f"{stated}, and windows that are given",
                "no such key: frames of the class may come at any time",
            )
        elif name not in policed_as:
            problems.add(
                ("classes", name, "policing"),
                f"{stated}, and the role {intent.classes[name].role}",
                "a class with the role scheduled, or with shaping: nothing is planned of others "
                "that frames could miss",
            )


def _check_profiles(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is to be policed at switches that hold no stream filters."""
    links, stations = intent.network.links.values(), intent.network.end_stations
    first = {its.target.node for its in links if its.source.node in stations}
    without = _without_filters(document)
    for path, stated in _stated(document):
        is_of_switch = path[0] == "switches"
        concerned = [n for n in without if (n == path[1] if is_of_switch else n in first)]
        if concerned and stated is not Policing.OFF:
            found = f"{stated}, and a profile of switch {concerned[0]}"
            expected = "no such key: a switch with a profile has no stream filters that are known"
            problems.add(path, found, expected)


def _stated(document: shape.Document) -> Iterator[tuple[KeyPath, object]]:
    """The keys of policing that a document has, and what they hold."""
    if of_all := document[NetworkKeys].policing:
        yield ("policing",), of_all
    for name, its_class in document.classes.items():
        if stated := its_class[ClassKeys].policing:
            yield ("classes", name, "policing"), stated
    for name, stream in document.streams.items():
        if stated := stream[StreamKeys].policing:
            yield ("streams", name, "policing"), stated
    for name, switch in document.switches.items():
        if most := switch[SwitchKeys].stream_filters_max:
            yield ("switches", name, "stream-filters-max"), most


KEYS = Keys(
    {
        Level.NETWORK: NetworkKeys,
        Level.CLASS: ClassKeys,
        Level.SWITCH: SwitchKeys,
        Level.STREAM: StreamKeys,
    },
    read=_read,
    check=_check,
    founding={"policing": PolicingRules, "stream-filters-max": FilterCapacity},
    with_streams=_with_streams,
)
