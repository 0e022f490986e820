"""Gate control lists that switches run, beside an intent that is to have them."""

from __future__ import annotations

from cnc.mechanism import FoundLists
from cnc.mechanisms.gates.given import GivenList, operative
from cnc.mechanisms.gates.openings import longest_frame_octets
from cnc.mechanisms.runnable import obstacles
from cnc.model import GateControlList, Intent, PortRef


def _run(its: GateControlList, base_offset_ns: int) -> GateControlList:
    return operative(GivenList(its.cycle_ns, its.entries, base_offset_ns))


def _obstacle(
    intent: Intent, port: PortRef, its: GateControlList, base_offset_ns: int
) -> str | None:
    first = next(obstacles(intent, port, _run(its, base_offset_ns)), None)
    return f"{first.found}, expected {first.expected}" if first else None


def _longest_octets(
    intent: Intent, port: PortRef, its: GateControlList, base_offset_ns: int, number: int
) -> int | None:
    """By gates that open in time: how late they do is not in the list."""
    link, run = intent.network.links[port], _run(its, base_offset_ns)
    return longest_frame_octets(intent.with_gate_margin(0), link, run, number)


FOUND_LISTS = FoundLists(_obstacle, _longest_octets)
