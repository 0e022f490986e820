"""When to put back what drifted, and when to leave it alone. Pure; times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cnc.model import PortRef
from cnc.watch.condition import Condition, Kind

SETTLE_S = 2.0
FIRST_DELAY_S = 5.0
LONGEST_DELAY_S = 300.0

# A push would fail, or it would undo what somebody else wanted.
_HINDRANCES = {
    Kind.UNREACHABLE,
    Kind.AGENT_DOWN,
    Kind.CLOCK_OFFSET,
    Kind.CONFIGURATION,
    Kind.FOREIGN_CHANGE,
    Kind.UNFINISHED_ROLLOUT,
}


def hindrance(conditions: Iterable[Condition]) -> Condition | None:
    """What keeps the plan from being pushed again just now; None: nothing does."""
    return next((each for each in conditions if each.kind in _HINDRANCES), None)


class Pace:
    """The moments at which to heal.

    Not before a drift has stayed the same for `SETTLE_S`: who takes one schedule off a switch may
    take more, and a restarted agent is about to set its own. After each attempt the wait for the
    next one is twice as long, until nothing has drifted for as long as the last wait.
    """

    def __init__(self) -> None:
        self._drifted: Collection[PortRef] = frozenset()
        self._changed_s = 0.0
        self._next_s = 0.0
        self._delay_s = FIRST_DELAY_S

    def is_due(self, drifted: Collection[PortRef], now_s: float) -> bool:
        """Whether to heal now; to be asked again and again."""
        if drifted != self._drifted:
            self._drifted = drifted
            self._changed_s = now_s
        if not drifted:
            if now_s >= max(self._next_s, self._changed_s + self._delay_s):
                self._delay_s = FIRST_DELAY_S
            return False
        return now_s >= max(self._next_s, self._changed_s + SETTLE_S)

    def tried(self, now_s: float) -> float:
        """An attempt has ended; how long the next one waits at least, in seconds."""
        waits_s = self._delay_s
        self._next_s = now_s + waits_s
        self._delay_s = min(2 * waits_s, LONGEST_DELAY_S)
        return waits_s
