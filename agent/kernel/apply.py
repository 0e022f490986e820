"""Carry steps out, all or none, and take them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.model import AgentError
from agent.reconcile import Step


@dataclass(frozen=True, slots=True)
class Action:
    """Something done to the kernel, and what puts the former state back."""

    do: Callable[[], None]
    undo: Callable[[], None]


class Applied:
    """What was done; `undo` restores in reverse. Empty `steps`: the kernel agreed already."""

    def __init__(self, steps: tuple[Step, ...], done: list[Action]) -> None:
        self.steps = steps
        self._done = done

    def undo(self) -> None:
        """Restore everything that can be; AgentError names what could not."""
        failures = []
        while self._done:
            try:
                self._done.pop().undo()
            except (AgentError, OSError) as failure:
                failures.append(str(failure))
        if failures:
            raise AgentError("not restored: " + "\n".join(failures))


def execute(steps: tuple[Step, ...], actions: list[Action]) -> Applied:
    """Do the actions in order. Whatever ends one undoes those before it and is raised again."""
    done: list[Action] = []
    for action in actions:
        try:
            action.do()
        except BaseException as refusal:
            try:
                Applied(steps, done).undo()
            except AgentError as failure:
                raise AgentError(f"{refusal}\n{failure}") from refusal
            raise
        done.append(action)
    return Applied(steps, done)
