"""Handles: the numbers by which the tables of a switch refer to streams.

A switch has one table of stream identities (802.1CB 9.1), which one mechanism sets and reads for
all; no mechanism is named. Entries of one stream share a handle. What is stored keeps its numbers,
so that only what changes is edited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from cnc.model import StreamAddress

NamedAt = tuple[tuple[str, ...], ...]
"""The ports at which a stream is named, sorted: it has a handle for each tuple of them."""


class KnownStream(NamedTuple):
    """A stream that a switch knows where its frames come in, and those ports, sorted."""

    address: StreamAddress
    ports: tuple[str, ...]


class Handles(NamedTuple):
    """By address and port the handles that streams have by an edit, and those that it removes."""

    by_stream: Mapping[tuple[StreamAddress, str], int]
    removed: Collection[int]


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """An entry of a switch's table of stream identities: `part` is what it does for its stream.

    `address` and `part` are None where the entry is none that a rollout sets. `named_at` are the
    ports, sorted, at which it names the stream for other tables.
    """

    index: int
    handle: int
    address: StreamAddress | None = None
    part: str | None = None
    named_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredIdentities:
    """A switch's table of stream identities."""

    entries: tuple[StoredIdentity, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """What tells an entry apart, and what ties it to the others of its stream."""

    index: int
    handle: int


class Numbers:
    """The numbers of the entries of a switch. What is new gets the first ones that no entry has,
    not even one that is removed in the same edit."""

    def __init__(self, stored: Iterable[StoredIdentity]) -> None:
        self._indexes: dict[tuple[StreamAddress, str], int] = {}
        self._handles: dict[StreamAddress, int] = {}
        self._names: dict[tuple[StreamAddress, str], Number] = {}
        taken_indexes, taken_handles = set(), set()
        for each in stored:
            taken_indexes.add(each.index)
            taken_handles.add(each.handle)
            if each.address:
                number = Number(each.index, each.handle)
                self._names |= {(each.address, port): number for port in each.named_at}
            if each.address and each.part:
                self._indexes.setdefault((each.address, each.part), each.index)
                self._handles.setdefault(each.address, each.handle)
        self._free_indexes = (number for number in count(1) if number not in taken_indexes)
        self._free_handles = (number for number in count(1) if number not in taken_handles)

    def of(self, address: StreamAddress, part: str) -> Number:
        """Those that the entry has, or new ones."""
        index = self._indexes.get((address, part))
        return Number(next(self._free_indexes) if index is None else index, self.handle(address))

    def of_name(self, address: StreamAddress, ports: Collection[str]) -> Number:
        """Those that the entry has which names the stream at one of these ports, or new ones."""
        known = (self._names.get((address, port)) for port in ports)
        return next(filter(None, known), None) or Number(
            next(self._free_indexes), next(self._free_handles)
        )

    def handle(self, address: StreamAddress) -> int:
        """That of the stream, or a new one."""
        if address not in self._handles:
            self._handles[address] = next(self._free_handles)
        return self._handles[address]
