"""`cnc serve` as a process: the core with its socket, the workers beside it, until a signal."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from pathlib import Path

from click import Group

from cnc.errors import CncError
from cnc.rollout import History
from cnc.service import access, certificate, controllers, owner, state, watching
from cnc.service.admission import Admission
from cnc.service.calls import Role
from cnc.service.channel import serving
from cnc.service.claiming import Claiming
from cnc.service.commands import Commands
from cnc.service.core import Core
from cnc.service.decisions import ITSELF
from cnc.service.documents import Documents
from cnc.service.pushing import Pushing, term_of
from cnc.service.roller import Push
from cnc.service.settings import SOCKET, Settings, socket_in
from cnc.service.store import SharedHistory, Store
from cnc.service.workers import listening_socket, netconf_backend, worker_socket, workers
from cnc.watch import service_manager

__all__ = ["ADMIN_TOKEN", "SOCKET", "Settings", "run", "socket_in"]

LOG = logging.getLogger(__name__)

LOCK, ADMIN_TOKEN = "service.lock", "admin.token"
_ALIVE_EVERY_S = 0.5

# Makes a core lead while the block runs; what it yields raises what ends the service.
Leading = Callable[[Core], AbstractAsyncContextManager[Callable[[], None]]]


def run(settings: Settings, offered: Group, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `offered` has the commands of `cnc`; `say` tells the operator
    what has been made at first.

    Raises CncError where the service cannot start.
    """
    directory = settings.state_dir
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(_alone(directory))
        state.note_database(directory, settings.database, moves=settings.move_state)
        listening = stack.enter_context(listening_socket(settings))
        keeper = stack.enter_context(controllers.keeper(settings)) if settings.database else None
        fence = keeper.fence if keeper else None
        store, history = stack.enter_context(state.opened(directory, fence))
        watch = watching.watching(settings.connect, history)

        def first() -> Admission:
            first_plan = owner.FirstPlan(settings.connect, history)
            admission = owner.begin(settings.file, store, first_plan)
            _first_token(store, directory, say)
            return admission

        leading: Leading
        if keeper is None:
            leading = _always(*_alone_with(settings, store, history, first, watch.around))
        else:
            end_others = SharedHistory(store.database).end_others
            connect = settings.connect
            ways = controllers.Ways(store, history, connect, first, watch.around, end_others)
            leading = partial(controllers.leading, settings, keeper, ways)
        make = partial(
            Core,
            store,
            documents=Documents(store, history, settings.connect, watch, directory),
            watching=watch,
            commands=Commands(offered, settings.connect, directory),
            leader=keeper.leader if keeper else lambda: None,
        )
        asyncio.run(_serve(settings, listening, make, leading))


async def _serve(
    settings: Settings,
    listening: socket.socket | None,
    make: Callable[[], Core],
    leading: Leading,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    core = make()
    async with (
        serving(socket_in(settings.state_dir), core.answer),
        leading(core) as raise_if_ended,
        workers(settings, listening),
        worker_socket(settings, core.answer),
        netconf_backend(settings, core.answer_named),
    ):
        service_manager.notify("READY=1")
        watchdog = service_manager.Watchdog()
        while not stop.is_set():
            watchdog.alive()
            core.raise_if_failed()
            raise_if_ended()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _ALIVE_EVERY_S)
        service_manager.notify("STOPPING=1")
    await core.close()


def _alone_with(
    settings: Settings,
    store: Store,
    history: History,
    first: Callable[[], Admission],
    around: Callable[[Push, Claiming], Push],
) -> tuple[Admission, Push]:
    """What a controller leads with that has the state for itself."""
    store.forget_old()
    admission = first()
    connect, take_over = settings.connect, settings.take_over
    term = term_of(store, admission.plan, ITSELF, connect=connect, take_over=take_over)
    push = Pushing(connect, history, term, take_over=take_over, judged=admission.begun)
    return admission, around(push, Claiming(connect, term))


def _always(admission: Admission, push: Push) -> Leading:
    @asynccontextmanager
    async def leading(core: Core) -> AsyncIterator[Callable[[], None]]:
        core.lead(admission, push)
        yield lambda: None

    return leading


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Holds the directory while the block runs. Raises CncError while another service does."""
    with (directory / LOCK).open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CncError(
                f"{directory}: another service runs with this directory",
                hint="stop that one, or name another directory with --state-dir",
            ) from None
        yield


def _first_token(store: Store, directory: Path, say: Callable[[str], None]) -> None:
    """At the first start: the token of an admin, in a file that its owner alone may read."""
    if store.tokens():
        return
    token, its = access.new_token(access.ADMIN, Role.ADMIN, None, None)
    path = directory / ADMIN_TOKEN
    certificate.write_secret(path, f"{token}\n".encode())
    with store.deciding(ITSELF, "token.add", its.name) as made:
        made.put_token(its)
    if "JOURNAL_STREAM" not in os.environ:  # what systemd has of it is kept, for many to read
        say(f"token of the admin, shown only now: {token}")
    say(f"the token of the admin is in {path}, which its owner alone may read")
