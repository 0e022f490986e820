"""The mechanisms of the controller; a new one is a folder beside and a word in `loading`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from cnc.mechanism import Followed, FoundLists, Measured, Mechanism, Noted, Openings, Watched
from cnc.mechanisms.loading import loaded
from cnc.model import Plan

MECHANISMS: tuple[Mechanism[Any], ...] = tuple(
    each for each in loaded() if isinstance(each, Mechanism)
)
"""Those that a rollout configures on bridges."""

MEASURED: tuple[Measured, ...] = tuple(
    each.measured for each in reversed(loaded()) if each.measured
)
"""The figures that nodes measure."""

FOLLOWED: tuple[Followed, ...] = tuple(
    followed for each in reversed(loaded()) for followed in each.followed
)
"""What only several looks at a node tell."""

WATCHED: tuple[Watched, ...] = tuple(each.watched for each in reversed(MECHANISMS) if each.watched)
"""What the mechanisms count that count anything, in the order in which frames come to them."""


@cache
def noted() -> Mapping[tuple[str, str], tuple[StrEnum, Noted]]:
    """What is told of notifications, by the namespace and name of each."""
    every = [each.noted() for each in loaded() if each.noted]
    return {(its.namespace, str(kind)): (kind, its) for its in every for kind in its.kinds}


def openings(plan: Plan) -> Iterator[Openings]:
    """What classes of ports have of gate control lists that are given."""
    return (row for each in loaded() for row in each.openings(plan))


def found_lists() -> FoundLists:
    """What becomes of gate control lists that switches run."""
    found: FoundLists = next(each.found_lists for each in loaded() if each.found_lists)()
    return found
