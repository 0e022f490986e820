"""An independent judge of plans: `judge(plan)` lists every promise the plan breaks.

It shares no code with the planner. It expands every transmission over the cycles, adds up the
worst and best cases itself, and looks whether each rule holds:

    route                            every stream is refused, or reaches its listeners and no other
    paths, disjoint                  on as many paths as asked for, no link between bridges on two
    class                            in one queue all the way, one of those it may use
    talker-window, precedence        no frame is sent before it is there, nor outside its window
    deadline, bound                  requirements hold, and the plan's own figure is a bound
    jitter                           so it is with the spread of arrivals, where it is limited
    overlap                          one frame at a time on each link
    fifo                             frames leave each queue in the planned order, come what may
    gate-missing, gate-stray         every port in use of a switch, or of a talker with gates, has
                                     a gate control list, no other has
    preemption                       no port is to preempt frames, which nothing configures
    gate-cycle, gate-interval, gate-tick, gate-entries, gate-mask
                                     the list is one that the port can run
    gate-window                      the gate is open for the whole of a planned frame's time
    window-full                      all frames that may leave in one opening do so in their time
    gate-exclusive, gate-guard, gate-seam
                                     nothing else is sent then, nor still on the wire
    gate-talker                      a talker's list shuts best effort alone
    gate-control, starved-control, starved-best-effort
                                     control may always be sent, best effort often enough
    best-effort-share                and for as much of the cycle as it is to keep
    loop, loop-deadline              control loops take as long as the plan says, and no longer
                                     than they may
    recovery                         frames are in time again as soon as promised
    address                          in a bridged network every stream has an address and VLAN of
                                     its own, as the operator states and no protocol uses
    forwarding-copies                every listener gets each frame, once for each path
    forwarding-stray, forwarding-loop
                                     frames cross no other link than planned, nor any twice
    forwarding-priority              switches give them the priority of their VLAN tag
    identification                   of streams that talkers send untagged the first switch knows
                                     each frame, and the last gives it back as it was sent
    sequence, sequence-tag           where switches take out second copies, each listener gets one
                                     of each frame without a tag, whichever cable is cut
    sequence-history, sequence-reset they remember numbers for as long as copies may come
    filtering-entries                no switch has more filtering entries than it holds
    policing                         filters let frames pass that come as planned, and no other
    stream-filters                   no switch has more of them than it holds

A gate may open before the planned time, so that a frame that comes early leaves early. How early
it may then be at every later bridge is part of the best case that `fifo` is judged by. It delays
nobody: a frame that does not end before its gate closes is not started (802.1Q 8.6.8.4), no other
gate is open at another frame's planned time, and its own queue keeps the planned order.
"""

from __future__ import annotations

from cnc.account.limits import judge_limits
from cnc.account.violation import Violation
from cnc.check.forwarding import judge_forwarding
from cnc.check.lists import judge_cycles, judge_lists, readable_lists
from cnc.check.mechanisms import judge_times
from cnc.check.queues import judge_links, judge_queues
from cnc.check.recovery import judge_recovery
from cnc.check.seams import judge_seams
from cnc.check.shared import judge_shared
from cnc.check.streams import judge_streams
from cnc.check.windows import judge_windows
from cnc.errors import PlanRejected
from cnc.loops.judge import judge_loops
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import Plan
from cnc.support.gc_pause import paused

__all__ = ["Violation", "judge", "judge_limits", "require_sound"]


@paused()
def judge(plan: Plan) -> list[Violation]:
    """Everything wrong with the plan; an empty list is the verdict "sound"."""
    if violations := [*judge_cycles(plan)]:
        return violations
    lists = readable_lists(plan)
    transmissions, violations = judge_streams(plan, lists)
    violations += judge_links(transmissions)
    violations += judge_queues(transmissions)
    violations += judge_shared(plan, lists, transmissions)
    violations += judge_lists(plan, lists)
    forwarding = bridge_forwardings(plan)
    violations += judge_forwarding(plan, forwarding)
    violations += judge_times(plan, forwarding, transmissions)
    violations += judge_loops(plan)
    violations += judge_limits(plan.intent.network, plan.gates)
    violations += judge_windows(plan, lists, transmissions)
    violations += judge_seams(plan, lists, transmissions)
    if not violations:  # a plan that does not hold without a disturbance is refused as it is
        violations += judge_recovery(plan, lists, transmissions)
    return violations


def require_sound(plan: Plan, what: str = "the plan", *, hint: str) -> None:
    """Raise PlanRejected with all violations of `what`, and what to do as `hint`."""
    if violations := judge(plan):
        lines = "\n".join(f"  {each.code} {each.where}: {each.text}" for each in violations)
        raise PlanRejected(f"the judge refuses {what}:\n{lines}", hint=hint)
