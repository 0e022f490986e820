"""The mechanisms of the controller; a new one is a folder beside and a word in `loading`."""

from __future__ import annotations

from typing import Any

from cnc.mechanism import Followed, Kept, Measured, Mechanism, Shown, Watched
from cnc.mechanisms.loading import loaded

MECHANISMS: tuple[Mechanism[Any], ...] = tuple(
    each for each in loaded() if isinstance(each, Mechanism)
)
"""Those that a rollout configures."""

MEASURED: tuple[Measured, ...] = tuple(
    each.measured for each in reversed(loaded()) if each.measured
)
"""The figures that nodes measure, in the order in which they are told."""

FOLLOWED: tuple[Followed, ...] = tuple(each.followed for each in loaded() if each.followed)
"""What only several looks at a node tell."""

KEPT: tuple[tuple[type[Any], Kept[Any]], ...] = tuple(
    (each.part, each.kept) for each in MECHANISMS if each.kept
)
"""The parts of a bridge that the history keeps, and how."""

SHOWN: tuple[tuple[type[Any], Shown[Any]], ...] = tuple(
    (each.part, each.shown) for each in MECHANISMS if each.shown
)
"""The parts of a bridge that are told to people and programs, and how."""

WATCHED: tuple[Watched, ...] = tuple(each.watched for each in reversed(MECHANISMS) if each.watched)
"""What the mechanisms count that count anything, in the order in which frames come to them."""
