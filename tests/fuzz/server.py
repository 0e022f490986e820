"""A server process under attack, and what must hold after every input and after every batch."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
from collections import deque
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
from lxml import etree

from agent.netconfd.session.framing import Decoder, encode
from tests.fuzz import functions
from tests.fuzz.configurations import Node, schema
from tests.fuzz.rpcs import BASE
from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository

T = TypeVar("T")

CHECKOUT = Path(__file__).parents[2]
PATIENCE_S = 10.0
USERS = ("operator", "observer")
_MAX_REPLY_OCTETS = 64 * 2**20
# Threads and files that come and go with a session's end, or that a first use leaves for good.
_SLACK = 12
_MEMORY_OCTETS = 256 * 2**20
_HELLO = (
    f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.1</capability>'
    "</capabilities></hello>"
).encode()
_GOOD = (
    '<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface><name>good</name>'
    '<type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>'
    "<description>still here</description></interface></interfaces>"
)


class Failure(AssertionError):
    """The server did what no server may do to any input."""


class _Exceptions(logging.Handler):
    """Keeps the exceptions that sysrepo's bindings catch from the agent's callbacks and log."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.seen.append(logging.Formatter().format(record))


class _Session:
    """One NETCONF session with chunked framing."""

    def __init__(self, connection: Any, reader: Any, writer: Any) -> None:
        self._connection, self._reader, self._writer = connection, reader, writer
        self._decoder = Decoder(_MAX_REPLY_OCTETS)

    async def greet(self) -> None:
        await self._next()
        self._writer.write(encode(_HELLO, chunked=False))
        self._decoder.use_chunks()

    async def ask(self, message: bytes) -> bytes | None:
        """The reply, None if the server ended the session instead."""
        self._writer.write(encode(message, chunked=True))
        while True:
            reply = await self._next()
            if reply is None or b"<notification" not in reply[:200]:
                return reply

    async def _next(self) -> bytes | None:
        while (message := self._decoder.next_message()) is None:
            data = await self._reader.read(65536)
            if not data:
                return None
            self._decoder.feed(data)
        return message

    async def close(self) -> None:
        self._connection.close()
        await self._connection.wait_closed()


