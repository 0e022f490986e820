"""The record of a rollout while it runs; it survives the controller that writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from cnc.rollout.history.database import Database
from cnc.rollout.history.lock import ControllerLock
from cnc.rollout.history.record import Outcome, Phase


class Journal:
    """Records the progress of one rollout; any thread may call it.

    What a call wrote is on the disk when it returns. A call that raises CncError wrote nothing, and
    earlier writes persist: `History.unfinished` lists a rollout whose decision is on the disk until
    `end` succeeds, whatever results are missing. A missing result makes the controller that ends
    the rollout read it from the switch.

    Until `end` or `close` the rollout is in progress, and no other process can `reopen` it.
    """

    def __init__(self, database: Database, lock: ControllerLock, number: int, id: str) -> None:  # noqa: A002
        self._database = database
        self._lock = lock
        self.number = number
        self.id = id

    def decide(self) -> None:
        """Record the decision to keep the rollout: from here on confirming commits may be sent."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE rollout SET phase = ? WHERE number = ?", (Phase.CONFIRMING, self.number)
            )

    def result(self, switch: str, outcome: Outcome, detail: str = "") -> None:
        """Record the outcome of the rollout on one of its switches, and the reason as text."""
        with self._database.writing() as connection:
            updated = connection.execute(
                "UPDATE switch_change SET outcome = ?, detail = ? WHERE rollout = ? AND switch = ?",
                (outcome, detail, self.number, switch),
            )
        if not updated.rowcount:
            raise KeyError(switch)

    def end(self, phase: Phase, detail: str = "") -> None:
        """Record that the rollout is done or rolled back on all its switches."""
        if not phase.has_ended:
            raise ValueError(f"a rollout cannot end with {phase}")
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE rollout SET phase = ?, ended = ?, detail = ? WHERE number = ?",
                (phase, datetime.now(UTC).isoformat(), detail, self.number),
            )
        self._lock.remove()

    def close(self) -> None:
        """Stop writing. A rollout that has not ended can be reopened."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
