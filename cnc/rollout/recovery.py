"""Ends rollouts whose controller died, or that could not be confirmed everywhere.

Before the decision no confirming commit was sent, and each switch reverts by itself. After it the
state of the switches decides: if all were confirmed, or none, `settle` ends the rollout. If only
some were, an operator has to choose between `resume` and `roll_back`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from cnc.errors import InputError, RolloutError
from cnc.model import BridgeForwarding, PortSettings, StoredBridge
from cnc.rollout.events import Listener, ignore
from cnc.rollout.goal import Goal, stored_clock_error_ns
from cnc.rollout.history import (
    History,
    Outcome,
    Phase,
    Rollout,
    SwitchChange,
    address_of,
)
from cnc.rollout.rollout import Report, roll_out
from cnc.rollout.sessions import sessions
from cnc.rollout.taking_part import Ours, save_startup, taking_part
from cnc.rollout.timing import Within
from cnc.rollout.transaction import CHOICES
from cnc.support.wording import named
from cnc.switch.device import ConnectOptions, DeviceError, Managed, ManagedNode, bridges_in
from cnc.switch.rollout_id import Term


def unresolved(switches: Iterable[ManagedNode], history: History) -> list[Rollout]:
    """The rollouts to these switches that wait for an operator's decision, newest first."""
    return [each for each in _abandoned(switches, history) if each.phase is Phase.CONFIRMING]


def describe(rollout: Rollout) -> str:
    """One line about an unresolved rollout."""
    outcomes = ", ".join(
        f"{name} {change.outcome}" for name, change in sorted(rollout.switches.items())
    )
    return (
        f"rollout {rollout.number} of {rollout.network}, {rollout.started:%Y-%m-%d %H:%M:%S} UTC, "
        f"was not confirmed everywhere: the network may run two schedules ({outcomes})"
    )


def settle(switches: Iterable[ManagedNode], *, connect: ConnectOptions, history: History) -> None:
    """End interrupted rollouts where no choice is needed.

    Raises RolloutError where an operator has to choose: some switches are confirmed, and others are
    not or do not answer.
    """
    waiting, left = [], []
    for rollout in _abandoned(switches, history):
        if rollout.phase is not Phase.CONFIRMING:
            if stays := _cancel(rollout, connect):
                left.append(_staying(rollout, stays))
                continue
            _close(rollout, history, Phase.ROLLED_BACK, "its controller ended before the decision")
        elif not _is_settled(rollout, connect, history):
            waiting.append(rollout)
    if waiting:
        raise RolloutError("\n".join(map(describe, waiting)), hint=CHOICES)
    if left:
        hint = "push again when they answer; without them, take them out of the intent"
        raise RolloutError("\n".join(left), hint=hint)


def _is_settled(rollout: Rollout, connect: ConnectOptions, history: History) -> bool:
    """End the rollout if all its switches are in the same state; returns whether they are."""
    # From then on a switch has the rollout id if and only if it received the confirming commit.
    time.sleep(rollout.confirm_wait_s())
    with sessions(_managed(rollout), connect) as open_sessions:
        parts = _parts(rollout)
        found = open_sessions.attempt(
            open_sessions.reach(), lambda device: parts[device.name].has(device)
        )
        confirmed = [name for name, has_it in found.items() if has_it is True]
        if len(confirmed) == len(rollout.switches):
            open_sessions.ask(confirmed, lambda device: parts[device.name].save(device))
            _close(
                rollout, history, Phase.DONE, "all its switches had received the confirming commit"
            )
            return True
    answered = [name for name, has_it in found.items() if not isinstance(has_it, DeviceError)]
    if confirmed or len(answered) < len(rollout.switches):
        return False
    _close(
        rollout,
        history,
        Phase.ROLLED_BACK,
        "none of its switches had received the confirming commit",
    )
    return True


def resume(
    *,
    network: str | None = None,
    connect: ConnectOptions,
    history: History,
    take_over: bool = False,
    without_deadline: bool = False,
    term: Term | None = None,
    within: Within | None = None,
    listener: Listener = ignore,
) -> Report:
    """Complete the unresolved rollout on all its switches.

    It must be one of `network`, if that is given. Raises InputError when there is none,
    RolloutError when a switch refuses: then it stays unresolved.
    """
    rollout = _unresolved_first(network, history)
    lists = {name: change.after for name, change in rollout.switches.items()}
    goal = _goal(rollout, history, f"resumes rollout {rollout.number}", lists)
    return _resolve(
        goal,
        Phase.DONE,
        connect=connect,
        history=history,
        take_over=take_over,
        without_deadline=without_deadline,
        term=term,
        within=within,
        listener=listener,
    )


