"""The record of a rollout while it runs; it survives the controller that writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from cnc.errors import RolloutError
from cnc.rollout.history.place import Held, Place
from cnc.rollout.history.record import Outcome, Phase


class Journal:
    """Records the progress of one rollout; any thread may call it.

    What a call wrote is on the disk when it returns. A call that raises CncError wrote nothing, and
    earlier writes persist: `History.unfinished` lists a rollout whose decision is on the disk until
    `end` succeeds, whatever results are missing. A missing result makes the controller that ends
    the rollout read it from the switch.

    Until `end` or `close` the rollout is in progress, and no other process can `reopen` it.
    """

    def __init__(self, place: Place, lock: Held, number: int, id: str) -> None:  # noqa: A002
        self._place = place
        self._lock = lock
        self.number = number
        self.id = id

    def decide(self) -> None:
        """Record the decision to keep the rollout: from here on confirming commits may be sent.

        Raises RolloutError where another controller has ended it.
        """
        with self._place.writing() as rows:
            decided = rows.changed(
                "UPDATE rollout SET phase = :phase WHERE number = :number AND phase = :before",
                phase=str(Phase.CONFIRMING),
                number=self.number,
                before=str(Phase.PREPARING),
            )
        self._require(decided)

    def result(self, switch: str, outcome: Outcome, detail: str = "") -> None:
        """Record the outcome of the rollout on one of its switches, and the reason as text."""
        with self._place.writing() as rows:
            updated = rows.changed(
                "UPDATE switch_change SET outcome = :outcome, detail = :detail"
                " WHERE rollout = :number AND switch = :switch",
                outcome=str(outcome),
                detail=detail,
                number=self.number,
                switch=switch,
            )
        if not updated:
            raise KeyError(switch)

    def end(self, phase: Phase, detail: str = "") -> None:
        """Record that the rollout is done or rolled back on all its switches.

        Raises RolloutError where another controller has ended it.
        """
        if not phase.has_ended:
            raise ValueError(f"a rollout cannot end with {phase}")
        with self._place.writing() as rows:
            ended = rows.changed(
                "UPDATE rollout SET phase = :phase, ended = :ended, detail = :detail"
                " WHERE number = :number AND ended IS NULL",
                phase=str(phase),
                ended=datetime.now(UTC).isoformat(),
                detail=detail,
                number=self.number,
            )
        self._lock.remove()
        self._require(ended)

    def _require(self, changed: int) -> None:
        if not changed:
            raise RolloutError(
                f"rollout {self.number} was ended by another controller meanwhile",
                hint=f"cnc history {self.number}",
            )

    def close(self) -> None:
        """Stop writing. A rollout that has not ended can be reopened."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
