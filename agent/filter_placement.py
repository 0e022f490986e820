"""Whether the filters of a port act on the frames that its switch forwards.

The kernel of a switch whose hardware forwards (switchdev) does not see these frames: its filters
act on them only as far as the hardware has them, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent.model import PortState


@dataclass(frozen=True, slots=True)
class FilterPlacement:
    """A part of a port's state, of all mechanisms that have filters.

    `in_hardware`: whether the hardware has all of them; None where there is none, or the kernel
    forwards the frames of the port.
    """

    in_hardware: bool | None = None


def with_placement(state: PortState, in_hardware: Collection[bool]) -> PortState:
    """The state of a port with further filters, of which some may be in its hardware."""
    if state.switch_id is None or not in_hardware:
        return state
    others = state[FilterPlacement].in_hardware is not False
    return state.with_part(FilterPlacement(others and all(in_hardware)))