def roll_back(
    *,
    network: str | None = None,
    connect: ConnectOptions,
    history: History,
    take_over: bool = False,
    without_deadline: bool = False,
    term: Term | None = None,
    within: Within | None = None,
    listener: Listener = ignore,
) -> Report:
    """Roll back the unresolved rollout on all its switches; see `resume`."""
    rollout = _unresolved_first(network, history)
    lists = {
        name: {port: change.previous(port) for port in change.before}
        for name, change in rollout.switches.items()
    }
    goal = _goal(rollout, history, f"rolls back rollout {rollout.number}", lists)
    return _resolve(
        goal,
        Phase.ROLLED_BACK,
        connect=connect,
        history=history,
        take_over=take_over,
        without_deadline=without_deadline,
        term=term,
        within=within,
        listener=listener,
    )


def _resolve(
    goal: Goal,
    phase: Phase,
    *,
    connect: ConnectOptions,
    history: History,
    take_over: bool,
    without_deadline: bool,
    term: Term | None,
    within: Within | None,
    listener: Listener,
) -> Report:
    attempts = unresolved(goal.switches, history)
    for each in attempts:
        _cancel(each, connect)
    report = roll_out(
        goal,
        connect=connect,
        history=history,
        take_over=take_over,
        without_deadline=without_deadline,
        term=term,
        within=within,
        listener=listener,
    )
    _save(goal, connect)
    # Only attempts to resolve it can have begun since, and they end with it.
    for each in attempts:
        _close(each, history, phase, f"by the operator's decision: {goal.what}")
    return report


def _unresolved_first(network: str | None, history: History) -> Rollout:
    """The oldest unresolved rollout, of which later ones are attempts to resolve it."""
    waiting = [
        each
        for each in history.unfinished()
        if each.phase is Phase.CONFIRMING and not each.under_way and network in {None, each.network}
    ]
    if not waiting:
        raise InputError(
            "no rollout waits to be resumed or rolled back", hint="`cnc history` lists them all"
        )
    return waiting[-1]


def _goal(
    rollout: Rollout,
    history: History,
    what: str,
    lists: Mapping[str, Mapping[str, PortSettings]],
) -> Goal:
    plan = history.plan_of(rollout.number)
    return Goal(
        network=rollout.network,
        switches=_managed(rollout),
        ports=lists,
        clock_error_ns=plan.intent.network.clock_error_ns if plan else 0,
        what=what,
        clocks={name: _members(change) for name, change in rollout.switches.items()},
        stored_clock_error_ns=stored_clock_error_ns(plan) if plan else None,
    )


def _members(change: SwitchChange) -> set[str]:
    """The ports of which a rollout tells a bridge, or told it before."""
    stored = (each[StoredBridge].forwarding for each in change.before.values() if each)
    told = (each[BridgeForwarding] for each in change.after.values())
    return {port for each in (*stored, *told) if each for port in each.members}


def _abandoned(switches: Iterable[ManagedNode], history: History) -> list[Rollout]:
    """Unfinished rollouts of controllers that have ended, newest first."""
    addresses = {address_of(where) for switch in switches if (where := switch.management)}
    return [each for each in history.unfinished(addresses) if not each.under_way]


def _managed(rollout: Rollout) -> tuple[Managed, ...]:
    return tuple(
        Managed(
            name,
            change.management,
            is_end_station=change.is_end_station,
            bridges=bridges_in(change.after),
        )
        for name, change in rollout.switches.items()
    )


def _cancel(rollout: Rollout, connect: ConnectOptions) -> list[str]:
    """Cancel the pending commit on the switches that can be reached, so that they need not wait;
    returns those which could not be, and do not go back by themselves.

    The switches know whether it is pending: this machine's clock may have been set since.
    """
    parts = _parts(rollout)
    with sessions(_managed(rollout), connect) as open_sessions:
        done = open_sessions.attempt(  # a confirmed switch refuses
            open_sessions.reach(), lambda device: parts[device.name].cancel(device)
        )
    return [
        name
        for name, its in sorted(parts.items())
        if not its.reverts and (name not in done or isinstance(done[name], DeviceError))
    ]


def _parts(rollout: Rollout) -> dict[str, Ours]:
    """How the switches of a rollout take part in it."""
    return {
        name: taking_part(change, rollout.id, rollout.base_time_ns)
        for name, change in rollout.switches.items()
    }


def _staying(rollout: Rollout, switches: list[str]) -> str:
    return (
        f"rollout {rollout.number} of {rollout.network} was given up, and {named(switches)} may "
        "run its lists all the same: by its profile a switch there does not revert by itself, and "
        "it does not answer"
    )


def _save(goal: Goal, connect: ConnectOptions) -> None:
    """Save running to startup, which may differ even on switches that did not change."""
    with sessions(goal.switches, connect) as open_sessions:
        open_sessions.open()
        open_sessions.ask(open_sessions, save_startup)


def _close(rollout: Rollout, history: History, phase: Phase, reason: str) -> None:
    outcome = Outcome.SAVED if phase is Phase.DONE else Outcome.ROLLED_BACK
    with history.reopen(rollout.number) as journal:
        for name in rollout.switches:
            journal.result(name, outcome)
        journal.end(phase, reason)
