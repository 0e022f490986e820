"""What is left of a rollout whose controller died, or that could not be confirmed everywhere.

Before its decision nothing is: no switch was told to keep anything, and each went back, or will.
After it the switches tell: if all kept it, or none, `settle` ends it. If some did, it is for an
operator to say which way to go: `resume` or `roll_back`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from cnc.errors import InputError, RolloutError
from cnc.model import Bridge, PortConfiguration
from cnc.rollout.events import Listener, ignore
from cnc.rollout.history import History, Outcome, Phase, Rollout, address_of
from cnc.rollout.rollout import Goal, Report, roll_out
from cnc.rollout.sessions import sessions
from cnc.rollout.transaction import CHOICES
from cnc.switch.device import ConnectOptions, Device, DeviceError, Managed
from cnc.switch.rollout_id import RolloutId


def unresolved(switches: Iterable[Bridge | Managed], history: History) -> list[Rollout]:
    """The rollouts to these switches that wait for an operator's word, newest first."""
    return [each for each in _left(switches, history) if each.phase is Phase.CONFIRMING]


def describe(rollout: Rollout) -> str:
    """One line about an unresolved rollout."""
    which = ", ".join(
        f"{name} {change.outcome}" for name, change in sorted(rollout.switches.items())
    )
    return (
        f"rollout {rollout.number} of {rollout.network}, {rollout.started:%Y-%m-%d %H:%M:%S} UTC, "
        f"was not confirmed everywhere: the network may run two schedules ({which})"
    )


def settle(
    switches: Iterable[Bridge | Managed], *, connect: ConnectOptions, history: History
) -> None:
    """Bring to its end what interrupted rollouts have left, as far as nobody has to choose.

    Raises RolloutError when somebody has to: some switches kept it and others did not, or cannot be
    asked.
    """
    waiting = []
    for left in _left(switches, history):
        if left.phase is not Phase.CONFIRMING:
            _cancel(left, connect)
            _close(left, history, Phase.TAKEN_BACK, "its controller ended before the decision")
        elif not _ends_by_itself(left, connect, history):
            waiting.append(left)
    if waiting:
        raise RolloutError("\n".join(map(describe, waiting)), hint=CHOICES)


def _ends_by_itself(left: Rollout, connect: ConnectOptions, history: History) -> bool:
    """Whether all its switches turned out to be on one side, and the rollout has been ended."""
    # From then on a switch that has the record was told to keep it, and one that has not was not.
    time.sleep(_waits_s(left))
    with sessions(_managed(left), connect) as opened:
        rollout_ids = opened.attempt(opened.reach(), lambda device: device.rollout_id())
        kept = [
            n
            for n, rollout_id in rollout_ids.items()
            if isinstance(rollout_id, RolloutId) and rollout_id.id == left.id
        ]
        if len(kept) == len(left.switches):
            opened.ask(kept, lambda device: device.save_startup())
            _close(left, history, Phase.DONE, "all its switches had been told to keep it")
            return True
    told = [
        name for name, rollout_id in rollout_ids.items() if not isinstance(rollout_id, DeviceError)
    ]
    if kept or len(told) < len(left.switches):
        return False
    _close(left, history, Phase.TAKEN_BACK, "none of its switches had been told to keep it")
    return True


def _waits_s(left: Rollout) -> float:
    """How much longer its switches may wait for the confirmation.

    The wall clock may have been set since: they never wait longer than they were told to, counted
    from now if the rollout seems to begin only later.
    """
    now, at_most = datetime.now(UTC), left.confirm_by - left.started
    remaining = at_most if now < left.started else left.confirm_by - now
    return max(0.0, min(remaining, at_most).total_seconds())


