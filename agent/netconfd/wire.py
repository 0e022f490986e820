"""Messages between the processes of the server.

A session process and the broker exchange messages on a stream socket of their own: two lengths, a
JSON object (the head) and octets (the body). The front and the broker exchange packets, each one
JSON object, some with a descriptor (unix(7), SCM_RIGHTS).

Heads and packets come from another process, which may have been taken over: `Fields` takes them
apart, and what is not as agreed ends the connection.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agent.netconfd import date_and_time
from agent.sysrepo.instances import Instances, Step

LOG = logging.getLogger(__name__)

# Lengths of head and body, in octets.
_LENGTHS = struct.Struct("!II")
MAX_HEAD_OCTETS = 262_144
# What the broker sends: all that a user may read.
MAX_ANSWER_OCTETS = 256 * 2**20
MAX_PACKET_OCTETS = 131_072
# Of packets to a peer that stands still. A front and its broker have a few for each session, and of
# sessions 4096 at most; what is longer in vain is ended by its service's watchdog.
MAX_UNSENT = 16_384


class ProtocolError(Exception):
    """The other process has sent what was not agreed."""


class Message(NamedTuple):
    """One message of a session process or to one."""

    head: Mapping[str, Any]
    body: bytes = b""


def encode(message: Message) -> bytes:
    """The message as octets. Raises ProtocolError if its head is longer than one may be."""
    head = json.dumps(message.head, separators=(",", ":")).encode()
    if len(head) > MAX_HEAD_OCTETS:
        raise ProtocolError(f"a head of {len(head)} octets, of {MAX_HEAD_OCTETS} at most")
    return b"".join((_LENGTHS.pack(len(head), len(message.body)), head, message.body))


async def read(reader: asyncio.StreamReader, max_body_octets: int) -> Message | None:
    """The next message, None at the end of the stream. Raises ProtocolError."""
    try:
        head_octets, body_octets = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
        if head_octets > MAX_HEAD_OCTETS or body_octets > max_body_octets:
            raise ProtocolError(f"a message of {head_octets} and {body_octets} octets")
        head = _object(await reader.readexactly(head_octets))
        body = await reader.readexactly(body_octets)
    except (asyncio.IncompleteReadError, OSError):
        return None
    return Message(head, body)


def send_packet(
    connection: socket.socket, packet: Mapping[str, Any], descriptors: Sequence[int] = ()
) -> None:
    """Send a packet. Raises OSError; EMSGSIZE if it is longer than one may be."""
    octets = json.dumps(packet, separators=(",", ":")).encode()
    if len(octets) > MAX_PACKET_OCTETS:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    socket.send_fds(connection, [octets], list(descriptors))


def receive_packet(
    connection: socket.socket, max_descriptors: int = 1
) -> tuple[dict[str, Any], list[int]] | None:
    """The next packet with its descriptors, None if the other end is closed.

    It comes without descriptors if this process could not take all of them: it has as many as it
    may have. Raises OSError (BlockingIOError if there is none yet) or ProtocolError.
    """
    octets, descriptors, flags, _ = socket.recv_fds(
        connection, MAX_PACKET_OCTETS, max_descriptors, socket.MSG_CMSG_CLOEXEC
    )
    if not octets:
        return None
    try:
        if flags & socket.MSG_TRUNC:
            raise ProtocolError("a packet that is too long")
        packet = _object(octets)
    except ProtocolError:
        close_all(descriptors)
        raise
    if flags & socket.MSG_CTRUNC:
        close_all(descriptors)
        return packet, []
    return packet, descriptors


class Outbox:
    """Packets to one peer, in order. One that stands still for some seconds, on a machine that
    swaps, is not gone: what its socket does not take is sent when it reads again.

    Create it in the event loop; the socket does not block. `on_lost` is called when the peer is
    gone, with the reason, and has to call `close`.
    """

    def __init__(self, connection: socket.socket, on_lost: Callable[[str], None]) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[tuple[Mapping[str, Any], list[int]]] = deque()
        self._is_closed = False

    def send(self, packet: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send now or later, after `close` never; the descriptors stay the caller's to close.

        Raises OSError if this packet cannot be sent; others can.
        """
        if self._is_closed or (not self._unsent and self._is_taken(packet, descriptors)):
            return
        if len(self._unsent) == MAX_UNSENT:
            self._on_lost(f"it has not read {MAX_UNSENT} packets")
            return
        self._unsent.append((packet, _duplicates(descriptors)))
        self._loop.add_writer(self._connection, self._flush)

    def close(self) -> None:
        """Send nothing more. The socket must be open still."""
        self._is_closed = True
        self._loop.remove_writer(self._connection)
        while self._unsent:
            close_all(self._unsent.popleft()[1])

    def _is_taken(self, packet: Mapping[str, Any], descriptors: Sequence[int]) -> bool:
        """Whether nothing is left to be sent of it, as the peer has it, or is gone."""
        try:
            send_packet(self._connection, packet, descriptors)
        except BlockingIOError:
            return False
        except ConnectionError as error:
            self._on_lost(error.strerror or "unknown")
        return True

    def _flush(self) -> None:
        while self._unsent:
            packet, descriptors = self._unsent[0]
            try:
                if not self._is_taken(packet, descriptors):
                    return
            except OSError as error:
                LOG.error("a packet is lost: %s", error)
            if not self._unsent:
                # The peer is gone, and this is closed.
                return
            close_all(self._unsent.popleft()[1])
        self._loop.remove_writer(self._connection)


