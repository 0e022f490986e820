"""The frames of a trace by flow and path, column by column: what all figures are computed from.

A million frames fit, where objects for each would not: accounts come one at a time, and of each the
durations are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnc.testbed.traffic.column import Column
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.join import Kind
from cnc.testbed.traffic.trace.stages import Stage, stages


class PathColumns:
    """The frames of a flow by one path, counted from 0.

    `frames` were sent. `lost` of them never came to the listener; `incomplete` did, and a stamp of
    theirs is absent. The columns have the others, in the order in which they were added. `repeated`
    are copies that came once more, by whichever path; the first path has them. `resent` is how
    many TCP has sent again, of frames and of repeated copies. Durations that
    differ by no more than `off_ns` may be the same.
    """

    def __init__(self, flow: str, listener: str, path: int, off_ns: int = 0) -> None:
        self.flow, self.listener, self.path, self.off_ns = flow, listener, path, off_ns
        self.frames = self.lost = self.incomplete = self.repeated = self.resent = 0
        self.seqs, self.planned_ns, self.total_ns = Column(), Column(), Column()
        self.sender_ns, self.receiver_ns = Column(), Column()
        self.stages = tuple(Stage)
        """Those that are known."""
        self.places: tuple[tuple[str, Layer], ...] = ()
        """Where each part of their time passed, and in which layer."""
        self.parts_ns: tuple[Column, ...] = ()
        """A column for each of `places`."""

    def __len__(self) -> int:
        """How many frames the columns have."""
        return len(self.seqs)

    def add(self, account: Account) -> None:
        row = account.row
        self.resent += row.kind is Kind.RESENT
        if row.path is None:
            self.repeated += 1
            return
        self.frames += 1
        total_ns = account.total_ns
        sender_ns, _, receiver_ns = stages(row)
        if not row.has_channel:
            self.stages = (Stage.SENDER, Stage.RECEIVER)
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
    """Collects accounts, one at a time; `off_ns` as in `PathColumns`."""

    def __init__(self, off_ns: int = 0) -> None:
        self._off_ns = off_ns
        self._by_path: dict[tuple[str, int], PathColumns] = {}

    def add(self, account: Account) -> None:
        flow, path = account.row.flow, account.row.path or 0
        columns = self._by_path.get((flow.name, path))
        if columns is None:
            columns = PathColumns(flow.name, flow.listener, path, self._off_ns)
            self._by_path[flow.name, path] = columns
        columns.add(account)

    def paths(self) -> list[PathColumns]:
        """One for each flow and path, in the order in which they first occurred."""
        return list(self._by_path.values())


def gather(accounts: Iterable[Account], off_ns: int = 0) -> list[PathColumns]:
    """The columns of accounts, one for each flow and path."""
    by_path = ByPath(off_ns)
    for each in accounts:
        by_path.add(each)
    return by_path.paths()
