"""Netlink messages by the hundred: encoded by hand, sent together, each with its own outcome.

pyroute2 sends one request at a time and decodes each answer into objects, which takes longer than
the kernel does by far. The format is that of netlink(7); constants are those of linux/netlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

NETLINK_NETFILTER = 12  # the family of nftables, for which Python has no name
NLA_F_NESTED = 0x8000
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_CAPPED, _NLM_F_ACK_TLVS = 0x100, 0x200
_SOL_NETLINK, _NETLINK_EXT_ACK, _NETLINK_CAP_ACK = 270, 11, 10
_NLMSGERR_ATTR_MSG = 1
_NLA_TYPE_MASK = 0x3FFF
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_BATCH = 64  # whose answers fit into any receive buffer
_RECEIVE_OCTETS = 1 << 16


class Message(NamedTuple):
    """A request, or what a dump consists of; `payload` begins with the family's own header."""

    kind: int
    payload: bytes
    flags: int = 0


class Refusal(NamedTuple):
    """The request that the kernel refused, and why."""

    message: Message
    error: NetlinkError


class NetlinkSocket:
    """A socket of one netlink family, in the network namespace in which it was made.

    Not to be used by two threads at once.
    """

    def __init__(self, family: int) -> None:
        """Raises OSError where the kernel lacks the family."""
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family
        )
        self._socket.bind((0, 0))
        for option in (_NETLINK_EXT_ACK, _NETLINK_CAP_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)

    def close(self) -> None:
        self._socket.close()

    def send(self, messages: Sequence[Message]) -> list[Refusal]:
        """Send requests that do not depend on each other; those that were refused."""
        refusals: list[Refusal] = []
        for start in range(0, len(messages), _BATCH):
            batch = messages[start : start + _BATCH]
            refusals += self._exchange(batch)
        return refusals

    def transact(self, messages: Sequence[Message]) -> list[Refusal]:
        """Send requests as one datagram, as nftables' transactions need; those refused."""
        return self._exchange(messages)

    def ask(self, request: Message) -> list[Message]:
        """What the kernel answers beside the acknowledgement; raises NetlinkError."""
        answers: list[Message] = []
        raise_first(self._exchange([request], answers))
        return answers

    def dump(self, request: Message) -> list[Message]:
        """All that the kernel lists; raises NetlinkError."""
        self._socket.sendall(_encoded(request, NLM_F_REQUEST | NLM_F_DUMP, 0))
        listed: list[Message] = []
        while True:
            for kind, _sequence, payload in _messages(self._socket.recv(_RECEIVE_OCTETS)):
                if kind == _NLMSG_DONE:
                    return listed
                if kind == _NLMSG_ERROR:
                    raise _error(payload)
                listed.append(Message(kind, payload))

    def _exchange(
        self, messages: Sequence[Message], answers: list[Message] | None = None
    ) -> list[Refusal]:
        """The kernel has answered all when `send` returns: it works in the caller's own time.

        `answers` takes what it says beside acknowledgements.
        """
        self._socket.sendall(
            b"".join(
                _encoded(each, NLM_F_REQUEST | NLM_F_ACK, number)
                for number, each in enumerate(messages)
            )
        )
        refusals: list[Refusal] = []
        while True:
            try:
                answer = self._socket.recv(_RECEIVE_OCTETS, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return refusals
            for kind, number, payload in _messages(answer):
                if kind == _NLMSG_ERROR and (error := _error(payload)).code:
                    refusals.append(Refusal(messages[number], error))
                elif kind != _NLMSG_ERROR and answers is not None:
                    answers.append(Message(kind, payload))


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute (struct nlattr) with its padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the value of each attribute."""
    position = 0
    while position + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, position)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _NLA_TYPE_MASK, data[position + _ATTRIBUTE.size : position + length]
        position += -(-length // 4) * 4


def raise_first(refusals: Iterable[Refusal], ignored: frozenset[int] = frozenset()) -> None:
    """Raise the first refusal whose error number is not ignored."""
    for refusal in refusals:
        if refusal.error.code not in ignored:
            raise refusal.error


def _encoded(message: Message, flags: int, number: int) -> bytes:
    length = _HEADER.size + len(message.payload)
    header = _HEADER.pack(length, message.kind, flags | message.flags, number, 0)
    return header + message.payload + bytes(-length % 4)


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, sequence number and payload of each message; an error's begins with its flags."""
    position = 0
    while position + _HEADER.size <= len(data):
        length, kind, flags, number, _port = _HEADER.unpack_from(data, position)
        payload = data[position + _HEADER.size : position + length]
        if kind == _NLMSG_ERROR:
            payload = struct.pack("=H", flags) + payload
        yield kind, number, payload
        position += -(-length // 4) * 4


def _error(payload: bytes) -> NetlinkError:
    """The error of an acknowledgement, code 0 for none; the kernel's own words where it has any."""
    flags, code, echoed_octets = struct.unpack_from("=HiI", payload)
    text = os.strerror(-code)
    if flags & _NLM_F_ACK_TLVS:
        header = 2 + 4 + _HEADER.size
        start = header if flags & _NLM_F_CAPPED else 2 + 4 + echoed_octets
        words = dict(attributes(payload[start:])).get(_NLMSGERR_ATTR_MSG)
        text = words.rstrip(b"\0").decode() if words else text
    return NetlinkError(-code, text)
