"""What a document says of filtering and policing, and of how late talkers are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cnc.intent.problems import KeyPath, Problems
from cnc.intent.units import DURATION
from cnc.mechanism import Keys, Level
from cnc.mechanisms.stream_filters.keys import ClassKeys, NetworkKeys, StreamKeys, SwitchKeys
from cnc.mechanisms.stream_filters.model import PolicingRules
from cnc.model import Bridge, ClassRole, Forwarding, Intent

if TYPE_CHECKING:
    from cnc.intent import shape


def _read(document: shape.Document, _problems: Problems) -> Iterator[PolicingRules]:
    """What is stated, of the network, of classes and of streams. A routed network has none."""
    if document.forwarding is Forwarding.ROUTED:
        return
    classes = {name: its[ClassKeys].policing for name, its in document.classes.items()}
    streams = {name: its[StreamKeys].policing for name, its in document.streams.items()}
    yield PolicingRules(
        document[NetworkKeys].policing,
        {name: stated for name, stated in classes.items() if stated},
        {name: stated for name, stated in streams.items() if stated},
    )


def _of_switch(bridge: Bridge, its: shape.Switch) -> Bridge:
    most = its[SwitchKeys].stream_filters_max
    return replace(bridge, stream_filters_max=most) if most else bridge


def talker_lateness_ns(defaults: shape.Defaults, station: shape.EndStation) -> int | None:
    """What is stated of a station, or of all; None where the gate margin holds."""
    if station.talker_lateness_ns is None:
        return defaults.talker_lateness_ns
    return station.talker_lateness_ns


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is policed without effect, and talkers that nothing can be planned
    for."""
    _check_lateness(intent, problems)
    if intent.network.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(_stated(document), "nothing is policed")
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


KEYS = Keys(
    {
        Level.NETWORK: NetworkKeys,
        Level.CLASS: ClassKeys,
        Level.SWITCH: SwitchKeys,
        Level.STREAM: StreamKeys,
    },
    read=_read,
    of_switch=_of_switch,
    check=_check,
    founding={"policing": PolicingRules},
)
