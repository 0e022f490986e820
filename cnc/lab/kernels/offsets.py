"""How far the clocks of a lab of kernels are from true time, as virtual-network records it."""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
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


class TrueOffsets:
    """How far each node's CLOCK_REALTIME was ahead of true time, between records by a straight
    line."""

    def __init__(self, recorded: Iterable[Offset]) -> None:
        self._times_ns: dict[str, list[int]] = defaultdict(list)
        self._offsets_ns: dict[str, list[int]] = defaultdict(list)
        for each in recorded:
            self._times_ns[each.node].append(each.time_ns)
            self._offsets_ns[each.node].append(each.offset_ns)

    def at(self, node: str, time_ns: int) -> int:
        """Before the first record as in it, after the last one likewise."""
        times_ns, offsets_ns = self._times_ns[node], self._offsets_ns[node]
        after = bisect_right(times_ns, time_ns)
        if after == 0:
            return offsets_ns[0]
        if after == len(times_ns):
            return offsets_ns[-1]
        begin_ns, end_ns = times_ns[after - 1], times_ns[after]
        passed = (time_ns - begin_ns) / (end_ns - begin_ns)
        return round(offsets_ns[after - 1] + passed * (offsets_ns[after] - offsets_ns[after - 1]))

    def series(self, node: str) -> tuple[Sequence[int], Sequence[int]]:
        """The instants of the records, and the offsets."""
        return self._times_ns[node], self._offsets_ns[node]

    def spread_max_ns(self, nodes: Sequence[str]) -> int:
        """The most that any two of these clocks differed at any record."""
        at_once = zip(*(self._offsets_ns[node] for node in nodes), strict=True)
        return max((max(values) - min(values) for values in at_once), default=0)

    def distances(self, node: str, other: str) -> list[tuple[int, int]]:
        """How far a clock is ahead of another one's, at each instant of its record."""
        return [
            (time_ns, offset_ns - self.at(other, time_ns))
            for time_ns, offset_ns in zip(*self.series(node), strict=True)
        ]


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
