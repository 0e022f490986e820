"""The processes before the core of a service: those that it starts, or that others keep running.

Web workers, and the backend of a NETCONF server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from cnc.errors import CncError
from cnc.service import certificate
from cnc.service.channel import Answering, serving
from cnc.service.settings import NETCONF_SOCKET, Settings, socket_in

LOG = logging.getLogger(__name__)

_WORKER, _NETCONF = "cnc.service.web", "cnc.service.netconf"
_BACKLOG = 256
_AGAIN_S = 1.0  # a worker that has ended is started again after this
_WORKERS_END_S = 5.0


@asynccontextmanager
async def worker_socket(settings: Settings, answer: Answering) -> AsyncIterator[None]:
    """A socket for workers that others keep running. Raises CncError where it cannot be made."""
    if settings.worker_socket is None:
        yield
        return
    path, group = settings.worker_socket
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(path, answer, group))
        except OSError as error:
            raise CncError(
                f"{path}: no socket for workers can be made there: {error.strerror}",
                hint="name a path that may be written, and a group that this user is in",
            ) from error
        yield


@asynccontextmanager
async def workers(settings: Settings, listening: socket.socket | None) -> AsyncIterator[None]:
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
    async with _while_running([command] * settings.workers, (listening.fileno(),)):
        yield


@asynccontextmanager
async def netconf_backend(settings: Settings, answer: Answering) -> AsyncIterator[None]:
    """The process that answers a NETCONF server, and a socket of the core for it alone: what asks
    there names tokens, and does not show them."""
    if settings.netconf_socket is None:
        yield
        return
    path, group = settings.netconf_socket
    its = socket_in(settings.state_dir, NETCONF_SOCKET)
    command = [sys.executable, "-m", _NETCONF, "--core", str(its), "--listen", str(path)]
    if group is not None:
        command += ["--group", str(group)]
    async with serving(its, answer), _while_running([command]):
        yield


@asynccontextmanager
async def _while_running(
    commands: Iterable[list[str]], descriptors: tuple[int, ...] = ()
) -> AsyncIterator[None]:
    """Keep processes running that inherit these descriptors, while the block runs."""
    tasks = [asyncio.create_task(_kept_running(each, descriptors)) for each in commands]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kept_running(command: list[str], descriptors: tuple[int, ...]) -> None:
    # They hold no database: nor what libpq reads of one.
    environment = {k: its for k, its in os.environ.items() if not k.startswith("PG")}
    while True:
        process = await asyncio.create_subprocess_exec(
            *command, pass_fds=descriptors, env=environment
        )
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
def listening_socket(settings: Settings) -> Iterator[socket.socket | None]:
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
