"""When a link that holds what is sent to a switch delivers it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from cnc.model import NS_PER_S
from cnc.rollout.history import History
from cnc.rollout.timing import MIN_LEAD_NS

_AFTER_HOLD_NS = 1 * NS_PER_S
# Less than the margin in which a switch has reverted before the base time.
_BEFORE_BASE_TIME_NS = 600_000_000
_AFTER_BASE_TIME_NS = 500_000_000


class Moment(StrEnum):
    """When what was held is delivered."""

    BEFORE_REVERT = "before the revert"
    BEFORE_BASE_TIME = "between revert and base time"
    AFTER_BASE_TIME = "after the base time"
    AFTER_END = "after cnc has ended"

    def instant_ns(self, held_ns: int, base_time_ns: int | None) -> int:
        """When to deliver what is held from `held_ns` on (TAI); for AFTER_END at the earliest.

        Where no base time has been chosen yet, the earliest one is assumed.
        """
        base_time_ns = base_time_ns or held_ns + MIN_LEAD_NS
        return {
            Moment.BEFORE_REVERT: held_ns + _AFTER_HOLD_NS,
            Moment.BEFORE_BASE_TIME: base_time_ns - _BEFORE_BASE_TIME_NS,
            Moment.AFTER_BASE_TIME: base_time_ns + _AFTER_BASE_TIME_NS,
            Moment.AFTER_END: held_ns,
        }[self]


def base_time_since(history_file: Path, rollouts_before: int) -> int | None:
    """The base time (TAI) of the newest rollout; None if the history has no more than before."""
    with History(history_file) as history:
        newest = next(iter(history.rollouts(limit=1)), None)
    return newest.base_time_ns if newest and newest.number > rollouts_before else None


def rollouts_in(history_file: Path) -> int:
    """How many rollouts the history has, which it numbers from 1."""
    with History(history_file) as history:
        return next((each.number for each in history.rollouts(limit=1)), 0)
