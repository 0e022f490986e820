"""All rollouts of a controller, including those that have not ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from cnc.errors import CncError, InputError, RolloutError
from cnc.mechanisms.kept import UnknownPartError
from cnc.model import Plan
from cnc.rollout.history import encoding
from cnc.rollout.history.database import DAMAGED_HINT, Database
from cnc.rollout.history.journal import Journal
from cnc.rollout.history.lock import ControllerLock, holder, is_held
from cnc.rollout.history.record import Outcome, Phase, Rollout, SwitchChange
from cnc.support import gc_pause

FILE_NAME = "history.sqlite"
# A rollout asks for the plan that runs, and for the one before, of which something may be left.
PLANS_HELD = 2


class History:
    """The rollouts in the SQLite file `path`, which is created if it is missing.

    Without a path the history exists as long as this object. Any thread may call it, and several
    processes may use one file. Raises CncError where the file cannot be read or written.
    """

    def __init__(self, path: Path | None) -> None:
        with ExitStack() as resources:
            if path is None:
                directory = resources.enter_context(TemporaryDirectory(prefix="cnc-history-"))
                path = Path(directory) / FILE_NAME
            self._path = path
            self._database = Database(path)
            resources.callback(self._database.close)
            self._resources = resources.pop_all()
        # Those of the newest rollouts begun here, which the next one asks for.
        self._newest: dict[int, Plan] = {}

    def close(self) -> None:
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(
        self,
        *,
        id: str,  # noqa: A002
        network: str,
        operator: str,
        what: str,
        plan: Plan | None,
        base_time_ns: int,
        confirm_by: datetime,
        switches: Mapping[str, SwitchChange],
        follows: int | None = None,
    ) -> Journal:
        """Record a rollout before its first switch changes; the arguments are as in `Rollout`.

        It is on the disk when this returns, and this process holds its controller lock.

        Raises RolloutError where it `follows` one that is not the newest of its network any more.
        """
        changes = {name: encoding.change_to_octets(change) for name, change in switches.items()}
        with ExitStack() as stack:
            with self._database.writing() as connection:
                if follows is not None:
                    _refuse_overtaken(connection, network, follows)
                number = connection.execute(
                    "INSERT INTO rollout (id, network, operator, what, started, confirm_by,"
                    " base_time_ns, phase, detail, plan) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?)"
                    " RETURNING number",
                    (
                        id,
                        network,
                        operator,
                        what,
                        datetime.now(UTC).isoformat(),
                        confirm_by.astimezone(UTC).isoformat(),
                        base_time_ns,
                        Phase.PREPARING,
                        encoding.plan_to_octets(plan) if plan else None,
                    ),
                ).fetchone()["number"]
                connection.executemany(
                    "INSERT INTO switch_change VALUES (?, ?, ?, ?, '')",
                    [(number, name, change, Outcome.UNKNOWN) for name, change in changes.items()],
                )
                # Before the rollout is visible to other processes, which would regard it as
                # abandoned.
                lock = stack.enter_context(self._acquire_lock(number))
            stack.pop_all()
        if plan:
            newest = [*self._newest.items(), (number, plan)]
            self._newest = dict(newest[-PLANS_HELD:])
        return Journal(self._database, lock, number, id)

    def rollouts(
        self,
        network: str | None = None,
        *,
        phase: Phase | None = None,
        limit: int | None = None,
        with_plan: bool = False,
        since: int = 0,
    ) -> list[Rollout]:
        """The newest `limit` rollouts of a network and in a phase (None: all), newest first.

        With `with_plan` only those that deployed a plan: not those that resolve another one, nor
        those that remove former ways. With `since` only those from this number on.
        """
        return self._select(
            "WHERE (?1 IS NULL OR network = ?1) AND (?2 IS NULL OR phase = ?2)"
            " AND (NOT ?4 OR plan IS NOT NULL) AND number >= ?5 ORDER BY number DESC LIMIT ?3",
            network,
            phase,
            -1 if limit is None else limit,
            with_plan,
            since,
        )

    def rollout(self, number: int) -> Rollout:
        """Raises InputError if there is no such rollout."""
        # As text, which may be larger than SQLite's integers.
        if rollouts := self._select("WHERE number = ?", str(number)):
            return rollouts[0]
        raise self._no_such(number)

    def plan_of(self, number: int) -> Plan | None:
        """The plan of a rollout, None if it was made without one."""
        if plan := self._newest.get(number):
            return plan
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT plan FROM rollout WHERE number = ?", (str(number),)
            ).fetchone()
        if row is None:
            raise self._no_such(number)
        if row["plan"] is None:
            return None
        with self._readable(number):
            try:
                return encoding.plan_from_octets(row["plan"], f"rollout {number}")
            except InputError:
                # Of a mechanism that is not installed the plan knows unknown keys, and what the
                # switches were told, its name.
                self.rollout(number)
                raise

    def running_plan(self, network: str) -> Plan | None:
        """The plan of the newest completed rollout of a network that deployed one; None where there
        is none."""
        number = self.running(network)
        return None if number is None else self.plan_of(number)

    def running(self, network: str) -> int | None:
        """The number of the newest completed rollout of a network that deployed a plan; None where
        there is none."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT MAX(number) AS number FROM rollout"
                " WHERE network = ? AND phase = ? AND plan IS NOT NULL",
                (network, Phase.DONE),
            ).fetchone()
        number: int | None = row["number"]
        return number

    def completed(self, network: str) -> int:
        """How many rollouts of a network are complete; it costs less than to read them."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT COUNT(*) AS completed FROM rollout WHERE network = ? AND phase = ?",
                (network, Phase.DONE),
            ).fetchone()
        return int(row["completed"])

    def unfinished(self, addresses: Collection[str] | None = None) -> list[Rollout]:
        """The rollouts that have not ended, newest first.

        With `addresses` only those that touch a switch managed at one of them.
        """
        return [
            rollout
            for rollout in self._select("WHERE ended IS NULL ORDER BY number DESC")
            if addresses is None
            or any(change.address in addresses for change in rollout.switches.values())
        ]

    def forget_plans(self, network: str, what: str, *, keep: int) -> None:
        """Forget the plans of completed rollouts of this purpose but for the newest `keep`: of a
        service, which makes one whenever a stream comes. The rollouts stay."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE rollout SET plan = NULL WHERE network = ?1 AND what = ?2 AND phase = ?3"
                " AND plan IS NOT NULL AND number <= (SELECT number FROM rollout WHERE"
                " network = ?1 AND what = ?2 AND phase = ?3 AND plan IS NOT NULL"
                " ORDER BY number DESC LIMIT 1 OFFSET ?4)",
                (network, what, Phase.DONE, keep),
            )

    def knows(self, id: str) -> bool:  # noqa: A002
        """Whether the rollout with this UUID is in this history."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT 1 FROM rollout WHERE id = ?", (id,)).fetchone()
        return row is not None

    def reopen(self, number: int) -> Journal:
        """The journal of a rollout whose controller has ended, to end the rollout.

        Raises RolloutError while that controller runs, or when the rollout has ended.
        """
        self.rollout(number)
        with ExitStack() as stack:
            lock = stack.enter_context(self._acquire_lock(number))
            rollout = self.rollout(number)  # again: its controller may just have ended it
            if rollout.phase.has_ended:
                lock.remove()
                raise RolloutError(
                    f"rollout {number} has ended: {rollout.phase}", hint=f"cnc history {number}"
                )
            stack.pop_all()
        return Journal(self._database, lock, number, rollout.id)

    @gc_pause.paused()
    def _select(self, which: str, *values: object) -> list[Rollout]:
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT * FROM rollout {which}", values).fetchall()  # noqa: S608
            return [self._rollout(row, self._switches(connection, row["number"])) for row in rows]

    def _rollout(self, row: sqlite3.Row, switches: Mapping[str, SwitchChange]) -> Rollout:
        with self._readable(row["number"]):
            return Rollout(
                number=row["number"],
                id=row["id"],
                network=row["network"],
                operator=row["operator"],
                what=row["what"],
                started=_instant(row["started"]),
                confirm_by=_instant(row["confirm_by"]),
                base_time_ns=row["base_time_ns"],
                switches=switches,
                phase=Phase(row["phase"]),
                ended=_instant(row["ended"]) if row["ended"] else None,
                detail=row["detail"],
                under_way=row["ended"] is None and is_held(self._lock_path(row["number"])),
            )

    def _switches(self, connection: sqlite3.Connection, number: int) -> dict[str, SwitchChange]:
        rows = connection.execute(
            "SELECT * FROM switch_change WHERE rollout = ? ORDER BY switch", (number,)
        )
        with self._readable(number):
            return {
                row["switch"]: encoding.change_from_octets(
                    row["change"], Outcome(row["outcome"]), row["detail"]
                )
                for row in rows
            }

    @contextmanager
    def _readable(self, number: int) -> Iterator[None]:
        try:
            yield
        except UnknownPartError as error:
            raise CncError(
                f"{self._path}: rollout {number} cannot be read: {error}",
                hint="install the package that brings the mechanism, or a newer one",
            ) from error
        except ValueError as error:
            raise CncError(
                f"{self._path}: rollout {number} is damaged: {error}", hint=DAMAGED_HINT
            ) from error

    def _lock_path(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}-rollout-{number}.lock")

    def _acquire_lock(self, number: int) -> ControllerLock:
        path = self._lock_path(number)
        try:
            return ControllerLock(path)
        except BlockingIOError as error:
            raise RolloutError(
                f"rollout {number} is in progress: its controller, process {holder(path)}, runs",
                hint="wait until it has ended, or stop that process and try again",
            ) from error
        except OSError as error:
            raise CncError(
                f"{path}: cannot acquire the lock of a rollout: {error.strerror}",
                hint="make the directory writable, or choose another one with --state-dir",
            ) from error

    def _no_such(self, number: int) -> InputError:
        return InputError(
            f"{self._path} has no rollout {number}", hint="`cnc history` lists all rollouts"
        )


def _refuse_overtaken(connection: sqlite3.Connection, network: str, follows: int) -> None:
    """Raise RolloutError where another rollout of a plan has begun since, and was not rolled
    back."""
    row = connection.execute(
        "SELECT number, operator FROM rollout WHERE network = ? AND number > ? AND phase != ?"
        " AND plan IS NOT NULL ORDER BY number",
        (network, follows, Phase.ROLLED_BACK),
    ).fetchone()
    if row:
        raise RolloutError(
            f"rollout {row['number']} of {row['operator']} has begun since this change of {network}"
            f" was computed from rollout {follows}: what differs from that is not all that differs",
            hint="compute the change from the plan that runs now, and push again",
        )


def _instant(text: str) -> datetime:
    """A time that was recorded. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment
