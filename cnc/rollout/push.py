"""Push of a plan: to all switches or to none."""

from __future__ import annotations

from cnc.check import Judgement, judge, require_sound
from cnc.check.transition import require_sound_transition
from cnc.finding import Check, Finding, Verdict
from cnc.model import Plan
from cnc.rollout import former_ways
from cnc.rollout.events import Listener, ignore
from cnc.rollout.goal import Goal
from cnc.rollout.history import History
from cnc.rollout.left_over import left_over
from cnc.rollout.recovery import settle
from cnc.rollout.rollout import Report, Warn, ignore_findings, roll_out
from cnc.rollout.timing import Within
from cnc.support.format import counted
from cnc.switch.device import ConnectOptions
from cnc.switch.rollout_id import Term


def push(
    plan: Plan,
    *,
    connect: ConnectOptions,
    history: History | None = None,
    dry_run: bool = False,
    take_over: bool = False,
    without_deadline: bool = False,
    term: Term | None = None,
    within: Within | None = None,
    what: str = "push",
    force_margin: bool = False,
    has_run: bool = False,
    change_is_judged: bool = False,
    touched: bool = False,
    at_once: bool = False,
    listener: Listener = ignore,
    warn: Warn = ignore_findings,
    judged: Judgement | None = None,
) -> Report:
    """Deploy `plan` to every switch as one change; see `roll_out`.

    Ports that already run their list are not changed; without a difference nothing is sent.
    `warn` is told of what does not prevent the change, before anything is sent. `force_margin`: nor
    does what switches have measured of their gates, since they are to run again what they ran, or
    since the operator wants it so. `has_run`: the switches have run the plan, which an earlier
    version may have made by another account of times; what the judge finds in it is a warning.
    `judged` is the judgement on this very plan, if the caller has it. `change_is_judged`: the
    caller has had plan and transition judged, as a change of the plan that runs.
    `touched`: only nodes that the plan asks for something else than the one that runs, by the
    history, are connected to, checked, locked and changed; all nodes where the history has none. A
    node that has drifted meanwhile is not seen then, and whoever has another history is not locked
    out. `at_once`: the caller knows that the change keeps what is promised in every mixture, any of
    the nodes on the new lists and the others on those before. It is made without a common base
    time: each list starts with its next cycle after the commit, and all are read back as they run
    before the change is confirmed.

    `term`: who acts for the network, of several controllers, so that switches refuse what others
    send, and `within`: for how long it does; see `roll_out`.

    Where streams of a bridged network get other ways than in the plan that runs, by the history,
    their former ways are removed by a second rollout once no frame comes by them any more: this
    function waits for that, some seconds, and the report says what became of it.

    Raises PlanRejected when the judge refuses the plan, or what switches are told while it takes
    the place of the one that runs; RolloutError also while an earlier rollout waits for an
    operator's decision.
    """
    if not change_is_judged:
        _judge(plan, judged, warn, has_run=has_run)
    network = plan.intent.name
    if history and not dry_run:
        managed = plan.intent.network.managed.values()
        settle(managed, connect=connect, history=history)
    runs = history.running(network) if history else None
    former = history.plan_of(runs) if history and runs is not None else None
    left = left_over(history, network) if history else None
    goal = Goal.of(
        plan,
        what,
        force_margin=force_margin,
        at_once=at_once,
        former=former,
        left=left.by_switch if left else None,
    )
    if not change_is_judged:
        require_sound_transition(plan, former, goal.between)
    if touched and former and runs is not None:
        goal = goal.of_what_differs(former, runs)
    if not dry_run:
        former_ways.wait_for(left, listener)
    report = roll_out(
        goal,
        connect=connect,
        history=history,
        dry_run=dry_run,
        take_over=take_over,
        without_deadline=without_deadline,
        term=term,
        within=within,
        listener=listener,
        warn=warn,
    )
    if report.number is None or not goal.former:
        return report
    return former_ways.remove(
        goal,
        report,
        connect=connect,
        history=history,
        take_over=take_over,
        without_deadline=without_deadline,
        term=term,
        within=within,
        listener=listener,
    )


def _judge(plan: Plan, judged: Judgement | None, warn: Warn, *, has_run: bool) -> None:
    """Raise PlanRejected when the judge refuses the plan; warn of it where the plan `has_run`."""
    if not has_run:
        hint = "nothing was sent; plan the intent again with `cnc plan`"
        require_sound(plan, hint=hint, judged=judged)
    elif found := judge(plan):
        text = (
            f"the judge finds {counted(len(found), 'violation')} in this plan, which has run: "
            f"{found[0].where} {found[0].text}"
        )
        hint = "plan the intent again with `cnc plan` and push that; `cnc check` lists them all"
        warn([Finding(None, None, Check.PLAN, Verdict.WARNING, text, hint)])
