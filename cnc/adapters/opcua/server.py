"""The server: its address space follows the streams of a service."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from asyncua import Server, ua
from asyncua.crypto.permission_rules import SimpleRoleRuleset, User, UserRole

from cnc.adapters.opcua.followed import All, Away, Changed, Key, Stream, Update, followed
from cnc.adapters.opcua.identity import Identity
from cnc.adapters.opcua.nodes import End, ends
from cnc.errors import CncError
from cnc.service.client import Client

_IDS = ua.ObjectIds
_NAMESPACE = "urn:tsn-control-plane:streams"
_CHANGING = {
    ua.NodeId(_IDS.WriteRequest_Encoding_DefaultBinary),
    ua.NodeId(_IDS.CallRequest_Encoding_DefaultBinary),
}
_OLD = ua.StatusCode(ua.StatusCodes.BadNoCommunication)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"opc.tcp://{host}:{self.port}/"


class _ReadOnly(SimpleRoleRuleset):  # type: ignore[misc]  # asyncua has no types for it
    """What users may ask for, but for what could change something."""

    def check_validity(self, user: User, action_type_id: ua.NodeId, body: Any) -> bool:
        allowed = super().check_validity(user, action_type_id, body)
        return bool(allowed) and action_type_id not in _CHANGING


class _Users:
    """Every application with a trusted certificate reads; there are no passwords."""

    def get_user(
        self,
        iserver: Any,  # noqa: ARG002  as asyncua calls it
        username: str | None = None,
        password: str | None = None,  # noqa: ARG002
        certificate: Any = None,
    ) -> User | None:
        return User(role=UserRole.User) if certificate and username is None else None


def serve(service: Client, address: Address, identity: Identity, ready: Callable[[], None]) -> None:
    """Serve the streams until SIGTERM or SIGINT; `ready` is called once clients are answered.
    Raises CncError for an address that is not to be had."""

    async def run() -> None:
        stop = asyncio.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
        async with serving(followed(service), address, identity):
            ready()
            await stop.wait()

    asyncio.run(run())


@asynccontextmanager
async def serving(
    updates: Iterator[Update], address: Address, identity: Identity
) -> AsyncIterator[None]:
    """A server that is there inside of the block. `updates` is read by a thread of its own."""
    server = Server(user_manager=_Users())
    await server.init()
    server.set_endpoint(address.url)
    server.set_server_name("Streams of a TSN controller")
    await server.set_application_uri(identity.uri)
    await server.load_certificate(identity.certificate)
    await server.load_private_key(identity.key)
    server.set_security_policy([ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt], _ReadOnly())
    server.set_identity_tokens([ua.AnonymousIdentityToken, ua.X509IdentityToken])
    server.set_certificate_validator(identity.validator())
    space = _Space(server, await server.register_namespace(_NAMESPACE))
    try:
        await server.start()
    except OSError as error:
        raise CncError(f"{address.url}: cannot be listened on: {error.strerror}") from error
    try:
        async with asyncio.TaskGroup() as group:  # what ends the following, ends the server
            following = group.create_task(_follow(updates, space))
            yield
            following.cancel()
    finally:
        await server.stop()


async def _follow(updates: Iterator[Update], space: _Space) -> None:
    arrived: asyncio.Queue[Update | Exception] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for update in updates:
                loop.call_soon_threadsafe(arrived.put_nowait, update)
        except Exception as error:  # noqa: BLE001  it is raised where it ends the server
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(arrived.put_nowait, error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        match await arrived.get():
            case Exception() as error:
                raise error
            case update:
                await space.take(update)


@dataclass(slots=True)
class _Space:
    """The objects of streams, by the key of each; of an object its variables and their values."""

    server: Server
    namespace: int
    known: dict[Key, list[End]] = field(default_factory=dict)

    async def take(self, update: Update) -> None:
        match update:
            case All(streams):
                for key in self.known.keys() - streams.keys():
                    await self._put(key, None)
                for key, stream in streams.items():
                    await self._put(key, stream)
                    await asyncio.sleep(0)  # clients are answered meanwhile
            case Changed(key, stream):
                await self._put(key, stream)
            case Away():
                for its in self.known.values():
                    for end in its:
                        await self._write(end, _OLD)

    async def _put(self, key: Key, stream: Stream | None) -> None:
        before = self.known.pop(key, [])
        now = [] if stream is None else [*ends(key[0], stream)]
        if [_shape(its) for its in before] == [_shape(its) for its in now]:
            for end in now:
                await self._write(end, ua.StatusCode())
        else:
            objects = [self.server.get_node(self._id(end)) for end in before]
            await self.server.delete_nodes(objects, recursive=True)
            for end in now:
                await self._make(end)
        if now:
            self.known[key] = now

    async def _make(self, end: End) -> None:
        folder = self.server.get_node(ua.NodeId(end.folder))
        name = ua.QualifiedName(end.name, self.namespace)
        made = await folder.add_object(self._id(end), name)
        for each in end.interfaces:
            to = self.server.get_node(ua.NodeId(each))
            await made.add_reference(to, ua.NodeId(_IDS.HasInterface), bidirectional=False)
        for member in end.members:
            await made.add_variable(
                self._id(end, member.name),
                ua.QualifiedName(member.name, 0),
                member.variant,
                datatype=ua.NodeId(member.data_type),
            )

    async def _write(self, end: End, status: ua.StatusCode) -> None:
        for member in end.members:
            value = ua.DataValue(member.variant, status)
            await self.server.write_attribute_value(self._id(end, member.name), value)

    def _id(self, end: End, member: str = "") -> ua.NodeId:
        kind = "talker" if end.folder == _IDS.TalkerStreams else "listener"
        return ua.NodeId(f"{kind}/{end.name}{member and f'.{member}'}", self.namespace)


def _shape(end: End) -> tuple[object, ...]:
    """What does not change while only values do."""
    return end.folder, end.name, end.interfaces, tuple(each.name for each in end.members)
