"""Numbers of entries in a switch's table of stream identities: what is stored keeps its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from cnc.mechanisms.identification.model import IdentityPart, StoredIdentity
from cnc.model import StreamAddress


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """What tells an entry apart, and what ties it to the others of its stream."""

    index: int
    handle: int


class Numbers:
    """The numbers of the entries of a switch."""

    def __init__(self, stored: Iterable[StoredIdentity]) -> None:
        self._indexes: dict[tuple[StreamAddress, IdentityPart], int] = {}
        self._handles: dict[StreamAddress, int] = {}
        taken_indexes, taken_handles = set(), set()
        for each in stored:
            taken_indexes.add(each.index)
            taken_handles.add(each.handle)
            if each.address and each.part:
                self._indexes.setdefault((each.address, each.part), each.index)
                self._handles.setdefault(each.address, each.handle)
        self._free_indexes = (number for number in count(1) if number not in taken_indexes)
        self._free_handles = (number for number in count(1) if number not in taken_handles)

    def of(self, address: StreamAddress, part: IdentityPart) -> Number:
        """Those that the entry has, or new ones."""
        index = self._indexes.get((address, part))
        return Number(next(self._free_indexes) if index is None else index, self.handle(address))

    def handle(self, address: StreamAddress) -> int:
        """That of the stream, or a new one."""
        if address not in self._handles:
            self._handles[address] = next(self._free_handles)
        return self._handles[address]
