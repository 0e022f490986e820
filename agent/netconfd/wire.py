"""Messages between the processes of the server.

A session process and the broker exchange messages on a stream socket of their own: two lengths, a
JSON object (the head) and octets (the body). The front and the broker exchange packets, each one
JSON object, some with a descriptor (unix(7), SCM_RIGHTS).

Heads and packets come from another process, which may have been taken over: `Fields` takes them
apart, and what is not as agreed ends the connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.netconfd import date_and_time
from agent.sysrepo.instances import Instances, Step

# Lengths of head and body, in octets.
_LENGTHS = struct.Struct("!II")
MAX_HEAD_OCTETS = 262_144
# What the broker sends: all that a user may read.
MAX_ANSWER_OCTETS = 256 * 2**20
MAX_PACKET_OCTETS = 131_072


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
    """Send a packet. Raises OSError."""
    octets = json.dumps(packet, separators=(",", ":")).encode()
    socket.send_fds(connection, [octets], list(descriptors))


def receive_packet(
    connection: socket.socket, max_descriptors: int = 1
) -> tuple[dict[str, Any], list[int]] | None:
    """The next packet with its descriptors, None if the other end is closed.

    Raises OSError (BlockingIOError if there is none yet) or ProtocolError.
    """
    octets, descriptors, flags, _ = socket.recv_fds(
        connection, MAX_PACKET_OCTETS, max_descriptors, socket.MSG_CMSG_CLOEXEC
    )
    if not octets:
        return None
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ProtocolError("a packet that is too long")
        return _object(octets), descriptors
    except ProtocolError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


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