def close_all(descriptors: Iterable[int]) -> None:
    """Close these descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def _duplicates(descriptors: Sequence[int]) -> list[int]:
    """Raises OSError."""
    result: list[int] = []
    try:
        result.extend(map(os.dup, descriptors))
    except OSError:
        close_all(result)
        raise
    return result


def _object(octets: bytes) -> dict[str, Any]:
    try:
        value = json.loads(octets)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolError("not an object")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


class Fields:
    """The members of a head or packet. Each function raises ProtocolError for another type."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members

    def text(self, name: str) -> str:
        """A string."""
        value = self._members.get(name)
        if not isinstance(value, str):
            raise ProtocolError(f"{name} is not a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, None if it is absent or null."""
        return None if self._members.get(name) is None else self.text(name)

    def choice(self, name: str, among: Sequence[str]) -> str:
        """One of these strings."""
        value = self.text(name)
        if value not in among:
            raise ProtocolError(f"{name} is none of {', '.join(among)}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, False if it is absent."""
        value = self._members.get(name, False)
        if not isinstance(value, bool):
            raise ProtocolError(f"{name} is not a boolean")
        return value

    def optional_flag(self, name: str) -> bool | None:
        """A boolean, None if it is absent or null."""
        return None if self._members.get(name) is None else self.flag(name)

    def number(self, name: str) -> int:
        """A non-negative integer of at most 64 bits."""
        value = self._members.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
            raise ProtocolError(f"{name} is not a number")
        return value

    def optional_number(self, name: str) -> int | None:
        """A non-negative integer, None if it is absent or null."""
        return None if self._members.get(name) is None else self.number(name)

    def optional_time_ns(self, name: str) -> int | None:
        """A time as `date_and_time` has it, in ns since 1970; None if it is absent or null."""
        value = self._members.get(name)
        if value is None:
            return None
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not date_and_time.EARLIEST_NS <= value <= date_and_time.LATEST_NS
        ):
            raise ProtocolError(f"{name} is not a time")
        return value

    def numbers(self, name: str) -> list[int]:
        """A list of non-negative integers."""
        value = self._members.get(name)
        if not isinstance(value, list):
            raise ProtocolError(f"{name} is not a list")
        return [Fields({name: each}).number(name) for each in value]

    def choices(self, name: str, among: Sequence[str]) -> list[str]:
        """A list of these strings; [] if it is absent or null."""
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > len(among):
            raise ProtocolError(f"{name} is not a list of {', '.join(among)}")
        return [Fields({name: each}).choice(name, among) for each in value]

    def instances(self, name: str) -> list[Instances]:
        """A list of lists of steps, each a name and a list of pairs of a key and its value."""
        try:
            return [
                tuple(
                    Step(
                        _string(step), tuple((_string(key), _string(value)) for key, value in keys)
                    )
                    for step, keys in path
                )
                for path in self._members[name]
            ]
        except (KeyError, TypeError, ValueError):
            raise ProtocolError(f"{name} are not paths") from None

    def is_null(self, name: str) -> bool:
        """Whether it is absent or null."""
        return self._members.get(name) is None
