"""All rollouts of a controller, including those that have not ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from uuid import uuid4

from cnc.errors import CncError, InputError, RolloutError
from cnc.mechanisms.kept import UnknownPartError
from cnc.model import Plan
from cnc.rollout.history import encoding
from cnc.rollout.history.database import DAMAGED_HINT, Database
from cnc.rollout.history.journal import Journal
from cnc.rollout.history.place import Place, Rows
from cnc.rollout.history.record import Outcome, Phase, Rollout, SwitchChange
from cnc.support import gc_pause

FILE_NAME = "history.sqlite"
_NUMBERS_END = 2**63  # an integer of either database
# A rollout asks for the plan that runs, and for the one before, of which something may be left.
PLANS_HELD = 2


class History:
    """The rollouts in the SQLite file `where`, which is created if it is missing, or in another
    place.

    Without either the history exists as long as this object. Any thread may call it, and several
    processes may use one place. Raises CncError where it cannot be read or written.
    """

    def __init__(self, where: Path | Place | None) -> None:
        with ExitStack() as resources:
            if where is None:
                directory = resources.enter_context(TemporaryDirectory(prefix="cnc-history-"))
                where = Path(directory) / FILE_NAME
            self._place: Place = Database(where) if isinstance(where, Path) else where
            resources.callback(self._place.close)
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
            with self._place.writing() as rows:
                if follows is not None:
                    _refuse_overtaken(rows, network, follows)
                ahead = rows.clock_ahead()
                (begun,) = rows.rows(
                    "INSERT INTO rollout (id, network, operator, what, started, confirm_by,"
                    " base_time_ns, phase, detail, plan) VALUES (:id, :network, :operator, :what,"
                    " :started, :confirm_by, :base_time_ns, :phase, '', :plan) RETURNING number",
                    id=id,
                    network=network,
                    operator=operator,
                    what=what,
                    started=(datetime.now(UTC) + ahead).isoformat(),
                    confirm_by=(confirm_by.astimezone(UTC) + ahead).isoformat(),
                    base_time_ns=base_time_ns,
                    phase=str(Phase.PREPARING),
                    plan=encoding.plan_to_octets(plan) if plan else None,
                )
                number: int = begun["number"]
                for switch, change in changes.items():
                    rows.changed(
                        "INSERT INTO switch_change VALUES (:number, :switch, :change, :outcome,"
                        " '')",
                        number=number,
                        switch=switch,
                        change=change,
                        outcome=str(Outcome.UNKNOWN),
                    )
                # Before the rollout is visible to other processes, which would regard it as
                # abandoned.
                lock = self._place.lock(number)
                stack.callback(lock.release)
            stack.pop_all()
        if plan:
            newest = [*self._newest.items(), (number, plan)]
            self._newest = dict(newest[-PLANS_HELD:])
        return Journal(self._place, lock, number, id)

    def note_refused(self, *, network: str, operator: str, what: str, why: str) -> None:
        """Record a push that was refused before anything was sent to a switch."""
        with self._place.writing() as rows:
            # As a rollout of no switch that was taken back, which every version can read.
            rows.changed(
                "INSERT INTO rollout (id, network, operator, what, started, confirm_by,"
                " base_time_ns, phase, ended, detail) VALUES (:id, :network, :operator, :what,"
                " :now, :now, 0, :phase, :now, :why)",
                id=str(uuid4()),
                network=network,
                operator=operator,
                what=what,
                now=(datetime.now(UTC) + rows.clock_ahead()).isoformat(),
                phase=str(Phase.ROLLED_BACK),
                why=why,
            )

    def newest(self, network: str) -> int:
        """The number of the newest rollout of a network, whatever became of it; 0 where there is
        none."""
        with self._place.reading() as rows:
            (found,) = rows.rows(
                "SELECT MAX(number) AS number FROM rollout WHERE network = :network",
                network=network,
            )
        return found["number"] or 0

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
        asked = {"network": network, "phase": phase and str(phase)}
        values: dict[str, object] = {k: its for k, its in asked.items() if its is not None}
        conditions = ["number >= :since", *(f"{name} = :{name}" for name in values)]
        if with_plan:
            conditions.append("plan IS NOT NULL")
        which = f"WHERE {' AND '.join(conditions)} ORDER BY number DESC"
        if limit is not None:
            which, values["limit"] = f"{which} LIMIT :limit", limit
        return self._select(which, since=since, **values)

    def rollout(self, number: int) -> Rollout:
        """Raises InputError if there is no such rollout."""
        self._require_possible(number)
        if rollouts := self._select("WHERE number = :number", number=number):
            return rollouts[0]
        raise self._no_such(number)

    def plan_of(self, number: int) -> Plan | None:
        """The plan of a rollout, None if it was made without one."""
        if plan := self._newest.get(number):
            return plan
        self._require_possible(number)
        with self._place.reading() as rows:
            found = rows.rows("SELECT plan FROM rollout WHERE number = :number", number=number)
        if not found:
            raise self._no_such(number)
        if found[0]["plan"] is None:
            return None
        with self._readable(number):
            try:
                return encoding.plan_from_octets(found[0]["plan"], f"rollout {number}")
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
        with self._place.reading() as rows:
            (found,) = rows.rows(
                "SELECT MAX(number) AS number FROM rollout"
                " WHERE network = :network AND phase = :phase AND plan IS NOT NULL",
                network=network,
                phase=str(Phase.DONE),
            )
        number: int | None = found["number"]
        return number

    def completed(self, network: str) -> int:
        """How many rollouts of a network are complete; it costs less than to read them."""
        with self._place.reading() as rows:
            (found,) = rows.rows(
                "SELECT COUNT(*) AS completed FROM rollout"
                " WHERE network = :network AND phase = :phase",
                network=network,
                phase=str(Phase.DONE),
            )
        return int(found["completed"])

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
        with self._place.writing() as rows:
            rows.changed(
                "UPDATE rollout SET plan = NULL WHERE network = :network AND what = :what"
                " AND phase = :phase AND plan IS NOT NULL AND number <= (SELECT number FROM rollout"
                " WHERE network = :network AND what = :what AND phase = :phase"
                " AND plan IS NOT NULL ORDER BY number DESC LIMIT 1 OFFSET :keep)",
                network=network,
                what=what,
                phase=str(Phase.DONE),
                keep=keep,
            )

    def knows(self, id: str) -> bool:  # noqa: A002
        """Whether the rollout with this UUID is in this history."""
        with self._place.reading() as rows:
            return bool(rows.rows("SELECT 1 AS known FROM rollout WHERE id = :id", id=id))

    def reopen(self, number: int) -> Journal:
        """The journal of a rollout whose controller has ended, to end the rollout.

        Raises RolloutError while that controller runs, or when the rollout has ended.
        """
        self.rollout(number)
        with ExitStack() as stack:
            lock = self._place.lock(number)
            stack.callback(lock.release)
            rollout = self.rollout(number)  # again: its controller may just have ended it
            if rollout.phase.has_ended:
                lock.remove()
                raise RolloutError(
                    f"rollout {number} has ended: {rollout.phase}", hint=f"cnc history {number}"
                )
            stack.pop_all()
        return Journal(self._place, lock, number, rollout.id)

    def end_other_controllers(self) -> None:
        """Let no other controller hold a rollout any more: of a leader whose term is above theirs.
        One that stands still would hold it for ever."""
        self._place.end_others()

    @gc_pause.paused()
    def _select(self, which: str, **values: object) -> list[Rollout]:
        with self._place.reading() as rows:
            found = rows.rows(f"SELECT * FROM rollout {which}", **values)  # noqa: S608
            ahead = rows.clock_ahead()
            return [self._rollout(row, self._switches(rows, row["number"]), ahead) for row in found]

    def _rollout(
        self, row: Mapping[str, Any], switches: Mapping[str, SwitchChange], ahead: timedelta
    ) -> Rollout:
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
                under_way=row["ended"] is None and self._place.is_held(row["number"]),
                clock_ahead=ahead,
            )

    def _switches(self, rows: Rows, number: int) -> dict[str, SwitchChange]:
        found = rows.rows(
            "SELECT * FROM switch_change WHERE rollout = :number ORDER BY switch", number=number
        )
        with self._readable(number):
            return {
                row["switch"]: encoding.change_from_octets(
                    row["change"], Outcome(row["outcome"]), row["detail"]
                )
                for row in found
            }

    @contextmanager
    def _readable(self, number: int) -> Iterator[None]:
        try:
            yield
        except UnknownPartError as error:
            raise CncError(
                f"{self._place.name}: rollout {number} cannot be read: {error}",
                hint="install the package that brings the mechanism, or a newer one",
            ) from error
        except ValueError as error:
            raise CncError(
                f"{self._place.name}: rollout {number} is damaged: {error}", hint=DAMAGED_HINT
            ) from error

    def _require_possible(self, number: int) -> None:
        if not 0 < number < _NUMBERS_END:
            raise self._no_such(number)

    def _no_such(self, number: int) -> InputError:
        return InputError(
            f"{self._place.name} has no rollout {number}", hint="`cnc history` lists all rollouts"
        )


def _refuse_overtaken(rows: Rows, network: str, follows: int) -> None:
    """Raise RolloutError where another rollout of a plan has begun since, and was not rolled
    back."""
    found = rows.rows(
        "SELECT number, operator FROM rollout WHERE network = :network AND number > :follows"
        " AND phase != :rolled_back AND plan IS NOT NULL ORDER BY number LIMIT 1",
        network=network,
        follows=follows,
        rolled_back=str(Phase.ROLLED_BACK),
    )
    for row in found:
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
