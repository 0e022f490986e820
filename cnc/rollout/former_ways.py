"""Removes the filtering entries by which streams came before a rollout gave them other ways.

That is a rollout of its own, after the base time of the first and the time of the last frame under
way. If it fails, or its controller ends before, the network is on the new plan all the same, and
the entries are left over: see `left_over`. They carry no frame, so the switches need no order.
"""

from __future__ import annotations

import time
from dataclasses import replace

from cnc.errors import CncError
from cnc.model import NS_PER_S
from cnc.rollout.events import Listener, Step, StepBegun
from cnc.rollout.goal import Goal
from cnc.rollout.history import History
from cnc.rollout.left_over import NEXT_PUSH, LeftOver
from cnc.rollout.rollout import FormerWays, Report, roll_out
from cnc.rollout.timing import Within
from cnc.support.format import counted
from cnc.switch.device import ConnectOptions
from cnc.switch.rollout_id import Term


def wait_for(left: LeftOver | None, listener: Listener) -> None:
    """Wait until no frame can come any more by what is left, which the next rollout removes."""
    if left and left.wait_s > 0:
        listener(StepBegun(Step.WAIT, len(left.by_switch)))
        time.sleep(left.wait_s)


def remove(
    goal: Goal,
    report: Report,
    *,
    connect: ConnectOptions,
    history: History | None,
    take_over: bool,
    without_deadline: bool,
    term: Term | None,
    within: Within | None,
    listener: Listener,
) -> Report:
    """Remove the former ways that the rollout of `goal` kept; returns its report with the outcome.

    Waits first for the base time on every switch, and for the frames under way then. A failure is
    no error: the report has the reason.
    """
    between = goal.between
    count = counted(len(between.moved), "stream")
    confirmed_ns = time.monotonic_ns()
    listener(StepBegun(Step.WAIT, len(goal.former)))
    try:
        wait_ns = confirmed_ns + report.all_start_in_ns + between.under_way_ns - time.monotonic_ns()
        time.sleep(max(0, wait_ns) / NS_PER_S)
        removal = roll_out(
            goal.without_former_ways(f"removes the previous paths of {count}"),
            connect=connect,
            history=history,
            take_over=take_over,
            without_deadline=without_deadline,
            term=term,
            within=within,
            listener=listener,
        )
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"all switches run the new lists; the previous paths of {count} are left: {NEXT_PUSH}"
        ) from error
    except CncError as error:
        return replace(report, former_ways=FormerWays(between.moved, None, str(error)))
    return replace(report, former_ways=FormerWays(between.moved, removal.number))
