"""What a document says of windows that are given to classes as shares of the cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION
from cnc.keys.values import CYCLE_MAX_NS
from cnc.mechanisms.gates.shares import entries_of, overlap, share_list, starts_ns
from cnc.model import ClassRole, GivenWindow

if TYPE_CHECKING:
    from cnc.keys import shape
    from cnc.mechanisms.gates.given import GivenList

ENTRIES_MAX = 65_535  # what supported-list-max may be (802.1Q-2022 12.29.1)
_WHOLE_PPB = 10**9


def classes_with_share(document: shape.Document) -> dict[str, shape.ClassWindows]:
    """The windows of classes that state a share."""
    return {name: its.share for name, its in document.classes.items() if its.share}


def given_shares(document: shape.Document, problems: Problems) -> dict[str, GivenWindow]:
    """The windows of classes that have them by share; none where they are not stated as they
    should."""
    windows = classes_with_share(document)
    incomplete = [name for name in windows if not _is_complete(name, windows, problems)]
    if incomplete or not windows:
        return {}
    shares = _shares(document, windows, problems)
    path = ("classes", [*windows][-1], "windows")
    if len(shares) < len(windows) or not _is_short(shares, (*path, "every"), problems):
        return {}
    if reason := overlap(shares):
        problems.add(path, reason, "windows of their own, such as `after: CLASS`")
        return {}
    return shares


def shared_list(document: shape.Document, shares: Mapping[str, GivenWindow]) -> GivenList:
    """The list that shares make of a port by which no stream leaves."""
    return share_list(
        tuple(shares.values()),
        control=_with_role(document, ClassRole.CONTROL),
        others=_with_role(document, ClassRole.BEST_EFFORT),
    )


def _is_complete(name: str, windows: dict[str, shape.ClassWindows], problems: Problems) -> bool:
    """Whether a class says when its windows are; if not, that is a problem."""
    path, its = ("classes", name, "windows"), windows[name]
    if its.every_ns is None:
        problems.add(path, "a share without every", "every, the time between two windows")
        return False
    others = [n for n, o in windows.items() if n != name and o.every_ns == its.every_ns]
    if not isinstance(its.after, str) or its.after in others:
        return True
    more = f", or a class with windows every so long: {one_of(others)}" if others else ""
    problems.add((*path, "after"), shown(its.after), f"a duration{more}")
    return False


def _shares(
    document: shape.Document, windows: dict[str, shape.ClassWindows], problems: Problems
) -> dict[str, GivenWindow]:
    """By class; those whose windows have no place in their cycle are problems."""
    every = {name: its.every_ns or 0 for name, its in windows.items()}
    lengths = {
        name: (its.share_ppb or 0) * every[name] // _WHOLE_PPB for name, its in windows.items()
    }
    starts = starts_ns({name: its.after or 0 for name, its in windows.items()}, lengths)
    shares = {}
    for name, period in every.items():
        path = ("classes", name, "windows", "after")
        if name not in starts:
            problems.add(path, "classes that follow each other in a circle", "one that begins")
        elif (end := starts[name] + lengths[name]) > period:
            found = f"windows that end {DURATION.format(end)} into a cycle"
            problems.add(path, found, f"an end within every, {DURATION.format(period)}")
        else:
            number = document.classes[name].traffic_class
            shares[name] = GivenWindow(number, starts[name], lengths[name], period)
    return shares


def _is_short(shares: dict[str, GivenWindow], path: KeyPath, problems: Problems) -> bool:
    """Whether a list can hold all windows until they repeat; if not, that is a problem."""
    cycle_ns, entries = entries_of(tuple(shares.values()))
    if cycle_ns <= CYCLE_MAX_NS and entries <= ENTRIES_MAX:
        return True
    found = f"windows that repeat together only every {DURATION.format(cycle_ns)}"
    expected = f"times that divide one another, or at most {DURATION.format(CYCLE_MAX_NS)}"
    problems.add(path, found, expected)
    return False


def _with_role(document: shape.Document, role: ClassRole) -> int:
    numbers = {its.traffic_class for its in document.classes.values() if its.role is role}
    return sum(1 << number for number in numbers)


def check_shares(document: shape.Document, problems: Problems) -> None:
    """Add to `problems` what has no effect."""
    for name, its in document.classes.items():
        path = ("classes", name, "windows")
        if its.windows is None:
            continue
        if its.windows.share_ppb is None:
            for key, value in (("every", its.windows.every_ns), ("after", its.windows.after)):
                if value is not None:
                    problems.add((*path, key), f"{key} without a share", "share, such as 30%")
        elif its.windows.frames:
            found = f"a share, and frames: {its.windows.frames}"
            problems.add(path, found, "one of both: no stream has a place in windows by share")
