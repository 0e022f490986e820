"""When a rollout starts, and how long the switches wait for its confirmation.

    now ──── commit, read back, confirm ────┬── margin ──┬────────────►
                                            │            │
                     a switch that heard nothing    base time: all ports
                     more has gone back             start the new lists

The wait ends before the base time. So a rollout that is abandoned half-way never moves a gate:
every switch is back at its former lists before the first of the new ones would have started.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from cnc.errors import RolloutError
from cnc.model import NS_PER_S

SLOWER = "a switch or the network is slower than its first answers were; push again"

# How long the cycles may take to come to an instant that all share. The switches wait for their
# confirmation until then, and so does whoever meets a rollout that was abandoned. It is the default
# of <confirm-timeout> (RFC 6241 section 8.4), and keeps base times within the kernel's int64.
PHASE_WAIT_MAX_NS = 600 * NS_PER_S

# A rollout to a few switches takes well under a second. The lead grows with what the slowest switch
# took to answer a question, of which a rollout has about a dozen, the commit being the longest.
MIN_LEAD_NS = 5 * NS_PER_S
LEAD_PER_ANSWER = 20
# Between the last moment at which a switch goes back by itself and the base time. A switch counts
# from when it gets the commit: the margin is for the way there, and for the time it takes to set
# its former lists, as long as a commit. Both grow with what the slowest switch takes to answer.
MIN_MARGIN_NS = 1 * NS_PER_S
MARGIN_PER_ANSWER = 4
# The least part of the wait that must be left for the confirmations themselves.
CONFIRM_SHARE = 4


def base_time_ns(now_tai_ns: int, slowest_answer_ns: int, cycles_ns: Iterable[int]) -> int:
    """The first instant (TAI) that all cycles share, far enough ahead.

    `now_tai_ns` is the latest that any switch's clock can be now. Lists whose base times are
    multiples of their cycles are in phase with those that run, which are so, too.

    Raises RolloutError when the cycles share none soon.
    """
    lead_ns = max(MIN_LEAD_NS, LEAD_PER_ANSWER * slowest_answer_ns)
    common_ns = math.lcm(1, *cycles_ns)
    chosen_ns = -(-(now_tai_ns + lead_ns) // common_ns) * common_ns
    phase_wait_ns = chosen_ns - now_tai_ns - lead_ns
    if phase_wait_ns > PHASE_WAIT_MAX_NS:
        raise RolloutError(
            f"the cycles share an instant only every {common_ns / NS_PER_S:.0f} s, the next "
            f"in {phase_wait_ns / NS_PER_S:.0f} s; every switch would wait that long for its "
            f"confirmation, and at most {PHASE_WAIT_MAX_NS // NS_PER_S} s are accepted",
            hint="choose periods that divide one another",
        )
    return chosen_ns


def margin_ns(slowest_answer_ns: int) -> int:
    """How long before the base time a switch that heard nothing more must begin to go back."""
    return max(MIN_MARGIN_NS, MARGIN_PER_ANSWER * slowest_answer_ns)


@dataclass(frozen=True, slots=True)
class ConfirmWindow:
    """How long the switches wait. `ends_s` is on the controller's monotonic clock."""

    timeout_s: int
    ends_s: float

    @classmethod
    def before(cls, base_time_ns: int, now_tai_ns: int, margin_ns: int) -> ConfirmWindow:
        """The longest wait from now on, in whole seconds, that ends a margin before the base time.

        Raises RolloutError when there is no time left.
        """
        timeout_s = (base_time_ns - now_tai_ns - margin_ns) // NS_PER_S
        if timeout_s < 1:
            raise RolloutError(
                f"the base time is only {(base_time_ns - now_tai_ns) / NS_PER_S:.3f} s ahead once "
                "all switches have their new lists; too little to confirm everywhere",
                hint=SLOWER,
            )
        return cls(timeout_s, time.monotonic() + timeout_s)

    def left_s(self) -> float:
        return self.ends_s - time.monotonic()

    def refuse_if_late(self) -> None:
        """Raise RolloutError when too little is left to tell all switches to keep their lists."""
        left_s = self.left_s()
        if left_s * CONFIRM_SHARE < self.timeout_s:
            raise RolloutError(
                f"the switches took {self.timeout_s - left_s:.3f} s to take over the new lists; "
                f"they go back by themselves after {self.timeout_s} s, too soon to confirm "
                "everywhere",
                hint=SLOWER,
            )
