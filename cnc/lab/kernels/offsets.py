"""How far the clocks of a lab of kernels are from true time, as virtual-network records it."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from cnc.lab.kernels.layout import CONTROLLER
from cnc.lab.vm.runner import VIRTUAL_EPOCH_NS
from cnc.model import NS_PER_S

PERIOD_NS = 10_000_000
FILE = "offsets.csv"


@dataclass(frozen=True, slots=True)
class Offset:
    """How far the CLOCK_REALTIME of a node is ahead of true time at an instant, which counts from
    the start of the lab, or of a measurement; and how far its CLOCK_TAI is ahead of that."""

    time_ns: int
    node: str
    offset_ns: int
    tai_minus_utc_s: int


COLUMNS = tuple(field.name for field in fields(Offset))


def read(file: Path) -> Iterator[Offset]:
    """What a file has that virtual-network or `write` wrote, in the order of time.

    Raises OSError as the file does.
    """
    with file.open(newline="") as opened:
        for row in csv.DictReader(opened):
            yield Offset(
                int(row["time_ns"]),
                row["node"],
                int(row["offset_ns"]),
                int(row["tai_minus_utc_s"]),
            )


def span(file: Path, start_ns: int, length_ns: int) -> list[Offset]:
    """What a lab's record has of a time that began at this instant of its controller's CLOCK_TAI;
    its instants count from there.

    The controller follows no clock, so that its own tells true time.
    """
    (last,) = deque((each for each in read(file) if each.node == CONTROLLER), maxlen=1)
    begin_ns = start_ns - VIRTUAL_EPOCH_NS - last.tai_minus_utc_s * NS_PER_S
    return [
        replace(each, time_ns=each.time_ns - begin_ns)
        for each in read(file)
        if 0 <= each.time_ns - begin_ns <= length_ns
    ]


def write(file: Path, offsets: Iterable[Offset]) -> None:
    """Write offsets as virtual-network does."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([getattr(each, column) for column in COLUMNS] for each in offsets)
