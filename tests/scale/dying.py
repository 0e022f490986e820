"""Controllers that are killed at a chosen moment of a rollout."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cnc.model import Plan
from cnc.rollout import push
from cnc.rollout.history import History, Journal
from cnc.switch import ConnectOptions
from cnc.switch.device import Device


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before_the_decision() -> None:
    """All switches have committed and wait; the journal does not say that they are to keep it."""
    Journal.decide = lambda _: _die()  # type: ignore[method-assign]


@dataclass(frozen=True)
class WhileItsAgentHangs:
    """This switch's agent hangs for `hold_s` from its commit on; then the controller dies."""

    switch: str
    agent_pid: int
    hold_s: float

    def __call__(self) -> None:
        commit_confirmed = Device.commit_confirmed

        def end_the_hold() -> None:
            os.kill(self.agent_pid, signal.SIGCONT)
            _die()

        def commit(device: Device, timeout_s: int, persist: str) -> None:
            if device.name == self.switch:
                os.kill(self.agent_pid, signal.SIGSTOP)
                threading.Timer(self.hold_s, end_the_hold).start()
            commit_confirmed(device, timeout_s, persist)

        Device.commit_confirmed = commit  # type: ignore[method-assign]


def after_the_decision() -> None:
    """The journal says that all are to keep it; no switch has been told."""
    decide = Journal.decide

    def decide_and_die(journal: Journal) -> None:
        decide(journal)
        _die()

    Journal.decide = decide_and_die  # type: ignore[method-assign]


def after_the_first_confirmation() -> None:
    """s1 has been told to keep it, the others not."""
    confirm = Device.confirm

    def confirm_and_die(device: Device, persist: str) -> None:
        if device.name == "s1":
            confirm(device, persist)
            _die()
        threading.Event().wait()

    Device.confirm = confirm_and_die  # type: ignore[method-assign]


def push_and_die(
    plan: Plan, connect: ConnectOptions, history: Path, when: Callable[[], None]
) -> None:
    """Push from a process that is killed at the moment `when`; returns when it is dead."""
    context = multiprocessing.get_context("spawn")
    controller = context.Process(target=_push, args=(plan, connect, history, when))
    controller.start()
    controller.join()
    assert controller.exitcode == -signal.SIGKILL, controller.exitcode


def _push(plan: Plan, connect: ConnectOptions, path: Path, when: Callable[[], None]) -> None:
    when()
    with History(path) as history:
        push(plan, connect=connect, history=history)
