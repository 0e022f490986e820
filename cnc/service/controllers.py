"""`cnc serve --database` as one of several controllers of a network."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from cnc import app
from cnc.errors import InputError
from cnc.model import Intent
from cnc.service import certificate, owner
from cnc.service.core import Core
from cnc.service.lease import Keeper
from cnc.service.settings import Settings
from cnc.service.store import Database, Store, url_of
from cnc.service.succession import Choice, Succession, Ways

__all__ = ["Ways", "keeper", "leading"]

LOG = logging.getLogger(__name__)


@contextmanager
def keeper(settings: Settings) -> Iterator[Keeper]:
    """The lease of the network of the intent file, in the database. Raises CncError."""
    url, shown = _where(settings)
    name = f"process {os.getpid()} on {socket.gethostname()}, {uuid4()}"
    intent = app.load_intent(settings.file)
    with closing(Database(url_of(settings.database or ""))) as database:
        yield Keeper(
            database, intent.name, name=name, url=url, certificate=shown.read_text("ascii")
        )


@asynccontextmanager
async def leading(
    settings: Settings, lease: Keeper, ways: Ways, core: Core
) -> AsyncIterator[Callable[[], None]]:
    """Stand by and lead in turn, while the block runs. Raises InputError where the database is of
    another network."""
    intent = app.load_intent(settings.file)
    await asyncio.to_thread(_compare, settings.file, intent, ways.store)
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    choice = Choice(adopt=settings.adopt, take_over=settings.take_over)
    succession = Succession(core, lease, changed, intent=intent, ways=ways, choice=choice)

    def tell() -> None:
        loop.call_soon_threadsafe(changed.set)

    lease.start(tell)
    task = asyncio.create_task(succession.run())

    def raise_if_ended() -> None:
        if task.done():
            task.result()

    try:
        yield raise_if_ended
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(lease.close)


def _compare(file: Path, intent: Intent, store: Store) -> None:
    """The file counts for the first plan alone; afterwards one is handed over by `cnc push`."""
    plan = store.plan()
    if plan is None:
        return
    if plan.intent.name != intent.name:
        raise InputError(
            f"{file}: the network {intent.name}, and the database has {plan.intent.name}",
            hint="a network has a database of its own, or a schema",
        )
    if change := owner.change_to(intent, store):
        LOG.warning(
            "%s differs from what the controllers have: %s. They do as they have; to change that: "
            "cnc push %s --controller URL",
            *(file, change, file.name),
        )


def _where(settings: Settings) -> tuple[str, Path]:
    """Where the other controllers reach the workers of this one, and the certificate of these.
    Raises InputError."""
    if settings.workers:
        shown, _ = certificate.ensure(settings.state_dir, settings.address)
    elif settings.certificate and settings.url:
        shown = settings.certificate
    else:
        raise InputError(
            "where do the other controllers reach the workers of this one?",
            hint="with --database and --workers 0, --url and --certificate say so",
        )
    address = f"[{settings.address}]" if ":" in settings.address else settings.address
    url = settings.url or f"https://{address}:{settings.port}"
    try:
        names = certificate.names_of(shown)
    except (OSError, ValueError) as error:
        raise InputError(f"{shown}: no certificate can be read: {error}") from error
    if (name := urlsplit(url).hostname) not in names:
        raise InputError(
            f"{url}: the certificate {shown} is not for {name}, but for {', '.join(sorted(names))}",
            hint="name this controller with --url as its certificate does",
        )
    return url, shown
