"""A NETCONF server on loopback that answers whatever a test wants: over real SSH, in a thread."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import asyncssh

from cnc.model import Management
from cnc.switch import ConnectOptions
from cnc.switch.device import Managed

END_OF_MESSAGE = b"]]>]]>"
BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
HELLO = (
    f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability>'
    "</capabilities><session-id>7</session-id></hello>"
)
OK = "<ok/>"
# What a switch does once both hellos are exchanged, instead of answering.
Talk = Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


@cache
def key_of(kind: str) -> asyncssh.SSHKey:
    """A key of this kind, the same for all tests: RSA keys take long to make."""
    return asyncssh.generate_private_key(kind)


@dataclass
class StrangeSwitch:
    """A server that has been started; `answer` and `talk` may be changed while it runs."""

    answer: Callable[[str], str]
    hello: str
    directory: Path
    end_of_message: bytes
    talk: Talk | None = None
    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def identity(self) -> Path:
        return self.directory / "identity"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def managed(self) -> Managed:
        return Managed("s1", Management("127.0.0.1", self.port, "operator"))

    def options(self, timeout_s: float = 10.0) -> ConnectOptions:
        return ConnectOptions(self.identity, self.known_hosts, timeout_s)

    def know(self, *keys: asyncssh.SSHKey) -> None:
        """Make these the keys that the operator's known_hosts has for the switch."""
        self.known_hosts.write_text("".join(f"[127.0.0.1]:{self.port} {line(k)}" for k in keys))

    async def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        with suppress(asyncio.IncompleteReadError, OSError, asyncssh.Error):
            process.stdout.write(self.hello.encode() + self.end_of_message)
            await process.stdin.readuntil(END_OF_MESSAGE)  # the client's hello
            if self.talk:
                await self.talk(process)
            while True:
                request = (await process.stdin.readuntil(END_OF_MESSAGE)).decode()
                self.asked.append(request)
                number = re.search(r'message-id="([^"]*)"', request)
                body = self.answer(request)
                reply = f'<rpc-reply xmlns="{BASE}" message-id="{number[1]}">{body}</rpc-reply>'
                process.stdout.write(reply.encode() + self.end_of_message)
                await process.stdout.drain()
        process.exit(0)


def line(key: asyncssh.SSHKey) -> str:
    """The public half as known_hosts has it behind the name."""
    return key.export_public_key().decode()


@contextmanager
def strange_switch(
    directory: Path,
    *,
    answer: Callable[[str], str] = lambda _: OK,
    hello: str = HELLO,
    kind: str = "ssh-ed25519",
    end_of_message: bytes = END_OF_MESSAGE,
    talk: Talk | None = None,
    **ssh: object,
) -> Iterator[StrangeSwitch]:
    """A switch with a host key of this kind that says `hello`, and `answer(request)` in replies.

    `ssh` are further options of its SSH server.
    """
    switch = StrangeSwitch(answer, hello, directory, end_of_message, talk)
    key_of("ssh-ed25519").write_private_key(str(switch.identity))
    authorized = directory / "authorized_keys"
    authorized.write_text(line(key_of("ssh-ed25519")))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        _listening(switch, kind, authorized, ssh), loop
    ).result(10)
    switch.port = server.get_port()
    switch.know(key_of(kind))
    try:
        yield switch
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listening(
    switch: StrangeSwitch, kind: str, authorized: Path, ssh: dict[str, object]
) -> asyncssh.SSHAcceptor:
    return await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key_of(kind)],
        authorized_client_keys=str(authorized),
        process_factory=switch.serve,
        encoding=None,
        **ssh,
    )


async def _ended(server: asyncssh.SSHAcceptor) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def speaking(first: bytes, then: bytes) -> Iterator[Management]:
    """A host that tells whoever connects `first`, and `then` for ever; it reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        end = threading.Event()
        talks = threading.Thread(target=_talk, args=(listening, first, then, end))
        talks.start()
        try:
            yield Management("127.0.0.1", listening.getsockname()[1], "operator")
        finally:
            end.set()
            talks.join()


def _talk(listening: socket.socket, first: bytes, then: bytes, end: threading.Event) -> None:
    listening.settimeout(0.05)
    connected: list[socket.socket] = []
    while not end.wait(0.01):
        with suppress(OSError):
            connection, _ = listening.accept()
            connection.setblocking(False)
            connection.send(first)
            connected.append(connection)
        for connection in connected:
            with suppress(OSError):
                connection.send(then)
    for connection in connected:
        connection.close()
