"""What a port makes of a gate control list that is given, where an operator may not expect it."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanisms.gates.given import GivenList, GivenLists, operative, remark
from cnc.model import ClassRole, Intent
from cnc.support.format import duration
from cnc.support.wording import named

_LENGTH_HINT = (
    "so it is by IEEE 802.1Q-2022 8.6.9.2; give it entries that last as long as its `cycle` if "
    "that is not what you want"
)
_CONTROL_HINT = (
    "clocks and NETCONF wait as long there: open the class in each entry, unless no control passes"
)


def remarks(intent: Intent) -> Iterator[tuple[str, str]]:
    """What to say, of ports with the same list together, and what to do."""
    ports: dict[GivenList, list[str]] = {}
    for port, given in intent[GivenLists].by_port.items():
        ports.setdefault(given, []).append(str(port))
    for given, where in ports.items():
        if text := remark(given):
            yield f"{named(where)}: {text}", _LENGTH_HINT
        if text := _control(intent, given):
            yield f"{named(where)}: {text}", _CONTROL_HINT


def _control(intent: Intent, given: GivenList) -> str | None:
    """Which control is shut for how long of each cycle, in words; None: none is."""
    entries = operative(given).entries
    shut = {
        its.name: sum(e.interval_ns for e in entries if not e.gate_states >> its.number & 1)
        for its in intent.classes_with(ClassRole.CONTROL)
    }
    found = [f"class {name} for {duration(ns)}" for name, ns in shut.items() if ns]
    if not found:
        return None
    return f"control is shut in each cycle of {duration(given.cycle_ns)}: {named(found)}"
