"""What a document says of launch times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import Problems
from cnc.keys.units import DURATION
from cnc.mechanisms.launch_time.keys import StationKeys
from cnc.mechanisms.launch_time.model import (
    DEFAULT_DELTA_NS,
    DELTA_MAX_NS,
    LaunchTimes,
    StationLaunch,
)
from cnc.model import EndStation, Intent

if TYPE_CHECKING:
    from cnc.keys import shape


def _read(document: shape.Document, _problems: Problems) -> Iterator[LaunchTimes]:
    stations = {}
    for name, station in document.end_stations.items():
        its = station[StationKeys]
        if its.launch_time is not None:
            delta_ns = its.launch_delta_ns
            stations[name] = StationLaunch(
                its.launch_time, DEFAULT_DELTA_NS if delta_ns is None else delta_ns
            )
    yield LaunchTimes(stations)


def _of_station(
    station: EndStation, its: shape.EndStation, _document: shape.Document
) -> EndStation:
    """A frame is as late as its release, whatever its program is: talker-lateness is that of
    programs."""
    own = its[StationKeys]
    if own.launch_time is None:
        return station
    return replace(
        station,
        lateness_ns=own.launch_error_ns,
        lateness_key="launch-error",
        program_lateness_ns=station.lateness_ns,
    )


def _check(document: shape.Document, _intent: Intent, problems: Problems) -> None:
    """Add to `problems` what nothing would configure, and what has no effect."""
    for name, station in document.end_stations.items():
        own, path = station[StationKeys], ("end-stations", name)
        if own.launch_time is None:
            for key, stated_ns in (
                ("launch-error", own.launch_error_ns),
                ("launch-delta", own.launch_delta_ns),
            ):
                if stated_ns is not None:
                    problems.add(
                        (*path, key),
                        f"{DURATION.format(stated_ns)} without launch-time",
                        "launch-time as well, software or hardware, or no such key",
                    )
            continue
        if station.management is None:
            problems.add(
                (*path, "launch-time"),
                f"{own.launch_time} without management",
                "management as well, the address at which a push brings it, or no launch-time",
            )
        if own.launch_delta_ns is not None and not 0 < own.launch_delta_ns <= DELTA_MAX_NS:
            problems.add(
                (*path, "launch-delta"),
                DURATION.format(own.launch_delta_ns),
                f"more than 0 ns, and {DURATION.format(DELTA_MAX_NS)} at most",
            )


KEYS = Keys(
    {Level.END_STATION: StationKeys},
    read=_read,
    of_station=_of_station,
    check=_check,
    founding={"launch-time": LaunchTimes},
)
