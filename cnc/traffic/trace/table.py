"""Traces as tables: a row a frame, and a row a part of its time. An empty cell is absent."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cnc.traffic.trace.account import Account, Layer

FRAMES, PARTS = "trace.csv", "parts.csv"
_IDENTITY = ("flow", "seq", "listener", "path", "kind")
_ENDS = ("planned_ns", "sent_ns", "scheduled_ns", "received_ns", "delivered_ns")
_LAYERS = {layer: f"{layer.replace(' ', '_').replace('-', '_')}_ns" for layer in Layer}


def write(accounts: Sequence[Account], start_ns: int, directory: Path) -> None:
    """Write both tables into a directory that exists; instants count from the start."""
    hops = max((len(each.row.crossings) for each in accounts), default=0)
    columns = [*_IDENTITY, *_ENDS, *_LAYERS.values(), "total_ns"]
    for number in range(1, hops + 1):
        columns += [f"port_{number}", f"left_{number}_ns", f"reached_{number}_ns"]
    _write(directory / FRAMES, columns, (_frame(each, start_ns) for each in accounts))
    columns = [*_IDENTITY, "number", "place", "layer", "duration_ns"]
    _write(directory / PARTS, columns, _parts(accounts))


def _write(file: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(columns)
        writer.writerows(rows)


def _identity(account: Account) -> tuple[object, ...]:
    row = account.row
    path = None if row.path is None else row.path + 1
    return row.flow.name, row.seq, row.flow.listener, path, row.kind


def _frame(account: Account, start_ns: int) -> Iterator[object]:
    """The cells of a row; what is missing at its end is empty, too."""
    row = account.row

    def since(*instants_ns: int | None) -> Iterator[int | None]:
        return (None if each is None else each - start_ns for each in instants_ns)

    yield from _identity(account)
    yield from since(row.planned_ns, row.sent_ns, row.scheduled_ns)
    yield from since(row.received_ns, row.delivered_ns)
    yield from (account.layer_ns(layer) for layer in _LAYERS)
    yield account.total_ns
    for crossing in row.crossings:
        yield crossing.port
        yield from since(crossing.left_ns, crossing.reached_ns)


def _parts(accounts: Iterable[Account]) -> Iterator[tuple[object, ...]]:
    for account in accounts:
        for number, part in enumerate(account.parts):
            yield (*_identity(account), number, *part)
