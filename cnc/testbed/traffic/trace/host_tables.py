"""Tables of stamps that two real hosts took: those of tsn-probe, one a host, and isochron's report.

    tsn-probe (cnc/testbed/traffic/probe)     isochron report     is
    seq                               q                   the sequence number
    planned_ns                        S - A               the instant for which the sender slept
    app_ns                            w                   its program's reading of the clock
    sched_ns                          s                   the kernel's stamp before the queue
    left_ns                           t                   and after it, in the driver
    rx_ns                             r                   the kernel's stamp at the receiver
    got_ns                            a                   its program's reading of the clock

An empty cell, and in isochron's report 0, is an absent stamp. A packet that was lost has no row in
the receiver's table of tsn-probe, and no stamp of the receiver in isochron's report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cnc.errors import InputError

ISOCHRON_FORMAT = r"isochron report -f 'q=%u S=%d A=%d w=%d s=%d t=%d r=%d a=%d\n' -a qSAwstra"
_MAGIC = "# tsn-probe 1"
_SENT = ("seq", "app_ns", "planned_ns", "sched_ns", "left_ns")
_RECEIVED = ("seq", "got_ns", "rx_ns")
_INSTANT_BITS = 62  # of nanoseconds since 1970: the year 2116, and differences fit 64 bits
_CELL = re.compile(r"\d{1,19}", re.ASCII)
_OFFSET = re.compile(r"-?\d{1,18}", re.ASCII)
_COST = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_VARIABLE = re.compile(r"([A-Za-z])=(\d{1,19})", re.ASCII)


class Stamps(NamedTuple):
    """What is known of one packet, each instant of the clock of its host; None: absent. Without
    `got_ns` it was lost."""

    seq: int
    planned_ns: int | None
    app_ns: int
    sched_ns: int | None
    left_ns: int | None
    rx_ns: int | None
    got_ns: int | None


@dataclass(frozen=True, slots=True)
class Host:
    """Where stamps were taken; None: the program does not say from what clock, at what cost."""

    name: str
    clock: str | None = None
    stamp_cost_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """How far the system clocks of both hosts were ahead of one grandmaster as a run began, and
    within what they had been for a while: `tsn-probe send --sync`."""

    limit_ns: int
    sender_ns: int
    receiver_ns: int


class ProbeTables:
    """The tables of a sender and a receiver of one run of tsn-probe, in either order.

    Raises:
        InputError: they are something else. So does `packets`, where a row is.
    """

    program = "tsn-probe"

    def __init__(self, first: Path, second: Path) -> None:
        tables = {table.command: table for table in (_Table(first), _Table(second))}
        if len(tables) == 1:
            raise InputError(
                f"{first} and {second} are both of `tsn-probe {next(iter(tables))}`, expected a "
                "sender's and a receiver's"
            )
        self._sent, self._received = tables["send"], tables["receive"]
        runs = self._sent.header["run"], self._received.header["run"]
        if runs[0] != runs[1]:
            raise InputError(
                f"{self._sent.file} is of run {runs[0]}, {self._received.file} of run {runs[1]}",
                hint="import what one run wrote",
            )
        self.sender, self.receiver = self._sent.host, self._received.host
        self.clocks = self._sent.clocks()

    def packets(self) -> Iterator[Stamps]:
        """All that were sent, in their order."""
        received = self._received.rows(_RECEIVED)
        into = next(received, None)
        for row in self._sent.rows(_SENT):
            rx_ns = got_ns = None
            if into and into.seq == row.seq:
                (rx_ns,), got_ns = into.others_ns, into.own_ns
                into = next(received, None)
            planned_ns, sched_ns, left_ns = row.others_ns
            yield Stamps(row.seq, planned_ns, row.own_ns, sched_ns, left_ns, rx_ns, got_ns)
        if into:
            raise InputError(
                f"{self._received.file}: packet {into.seq} is not in {self._sent.file}",
                hint="the sender's table is not whole",
            )


class _Row(NamedTuple):
    seq: int
    own_ns: int
    others_ns: list[int | None]


class _Table:
    """A table of tsn-probe: its header is read at once, its rows one at a time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.header: dict[str, str] = {}
        self._names: list[str] = []
        for number, line in _lines(file):
            if not self.header and line != _MAGIC:
                raise _unexpected(file, number, line, f"`{_MAGIC}`, as tsn-probe writes")
            if not line.startswith("# "):
                self._names = line.split(",")
                break
            name, _, value = line[2:].partition(" ")
            self.header[name] = value
        for name in ("command", "host", "run", "clock", "stamp_cost_ns"):
            if name not in self.header:
                raise InputError(f"{file}: expected a line `# {name} ...` above the table")
        self.command = self.header["command"]
        if self.command not in {"send", "receive"}:
            raise InputError(f"{file}: command: found {self.command!r}, expected send or receive")
        cost = self.header["stamp_cost_ns"]
        if not _COST.fullmatch(cost):
            raise InputError(f"{file}: stamp_cost_ns: found {cost!r}, expected a number")
        self.host = Host(self.header["host"], self.header["clock"], float(cost))

    def clocks(self) -> Clocks | None:
        """None: the sender did not wait for them."""
        names = ("sync_limit_ns", "offset_ns", "receiver_offset_ns")
        if names[0] not in self.header:
            return None
        found = [self.header.get(name, "") for name in names]
        for name, value in zip(names, found, strict=True):
            if not _OFFSET.fullmatch(value):
                raise InputError(f"{self.file}: {name}: found {value!r}, expected nanoseconds")
        return Clocks(*map(int, found))

    def rows(self, names: tuple[str, ...]) -> Iterator[_Row]:
        """Their cells of these columns, of which the first is to increase, and the second is in
        every row: the program's own stamp."""
        missing = [name for name in names if name not in self._names]
        if missing:
            raise InputError(f"{self.file}: expected a column {missing[0]}")
        places = [self._names.index(name) for name in names]
        last = -1
        for number, line in _lines(self.file):
            if line.startswith("# ") or line.split(",") == self._names:
                continue
            cells = line.split(",")
            if len(cells) != len(self._names):
                raise _unexpected(self.file, number, line, f"{len(self._names)} cells")
            seq, own_ns, *others_ns = (
                _instant(self.file, number, cells[place]) for place in places
            )
            if seq is None or seq <= last:
                raise _unexpected(self.file, number, cells[places[0]], f"a seq above {last}")
            if own_ns is None:
                raise _unexpected(self.file, number, line, f"an instant in {names[1]}")
            last = seq
            yield _Row(seq, own_ns, others_ns)


