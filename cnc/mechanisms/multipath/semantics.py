"""What a document says of multipath TCP, and what would have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems
from cnc.mechanisms.multipath.keys import Multipath, StationKeys
from cnc.mechanisms.multipath.model import (
    DEFAULT_SCHEDULER,
    Mode,
    Path,
    Settings,
    Station,
    Stations,
)
from cnc.support.wording import named

if TYPE_CHECKING:
    from cnc.keys import shape


def _read(document: shape.Document, problems: Problems) -> Iterable[object]:
    found = {}
    for name, station in document.end_stations.items():
        if its := station[StationKeys].multipath:
            _check(name, station, its, problems)
            found[name] = _station(its)
    yield Stations(found)


def _station(its: Multipath) -> Station:
    return Station(
        {port: Path(each.backup, each.announce) for port, each in its.paths.items()},
        Settings(
            mode=its.mode,
            enabled=its.enabled,
            subflows=its.subflows,
            add_addr_accepted=its.add_addr_accepted,
            scheduler=its.scheduler,
            congestion_control=its.congestion_control,
            no_metrics_save=its.no_metrics_save,
            max_buffer_octets=its.max_buffer_octets,
        ),
    )


def _check(name: str, station: shape.EndStation, its: Multipath, problems: Problems) -> None:
    path: KeyPath = ("end-stations", name, "multipath")
    if station.management is None:
        problems.add(
            path,
            "multipath without management",
            "management as well, the address at which a push brings it, or no multipath",
        )
    for port in its.paths.keys() - {*station.ports}:
        problems.add(
            (*path, "paths", port), port, f"one of its ports, {named(sorted(station.ports))}"
        )
    has_backup = any(each.backup for each in its.paths.values())
    if its.mode is Mode.RELIABILITY and not has_backup:
        problems.add(
            (*path, "mode"), f"{its.mode} and no path that is a backup", "backup: true of a path"
        )
    if has_backup and all(each.backup for each in its.paths.values()):
        problems.add((*path, "paths"), "none but backups", "a path that is no backup")
    if its.mode is Mode.LOW_LATENCY and its.scheduler in {None, DEFAULT_SCHEDULER}:
        problems.add(
            (*path, "mode"),
            f"{its.mode} with the scheduler {its.scheduler or DEFAULT_SCHEDULER}",
            "a scheduler of the station that sends on several paths at a time, or another mode",
        )


KEYS = Keys({Level.END_STATION: StationKeys}, read=_read)
