"""Finds the mechanisms by name: this room stands below them, so that no room that asks all of them
stands above any.

Ours are folders beside this file, in the order in which what they do is told and compared; those of
others come after them, from the entry points of the group `cnc.mechanisms` of installed packages.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

NAMES = (
    "identification",
    "frer",
    "stream_filters",
    "talker_offsets",
    "gates",
    "forwarding",
    "clock",
)
GROUP = "cnc.mechanisms"


@cache
def loaded() -> tuple[Any, ...]:
    """What all of them register, each a `cnc.mechanism.Registered`.

    Raises ImportError where that of another package cannot be had, or has a name that is taken.
    """
    found = [import_module(f"cnc.mechanisms.{name}.registration").MECHANISM for name in NAMES]
    for each in entry_points(group=GROUP):
        its = _of_others(each)
        if its.name in {other.name for other in found}:
            raise ImportError(f"{_whose(each)}: there is a mechanism {its.name} already")
        found.append(its)
    return tuple(found)


def _of_others(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"{_whose(entry)} cannot be loaded: {reason}") from error


def _whose(entry: EntryPoint) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    return f"mechanism {entry.name} of {package} ({entry.value})"
