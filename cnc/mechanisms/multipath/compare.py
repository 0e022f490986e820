"""Compares the paths that a plan's intent asks for with those of an end station."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cnc.data_tree.tree import PortReport
from cnc.mechanisms.multipath.leaves import PATH, texts, words
from cnc.mechanisms.multipath.model import Path, PathReport, StationPath, Stations
from cnc.model import Plan, PortRef, PortSettings, StoredPort


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, StationPath]:
    """The paths of these stations."""
    return {
        PortRef(name, port): StationPath(path, station.settings)
        for name, station in plan.intent[Stations].by_name.items()
        if name in nodes
        for port, path in station.paths.items()
    }


def leaving(
    desired: Mapping[str, dict[str, PortSettings]], former: Plan
) -> dict[str, dict[str, PortSettings]]:
    """`desired` by node, with the ports that were paths by `former`, the plan before, alone."""
    stations = former.intent[Stations].by_name
    return {
        name: _without(settings, stations[name].paths) if name in stations else settings
        for name, settings in desired.items()
    }


def _without(settings: dict[str, PortSettings], before: Collection[str]) -> dict[str, PortSettings]:
    found = (each.get(StationPath) for each in settings.values())
    of_station = next((each.settings for each in found if each), None)
    gone = {
        port: its.having(StationPath(None, of_station))
        for port in before
        if (its := settings.get(port, PortSettings())).get(StationPath) is None
    }
    return {**settings, **gone}


def previous(_asked: StationPath, stored: StoredPort) -> StationPath:
    """The path that is configured."""
    return stored.get(StationPath) or StationPath()


def configured_difference(desired: StationPath, stored: StoredPort) -> str | None:
    """How what is configured differs, in words; None: it does not."""
    before = previous(desired, stored)
    if before.path == desired.path and (desired.path is None or before == desired):
        return None
    if desired.path is None:
        return "it is no path of multipath TCP any more"
    if before.path is None:
        return "it becomes a path of multipath TCP"
    changes = [
        *_changes(_path_words(before.path), _path_words(desired.path)),
        *_changes(_setting_words(before), _setting_words(desired)),
    ]
    return f"its multipath TCP: {', '.join(changes)}"


def _path_words(path: Path) -> dict[str, str]:
    roles = {"backup": str(path.backup).lower(), "announce": str(path.announce).lower()}
    conditions: dict[str, str] = {}
    for leaf, value in texts(path, PATH):
        conditions[leaf] = f"{conditions[leaf]} {value}" if leaf in conditions else value
    return roles | conditions


def _setting_words(its: StationPath) -> dict[str, str]:
    if its.settings is None:
        return its.kernel_values
    mode = {"mode": str(its.settings.mode)}
    managed = words(its.settings.connections)
    return mode | its.kernel_values | managed


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        then, now = before.get(name, "the station's own"), after.get(name, "the station's own")
        if then != now:
            yield f"{name} {then} becomes {now}"


def drifted(desired: StationPath, stored: StoredPort, report: PortReport | None) -> str | None:
    """How the kernel differs from what is stored."""
    return path_difference(previous(desired, stored), report)


def path_difference(
    desired: StationPath, report: PortReport | None, _base_time_ns: int | None = None
) -> str | None:
    """The first difference of the kernel from what is desired, as text; None if equal."""
    if report is None:
        return "the station has no such port"
    its = report[PathReport]
    if desired.path is None:
        return "it still is a path of multipath TCP" if its.managed else None
    return next(_differences(desired, its), None)


def _differences(desired: StationPath, its: PathReport) -> Iterator[str]:
    if not its.managed:
        yield "it is no path of multipath TCP"
    if its.lack:
        yield its.lack
    flags, ours = desired.endpoint_flags, [each for each in its.endpoints if each.managed]
    expected = f"expected {_flag_words(flags)}"
    for each in ours:
        if each.flags != flags:
            yield f"the endpoint of {each.address} is {_flag_words(each.flags)}, {expected}"
    if flags is not None and not ours:
        yield f"it has no endpoint, {expected}"
    for name, value in desired.kernel_values.items():
        if its.kernel.get(name) != value:
            yield f"{name} is {its.kernel.get(name, 'unknown')}, expected {value}"


def _flag_words(flags: frozenset[str] | None) -> str:
    return "none" if flags is None else " ".join(sorted(flags))


def difference_since(before: PortReport, now: PortReport) -> str | None:
    """Whether its path is another one than before, as text; None: it is the same."""
    if _compared(before) != _compared(now):
        return "its path of multipath TCP is another one than before"
    return None


def _compared(report: PortReport) -> tuple[object, ...]:
    its = report[PathReport]
    endpoints = {(each.address, each.flags) for each in its.endpoints if each.managed}
    return its.managed, its.lack, frozenset(endpoints)
