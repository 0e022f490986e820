"""What came of a control loop over a lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnc.support.format import counted, duration
from cnc.testbed.traffic.loop.path_error import PathError, path_error
from cnc.testbed.traffic.loop.response import StepResponse, step_responses
from cnc.testbed.traffic.measure import Spread, spread

if TYPE_CHECKING:
    from cnc.model import LoopDelay
    from cnc.testbed.lab.kernels.offsets import FurthestApart
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.loop.run import Curve


@dataclass(frozen=True, slots=True)
class LoopReport:
    """A run of a loop beside what the plan says of it.

    `undisturbed` is what each output is over a network that is always in time.
    `other_lists` are the ports that do not run the lists of the plan. `clock_error_ns` is what any
    two clocks may differ by the plan, and `clocks` are those that did most; None: all nodes have
    one clock.
    """

    curve: Curve
    planned: LoopDelay
    undisturbed: Sequence[Sequence[float]]
    platform: Platform
    other_lists: Sequence[str]
    clock_error_ns: int
    clocks: FurthestApart | None = None

    @property
    def delay(self) -> Spread | None:
        """From the planned instant of a sample until its answer was at the plant."""
        return spread(self.curve.delays_ns) if self.curve.delays_ns else None

    @property
    def responses(self) -> list[StepResponse]:
        """One for each step; none of a loop that follows a path."""
        if self.curve.loop.path is not None:
            return []
        return step_responses(self.curve.outputs, self.curve.loop)

    @property
    def path_error(self) -> PathError | None:
        """None: the loop follows no path."""
        return path_error(self.curve.loop, self.curve.axes)

    @property
    def judged(self) -> Sequence[StepResponse | PathError]:
        """What the intent may accept or not: the responses, or the one path."""
        error = self.path_error
        return [error] if error else self.responses

    @property
    def good(self) -> int | None:
        """How many of them are good; None: the intent says nothing of that."""
        accepted = self.curve.loop.accepted
        if accepted is None:
            return None
        return sum(each.is_good(accepted) for each in self.judged)

    @property
    def is_undisturbed(self) -> bool:
        """Whether the outputs are those of a network that is always in time."""
        return [*self.undisturbed] == self.curve.axes

    @property
    def violations(self) -> list[str]:
        """What is not as the plan promises; nothing is judged where it promises nothing."""
        if not self.platform.exact or self.other_lists:
            return []
        curve, name = self.curve, self.curve.loop.name
        broken = []
        if (clocks := self.clocks) and clocks.apart_ns > self.clock_error_ns:
            # First, since it may be why the rest is broken.
            apart, allowed = duration(clocks.apart_ns), duration(self.clock_error_ns)
            broken.append(
                f"{name}: the clock of {clocks.ahead} was {apart} ahead of that of "
                f"{clocks.behind}; the plan allows {allowed}"
            )
        if curve.missed:
            of = counted(len(curve.periods), "command")
            broken.append(f"{name}: {curve.missed} of {of} missed the deadline")
        if (delay := self.delay) and delay.max_ns > self.planned.total_ns:
            worst, planned = duration(delay.max_ns), duration(self.planned.total_ns)
            broken.append(f"{name}: the loop took {worst}, the plan says {planned}")
        return broken
