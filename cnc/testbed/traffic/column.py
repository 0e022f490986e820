"""Integers in as little room as they need, and where frames are by their sequence number: a trace
has tens of millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import overload

_CODES = "hiq"  # of arrays: 2, 4 and 8 octets


class Column(Sequence[int]):
    """Integers, each in as few octets as they need: none while all are equal, then 2, 4 or 8 (what
    does not fit there raises OverflowError)."""

    __slots__ = ("_count", "_same", "_values")

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._same = 0
        self._count = 0
        self._values: array[int] | None = None
        for value in values:
            self.append(value)

    def append(self, value: int) -> None:
        if self._values is None:
            if self._count == 0:
                self._same = value
            if value == self._same:
                self._count += 1
                return
            self._values = _wide_enough([self._same]) * self._count
        try:
            self._values.append(value)
        except OverflowError:
            narrow = self._values
            self._values = array(_wide_enough([value]).typecode, narrow)
            self._values.append(value)

    def __len__(self) -> int:
        return self._count if self._values is None else len(self._values)

    def __iter__(self) -> Iterator[int]:
        return repeat(self._same, self._count) if self._values is None else iter(self._values)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if self._values is not None:
            return self._values[index]
        if isinstance(index, slice):
            return [self._same] * len(range(*index.indices(self._count)))
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._same


def _wide_enough(values: Sequence[int]) -> array[int]:
    for code in _CODES[:-1]:
        try:
            return array(code, values)
        except OverflowError:
            pass
    return array(_CODES[-1], values)


_NO_PLACE = -1
_GAP_MAX = 1 << 16  # numbers that may be missing in a row before they cost more than they save


class PlacesByNumber:
    """In which places of a list there are frames of each sequence number, 32 bits, of one flow."""

    __slots__ = ("_first", "_more")

    def __init__(self) -> None:
        self._first = array("i")  # by number
        self._more: dict[int, list[int]] = {}  # of copies, and of numbers far from all others

    def add(self, number: int, place: int) -> None:
        """Places of a number are added in their order."""
        gap = number - len(self._first)
        if gap < 0 and self._first[number] == _NO_PLACE and number not in self._more:
            self._first[number] = place
        elif 0 <= gap <= _GAP_MAX and number not in self._more:
            self._first.extend([_NO_PLACE] * gap)
            self._first.append(place)
        else:
            self._more.setdefault(number, []).append(place)

    def places(self, number: int) -> list[int]:
        """In order; empty: nowhere."""
        more = self._more.get(number, [])
        if number >= len(self._first) or self._first[number] == _NO_PLACE:
            return more
        return [self._first[number], *more]
