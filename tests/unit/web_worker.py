"""A worker of the service as a process of its own on loopback, before a core: for tests of what
strangers send."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnc.service import certificate
from cnc.service.channel import Request, serving
from tests.unit.service_fixture import FixtureCore
from tests.unit.service_network import Switches, service

START_S = 120  # of what hangs; a busy machine takes half a minute for a worker
Answer = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True)
class Reply:
    """What a worker answered."""

    status: int
    headers: Mapping[str, str]
    octets: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.octets)

    @property
    def error(self) -> dict[str, Any]:
        (its,) = self.json["ietf-restconf:errors"]["error"]
        return dict(its)


class Worker:
    """Requests to a worker, each on a connection of its own."""

    def __init__(self, port: int, trusted: Path) -> None:
        self.port, self.trusted = port, trusted
        self.url = f"https://localhost:{port}"
        self.context = ssl.create_default_context(cafile=str(trusted))

    def silent(self, source: str) -> socket.socket:
        """A connection from this address, on which nothing has been said."""
        server = "127.0.0.1", self.port
        return socket.create_connection(server, timeout=START_S, source_address=(source, 0))

    def connect(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        return self.context.wrap_socket(self.silent(source), server_hostname="localhost")

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: str | None = "admin",
        source: str = "127.0.0.1",
        **headers: str,
    ) -> Reply:
        """`body` is sent as it is where it is octets; underscores of `headers` are hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if by:
            sent["Authorization"] = f"Bearer {by}"
        octets = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPSConnection(
            "localhost",
            self.port,
            context=self.context,
            timeout=START_S,
            source_address=(source, 0),
        )
        try:
            connection.request(method, path, octets, sent)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.headers.items()), answer.read())
        finally:
            connection.close()


@asynccontextmanager
async def from_memory() -> Any:
    """A core that plans nothing."""
    yield FixtureCore().answer


def planning(directory: Path, file: Path) -> Callable[[], AbstractAsyncContextManager[Answer]]:
    """A core with a store and a planner, for the network of an intent file; `directory` has what it
    keeps. Names of roles and CUCs stand for their tokens."""

    @asynccontextmanager
    async def core() -> AsyncIterator[Answer]:
        async with service(directory, Switches(), file=file) as asking:

            async def answer(request: Request) -> Any:
                token = asking.tokens.get(request.token, request.token)
                return await asking.core.answer(
                    Request(request.call, request.arguments, token, request.source)
                )

            yield answer

    return core


@contextmanager
def worker(
    directory: Path,
    core: Callable[[], AbstractAsyncContextManager[Answer]] = from_memory,
) -> Iterator[Worker]:
    """A worker before a core that runs in a thread of the test."""
    path = directory / "core.sock"
    trusted, key = certificate.ensure(directory, "127.0.0.1")
    with served(path, core), socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [
            *(sys.executable, "-m", "cnc.service.web", "--core", str(path)),
            *("--fd", str(listening.fileno()), "--certificate", str(trusted), "--key", str(key)),
        ]
        with subprocess.Popen(command, pass_fds=[listening.fileno()]) as process:
            try:
                its = Worker(port, trusted)
                _until_it_answers(its, process)
                yield its
            finally:
                process.terminate()


@contextmanager
def served(path: Path, core: Callable[[], AbstractAsyncContextManager[Answer]]) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()

    async def run() -> None:
        async with core() as answer, serving(path, answer):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(START_S)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(START_S)
        loop.close()


def _until_it_answers(its: Worker, process: subprocess.Popen[bytes]) -> None:
    """What comes before it accepts waits in the socket; it has loaded its YANG by then."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the worker has ended"
        try:
            if its.ask("GET", "/.well-known/host-meta", by=None).status == http.HTTPStatus.OK:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the worker does not answer")
