"""A gate control list of a file, and how what is wrong with one is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnc.errors import InputError
from cnc.keys.problems import shown
from cnc.keys.values import CYCLE_MAX_NS
from cnc.model import GateEntry

HINT = (
    "a file has `tc qdisc replace … taprio …` commands, CSV with the columns gate_states and "
    "interval_ns, entries of tsntool (t0 00000001b 300000), or XML with a gate-parameter-table"
)
_STATES_MAX = 0xFF


@dataclass(frozen=True, slots=True)
class Listed:
    """What a file has of a port; `port` is its interface, or node/port, None: it does not say.

    It begins `base_offset_ns` after the start of each cycle on TAI. `remarks` say what the file has
    beside, that a gate control list of an intent does not.
    """

    port: str | None
    cycle_ns: int
    entries: tuple[GateEntry, ...]
    base_offset_ns: int = 0
    remarks: tuple[str, ...] = ()


def listed(
    where: str,
    port: str | None,
    entries: Sequence[GateEntry],
    *,
    cycle_ns: int | None = None,
    base_time_ns: int = 0,
    remarks: Sequence[str] = (),
) -> Listed:
    """A list; without a cycle it lasts as long as its entries do. Raises InputError at `where`."""
    if not entries:
        raise refused(where, "no entries", "at least one")
    for each in entries:
        if not 0 <= each.gate_states <= _STATES_MAX:
            raise refused(where, f"gate states {each.gate_states:#x}", "0x00 to 0xff")
        if not 0 < each.interval_ns <= CYCLE_MAX_NS:
            expected = f"1 ns to {CYCLE_MAX_NS} ns"
            raise refused(where, f"an interval of {each.interval_ns} ns", expected)
    cycle = sum(each.interval_ns for each in entries) if cycle_ns is None else cycle_ns
    if not 0 < cycle <= CYCLE_MAX_NS:
        raise refused(where, f"a cycle of {cycle} ns", f"1 ns to {CYCLE_MAX_NS} ns")
    return Listed(port, cycle, tuple(entries), base_time_ns % cycle, tuple(remarks))


def refused(where: str, found: str, expected: str) -> InputError:
    """An error at a place of a file, FILE:LINE."""
    return InputError(f"{where}: found {found}, expected {expected}", hint=HINT)


def number(where: str, text: str, what: str, base: int = 10) -> int:
    """A whole number of a file. Raises InputError."""
    try:
        return int(text, base)
    except ValueError:
        raise refused(where, f"{what} {shown(text)}", "a whole number") from None
