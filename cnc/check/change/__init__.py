"""The judge of a change: is the plan that is to follow a sound one as sound as that?

`judge` looks at all of a plan. Where it has found one sound, and the next differs by a few streams
and lists, most of what it would look at again is the same. So its rules are asked about parts of
the next plan (`rules`), and about all of it only where they find anything there: the verdict is
always that of `judge`, and a plan that is refused costs what it costs there. So does one that
differs in more than streams and lists: in its network, classes, or what mechanisms are asked for
or have decided.
"""

from __future__ import annotations

from collections.abc import Collection

from cnc.account.violation import Violation
from cnc.check.change.differences import Named, is_same_ground, may_be_mixed
from cnc.check.change.known import Known
from cnc.check.change.mixture import Mixture
from cnc.check.change.rules import Parts
from cnc.check.mechanisms import are_local, judge_mixed
from cnc.check.whole import Judgement, judgement
from cnc.model import Plan
from cnc.support.gc_pause import in_steps, paused

__all__ = ["Judged", "Named"]


class Judged:
    """A plan that was judged whole, and in its place each sound one that came after it.

    Not for several threads at a time.
    """

    def __init__(self, plan: Plan, judged: Judgement | None = None) -> None:
        """`judged` is the judgement on this very plan, if the caller has it."""
        if judged is None or judged.plan is not plan:
            judged = judgement(plan)
        self.plan = plan  # what the next one is compared with
        self.violations = judged.violations
        self._known = None if judged.violations else _known(judged)

    @in_steps()
    def after(self, plan: Plan, named: Named | None = None) -> list[Violation]:
        """Everything that `judge` finds wrong with the plan. If that is nothing, the next one is
        compared with this one; else with the same as this one was.

        Who knows what may differ says so: to find it takes a look at every stream. What is not
        named is not judged again, unless there are more or fewer streams or lists than are named.
        """
        if self._known and are_local() and is_same_ground(self._known.plan, plan):
            parts = Parts(self._known, plan, named)
            if parts.are_sound():
                parts.take()
                self.plan = plan
                return []
        judged = judgement(plan)
        if not judged.violations:
            self.plan, self.violations, self._known = plan, [], _known(judged)
        return judged.violations

    def compatible(
        self, plan: Plan, named: Named | None = None, *, silent: Collection[str] = ()
    ) -> list[Violation]:
        """What may break a promise of this plan to a stream that is the same in `plan`, which
        `judge` should find sound, while any nodes go by the one and the rest by the other; see
        `mixture`. Nothing: any subset of them may.

        `silent` are streams of this plan that nobody sends.
        """
        if not self._known or not are_local() or not may_be_mixed(self._known.plan, plan):
            text = "no mixture is known of plans for other networks, classes or mechanisms"
            return [Violation("mixture", plan.intent.name, text)]
        before = self._known.plan
        mixture = Mixture(self._known, plan, named, silent)
        return [*mixture.judge(), *judge_mixed(before, plan, silent)]


@paused()
def _known(judged: Judgement) -> Known:
    return Known(judged)
