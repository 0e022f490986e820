"""Finds the mechanisms by name: this room stands below them, so that no room that asks all of them
stands above any.

Ours are folders beside this file, in the order in which what they do is told and compared; those of
others come after them, from the entry points of the group `cnc.mechanisms` of installed packages.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

NAMES = (
    "talker_offsets",
    "gates",
    "clock",
    "identification",
    "frer",
    "stream_filters",
    "forwarding",
)
GROUP = "cnc.mechanisms"


@cache
def loaded() -> tuple[Any, ...]:
    """What all of them register, each a `cnc.mechanism.Registered`."""
    own = (import_module(f"cnc.mechanisms.{name}.registration").MECHANISM for name in NAMES)
    return (*own, *(each.load() for each in entry_points(group=GROUP)))
