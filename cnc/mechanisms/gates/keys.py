"""The shape of a port's key `gate-control-list`: which gates are open when, whatever the port
carries."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION
from cnc.keys.values import CYCLE_MAX_NS, Leaf, quantity

_STATES_MAX = 255
_CLASS = r"[A-Za-z][A-Za-z0-9_-]{0,62}"


def _open(value: object) -> int | tuple[str, ...]:
    """A mask of gates, or the names of classes; `ValueError` says what was expected."""
    if type(value) is int and 0 <= value <= _STATES_MAX:
        return value
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and all(
        isinstance(each, str) and re.fullmatch(_CLASS, each) for each in names
    ):
        return tuple(names)
    raise ValueError("names of classes, a list, or a mask from 0x00 to 0xff")


Open = Annotated[
    int | tuple[str, ...],
    Leaf(
        _open,
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": _STATES_MAX},
                {"type": "string", "pattern": f"^{_CLASS}$"},
                {"type": "array", "items": {"type": "string", "pattern": f"^{_CLASS}$"}},
            ]
        },
    ),
]
Interval = Annotated[int, quantity(DURATION, 1, CYCLE_MAX_NS)]


class GateStates(Shape):
    """An entry of a gate control list (IEEE 802.1Q-2022 8.6.8.4)."""

    open_: Open = Field(
        description="the classes whose gates are open, all others are shut: a list of their names, "
        "or a mask such as 0x81, whose bit N is that of traffic class N"
    )
    for_ns: Interval = Field(description="for how long, a duration such as 300us")


class GateControlList(Shape):
    """A list that a port is to run as it is, whatever it carries."""

    cycle_ns: Interval = Field(
        description="the time from one start of it to the next, a duration such as 1ms"
    )
    base_offset_ns: Annotated[int, quantity(DURATION, 0, CYCLE_MAX_NS - 1)] = Field(
        "0ns",
        validate_default=True,
        description="how long after the start of each cycle, a multiple of it on TAI, it begins, "
        "a duration shorter than the cycle",
    )
    entries: list[GateStates] = Field(
        min_length=1,
        description="in their order; where they last shorter than the cycle, the states of the "
        "last one hold until its end, and where they last longer, the rest never runs (IEEE "
        "802.1Q-2022 8.6.9.2)",
    )


class PortKeys(Shape):
    """Of a port of a switch."""

    gate_control_list: GateControlList | None = Field(
        None,
        description="the gate control list that it runs, such as one of a script or a solver; no "
        "stream of the file may leave by it then (gates.md); default: what streams ask for",
    )