def resume(
    *,
    network: str | None = None,
    connect: ConnectOptions,
    history: History,
    take_over: bool = False,
    listener: Listener = ignore,
) -> Report:
    """Bring all switches of the unresolved rollout to what it was to bring them.

    It must be one of `network`, if one is named. Raises InputError when there is none, RolloutError
    when a switch refuses: then it stays unresolved.
    """
    left = _unresolved_first(network, history)
    lists = {name: change.after for name, change in left.switches.items()}
    goal = _goal(left, history, f"resumes rollout {left.number}", lists)
    return _resolve(
        goal, Phase.DONE, connect=connect, history=history, take_over=take_over, listener=listener
    )


def roll_back(
    *,
    network: str | None = None,
    connect: ConnectOptions,
    history: History,
    take_over: bool = False,
    listener: Listener = ignore,
) -> Report:
    """Bring all switches of the unresolved rollout back to what they had before; see `resume`."""
    left = _unresolved_first(network, history)
    lists = {
        name: {
            port: stored.configuration if stored else None for port, stored in change.before.items()
        }
        for name, change in left.switches.items()
    }
    goal = _goal(left, history, f"takes back rollout {left.number}", lists)
    return _resolve(
        goal,
        Phase.TAKEN_BACK,
        connect=connect,
        history=history,
        take_over=take_over,
        listener=listener,
    )


def _resolve(
    goal: Goal,
    phase: Phase,
    *,
    connect: ConnectOptions,
    history: History,
    take_over: bool,
    listener: Listener,
) -> Report:
    attempts = unresolved(goal.switches, history)
    for each in attempts:
        _cancel(each, connect)
    report = roll_out(
        goal, connect=connect, history=history, take_over=take_over, listener=listener
    )
    _save(goal, connect)
    # Nothing but attempts to resolve it can have begun since, and what ends it ends them.
    for each in attempts:
        _close(each, history, phase, f"by an operator's word: {goal.what}")
    return report


def _unresolved_first(network: str | None, history: History) -> Rollout:
    """The rollout that left the network between two schedules, not the attempts to resolve it."""
    waiting = [
        each
        for each in history.unfinished()
        if each.phase is Phase.CONFIRMING and not each.under_way and network in {None, each.network}
    ]
    if not waiting:
        raise InputError(
            "no rollout waits to be resumed or taken back", hint="`cnc history` lists them all"
        )
    return waiting[-1]


def _goal(
    left: Rollout,
    history: History,
    what: str,
    lists: Mapping[str, Mapping[str, PortConfiguration | None]],
) -> Goal:
    plan = history.plan_of(left.number)
    return Goal(
        network=left.network,
        switches=_managed(left),
        ports=lists,
        clock_error_ns=plan.intent.network.clock_error_ns if plan else 0,
        what=what,
    )


def _left(switches: Iterable[Bridge | Managed], history: History) -> list[Rollout]:
    """Unfinished rollouts of controllers that are gone, newest first."""
    addresses = {address_of(where) for switch in switches if (where := switch.management)}
    return [each for each in history.unfinished(addresses) if not each.under_way]


def _managed(left: Rollout) -> tuple[Managed, ...]:
    return tuple(Managed(name, change.management) for name, change in left.switches.items())


def _cancel(left: Rollout, connect: ConnectOptions) -> None:
    """Spare whoever can be reached the wait: go back now, where the commit is still pending.

    Whether it is the switches know best: this machine's clock may have been set since.
    """

    def cancel(device: Device) -> None:
        rollout_id = device.rollout_id()
        if rollout_id and rollout_id.id == left.id:
            device.cancel_commit(left.id)

    with sessions(_managed(left), connect) as opened:
        opened.attempt(opened.reach(), cancel)  # who has confirmed has none to cancel, and says so


def _save(goal: Goal, connect: ConnectOptions) -> None:
    """Switches that had nothing to change may still start with something else than they run."""
    with sessions(goal.switches, connect) as opened:
        opened.open()
        opened.ask(opened, lambda device: device.save_startup())


def _close(left: Rollout, history: History, phase: Phase, why: str) -> None:
    outcome = Outcome.SAVED if phase is Phase.DONE else Outcome.TAKEN_BACK
    with history.reopen(left.number) as journal:
        for name in left.switches:
            journal.result(name, outcome)
        journal.end(phase, why)
