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
    preemption                       no port is to preempt frames where nothing configures it
    gate-cycle, gate-interval, gate-tick, gate-entries, gate-mask
                                     the list is one that the port can run
    gate-given, gate-frame           a list that an operator gives is run as it is given, or, where
                                     streams leave beside windows by share, these are; and the
                                     largest frame of each class that it opens fits
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
from cnc.check.whole import Judgement, judgement
from cnc.errors import PlanRejected
from cnc.model import Plan

__all__ = ["Judgement", "Violation", "judge", "judge_limits", "judgement", "require_sound"]


def judge(plan: Plan) -> list[Violation]:
    """Everything wrong with the plan; an empty list is the verdict "sound"."""
    return judgement(plan).violations


def require_sound(
    plan: Plan, what: str = "the plan", *, hint: str, judged: Judgement | None = None
) -> Judgement:
    """The judgement on `what`, that of the caller where it is on this very plan. Raises
    PlanRejected with all violations, and what to do as `hint`."""
    if judged is None or judged.plan is not plan:
        judged = judgement(plan)
    if judged.violations:
        lines = "\n".join(f"  {each.code} {each.where}: {each.text}" for each in judged.violations)
        raise PlanRejected(f"the judge refuses {what}:\n{lines}", hint=hint)
    return judged