class IsochronReport:
    """A report of isochron (0.9), printed in the format ISOCHRON_FORMAT.

    Raises what ProbeTables does.
    """

    program = "isochron"
    sender, receiver, clocks = Host("sender"), Host("receiver"), None

    def __init__(self, file: Path) -> None:
        self._file = file
        for _, line in _lines(file):
            if line == _MAGIC:
                raise InputError(
                    f"{file} is the table of one host", hint="name that of the other one, too"
                )
            break

    def packets(self) -> Iterator[Stamps]:
        """All that were sent, in their order."""
        last = 0
        for number, line in _lines(self._file):
            found = {name: int(value) for name, value in _VARIABLE.findall(line)}
            if not {"q", "w", "t", "r", "a"} <= found.keys() or not found["w"]:
                wanted = "q=, w=, t=, r= and a= with their values"
                raise _unexpected(self._file, number, line, wanted, hint=f"`{ISOCHRON_FORMAT}`")
            if found["q"] <= last:
                raise _unexpected(self._file, number, f"q={found['q']}", f"one above {last}")
            last = found["q"]
            yield _of_report(found)


def _of_report(found: Mapping[str, int]) -> Stamps:
    planned_ns = found["S"] - found.get("A", 0) if found.get("S") else None
    sched_ns, left_ns = found.get("s") or None, found["t"] or None
    rx_ns, got_ns = found["r"] or None, found["a"] or None
    return Stamps(found["q"], planned_ns, found["w"], sched_ns, left_ns, rx_ns, got_ns)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not empty, with their numbers.

    Raises InputError if there are none.
    """
    number = 0
    with file.open(encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")
    if not number:
        raise InputError(f"{file} is empty")


def _instant(file: Path, number: int, cell: str) -> int | None:
    if not cell:
        return None
    if not _CELL.fullmatch(cell) or int(cell) >> _INSTANT_BITS:
        raise _unexpected(file, number, cell, "nanoseconds since 1970")
    return int(cell)


def _unexpected(
    file: Path, number: int, found: str, expected: str, *, hint: str | None = None
) -> InputError:
    return InputError(f"{file}:{number}: found {found[:60]!r}, expected {expected}", hint=hint)
