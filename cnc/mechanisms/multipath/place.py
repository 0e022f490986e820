"""The paths of multipath TCP at the ports of an end station."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cnc.data_tree.tree import PortReport
from cnc.mechanism import AtPlace, Kept, configured_or_drifted
from cnc.mechanisms.multipath.compare import (
    configured_difference,
    derive,
    difference_since,
    drifted,
    leaving,
    path_difference,
    previous,
)
from cnc.mechanisms.multipath.model import PathReport, StationPath
from cnc.mechanisms.multipath.tree import edit, filters, reported, stored
from cnc.support.format import counted

REASONS = 3  # of a port, beside each other in a cell of a table


def _does(its: StationPath) -> str | None:
    if its.path is None or its.settings is None:
        return None
    backup = ", backup" if its.path.backup else ""
    return f"multipath TCP: {its.settings.mode}{backup}"


def _goes_on(report: PortReport) -> str | None:
    """The subflows by a path, with the reasons that most of them have."""
    its = report[PathReport]
    kinds = Counter(its.subflows)
    found = [
        f"{counted(number, 'backup subflow' if is_backup else 'subflow')} ({reason})"
        for (is_backup, reason), number in kinds.most_common(REASONS)
    ]
    if more := kinds.total() - sum(number for _, number in kinds.most_common(REASONS)):
        found.append(counted(more, "other"))
    demoted = [f"a backup of each connection: {its.demoted}"] if its.demoted else []
    return "; ".join([*demoted, *found]) or None


def _rows(its: StationPath) -> Iterator[StationPath]:
    yield its


AT_PLACE = AtPlace(
    part=StationPath,
    derive=derive,
    leaving=leaving,
    needs_change=configured_or_drifted(
        "the station",
        configured_difference,
        lambda desired, _its, report: path_difference(desired, report),
    ),
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
    goes_on=_goes_on,
    kept=Kept("multipath", StationPath, _rows, lambda rows: rows[0]),
)
