"""How far the clocks of a lab of kernels are from true time, as virtual-network records it."""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.model import NS_PER_S
from cnc.testbed.lab.kernels.layout import CONTROLLER
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS

if TYPE_CHECKING:
    from cnc.testbed.lab.substrate import Substrate

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


@dataclass(frozen=True, slots=True)
class FurthestApart:
    """Those two of several clocks that were furthest apart, by their nodes, and by how much."""

    behind: str
    ahead: str
    apart_ns: int


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
        return _at(*self.series(node), time_ns)

    def clock(self, node: str) -> RecordedClock:
        """The clock of a node."""
        return RecordedClock(*self.series(node))

    def series(self, node: str) -> tuple[Sequence[int], Sequence[int]]:
        """The instants of the records, and the offsets."""
        return self._times_ns[node], self._offsets_ns[node]

    def furthest_apart(self, nodes: Sequence[str]) -> FurthestApart:
        """Of these clocks at any record; without a record the first, from itself."""
        at_once = zip(*(self._offsets_ns[node] for node in nodes), strict=True)
        in_step = (0,) * len(nodes)
        offsets_ns = max(at_once, key=lambda each: max(each) - min(each), default=in_step)
        behind_ns, ahead_ns = min(offsets_ns), max(offsets_ns)
        behind, ahead = (nodes[offsets_ns.index(each)] for each in (behind_ns, ahead_ns))
        return FurthestApart(behind, ahead, ahead_ns - behind_ns)

    def distances(self, node: str, other: str) -> list[tuple[int, int]]:
        """How far a clock is ahead of another one's, at each instant of its record."""
        return [
            (time_ns, offset_ns - self.at(other, time_ns))
            for time_ns, offset_ns in zip(*self.series(node), strict=True)
        ]


class RecordedClock:
    """What a clock showed in true time, and when it was that it showed an instant. Between records
    of its offset by a straight line, before the first as in it, after the last one likewise.

    Both count from the same instant, as those of the records do.
    """

    def __init__(self, times_ns: Sequence[int], offsets_ns: Sequence[int]) -> None:
        self._times_ns, self._offsets_ns = times_ns, offsets_ns
        shown_ns = [sum(each) for each in zip(times_ns, offsets_ns, strict=True)]
        # The least that it showed from each record on: a clock that is set back shows an instant
        # twice, and the last time counts.
        self._least_ns = [*accumulate(reversed(shown_ns), min)][::-1]

    def shown_ns(self, true_ns: int) -> int:
        """What the clock showed then."""
        return true_ns + _at(self._times_ns, self._offsets_ns, true_ns)

    def true_ns(self, shown_ns: int) -> int:
        """When the clock showed this, for the last time."""
        after = bisect_right(self._least_ns, shown_ns)
        if after == 0:
            return shown_ns - self._offsets_ns[0]
        if after == len(self._times_ns):
            return shown_ns - self._offsets_ns[-1]
        begin_ns, end_ns = self._times_ns[after - 1], self._times_ns[after]
        begin_shown_ns = begin_ns + self._offsets_ns[after - 1]
        end_shown_ns = end_ns + self._offsets_ns[after]
        passed = (shown_ns - begin_shown_ns) / (end_shown_ns - begin_shown_ns)
        return begin_ns + round(passed * (end_ns - begin_ns))


def _at(times_ns: Sequence[int], offsets_ns: Sequence[int], time_ns: int) -> int:
    """The offset at an instant."""
    after = bisect_right(times_ns, time_ns)
    if after == 0:
        return offsets_ns[0]
    if after == len(times_ns):
        return offsets_ns[-1]
    begin_ns, end_ns = times_ns[after - 1], times_ns[after]
    passed = (time_ns - begin_ns) / (end_ns - begin_ns)
    return round(offsets_ns[after - 1] + passed * (offsets_ns[after] - offsets_ns[after - 1]))


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


def tai_offset_ns(file: Path) -> int:
    """How far CLOCK_TAI is ahead of CLOCK_REALTIME on the controller of a lab, by its record."""
    (last,) = deque((each for each in read(file) if each.node == CONTROLLER), maxlen=1)
    return last.tai_minus_utc_s * NS_PER_S


def span(file: Path, start_ns: int, length_ns: int, node: str = CONTROLLER) -> list[Offset]:
    """What a lab's record has of a time that began at this instant of a node's CLOCK_TAI; its
    instants count from there.

    The controller follows no clock, so that its own tells true time.
    """
    its = [each for each in read(file) if each.node == node]
    shown_ns = start_ns - VIRTUAL_EPOCH_NS - its[-1].tai_minus_utc_s * NS_PER_S
    begin_ns = TrueOffsets(its).clock(node).true_ns(shown_ns)
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


def write_span(directory: Path, nodes: Substrate, node: str, start_ns: int, length_ns: int) -> None:
    """Write what `span` finds for a measurement in a lab whose nodes have clocks of their own;
    nothing in others."""
    if recorded := nodes.clock_offsets():
        write(directory / FILE, span(recorded, start_ns, length_ns, node))
