"""`cnc serve` as a process: the core with its socket, the workers beside it, until a signal."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from click import Group

from cnc import app
from cnc.errors import CncError
from cnc.rollout import History
from cnc.service import access, certificate, owner, watching
from cnc.service.calls import Role
from cnc.service.channel import serving
from cnc.service.commands import Commands
from cnc.service.core import ITSELF, Core
from cnc.service.documents import Documents
from cnc.service.pushing import Pushing, term_of
from cnc.service.store import FILE_NAME, Store
from cnc.switch import ConnectOptions
from cnc.watch import service_manager

LOG = logging.getLogger(__name__)

SOCKET, LOCK, ADMIN_TOKEN = "core.sock", "service.lock", "admin.token"
_SOCKET_PATH_MAX = 107  # unix(7)
_ALIVE_EVERY_S = 0.5
_WORKER = "cnc.service.web"
_BACKLOG = 256
_AGAIN_S = 1.0  # a worker that has ended is started again after this
_WORKERS_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service runs: where its workers listen and how many they are, where its state is, how
    it reaches the switches. `take_over`: also those that another controller's rollout runs on.
    `worker_socket`: a socket for workers that others keep running, and the group that may connect.
    """

    file: Path
    state_dir: Path
    connect: ConnectOptions
    address: str
    port: int
    workers: int
    take_over: bool = False
    worker_socket: tuple[Path, int] | None = None


def run(settings: Settings, offered: Group, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `offered` has the commands of `cnc`; `say` tells the operator
    what has been made at first.

    Raises CncError where the service cannot start.
    """
    directory = settings.state_dir
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _alone(directory),
        _listening(settings) as listening,
        _opened(directory) as (store, history),
    ):
        store.forget_old()
        first_plan = owner.FirstPlan(settings.connect, history)
        admission = owner.begin(settings.file, store, first_plan)
        _first_token(store, directory, say)
        watch = watching.watching(settings.connect, history)
        documents = Documents(store, history, settings.connect, watch)
        take_over = settings.take_over
        term = term_of(store, admission.plan, ITSELF, connect=settings.connect, take_over=take_over)
        push = Pushing(settings.connect, history, term, take_over=take_over, judged=admission.begun)
        make = partial(
            Core,
            store,
            admission,
            push=watch.around(push),
            documents=documents,
            watching=watch,
            commands=Commands(offered, settings.connect, directory),
        )
        asyncio.run(_serve(settings, listening, make))


async def _serve(
    settings: Settings, listening: socket.socket | None, make: Callable[[], Core]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    core = make()
    async with serving(socket_in(settings.state_dir), core.answer):
        core.start()
        async with _workers(settings, listening), _worker_socket(settings, core):
            service_manager.notify("READY=1")
            watchdog = service_manager.Watchdog()
            while not stop.is_set():
                watchdog.alive()
                core.raise_if_failed()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _ALIVE_EVERY_S)
            service_manager.notify("STOPPING=1")
    await core.close()


@asynccontextmanager
async def _worker_socket(settings: Settings, core: Core) -> AsyncIterator[None]:
    if settings.worker_socket is None:
        yield
        return
    path, group = settings.worker_socket
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(path, core.answer, group))
        except OSError as error:
            raise CncError(
                f"{path}: no socket for workers can be made there: {error.strerror}",
                hint="name a path that may be written, and a group that this user is in",
            ) from error
        yield


def socket_in(directory: Path) -> Path:
    """The core's socket. Raises CncError where its path is longer than a socket's may be."""
    path = directory / SOCKET
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise CncError(
            f"{path}: longer than the {_SOCKET_PATH_MAX} octets that the path of a socket has",
            hint="name a directory with a shorter path with --state-dir",
        )
    return path


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


@contextmanager
def _opened(directory: Path) -> Iterator[tuple[Store, History]]:
    store = Store(directory / FILE_NAME)
    try:
        with app.open_history(directory) as history:
            yield store, history
    finally:
        store.close()


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
        say(f"token of the admin, told this once: {token}")
    say(f"the token of the admin is in {path}, which its owner alone may read")


@asynccontextmanager
async def _workers(settings: Settings, listening: socket.socket | None) -> AsyncIterator[None]:
    """The processes that end TLS and parse what strangers send; one that ends is started again."""
    if listening is None:
        yield
        return
    certificate_file, key = certificate.ensure(settings.state_dir, settings.address)
    command = [
        *(sys.executable, "-m", _WORKER),
        *("--core", str(socket_in(settings.state_dir)), "--fd", str(listening.fileno())),
        *("--certificate", str(certificate_file), "--key", str(key)),
    ]
    tasks = [
        asyncio.create_task(_kept_running(command, listening.fileno()))
        for _ in range(settings.workers)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kept_running(command: list[str], listening: int) -> None:
    while True:
        process = await asyncio.create_subprocess_exec(*command, pass_fds=(listening,))
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _WORKERS_END_S)
            except TimeoutError:
                process.kill()
                await process.wait()
            raise
        LOG.warning("a worker has ended with %d; it is started again", code)
        await asyncio.sleep(_AGAIN_S)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket | None]:
    """Where all workers accept; None without workers. Raises CncError if it cannot be listened on.
    What comes before the workers have started waits there."""
    if not settings.workers:
        yield None
        return
    try:
        where = socket.getaddrinfo(settings.address, settings.port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(where[4][:2], family=where[0], backlog=_BACKLOG)
    except OSError as error:
        raise CncError(
            f"cannot listen on {settings.address}:{settings.port}: {error.strerror}",
            hint="check that the address belongs to this machine and that the port is free",
        ) from error
    with listening:
        yield listening
