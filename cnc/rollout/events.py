"""Events of a rollout while it runs: the step that begins.

A listener that shows progress or measures times formats the typed events itself or uses `str()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cnc.support.format import counted


class Step(StrEnum):
    """The steps of a rollout in their order; each runs on all switches and ends before the next.

    A rollout with nothing to change ends after COMPARE, a dry run does not lock. ROLLBACK comes
    only after a failure, WAIT between a rollout that moves streams and the next.
    """

    CONNECT = "connect"
    PREFLIGHT = "preflight"
    COMPARE = "compare"  # lock, then compare with what is stored
    EDIT = "edit"
    COMMIT = "commit"
    VERIFY = "verify"
    CONFIRM = "confirm"  # and save, unlock, close
    ROLLBACK = "rollback"
    WAIT = "wait"  # for frames by former ways, which a rollout of its own removes then


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step begins on `switches` switches."""

    step: Step
    switches: int

    def __str__(self) -> str:
        return _TEXTS[self.step].format(switches=counted(self.switches, "switch"))


Listener = Callable[[StepBegun], None]

_TEXTS = {
    Step.CONNECT: "connecting to {switches}",
    Step.PREFLIGHT: "reading what the switches run",
    Step.COMPARE: "locking, and comparing the configurations",
    Step.EDIT: "sending the new gate control lists",
    Step.COMMIT: "committing on all switches",
    Step.VERIFY: "comparing what the kernels run",
    Step.CONFIRM: "confirming",
    Step.ROLLBACK: "rolling back all switches",
    Step.WAIT: "waiting until no frame is on a previous path any more, to {switches}",
}


def ignore(_event: StepBegun) -> None:
    """The listener of a rollout that nothing watches."""
