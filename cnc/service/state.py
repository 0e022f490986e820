"""What a service has in its state directory: its store and the history of rollouts, as files there,
or in the database that the file `database` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sqlalchemy import URL

from cnc.errors import InputError
from cnc.rollout.history import DATABASE, History
from cnc.rollout.history import FILE_NAME as HISTORY
from cnc.service import moving
from cnc.service.certificate import write_secret
from cnc.service.store import FILE_NAME, Database, Fence, SharedHistory, Store, url_of


@contextmanager
def opened(directory: Path, fence: Fence | None = None) -> Iterator[tuple[Store, History]]:
    """Both, until the block ends. `fence` is called first in each transaction that writes to a
    database, and may refuse it. Raises CncError."""
    where = _noted(directory)
    with ExitStack() as stack:
        store = Store(Database(where or directory / FILE_NAME, fence))
        stack.callback(store.close)
        place = SharedHistory(store.database) if where else directory / HISTORY
        yield store, stack.enter_context(History(place))


def history(directory: Path) -> History:
    """The history alone, for a while. Raises CncError."""
    where = _noted(directory)
    return History(SharedHistory(Database(where)) if where else directory / HISTORY)


def note_database(directory: Path, given: str | None, *, moves: bool = False) -> None:
    """From now on the state of this directory is in the database of this URL; without one it is
    where it was. `moves`: what the files have goes there first. Raises InputError where the
    directory has another state, or none that could move, CncError as `moving.move`."""
    noted = _noted(directory)
    if given is None and noted is not None:
        raise InputError(
            f"{directory}: the state of this service is in {noted.set(drivername='postgresql')}",
            hint="start it with this --database, or start with another --state-dir; remove "
            f"{directory / DATABASE} if nothing was ever there",
        )
    if given is None or url_of(given) == noted:
        return
    has_files = (directory / FILE_NAME).exists()
    if has_files and not moves:
        raise InputError(
            f"{directory}: the state of this service is in {FILE_NAME}",
            hint="start it without --database, with --move-state to take it there, or start "
            "with another --state-dir",
        )
    if moves and not has_files:
        raise InputError(
            f"{directory}: there is no {FILE_NAME} to move",
            hint="name the --state-dir of the service with files, or start without --move-state",
        )
    if moves:
        with closing(Database(url_of(given))) as database:
            moving.move(directory / FILE_NAME, directory / HISTORY, database)
    write_secret(directory / DATABASE, f"{given}\n".encode())


def _noted(directory: Path) -> URL | None:
    note = directory / DATABASE
    return url_of(note.read_text(encoding="utf-8").strip()) if note.exists() else None
