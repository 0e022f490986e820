"""The paths of multipath TCP at the ports of an end station."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import AtPlace, Kept
from cnc.mechanisms.multipath.compare import (
    configured_difference,
    derive,
    difference_since,
    drifted,
    leaving,
    needs_change,
    path_difference,
    previous,
)
from cnc.mechanisms.multipath.model import StationPath
from cnc.mechanisms.multipath.tree import edit, filters, reported, stored


def _does(its: StationPath) -> str | None:
    if its.path is None or its.settings is None:
        return None
    backup = ", backup" if its.path.backup else ""
    return f"multipath TCP: {its.settings.mode}{backup}"


def _rows(its: StationPath) -> Iterator[StationPath]:
    yield its


AT_PLACE = AtPlace(
    part=StationPath,
    derive=derive,
    leaving=leaving,
    needs_change=needs_change,
    configured=configured_difference,
    differs=path_difference,
    drifted=drifted,
    since=difference_since,
    waits=lambda _its, _report: False,
    does=_does,
    idle="no path of multipath TCP",
    previous=previous,
    edit=edit,
    of_stations=filters,
    stored=stored,
    reported=reported,
    kept=Kept("multipath", StationPath, _rows, lambda rows: rows[0]),
)
