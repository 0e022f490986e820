"""Finds the mechanisms by name: this room stands below them, so that no room that asks all of them
stands above any.

Ours are folders beside this file, in the order in which what they do is told and compared; those of
others come after them, from the entry points of the group `cnc.mechanisms` of installed packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cnc.errors import CncError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAMES = (
    "talker_offsets",
    "launch_time",
    "gates",
    "cqf",
    "cbs",
    "preemption",
    "clock",
    "identification",
    "frer",
    "stream_filters",
    "forwarding",
    "multipath",
)
GROUP = "cnc.mechanisms"


@cache
def loaded() -> tuple[Any, ...]:
    """What all of them register, each a `cnc.mechanism.Registered`.

    Raises CncError where that of another package cannot be had, or where what it is known by is
    taken.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  `cnc --help` needs no mechanism

    found = [import_module(f"cnc.mechanisms.{name}.registration").MECHANISM for name in NAMES]
    taken = {each for its in found for each in _known_by(its)}
    for entry in entry_points(group=GROUP):
        its = had(entry)
        # By name: the contract stands above this room.
        if not isinstance(its, import_module("cnc.mechanism").Registered):
            raise broken(entry, f"is a {type(its).__name__}, not a cnc.mechanism.Registered")
        if again := next((each for each in _known_by(its) if each in taken), None):
            raise broken(entry, f"another mechanism has {again} already")
        taken.update(_known_by(its))
        found.append(its)
    return tuple(found)


def _known_by(its: Any) -> Iterator[str]:
    """What no two mechanisms may share. The keys of intents are compared where they are joined."""

    yield f"the name {its.name!r}"
    if decided := its.decided:
        yield f"the key {decided.kept.key!r} in plans"
    if kept := getattr(its, "kept", None):
        yield f"the key {kept.key!r} in the history"
    if shown := getattr(its, "shown", None):
        yield f"the key {shown.key!r} in documents"
        yield f"the key {shown.hop_key!r} of a hop in documents"


def had(entry: EntryPoint) -> Any:
    """What the entry point of a mechanism of another package names. Raises CncError."""
    try:
        return entry.load()
    except Exception as error:
        raise broken(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error


def broken(entry: EntryPoint, why: str) -> CncError:
    """An error that names the mechanism and its package."""
    dist = entry.dist
    package = f"{dist.name} {dist.version}" if dist else "an unknown package"
    return CncError(
        f"mechanism {entry.name} of {package} ({entry.value}): {why}",
        hint=f"repair {package}, or remove it",
    )
