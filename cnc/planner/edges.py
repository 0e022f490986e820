"""Gate control lists from the times at which gates change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import compress, pairwise
from operator import ne, sub

from cnc.model import GateControlList, GateEntry, Link
from cnc.planner.ports import interval_max_ns

# The same entries come again and again, in a port's next list above all. To share them is quicker
# than to make them, and leaves no garbage to look for in a planner that stays up (`Live`).
gate_entry = lru_cache(maxsize=1 << 16)(GateEntry)


def list_from_edges(
    times_ns: Sequence[int], states: Sequence[int], cycle_ns: int
) -> GateControlList:
    """The list of one cycle from its beginning: from each time on the gates of its states are open.

    The times are in order, less than a cycle apart, and may begin anywhere in it.
    """
    # Where nothing changes there is no edge. What is open last is still when it begins again.
    changes = list(map(ne, states, [states[-1], *states]))
    edges = list(compress(times_ns, changes))
    if not edges:
        return GateControlList(cycle_ns, (gate_entry(states[-1], cycle_ns),))
    opened = list(compress(states, changes))
    # Those that the end of a cycle is before come first.
    start = edges[0] - edges[0] % cycle_ns
    split = bisect_left(edges, start + cycle_ns)
    edges = [t - start - cycle_ns for t in edges[split:]] + [t - start for t in edges[:split]]
    opened = opened[split:] + opened[:split]
    if edges[0] > 0:
        edges.insert(0, 0)
        opened.insert(0, opened[-1])
    lengths = map(sub, [*edges[1:], cycle_ns], edges)
    return GateControlList(cycle_ns, tuple(map(gate_entry, opened, lengths)))


def cut(gates: GateControlList, link: Link) -> GateControlList:
    """The list with every entry that is too long for the port in equal parts, to the tick."""
    tick = link.gate_tick_ns
    longest = interval_max_ns(link) // tick  # in ticks, as all below
    if not longest:
        return gates
    entries = []
    for states, interval_ns in ((e.gate_states, e.interval_ns) for e in gates.entries):
        length = interval_ns // tick
        parts = -(-length // longest)
        edges = [length * part // parts for part in range(parts + 1)]
        entries += [GateEntry(states, (end - start) * tick) for start, end in pairwise(edges)]
    return replace(gates, entries=tuple(entries))
