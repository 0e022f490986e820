"""When to restore drifted ports, and when not. Pure; times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cnc.model import PortRef
from cnc.watch.condition import Condition, Kind

SETTLE_S = 2.0
FIRST_DELAY_S = 5.0
LONGEST_DELAY_S = 300.0

# A push would fail, or would undo the change of another operator.
_HINDRANCES = {
    Kind.UNREACHABLE,
    Kind.AGENT_DOWN,
    Kind.CLOCK_OFFSET,
    Kind.CONFIGURATION,
    Kind.FOREIGN_CHANGE,
    Kind.GATES_WAIT,
    Kind.UNFINISHED_ROLLOUT,
}


def hindrance(conditions: Iterable[Condition]) -> Condition | None:
    """The condition that prevents a push now; None without one."""
    return next((each for each in conditions if each.kind in _HINDRANCES), None)


def postponed(by: Condition) -> str:
    """What to tell while a condition prevents a push."""
    where = f"{by.switch}/{by.port}" if by.port else by.switch or "the network"
    text = f"postponed by {by.kind} of {where}: {by.text}"
    # Whoever configured it may want it there.
    return f"{text}; push again to replace it" if by.kind is Kind.CONFIGURATION else text


class Backoff:
    """Determines the times of healing.

    A drift has to be stable for `SETTLE_S`: further schedules may be removed, and a restarted agent
    is about to restore its own. Each attempt doubles the backoff, until there was no drift for as
    long as the last backoff.
    """

    def __init__(self) -> None:
        self._drifted: Collection[PortRef] = frozenset()
        self._changed_s = 0.0
        self._next_s = 0.0
        self._delay_s = FIRST_DELAY_S

    def is_due(self, drifted: Collection[PortRef], now_s: float) -> bool:
        """Whether to heal now; called repeatedly."""
        if drifted != self._drifted:
            self._drifted = drifted
            self._changed_s = now_s
        if not drifted:
            if now_s >= max(self._next_s, self._changed_s + self._delay_s):
                self._delay_s = FIRST_DELAY_S
            return False
        return now_s >= max(self._next_s, self._changed_s + SETTLE_S)

    def tried(self, now_s: float) -> float:
        """Record the end of an attempt; returns the minimum wait until the next one, in seconds."""
        waits_s = self._delay_s
        self._next_s = now_s + waits_s
        self._delay_s = min(2 * waits_s, LONGEST_DELAY_S)
        return waits_s
