"""Push of a plan: to all switches or to none."""

from __future__ import annotations

from cnc.check import require_sound
from cnc.model import Plan
from cnc.rollout.events import Listener, ignore
from cnc.rollout.history import History
from cnc.rollout.recovery import settle
from cnc.rollout.rollout import Goal, Report, roll_out
from cnc.switch.device import ConnectOptions


def push(
    plan: Plan,
    *,
    connect: ConnectOptions,
    history: History | None = None,
    dry_run: bool = False,
    take_over: bool = False,
    what: str = "push",
    restores: bool = False,
    listener: Listener = ignore,
) -> Report:
    """Deploy `plan` to every switch as one change; see `roll_out`.

    Ports that already run their list are not changed; without a difference nothing is sent.
    `restores`: the switches are to run again what they were given before, so that what they have
    measured of their gates since then does not prevent it.

    Raises PlanRejected when the judge refuses the plan, RolloutError also while an earlier rollout
    waits for an operator's decision.
    """
    require_sound(plan, hint="nothing was sent; plan the intent again with `cnc plan`")
    if history and not dry_run:
        managed = plan.intent.network.managed.values()
        settle(managed, connect=connect, history=history)
    former = history.running_plan(plan.intent.name) if history else None
    goal = Goal.of(plan, what, restores=restores, former=former)
    return roll_out(
        goal,
        connect=connect,
        history=history,
        dry_run=dry_run,
        take_over=take_over,
        listener=listener,
    )
