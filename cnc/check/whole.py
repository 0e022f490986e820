"""A plan judged whole, with what of it others need that go on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cnc.account.frames import Transmission
from cnc.account.limits import judge_limits
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.check.forwarding import judge_forwarding
from cnc.check.lists import judge_cycles, judge_lists, periods_of, readable_lists
from cnc.check.mechanisms import judge_entering, judge_given, judge_times
from cnc.check.queues import judge_links, judge_queues
from cnc.check.recovery import account_of, is_promised, judge_recovery
from cnc.check.seams import judge_seams
from cnc.check.shared import judge_shared
from cnc.check.streams import judge_streams
from cnc.check.windows import judge_windows
from cnc.loops.judge import judge_loops
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import Plan, PortRef
from cnc.support.gc_pause import paused


class Judgement(NamedTuple):
    """`violations` is everything wrong with `plan`; an empty list is the verdict "sound".

    `lists` are those of its gate control lists that can be read, and `transmissions` its frames on
    all links: of a sound plan all. `known_endless` is `endless` where the verdict depends on the
    same account.
    """

    plan: Plan
    violations: list[Violation]
    lists: Mapping[PortRef, GateCycle]
    transmissions: Sequence[Transmission]
    known_endless: Mapping[PortRef, str] | None = None

    @property
    def endless(self) -> Mapping[PortRef, str]:
        """Of the ports of a sound plan that is to recover from disturbances those that keep streams
        from a bound, and why."""
        disturbance_ns = self.plan.intent.network.disturbance_ns
        if self.known_endless is not None or self.violations or disturbance_ns is None:
            return self.known_endless or {}
        account = account_of(self.plan.intent, self.lists, self.transmissions, disturbance_ns)
        account.by_stream()
        return account.endless


@paused()
def judgement(plan: Plan) -> Judgement:
    """Judge a plan whole."""
    if violations := [*judge_cycles(plan.gates, periods_of(plan))]:
        return Judgement(plan, violations, {}, ())
    lists = readable_lists(plan)
    transmissions, violations = judge_streams(plan, lists)
    violations += judge_links(transmissions)
    violations += judge_queues(transmissions)
    violations += judge_shared(plan, lists, transmissions)
    violations += judge_lists(plan, lists)
    violations += judge_given(plan)
    forwarding = bridge_forwardings(plan)
    violations += judge_forwarding(plan, forwarding)
    violations += judge_times(plan, forwarding, transmissions)
    violations += judge_entering(plan, forwarding, transmissions)
    violations += judge_loops(plan)
    violations += judge_limits(plan.intent.network, plan.gates)
    violations += judge_windows(plan, lists, transmissions)
    violations += judge_seams(plan, lists, transmissions)
    endless: Mapping[PortRef, str] | None = None
    if not violations:  # a plan that does not hold without a disturbance is refused as it is
        found: Mapping[str, int | None] = {}
        disturbance_ns = plan.intent.network.disturbance_ns
        if disturbance_ns is not None and is_promised(plan):
            account = account_of(plan.intent, lists, transmissions, disturbance_ns)
            found, endless = account.by_stream(), account.endless
        violations += judge_recovery(plan, found)
    return Judgement(plan, violations, lists, transmissions, endless)
