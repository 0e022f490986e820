"""An independent judge of plans: `judge(plan)` lists every promise the plan breaks.

It shares no code with the planner. It expands every transmission over the cycles, adds up the
worst and best cases itself, and looks whether each rule holds:

    route, class                     every stream reaches its listeners, and only them, in its queue
    talker-window, precedence        no frame is sent before it is there, nor outside its window
    deadline, bound                  requirements hold, and the plan's own figure is a bound
    overlap                          one frame at a time on each link
    fifo                             frames leave each queue in the planned order, come what may
    gate-missing, gate-stray         every bridge port in use has a gate control list, no other has
    gate-cycle, gate-interval, gate-entries, gate-mask
                                     the list is one that the port can run
    gate-window, gate-early          the gate opens at a planned frame's time, and not before
    gate-exclusive, gate-guard       nothing else is sent then, nor still on the wire
    gate-control, starved-control, starved-best-effort
                                     control may always be sent, best effort often enough
"""

from __future__ import annotations

from cnc.check.frames import judge_links, judge_queues, judge_streams
from cnc.check.gates import judge_gates
from cnc.check.violation import Violation
from cnc.model import Plan

__all__ = ["Violation", "judge"]


def judge(plan: Plan) -> list[Violation]:
    """Everything wrong with the plan; an empty list is the verdict "sound"."""
    transmissions, violations = judge_streams(plan)
    violations += judge_links(transmissions)
    violations += judge_queues(transmissions)
    violations += judge_gates(plan, transmissions)
    return violations
