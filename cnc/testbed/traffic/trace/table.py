"""Traces as tables: a row a frame, and a row a part of its time. An empty cell is absent."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from cnc.support import whole_file
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.stages import Stage, stages

if TYPE_CHECKING:
    from _csv import Writer

FRAMES, PARTS = "trace.csv", "parts.csv"
_IDENTITY = ("flow", "seq", "listener", "path", "kind")
_ENDS = ("planned_ns", "sent_ns", "scheduled_ns", "received_ns", "delivered_ns")
_STAGES = tuple(f"{stage}_ns" for stage in Stage)


class Tables:
    """Both tables in a directory that exists, written account by account. Use as a context manager:
    they are there when it has ended, and not at all if it was interrupted.

    Instants count from `start_ns`; no way has more than `hops_max` ports. `layers` have a column,
    and with those of TCP when a frame was acknowledged.
    """

    def __init__(
        self, directory: Path, start_ns: int, hops_max: int, layers: Sequence[Layer]
    ) -> None:
        self._start_ns = start_ns
        self._layers = layers
        self._acked = ["acked_ns"] if Layer.RETRANSMISSION in layers else []
        self._stack = ExitStack()
        columns = [
            *_IDENTITY,
            *_ENDS,
            *self._acked,
            *map(_column, self._layers),
            *_STAGES,
            "total_ns",
        ]
        for number in range(1, hops_max + 1):
            columns += [f"port_{number}", f"left_{number}_ns", f"reached_{number}_ns"]
        with self._stack:
            self._frames = self._begin(directory / FRAMES, columns)
            columns = [*_IDENTITY, "number", "place", "layer", "duration_ns"]
            self._parts = self._begin(directory / PARTS, columns)
            self._stack = self._stack.pop_all()

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, raised, where)

    def add(self, account: Account) -> None:
        """Write the row of a frame, and those of its parts."""
        self._frames.writerow(self._cells(account))
        identity = _identity(account)
        self._parts.writerows(
            (*identity, number, *part) for number, part in enumerate(account.parts)
        )

    def _begin(self, file: Path, columns: list[str]) -> Writer:
        writer = csv.writer(self._stack.enter_context(whole_file.opened_text(file, newline="")))
        writer.writerow(columns)
        return writer

    def _cells(self, account: Account) -> Iterator[object]:
        """The cells of a row; what is missing at its end is empty, too."""
        row = account.row
        yield from _identity(account)
        yield from self._since(row.planned_ns, row.sent_ns, row.scheduled_ns)
        yield from self._since(row.received_ns, row.delivered_ns)
        yield from self._since(*(row.acked_ns for _ in self._acked))
        yield from (account.layer_ns(layer) for layer in self._layers)
        yield from stages(row)
        yield account.total_ns
        for crossing in row.crossings:
            yield crossing.port
            yield from self._since(crossing.left_ns, crossing.reached_ns)

    def _since(self, *instants_ns: int | None) -> Iterator[int | None]:
        return (None if each is None else each - self._start_ns for each in instants_ns)


def _identity(account: Account) -> tuple[object, ...]:
    row = account.row
    path = None if row.path is None else row.path + 1
    return row.flow.name, row.seq, row.flow.listener, path, row.kind


def _column(layer: Layer) -> str:
    return f"{layer.replace(' ', '_').replace('-', '_')}_ns"
