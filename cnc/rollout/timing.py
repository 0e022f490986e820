"""When a rollout starts, how long its commits may be on their way, and how long switches wait.

    now ──── stage, commit ────┬── time-out ──┬── margin ──┬────────────►
                               │              │            │
             a switch refuses the       an unconfirmed   base time: all ports
             commit from here on        switch reverts   start the new lists

So an abandoned rollout never moves a gate, however late a commit is delivered: a switch that has
taken it begins to wait before the first instant, and has reverted to its previous lists before the
first of the new ones would have started.

A change that is right in every mixture of new lists and old ones needs none of that: it moves gates
at once, and moves them back if it is abandoned. Each list only has to be in its kernel before its
first cycle: of a base time that has passed Linux 6.12 makes a change over one entry early.

    now ── stage, commit ──┬── cycle ──► read back, decide, confirm
                           │
        a switch refuses the commit from here on, which is the base time
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from cnc.data_tree.list_times import first_start_ns
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, PHASE_WAIT_MAX_NS

SLOWER = "a switch or the network is slower than its first answers were; push again"

# A rollout to a few switches takes well under a second. The lead grows with the slowest
# reply to a request, of which a rollout has about a dozen, the commit being the longest.
MIN_LEAD_NS = 7 * NS_PER_S
LEAD_PER_ANSWER = 28
# Between the last moment at which a switch reverts by itself and the base time: the time to set the
# previous lists, as long as a commit. It grows with the slowest reply.
MIN_MARGIN_NS = 1 * NS_PER_S
MARGIN_PER_ANSWER = 4
# TAI minus UTC since 2017 (IERS Bulletin C 52, and those that have announced none since).
LEAP_SECONDS = 37
# A switch forgets a rollout that is taken back within so long after the instant until which it may
# be applied (`apply-before` in tsn-linux.yang), so that no commit waits longer for confirmation.
CONFIRM_MAX_S = 60
# How long a change takes that is made at once from now until all switches have it: an edit and a
# commit, which take together what an answer with the state of all ports does; half as much again
# where the slowest answer says that the machine is busy.
AT_ONCE_MIN_NS = 150_000_000
# How long switches wait for the confirmation of such a change at least.
AT_ONCE_CONFIRM_MIN_S = 5
# The least part of the wait that must remain for the confirming commits.
CONFIRM_SHARE = 4

# Of a controller that leads its network for a while, asked with how long is wanted: for how long
# from then on switches may apply what it sends, in nanoseconds. Raises RolloutError: not at all.
Within = Callable[[int], int]


def base_time_ns(
    now_tai_ns: int, slowest_answer_ns: int, cycles_ns: Iterable[int], lead_ns: int = 0
) -> int:
    """The first instant (TAI) that all cycles share, far enough ahead: `lead_ns` at least.

    `now_tai_ns` is the latest that any switch's clock can be now. Lists whose base times are
    multiples of their cycles are in phase with those that run, which are so, too.

    Raises RolloutError when the cycles share no instant within PHASE_WAIT_MAX_NS.
    """
    lead_ns = max(MIN_LEAD_NS, lead_ns, LEAD_PER_ANSWER * slowest_answer_ns)
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


def tai_here_minus_monotonic_ns() -> tuple[int, int]:
    """Bounds of (TAI minus the monotonic clock) by this machine's UTC, which may be a second off;
    TAI is ahead of it by the leap seconds up to 2026."""
    tai_ns = time.time_ns() + LEAP_SECONDS * NS_PER_S - time.monotonic_ns()
    return tai_ns - NS_PER_S, tai_ns + NS_PER_S


def margin_ns(slowest_answer_ns: int) -> int:
    """How long before the base time an unconfirmed switch must begin to revert."""
    return max(MIN_MARGIN_NS, MARGIN_PER_ANSWER * slowest_answer_ns)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """What a rollout with this base time keeps to; instants are TAI, by the switches' clocks.

    No switch applies it after `apply_before_ns`, and one that has waits `timeout_s` for its
    confirmation. At `runs_ns` all lists run, which is waited for before they are read back; None:
    they are read back while they wait for the base time. `is_of_lease`: they might apply it later
    if its controller led the network for longer.
    """

    base_time_ns: int
    apply_before_ns: int
    timeout_s: int
    runs_ns: int | None = None
    is_of_lease: bool = False

    @property
    def starts_ns(self) -> int:
        """When the last list starts."""
        return self.base_time_ns if self.runs_ns is None else self.runs_ns

    @classmethod
    def at_once(
        cls, now_tai_ns: int, slowest_answer_ns: int, cycles_ns: Collection[int]
    ) -> Deadlines:
        """Of a change that is right in every mixture; `now_tai_ns` is as of `base_time_ns`."""
        base_ns = now_tai_ns + max(AT_ONCE_MIN_NS, slowest_answer_ns * 3 // 2)
        runs_ns = max((first_start_ns(base_ns, each) for each in cycles_ns), default=base_ns)
        twice_s = -(-2 * (runs_ns - now_tai_ns) // NS_PER_S)
        timeout_s = min(max(AT_ONCE_CONFIRM_MIN_S, twice_s), CONFIRM_MAX_S)
        return cls(base_ns, base_ns, timeout_s, runs_ns)

    @classmethod
    def before(cls, base_time_ns: int, now_tai_ns: int, margin_ns: int) -> Deadlines:
        """Half of what is left until a margin before the base time is for each of the two."""
        left_ns = base_time_ns - margin_ns - now_tai_ns
        timeout_s = min(left_ns // 2 // NS_PER_S, CONFIRM_MAX_S)
        return cls(base_time_ns, base_time_ns - margin_ns - timeout_s * NS_PER_S, timeout_s)

    def within(self, its: Within, least_tai_ns: int) -> Deadlines:
        """The same, but that no switch applies it later than `its` controller leads the network;
        `least_tai_ns` is the earliest that any switch's clock can be now. Raises RolloutError."""
        # Whatever delays this process between the two, its lease ends no later for that.
        end_ns = least_tai_ns + its(self.apply_before_ns - least_tai_ns)
        if end_ns >= self.apply_before_ns:
            return self
        return replace(self, apply_before_ns=end_ns, is_of_lease=True)

    def window(self, now_tai_ns: int) -> ConfirmWindow:
        """The wait for confirmation of commits that are sent now.

        Raises RolloutError when the switches would refuse them.
        """
        late_ns = now_tai_ns - self.apply_before_ns
        if late_ns >= 0:
            instant = (
                "the end of the lease by which this controller leads the network"
                if self.is_of_lease
                else "the instant until which they could be committed"
            )
            raise RolloutError(
                f"all switches have their new lists {late_ns / NS_PER_S:.3f} s after {instant}",
                hint=SLOWER,
            )
        return ConfirmWindow(self.timeout_s, time.monotonic() + self.timeout_s)


@dataclass(frozen=True, slots=True)
class ConfirmWindow:
    """The time in which the switches wait for confirmation; `ends_s` is on the controller's
    monotonic clock."""

    timeout_s: int
    ends_s: float

    def remaining_s(self) -> float:
        return self.ends_s - time.monotonic()

    def refuse_if_late(self) -> None:
        """Raise RolloutError when too little time remains to confirm on all switches."""
        remaining_s = self.remaining_s()
        if remaining_s * CONFIRM_SHARE < self.timeout_s:
            raise RolloutError(
                f"the switches needed {self.timeout_s - remaining_s:.3f} s to apply the new lists "
                f"and revert by themselves after {self.timeout_s} s: too little time to confirm "
                "everywhere",
                hint=SLOWER,
            )
