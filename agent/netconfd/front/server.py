"""The front of the NETCONF server, from its command line to the end of the last session."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import asyncssh

from agent import journal
from agent.netconfd import confinement
from agent.netconfd.broker.server import serve_front
from agent.netconfd.data_model import DataModel
from agent.netconfd.front import options
from agent.netconfd.front.call_home import CallHome
from agent.netconfd.front.control import (
    BrokerError,
    BrokerGone,
    Control,
    Unanswered,
    connect,
)
from agent.netconfd.front.logins import Logins, NoPam, Pam, UnsafeFile
from agent.netconfd.front.penalties import Offence
from agent.netconfd.front.serve import serve
from agent.netconfd.front.spawner import Spawner, SpawnerError
from agent.netconfd.front.ssh import Endpoint, Refused, SshTransport
from agent.netconfd.session import process
from agent.netconfd.session_process import ProcessLimits
from agent.service_manager import notify, stay_alive_until

LOG = logging.getLogger(__name__)

OCTETS_PER_MIB = 2**20


class Front:
    """All sessions: their transports and their processes. Create it in the event loop."""

    def __init__(self, control: Control, spawner: Spawner) -> None:
        self._control = control
        self._spawner = spawner
        self._tasks: set[asyncio.Task[Any] | None] = set()
        control.on_end = spawner.kill
        control.on_modules_changed = self._renew_modules

    async def start(self) -> None:
        """Have the broker's modules loaded. Raises BrokerError or SpawnerError."""
        await self._control.configured()
        await self._spawner.use_modules(await self._control.modules())

    async def serve(self, transport: SshTransport) -> None:
        """Run one session over this transport until it ends. Raises Refused."""
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._serve(transport)
        except (BrokerError, SpawnerError) as error:
            LOG.error("%s@%s refused: %s", transport.user, transport.peer, error)
            raise Refused(str(error)) from None
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """End every session."""
        await self._spawner.close()
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)
        self._control.close()

    async def _serve(self, transport: SshTransport) -> None:
        ours, brokers = socket.socketpair()
        with ours, brokers:
            answer = await self._control.open(transport.user, transport.peer, brokers)
            brokers.close()
            if "refused" in answer:
                offence = Offence.ACCESS_REFUSED if answer["is_offence"] else None
                raise Refused(str(answer["refused"]), offence)
            transport.accept(may_commit=bool(answer["may_commit"]))
            await self._run(transport, answer, ours)

    async def _run(
        self, transport: SshTransport, opened: Mapping[str, Any], broker: socket.socket
    ) -> None:
        limits = self._control.limits
        ended = await serve(
            self._spawner,
            transport,
            int(opened["opened"]),
            opened,
            limits=ProcessLimits(
                memory_octets=limits.max_session_memory_mib * OCTETS_PER_MIB,
                request_cpu_s=limits.max_request_cpu_s,
                nice=int(opened["nice"]),
            ),
            broker=broker.detach(),
        )
        if not (ended.is_orderly or ended.was_killed):
            LOG.warning("%s: its process %s", opened["name"], ended.how)
            transport.penalise(Offence.SESSION_FAILURE)

    def _renew_modules(self) -> None:
        task = asyncio.get_running_loop().create_task(self._use_new_modules())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _use_new_modules(self) -> None:
        try:
            await self._spawner.use_modules(await self._control.modules())
        except (BrokerError, SpawnerError) as error:
            LOG.error("new sessions have the previous YANG modules: %s", error)


async def _run(arguments: options.Options, broker: socket.socket, spawner: Spawner) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    At the start, raises OSError, asyncssh.Error or one of this package's own exceptions.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    spawner.attach()
    pam = None if arguments.pam_service is None else Pam(arguments.pam_service)
    control = Control(broker)
    front = Front(control, spawner)
    try:
        await front.start()
        endpoint = Endpoint(
            arguments.host_key,
            Logins(arguments.authorized_keys, control.keys_of, pam),
            control,
            front.serve,
            peer_timeout_s=arguments.peer_timeout_s,
        )
        listener = await endpoint.listen(arguments.host, arguments.port)
        LOG.info("listening on %s port %d", arguments.host, listener.get_port())
        call_home = CallHome(endpoint.call)

        def set_call_home_clients() -> None:
            call_home.set_clients(arguments.clients | control.clients)

        control.on_configuration = set_call_home_clients
        set_call_home_clients()
        notify("READY=1")
        stopping = asyncio.ensure_future(stop.wait())
        await stay_alive_until(stopping, control.gone, spawner.died)
        notify("STOPPING=1")
        code = 0 if stop.is_set() else 1
        if code:
            LOG.error("the %s has ended", "broker" if control.gone.done() else "spawner")
        stopping.cancel()
        listener.close()
        control.on_configuration = lambda: None
        await call_home.close()
    finally:
        await front.close()
    return code


def _fork_broker(arguments: options.Options) -> tuple[int, socket.socket]:
    """A broker for this front alone; returns its process id and the connection with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    os.environ.pop("NOTIFY_SOCKET", None)
    code = 1
    try:
        confinement.set_name("netconf-broker")
        code = serve_front(theirs, arguments.state_dir)
    finally:
        os._exit(code)


@contextmanager
def _broker(arguments: options.Options) -> Iterator[socket.socket]:
    """The connection with the broker: that of the service, or one of this front's own.

    Raises OSError or BrokerGone.
    """
    if arguments.broker is not None:
        with connect(arguments.broker) as connection:
            yield connection
        return
    pid, connection = _fork_broker(arguments)
    try:
        yield connection
    finally:
        connection.close()
        os.waitpid(pid, 0)


def main() -> int:
    """The command `tsn-netconfd`."""
    arguments = options.parse()
    journal.configure(logging.INFO, "tsn-netconfd")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    # What was imported lives as long as these processes. To look through it takes 15 ms, in which a
    # loop serves nobody, and copies every page of it in a process that was forked.
    gc.freeze()
    try:
        # Before this process has threads, a host key, or anything of a client's.
        with _broker(arguments) as broker:
            spawner = Spawner.fork(process.serve, DataModel.build)
            confinement.forbid_inspection()
            return asyncio.run(_run(arguments, broker, spawner))
    except BrokerGone as error:
        # One of its own has logged why.
        if arguments.broker is not None:
            LOG.error("cannot serve: %s", error)
    except (
        OSError,
        asyncssh.Error,
        asyncssh.KeyImportError,
        NoPam,
        SpawnerError,
        Unanswered,
        UnsafeFile,
    ) as error:
        LOG.error("cannot serve: %s", error)
    return 1