class FuzzedServer:
    """`tsn-netconfd` on a private sysrepo, an agent with ports in memory, and one session to both.

    The methods that take an input raise `Failure`. `check` is for the end of each batch.
    """

    def __init__(self, directory: Path) -> None:
        import sysrepo  # noqa: PLC0415  it asks the environment for the repository when it is loaded

        self._process = NetconfdProcess(directory / "netconfd")
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[str, _Session] = {}
        self._connection = sysrepo.SysrepoConnection()
        with self._connection.start_session("running") as session:
            with session.get_ly_ctx() as context:
                kinds = context.parse_data_mem(functions.CONTENT, "xml", parse_only=True)
            session.edit_batch_ly(kinds, "merge")
            session.apply_changes()
        self._kept = {name: self._configuration(name) for name in ("running", "startup")}
        self._first: tuple[int, int, int] | None = None
        self.recent: deque[bytes] = deque(maxlen=20)
        self.agent_errors = _Exceptions()
        self.restarts = 0
        self._process.start()

    def roots(self) -> tuple[Node, ...]:
        """What can be configured here."""
        with self._connection.get_ly_ctx() as context:
            return schema(context)

    def close(self) -> None:
        self._end_session()
        self._process.stop()
        self._connection.disconnect()
        self._loop.close()

    def ask(self, message: bytes) -> None:
        """Any bytes as one message of an open session: a well-formed reply, or a clean end."""
        self.recent.append(message)
        if not message:
            return  # a message without a single chunk cannot be framed
        reply = self._reply(message)
        if reply is not None and b"internal server error" in reply:
            raise Failure(reply.decode(errors="replace"))
        if reply is None or b"<close-session" in message:
            self._end_session()

    def ask_as_each(self, message: bytes) -> None:
        """The same to each user's session: to that of one who may write, and of one who may not."""
        self.recent.append(message)
        for user in USERS:
            reply = self._reply(message, user)
            if reply is None or b"internal server error" in reply:
                raise Failure(f"{user} is answered {reply!r}")

    def edit(self, configuration: bytes) -> None:
        """An edit of candidate, and its commit where it was taken."""
        target = b"<target><candidate/></target>"
        self.ask(
            _rpc(b"<edit-config>%b<config>%b</config></edit-config>" % (target, configuration))
        )
        self.ask(_rpc(b"<commit/>"))
        self.ask(_rpc(b"<discard-changes/>"))

    def stream(self, data: bytes) -> None:
        """Raw bytes on a new session that then falls silent: the server ends it, and no other."""
        self.recent.append(data)
        self._run(self._stream(data))

    async def _stream(self, data: bytes) -> None:
        connection, reader, writer = await self._process.connect_raw()
        try:
            writer.write(data)
            writer.write_eof()
            while await reader.read(65536):
                pass
        finally:
            connection.close()
            await connection.wait_closed()

    def garbage(self, data: bytes) -> None:
        """Bytes to the TCP port before any SSH."""
        self.recent.append(data)
        with socket.create_connection(("127.0.0.1", self._process.port), PATIENCE_S) as peer:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            try:
                while peer.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            except TimeoutError:
                raise Failure("the connection stays open after its end was announced") from None

    def check(self) -> None:
        """The server lives, serves a good client, and holds nothing of the sessions that ended."""
        self._end_session()
        self._restore()
        if "Traceback" in self._process.log:
            log = self._process.log
            self.restart()
            raise Failure(f"the server logged:\n{log[-4000:]}")
        if self.agent_errors.seen:
            seen, self.agent_errors.seen = self.agent_errors.seen, []
            raise Failure("the agent raised:\n" + "\n".join(seen[:3]))
        self._serve_a_good_client()
        usage = self._usage()
        if self._first is None:
            self._first = usage
        for what, first, now, slack in zip(
            ("threads", "open files", "octets of memory"),
            self._first,
            usage,
            (_SLACK, _SLACK, _MEMORY_OCTETS),
            strict=True,
        ):
            if now > first + slack:
                self._first = usage
                raise Failure(f"{now} {what} without a session, {first} after the first batch")

    def restart(self) -> None:
        """After a crash or hang, as a service manager would."""
        self._sessions.clear()
        self._process.kill()
        self._restore()
        self._process.start()
        self.restarts += 1

    def _serve_a_good_client(self) -> None:
        edit = f"<edit-config><target><candidate/></target><config>{_GOOD}</config></edit-config>"
        get = "<get-config><source><running/></source></get-config>"
        for operation, expected in (
            ("<discard-changes/>", b"<ok/>"),
            (edit, b"<ok/>"),
            ("<commit/>", b"<ok/>"),
            (get, b"still here"),
        ):
            reply = self._reply(_rpc(operation.encode()))
            if reply is not None and b"<error-tag>in-use<" in reply:
                # A confirmed commit of an earlier input may still wait for its confirmation.
                self.restart()
                return
            if reply is None or expected not in reply:
                raise Failure(f"a good client's {operation} was answered: {reply!r}")
        self._end_session()

    def _reply(self, message: bytes, user: str = USERS[0]) -> bytes | None:
        if user not in self._sessions:
            session = _Session(*self._run(self._process.connect_raw(username=user)))
            self._run(session.greet())
            self._sessions[user] = session
        reply = self._run(self._sessions[user].ask(message))
        if reply is not None and etree.QName(etree.fromstring(reply)).localname != "rpc-reply":
            raise Failure(f"not a reply: {reply[:200]!r}")
        return reply

    def _run(self, step: Awaitable[T]) -> T:
        async def in_time() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await step

        try:
            return self._loop.run_until_complete(in_time())
        except TimeoutError:
            self.restart()
            raise Failure(f"no answer within {PATIENCE_S:g} s") from None
        except (OSError, asyncssh.Error) as error:
            if not self._process.alive:
                log = self._process.log
                self.restart()
                raise Failure(f"the server died: {error}\n{log[-4000:]}") from None
            self._sessions.clear()
            raise Failure(f"the connection broke: {error}") from None

    def _end_session(self) -> None:
        while self._sessions:
            self._run(self._sessions.popitem()[1].close())

    def _usage(self) -> tuple[int, int, int]:
        """Threads, open files and resident octets of the server, once sessions are gone."""
        process = Path(f"/proc/{self._process.pid}")
        first = self._first

        def read() -> tuple[int, int]:
            return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

        if first is not None:
            wait_until(lambda: read() <= (first[0] + _SLACK, first[1] + _SLACK))
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        return *read(), pages * os.sysconf("SC_PAGE_SIZE")

    def _configuration(self, datastore: str) -> str:
        with (
            self._connection.start_session(datastore) as session,
            session.get_data_ly("/*") as data,
        ):
            return str(data.print_mem("xml", with_siblings=True) or "")

    def _restore(self) -> None:
        """Bring back what was there before; inputs may lock even the good client out."""
        for datastore, kept in self._kept.items():
            if self._configuration(datastore) == kept:
                continue
            with self._connection.start_session(datastore) as session:
                with session.get_ly_ctx() as context:
                    tree = context.parse_data_mem(kept, "xml", parse_only=True, strict=True)
                session.replace_config_ly(tree, None, 20_000)


def _rpc(operation: bytes) -> bytes:
    return b'<rpc xmlns="%b" message-id="1">%b</rpc>' % (BASE.encode(), operation)


@contextmanager
def fuzzed_server(directory: Path) -> Iterator[FuzzedServer]:
    """Everything up; nothing of it left afterwards."""
    repository = Repository(directory / "sysrepo", f"tsnfuzz{os.getpid()}x")
    os.environ.update(repository.environment)
    subprocess.run([CHECKOUT / "yang" / "install"], check=True)
    subprocess.run(["sysrepoctl", "--install", functions.MODULE], check=True)
    from agent.datastore.subscriptions import Datastore  # noqa: PLC0415  sysrepo reads it once

    agent = Datastore(RecordingKernel(port("p1", 2), port("p2", 3)))
    server = FuzzedServer(directory)
    logging.getLogger().addHandler(server.agent_errors)
    try:
        yield server
    finally:
        logging.getLogger().removeHandler(server.agent_errors)
        server.close()
        agent.close()
        repository.forget_shared_memory()
