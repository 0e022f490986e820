"""What an intent says of gate control lists, as YAML text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cnc.gate_lists.listed import Listed
from cnc.keys.units import DURATION
from cnc.model import PortRef


def fragment(lists: Mapping[PortRef, Listed]) -> str:
    """The part of `switches` that has these lists, with what their files say beside as comments."""
    return "".join(f"{line}\n" for line in _lines(lists))


def _lines(lists: Mapping[PortRef, Listed]) -> Iterator[str]:
    yield "switches:"
    for node in dict.fromkeys(port.node for port in lists):
        yield f"  {node}:"
        yield "    ports:"
        for port, its in lists.items():
            if port.node == node:
                yield from (f"      # {remark}" for remark in its.remarks)
                yield f"      {port.port}:"
                yield from (f"        {line}" for line in list_lines(its))


def list_lines(its: Listed, opens: Callable[[int], str] = "{:#04x}".format) -> Iterator[str]:
    """The key of a port that has this list; `opens` is how a mask of gates is written."""
    yield "gate-control-list:"
    yield f"  cycle: {DURATION.format(its.cycle_ns)}"
    if its.base_offset_ns:
        yield f"  base-offset: {DURATION.format(its.base_offset_ns)}"
    yield "  entries:"
    for each in its.entries:
        states = opens(each.gate_states)
        yield f"    - {{open: {states}, for: {DURATION.format(each.interval_ns)}}}"
