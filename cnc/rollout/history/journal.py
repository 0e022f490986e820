"""One rollout while it is made: what is written here outlives the controller that writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from cnc.rollout.history.database import Database
from cnc.rollout.history.lock import ControllerLock
from cnc.rollout.history.record import Outcome, Phase


class Journal:
    """Writes the course of one rollout; any thread may call it.

    What a call wrote is on the disk when it returns. A call that raises CncError wrote nothing, and
    what was written before stays: a rollout whose decision is on the disk is found by
    `History.unfinished` until `end` succeeds, whatever results are missing. Each result says what
    a controller knew, so a missing one makes whoever finishes the rollout ask the switch.

    Until `end` or `close` the rollout is under way, and no other process can `reopen` it.
    """

    def __init__(self, database: Database, lock: ControllerLock, number: int, id: str) -> None:  # noqa: A002
        self._database = database
        self._lock = lock
        self.number = number
        self.id = id

    def decide(self) -> None:
        """The rollout is to be kept: from here on switches may be told to confirm."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE rollout SET phase = ? WHERE number = ?", (Phase.CONFIRMING, self.number)
            )

    def result(self, switch: str, outcome: Outcome, detail: str = "") -> None:
        """What became of the rollout on a switch of it, and in words why."""
        with self._database.writing() as connection:
            written = connection.execute(
                "UPDATE switch_change SET outcome = ?, detail = ? WHERE rollout = ? AND switch = ?",
                (outcome, detail, self.number, switch),
            )
        if not written.rowcount:
            raise KeyError(switch)

    def end(self, phase: Phase, detail: str = "") -> None:
        """The rollout is done or taken back, on all its switches."""
        if not phase.has_ended:
            raise ValueError(f"no rollout ends with {phase}")
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE rollout SET phase = ?, ended = ?, detail = ? WHERE number = ?",
                (phase, datetime.now(UTC).isoformat(), detail, self.number),
            )
        self._lock.remove()

    def close(self) -> None:
        """Write no more. A rollout that has not ended can be reopened."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
