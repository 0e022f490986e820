"""What a document says of gates of end stations, of the best effort that they send, and of how late
their talkers are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import Problems
from cnc.keys.units import DURATION
from cnc.mechanisms.talker_offsets.keys import DefaultsKeys, StationKeys
from cnc.model import ClassRole, EndStation, Intent, TalkerInterference

if TYPE_CHECKING:
    from cnc.keys import shape


def _of_station(station: EndStation, its: shape.EndStation, document: shape.Document) -> EndStation:
    """What is stated of a station, or of all; its gates keep its best effort back."""
    own, of_all = its[StationKeys], document.defaults[DefaultsKeys]
    interference = own.talker_interference or of_all.talker_interference
    lateness_ns = own.talker_lateness_ns
    return replace(
        station,
        interference=TalkerInterference.NONE if its.gates else interference,
        lateness_ns=of_all.talker_lateness_ns if lateness_ns is None else lateness_ns,
    )


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` talkers that nothing can be planned for."""
    _check_gates(document, problems)
    _check_lateness(intent, problems)


def _check_gates(document: shape.Document, problems: Problems) -> None:
    """Gates of end stations that nothing would configure, or that would not do what is planned with
    them.

    Between windows a frame that its talker sends too late has only its priority over best effort.
    """
    scheduled = {
        name: its.traffic_class
        for name, its in document.classes.items()
        if its.role is ClassRole.SCHEDULED
    }
    lowest = min(scheduled, key=lambda name: scheduled[name], default=None)
    for name, its in document.end_stations.items():
        if its.gates is None:
            continue
        path = "end-stations", name, "gates"
        if its.management is None:
            problems.add(
                path,
                f"{its.gates} without management",
                "management as well, the address at which a push brings the list, or no gates",
            )
        interference = its[StationKeys].talker_interference
        if interference is TalkerInterference.ONE_FRAME:
            problems.add(
                ("end-stations", name, "talker-interference"),
                f"{interference} beside gates",
                "no such key: gates keep the station's best effort back",
            )
        for other, its_class in document.classes.items():
            is_best_effort = its_class.role is ClassRole.BEST_EFFORT
            if lowest and is_best_effort and its_class.traffic_class > scheduled[lowest]:
                problems.add(
                    path,
                    f"{its.gates} and best effort of a higher class, {other} "
                    f"({its_class.traffic_class}), than scheduled class {lowest} "
                    f"({scheduled[lowest]})",
                    "scheduled classes above best effort, so that a late frame goes first",
                )


def _check_lateness(intent: Intent, problems: Problems) -> None:
    """A link is reserved for its talker's lateness, in each period."""
    reported = set()
    for stream in intent.streams.values():
        talker = intent.network.end_stations.get(stream.talker)
        lateness_ns = talker.lateness_ns if talker else None
        if (
            talker is None
            or lateness_ns is None
            or lateness_ns < stream.period_ns
            or stream.talker in reported
        ):
            continue
        reported.add(stream.talker)
        stations = intent.document["end-stations"]
        station = stations.get(stream.talker) if isinstance(stations, dict) else None
        is_own = isinstance(station, dict) and talker.lateness_key in station
        where = ("end-stations", stream.talker) if is_own else ("defaults",)
        problems.add(
            (*where, talker.lateness_key),
            DURATION.format(lateness_ns),
            f"less than {DURATION.format(stream.period_ns)}, the period of stream {stream.name} "
            f"of {stream.talker}",
        )


KEYS = Keys(
    {Level.DEFAULTS: DefaultsKeys, Level.END_STATION: StationKeys},
    of_station=_of_station,
    check=_check,
)
