"""What a document says of filtering and policing, and of how late talkers are."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.intent import shape
from cnc.intent.problems import KeyPath, Problems
from cnc.intent.units import DURATION
from cnc.mechanisms.stream_filters.model import NO_POLICING, PolicingRules
from cnc.model import ClassRole, Forwarding, Intent


def policing_rules(document: shape.Document) -> PolicingRules:
    """What is stated, of the network, of classes and of streams. A routed network has none."""
    if document.forwarding is Forwarding.ROUTED:
        return NO_POLICING
    return PolicingRules(
        document.policing,
        {name: its.policing for name, its in document.classes.items() if its.policing},
        {name: its.policing for name, its in document.streams.items() if its.policing},
    )


def talker_lateness_ns(defaults: shape.Defaults, station: shape.EndStation) -> int | None:
    """What is stated of a station, or of all; None where the gate margin holds."""
    if station.talker_lateness_ns is None:
        return defaults.talker_lateness_ns
    return station.talker_lateness_ns


def check_policing(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is policed without effect, and talkers that nothing can be planned
    for."""
    _check_lateness(intent, problems)
    if intent.network.forwarding is Forwarding.ROUTED:
        for path, value in _stated(document):
            problems.add(
                path,
                f"{value} in a routed network, where nothing is policed",
                "forwarding: bridged, or no such key",
            )
        return
    for name, stated in intent[PolicingRules].classes.items():
        if (role := intent.classes[name].role) is not ClassRole.SCHEDULED:
            problems.add(
                ("classes", name, "policing"),
                f"{stated}, and the role {role}",
                "a class with the role scheduled: nothing is planned of others that frames could "
                "miss",
            )


def _stated(document: shape.Document) -> Iterator[tuple[KeyPath, object]]:
    """The keys of policing that a document has, and what they hold."""
    if document.policing is not None:
        yield ("policing",), document.policing
    for kind, named in (("classes", document.classes), ("streams", document.streams)):
        for name, its in named.items():
            if its.policing is not None:
                yield (kind, name, "policing"), its.policing
    for name, switch in document.switches.items():
        if switch.stream_filters_max is not None:
            yield ("switches", name, "stream-filters-max"), switch.stream_filters_max


def _check_lateness(intent: Intent, problems: Problems) -> None:
    """A link is reserved for its talker's lateness, in each period."""
    reported = set()
    for stream in intent.streams.values():
        talker = intent.network.end_stations.get(stream.talker)
        lateness_ns = talker.lateness_ns if talker else None
        if lateness_ns is None or lateness_ns < stream.period_ns or stream.talker in reported:
            continue
        reported.add(stream.talker)
        stations = intent.document["end-stations"]
        station = stations.get(stream.talker) if isinstance(stations, dict) else None
        is_own = isinstance(station, dict) and "talker-lateness" in station
        where = ("end-stations", stream.talker) if is_own else ("defaults",)
        problems.add(
            (*where, "talker-lateness"),
            DURATION.format(lateness_ns),
            f"less than {DURATION.format(stream.period_ns)}, the period of stream {stream.name} "
            f"of {stream.talker}",
        )
