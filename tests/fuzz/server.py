"""A server process under attack, and what must hold after every input and after every batch."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
from lxml import etree

from agent.netconfd.session.framing import Decoder, encode
from tests.fuzz import functions
from tests.fuzz.configurations import Node, schema
from tests.fuzz.rpcs import BASE
from tests.stack import netconfd_probed
from tests.stack.netconfd_probed import BROKER, FRONT, Probe
from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository

T = TypeVar("T")

CHECKOUT = Path(__file__).parents[2]
PATIENCE_S = 30.0
# Those who have a session, and one whom access control lets execute nothing.
USERS = ("operator", "observer")
STRANGER = "stranger"
# Of CPU time for one request. A query may ask for more, and its session ends in time then.
REQUEST_CPU_S = 2
# What the front and the broker may compute between two turns of their loops.
MAX_TURN_NS = 50_000_000
# How a session process ends that was not ended by its limits or on purpose.
_HARMED = re.compile(r"its process (?:crashed|failed|was killed).*|Traceback")
_OVER_LIMIT = "of CPU for a request"
_CONFIRM_TIMEOUT_S = 1
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


class _SessionEndedError(Exception):
    """The server had ended the session before it was asked."""


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

    def send(self, message: bytes) -> None:
        self._writer.write(encode(message, chunked=True))

    async def ask(self, message: bytes) -> bytes | None:
        """The reply, None if the server ended the session instead. Raises _SessionEndedError."""
        try:
            self.send(message)
            while True:
                reply = await self._next()
                if reply is None or b"<notification" not in reply[:200]:
                    return reply
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _SessionEndedError from error

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
        turns = directory / "turns"
        program = netconfd_probed.__file__
        self._process.wrapper = [sys.executable, program, str(turns), str(REQUEST_CPU_S)]
        self._probe = Probe(turns)
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
        self.over_limit = 0
        # The longest that a confirmed commit waited beyond its time, and that a loop was busy.
        self.max_late_s = 0.0
        self.max_turn_ns = {FRONT: 0, BROKER: 0}
        self._start()

    def _start(self) -> None:
        self._process.start()
        # A start is no event that others wait for.
        self._probe.forget()

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
            if reply is None:
                self._sessions.pop(user)
                if not self._was_over_limit():
                    raise Failure(f"the session of {user} has ended")
            elif b"internal server error" in reply:
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
        """Raw bytes on a new session that then falls silent: the server ends it, and no other.

        A stranger's bytes are answered by none.
        """
        self.recent.append(data)
        self._run(self._stream(data, USERS[0]))
        if self._run(self._stream(data, STRANGER)):
            # An earlier input may have given everybody rights.
            self._restore()
            if not wait_until(lambda: not self._run(self._stream(data, STRANGER))):
                raise Failure("a user without rights has a session")

    async def _stream(self, data: bytes, user: str) -> bytes:
        """What the server answers."""
        connection, reader, writer = await self._process.connect_raw(username=user)
        answer = b""
        try:
            writer.write(data)
            writer.write_eof()
            while piece := await reader.read(65536):
                answer += piece
        except BrokenPipeError:
            # The server has closed the channel before it was written to.
            pass
        finally:
            connection.close()
            await connection.wait_closed()
        return answer

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
        log = self._process.log
        self.over_limit += log.count(_OVER_LIMIT)
        self._process.forget_log()
        if harm := _HARMED.search(log):
            self.restart()
            raise Failure(f"the server logged {harm[0]!r}:\n{log[-4000:]}")
        for process, before_ns in self.max_turn_ns.items():
            turn_ns = self._probe.longest_ns(process)
            self.max_turn_ns[process] = max(before_ns, turn_ns)
            if turn_ns > MAX_TURN_NS:
                self._probe.forget()
                raise Failure(f"a loop was busy for {turn_ns / 1e6:.0f} ms")
        if self.agent_errors.seen:
            seen, self.agent_errors.seen = self.agent_errors.seen, []
            raise Failure("the agent raised:\n" + "\n".join(seen[:3]))
        self._serve_a_good_client()
        self._keep_the_deadline()
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
        self._start()
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

    def _keep_the_deadline(self) -> None:
        """A confirmed commit goes back in time while an observer sends the last inputs again."""
        running = self._configuration("running")
        edit = _GOOD.replace("still here", "not to be kept")
        timeout = f"<confirm-timeout>{_CONFIRM_TIMEOUT_S}</confirm-timeout>"
        for operation in (
            f"<edit-config><target><candidate/></target><config>{edit}</config></edit-config>",
            f"<commit><confirmed/>{timeout}<persist>fuzz</persist></commit>",
        ):
            begun_s = time.monotonic()
            reply = self._reply(_rpc(operation.encode()))
            if reply is None or b"<ok/>" not in reply:
                raise Failure(f"a good client's {operation} was answered: {reply!r}")
        attacker = self._run(self._send_all(USERS[1], filter(None, self.recent)))
        is_kept = wait_until(lambda: self._configuration("running") == running, PATIENCE_S)
        self._run(attacker.close())
        if not is_kept:
            self.restart()
            raise Failure("a confirmed commit is not reverted")
        self.max_late_s = max(self.max_late_s, time.monotonic() - begun_s - _CONFIRM_TIMEOUT_S)
        self._end_session()

    async def _send_all(self, user: str, messages: Iterable[bytes]) -> _Session:
        """A session that is busy with these messages, whose replies nobody reads."""
        session = _Session(*await self._process.connect_raw(username=user))
        await session.greet()
        for message in messages:
            session.send(message)
        return session

    def _was_over_limit(self) -> bool:
        return wait_until(lambda: _OVER_LIMIT in self._process.log, 1.0)

    def _reply(self, message: bytes, user: str = USERS[0]) -> bytes | None:
        try:
            reply = self._run(self._session(user).ask(message))
        except _SessionEndedError:
            # By the input before, of whose end only the reply was read.
            self._sessions.pop(user)
            try:
                reply = self._run(self._session(user).ask(message))
            except _SessionEndedError as error:
                raise Failure(f"the connection broke: {error.__cause__}") from None
        if reply is not None and etree.QName(etree.fromstring(reply)).localname != "rpc-reply":
            raise Failure(f"not a reply: {reply[:200]!r}")
        return reply

    def _session(self, user: str) -> _Session:
        """The session of a user; a new one where none is open."""
        if user not in self._sessions:
            session = _Session(*self._run(self._process.connect_raw(username=user)))
            self._run(session.greet())
            self._sessions[user] = session
        return self._sessions[user]

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
        """Threads, open files and resident octets of all processes, once sessions are gone."""
        if not wait_until(lambda: not self._process.session_pids):
            raise Failure("a session process has outlived its session")
        first = self._first
        processes = [Path(f"/proc/{pid}") for pid in self._process.pids]

        def count(folder: str) -> int:
            return sum(len(list((process / folder).iterdir())) for process in processes)

        def read() -> tuple[int, int]:
            return count("task"), count("fd")

        if first is not None:
            wait_until(lambda: read() <= (first[0] + _SLACK, first[1] + _SLACK))
        sizes = [(each / "statm").read_text(encoding="ascii").split() for each in processes]
        pages = sum(int(resident) for _, resident, *_ in sizes)
        return *read(), pages * os.sysconf("SC_PAGE_SIZE")

    def _configuration(self, datastore: str) -> str:
        with (
            self._connection.start_session(datastore) as session,
            session.get_data_ly("/*") as data,
        ):
            return str(data.print_mem("xml", with_siblings=True) or "")

    def _restore(self) -> None:
        """Bring back what was there before; inputs may lock even the good client out."""
        for datastore in self._kept:
            # The locks of a session are released a moment after its connection has closed.
            if not wait_until(lambda name=datastore: self._is_restored(name), PATIENCE_S):
                raise Failure(f"{datastore} is locked by a session that has ended")

    def _is_restored(self, datastore: str) -> bool:
        from sysrepo.errors import SysrepoLockedError  # noqa: PLC0415  as above

        kept = self._kept[datastore]
        if self._configuration(datastore) == kept:
            return True
        with self._connection.start_session(datastore) as session:
            with session.get_ly_ctx() as context:
                tree = context.parse_data_mem(kept, "xml", parse_only=True, strict=True)
            try:
                session.replace_config_ly(tree, None, 20_000)
            except SysrepoLockedError:
                return False
        return True


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
