"""What a document says of multipath TCP, and what would have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems
from cnc.keys.units import DURATION
from cnc.mechanisms.multipath.connection_keys import ApplicationKeys, ConnectionsKeys
from cnc.mechanisms.multipath.connections import (
    Application,
    ConnectionMode,
    Connections,
    Reading,
)
from cnc.mechanisms.multipath.keys import Multipath, PathKeys, StationKeys
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

_OF_BACKUPS = {ConnectionMode.ON_DEMAND, ConnectionMode.RELIABILITY}
_THRESHOLD_NS = 10_000_000_000  # of the module, where none is stated


def _read(document: shape.Document, problems: Problems) -> Iterable[object]:
    found = {}
    for name, station in document.end_stations.items():
        if its := station[StationKeys].multipath:
            _check(name, station, its, problems)
            found[name] = _station(its)
    yield Stations(found)


def _station(its: Multipath) -> Station:
    return Station(
        {port: _path(each) for port, each in its.paths.items()},
        Settings(
            mode=its.mode,
            enabled=its.enabled,
            subflows=its.subflows,
            add_addr_accepted=its.add_addr_accepted,
            scheduler=its.scheduler,
            congestion_control=its.congestion_control,
            no_metrics_save=its.no_metrics_save,
            max_buffer_octets=its.max_buffer_octets,
            connections=_connections(its.connections) if its.connections else None,
        ),
    )


def _set(values: Iterable[Any]) -> tuple[Any, ...]:
    """In the order in which they are read back."""
    return tuple(sorted(set(values)))


def _path(its: PathKeys) -> Path:
    return Path(
        its.backup,
        its.announce,
        _set(its.radio_technologies),
        its.minimum_signal,
        its.data_limit_octets,
        its.data_warning,
    )


def _connections(its: ConnectionsKeys) -> Connections:
    heat = its.heat
    return Connections(
        tuple(
            Application(
                name,
                each.mode,
                each.source,
                _set(each.users),
                _set(each.control_groups),
                _set(each.remote_ports),
                each.media_rate_bps,
                each.media_duration_ns,
            )
            for name, each in its.applications.items()
        ),
        its.on_demand.threshold_ns,
        its.on_demand.removal_threshold_ns,
        its.on_demand.reading,
        its.download.small_object_octets,
        its.download.long_running_ns,
        heat.zone if heat else None,
        heat.stop if heat else None,
        heat.restart if heat else None,
        its.retry_after_ns,
    )


def _check(name: str, station: shape.EndStation, its: Multipath, problems: Problems) -> None:
    path: KeyPath = ("end-stations", name, "multipath")
    if station.management is None:
        problems.add(
            path,
            "multipath without management",
            "management as well, the address at which a push brings it, or no multipath",
        )
    for port, each in its.paths.items():
        if each.data_warning is not None and each.data_limit_octets is None:
            problems.add(
                (*path, "paths", port, "data-warning"), "a data-warning", "a data-limit as well"
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
    _check_connections((*path, "connections"), its, problems, has_backup=has_backup)
    if its.mode is Mode.LOW_LATENCY:
        _check_scheduler((*path, "mode"), its, problems)


def _check_connections(
    path: KeyPath, its: Multipath, problems: Problems, *, has_backup: bool
) -> None:
    """What the YANG module refuses, by the line of the document."""
    if its.connections is None:
        for port, keys in its.paths.items():
            for key in _conditions(keys):
                problems.add(
                    (*path[:-1], "paths", port, key), f"{key} without connections", "connections"
                )
        return
    for name, application in its.connections.applications.items():
        at = (*path, "applications", name)
        _check_mode(at, application, its, problems, has_backup=has_backup)
        _check_medium(at, application, its.connections, problems)
    _check_thresholds(path, its.connections, problems)


def _check_mode(
    at: KeyPath, its: ApplicationKeys, station: Multipath, problems: Problems, *, has_backup: bool
) -> None:
    if its.mode in _OF_BACKUPS and not has_backup:
        problems.add(
            (*at, "mode"), f"{its.mode} and no path that is a backup", "backup: true of a path"
        )
    if its.mode is ConnectionMode.LOW_LATENCY:
        _check_scheduler((*at, "mode"), station, problems)


def _check_scheduler(at: KeyPath, station: Multipath, problems: Problems) -> None:
    """Of mode low-latency."""
    if station.scheduler in {None, DEFAULT_SCHEDULER}:
        problems.add(
            at,
            f"{Mode.LOW_LATENCY} with the scheduler {station.scheduler or DEFAULT_SCHEDULER}",
            "a scheduler of the station that sends on several paths at a time, or another mode",
        )


def _check_medium(
    at: KeyPath, its: ApplicationKeys, connections: ConnectionsKeys, problems: Problems
) -> None:
    on_demand = its.mode is ConnectionMode.ON_DEMAND
    if on_demand and its.media_rate_bps is None:
        problems.add((*at, "mode"), f"{its.mode} without a media-rate", "media-rate as well")
    if its.media_rate_bps is not None and not on_demand:
        problems.add((*at, "media-rate"), f"a media-rate and mode {its.mode}", "mode on-demand")
    if its.media_duration_ns is not None and connections.on_demand.reading is not Reading.PRINTED:
        problems.add(
            (*at, "media-duration"),
            "a media-duration without the reading printed",
            "reading: printed of on-demand, or no media-duration",
        )


def _check_thresholds(path: KeyPath, its: ConnectionsKeys, problems: Problems) -> None:
    demand, heat = its.on_demand, its.heat
    removal_ns, threshold_ns = demand.removal_threshold_ns, demand.threshold_ns or _THRESHOLD_NS
    at = (*path, "on-demand", "removal-threshold")
    if removal_ns is not None and demand.reading is Reading.PRINTED:
        problems.add(at, "a removal-threshold with the reading printed", "one of the two")
    elif removal_ns is not None and removal_ns < threshold_ns:
        problems.add(
            at,
            DURATION.format(removal_ns),
            f"{DURATION.format(threshold_ns)} or more, the threshold",
        )
    if heat and heat.restart > heat.stop:
        problems.add((*path, "heat", "restart"), str(heat.restart), f"{heat.stop} or less, as stop")


def _conditions(its: PathKeys) -> Iterator[str]:
    if its.radio_technologies:
        yield "radio-technologies"
    if its.minimum_signal is not None:
        yield "minimum-signal"
    if its.data_limit_octets is not None:
        yield "data-limit"


KEYS = Keys({Level.END_STATION: StationKeys}, read=_read)
