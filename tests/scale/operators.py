"""Operators who push their plans whenever told to, each from a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from cnc.errors import RolloutError
from cnc.model import Plan
from cnc.rollout import push
from cnc.rollout.history import History
from cnc.switch import ConnectOptions


class Outcome(StrEnum):
    PUSHED = "pushed"
    UNCHANGED = "unchanged"  # its plan was there already
    REFUSED = "refused"


@dataclass(frozen=True)
class Push:
    """How one push ended, and why if it was refused."""

    outcome: Outcome
    words: str = ""


@dataclass(frozen=True, eq=False)
class Operator:
    """Who pushes which plans, by which history."""

    name: str
    plans: tuple[Plan, ...]
    connect: ConnectOptions
    history: Path


@contextmanager
def at_work(*operators: Operator) -> Iterator[list[Connection]]:
    """Their processes. Sent the index of a plan, each pushes it when all others have been sent one.

    It answers with a `Push`.
    """
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(operators))
    connections, processes = [], []
    try:
        for operator in operators:
            ours, its = context.Pipe()
            process = context.Process(target=_work, args=(operator, start, its), daemon=True)
            process.start()
            its.close()
            connections.append(ours)
            processes.append(process)
        yield connections
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(operator: Operator, start: Barrier, told: Connection) -> None:
    with History(operator.history) as history:
        while True:
            plan = operator.plans[told.recv()]
            start.wait()
            try:
                report = push(plan, connect=operator.connect, history=history, take_over=True)
            except RolloutError as error:
                told.send(Push(Outcome.REFUSED, str(error)))
            else:
                told.send(Push(Outcome.PUSHED if report.changes else Outcome.UNCHANGED))
