"""The frames of a trace by flow and path, column by column: what all figures are computed from.

A million frames fit, where objects for each would not: accounts come one at a time, and of each the
durations are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import overload

from cnc.traffic.trace.account import Account, Layer
from cnc.traffic.trace.stages import Stage, stages

_NARROW, _WIDE = "i", "q"  # 4 and 8 octets


class Column(Sequence[int]):
    """Integers, each in as few octets as they need: none while all are equal, 4 while each fits,
    else 8 (what does not fit there raises OverflowError)."""

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
            self._values = _array([self._same]) * self._count
        try:
            self._values.append(value)
        except OverflowError:
            self._values = array(_WIDE, self._values)
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


def _array(values: Sequence[int]) -> array[int]:
    try:
        return array(_NARROW, values)
    except OverflowError:
        return array(_WIDE, values)


class PathColumns:
    """The frames of a flow by one path, counted from 0.

    `frames` were sent. `lost` of them never came to the listener; `incomplete` did, and a stamp of
    theirs is absent. The columns have the others, in the order in which they were added. `repeated`
    are copies that came once more, by whichever path; the first path has them.
    """

    def __init__(self, flow: str, listener: str, path: int) -> None:
        self.flow, self.listener, self.path = flow, listener, path
        self.frames = self.lost = self.incomplete = self.repeated = 0
        self.seqs, self.planned_ns, self.total_ns = Column(), Column(), Column()
        self.sender_ns, self.receiver_ns = Column(), Column()
        self.places: tuple[tuple[str, Layer], ...] = ()
        """Where each part of their time passed, and in which layer."""
        self.parts_ns: tuple[Column, ...] = ()
        """A column for each of `places`."""

    def __len__(self) -> int:
        """How many frames the columns have."""
        return len(self.seqs)

    def add(self, account: Account) -> None:
        row = account.row
        if row.path is None:
            self.repeated += 1
            return
        self.frames += 1
        total_ns = account.total_ns
        sender_ns, _, receiver_ns = stages(row)
        if row.delivered_ns is None:
            self.lost += 1
        elif total_ns is None or sender_ns is None or receiver_ns is None:
            self.incomplete += 1
        else:
            self.seqs.append(row.seq)
            self.planned_ns.append(row.planned_ns)
            self.total_ns.append(total_ns)
            self.sender_ns.append(sender_ns)
            self.receiver_ns.append(receiver_ns)
            self._add_parts(account)

    def _add_parts(self, account: Account) -> None:
        if not self.places:
            self.places = tuple((part.place, part.layer) for part in account.parts)
            self.parts_ns = tuple(Column() for _ in self.places)
        for column, part in zip(self.parts_ns, account.parts, strict=True):
            column.append(part.duration_ns or 0)  # of a complete row none is absent

    def layer_ns(self, layer: Layer) -> Sequence[int]:
        """The time of each frame in a layer, at all places; empty: the way has no such layer."""
        its = [
            column
            for column, (_, which) in zip(self.parts_ns, self.places, strict=True)
            if which is layer
        ]
        return its[0] if len(its) == 1 else Column(map(sum, zip(*its, strict=True)))

    def stage_ns(self, stage: Stage) -> Sequence[int]:
        """The time of each frame in a stage."""
        if stage is Stage.SENDER:
            return self.sender_ns
        if stage is Stage.RECEIVER:
            return self.receiver_ns
        ends = zip(self.total_ns, self.sender_ns, self.receiver_ns, strict=True)
        return Column(total - sender - receiver for total, sender, receiver in ends)


class ByPath:
    """Collects accounts, one at a time."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, int], PathColumns] = {}

    def add(self, account: Account) -> None:
        flow, path = account.row.flow, account.row.path or 0
        columns = self._by_path.get((flow.name, path))
        if columns is None:
            columns = PathColumns(flow.name, flow.listener, path)
            self._by_path[flow.name, path] = columns
        columns.add(account)

    def paths(self) -> list[PathColumns]:
        """One for each flow and path, in the order in which they first occurred."""
        return list(self._by_path.values())


def gather(accounts: Iterable[Account]) -> list[PathColumns]:
    """The columns of accounts, one for each flow and path."""
    by_path = ByPath()
    for each in accounts:
        by_path.add(each)
    return by_path.paths()
