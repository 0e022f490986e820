"""Whether a port can run a gate control list that is given, and do its work by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cnc.model import (
    ClassRole,
    GateControlList,
    Intent,
    Link,
    PortRef,
    TrafficClass,
    transmission_max_ns,
    transmission_ns,
)
from cnc.support.format import counted, duration

_KERNEL_MIN_OCTETS = 60  # the kernel's taprio refuses an interval that cannot hold one
_WHOLE_PPB = 10**9


class Obstacle(NamedTuple):
    """What stands in the way, and what would not; both complete a sentence."""

    found: str
    expected: str


def obstacles(intent: Intent, port: PortRef, gates: GateControlList) -> Iterator[Obstacle]:
    """What keeps a port from running a list of whole cycles, as far as its limits are known, and
    what it cannot do then."""
    yield from _limits(intent, intent.network.links[port], gates)
    yield from obstacles_of(intent, port, gates, intent.classes)


def obstacles_of(
    intent: Intent, port: PortRef, gates: GateControlList, names: Iterable[str]
) -> Iterator[Obstacle]:
    """What these classes cannot do by a list."""
    for name in names:
        yield from _of_class(intent, intent.network.links[port], gates, intent.classes[name])


def _limits(intent: Intent, link: Link, gates: GateControlList) -> Iterator[Obstacle]:
    limit = intent.network.gate_entries_max(link)
    if limit is not None and len(gates.entries) > limit:
        found = f"a list of {counted(len(gates.entries), 'entry')}"
        yield Obstacle(found, f"at most {limit}, which the port holds")
    if 0 < link.gate_cycle_max_ns < gates.cycle_ns:
        found = f"a cycle of {duration(gates.cycle_ns)}"
        yield Obstacle(found, f"at most {duration(link.gate_cycle_max_ns)}, which the port takes")
    shortest_ns = max(link.gate_interval_min_ns, transmission_ns(_KERNEL_MIN_OCTETS, link.rate_bps))
    for each in gates.entries:
        interval = f"an interval of {duration(each.interval_ns)}"
        if each.interval_ns < shortest_ns:
            yield Obstacle(interval, f"at least {duration(shortest_ns)}, which the port needs")
        if each.interval_ns % link.gate_tick_ns:
            tick = duration(link.gate_tick_ns)
            yield Obstacle(interval, f"a multiple of {tick}, in which the port counts")


def _of_class(
    intent: Intent, link: Link, gates: GateControlList, its: TrafficClass
) -> Iterator[Obstacle]:
    """A frame that fits into no opening stays at the head of its queue for ever, or is dropped."""
    runs = open_runs_ns(gates, its.number)
    if not runs and its.role is ClassRole.SCHEDULED:
        return  # nothing is sent in this class here
    longest_ns = max(runs, default=0)
    octets = its.max_frame_octets + intent.network.overhead.physical_octets
    frame_ns = transmission_max_ns(octets, link.rate_bps)
    late_ns = intent.network.gate_margin_ns if link.fits_only else 0
    enough_ns = frame_ns + late_ns + link.gate_early_ns
    if longest_ns < enough_ns and longest_ns < gates.cycle_ns:
        opened = f"open for {duration(longest_ns)} at most" if runs else "never open"
        yield Obstacle(
            f"class {its.name} {opened}",
            f"{duration(enough_ns)} at once, which its largest frame takes; or a smaller max-frame",
        )
        return
    kept_ns = sum(run - link.gate_early_ns for run in runs if run >= enough_ns)
    wanted = its.min_share_ppb or 0
    if kept_ns * _WHOLE_PPB < wanted * gates.cycle_ns and longest_ns < gates.cycle_ns:
        yield Obstacle(
            f"class {its.name} open for {duration(kept_ns)} of {duration(gates.cycle_ns)}",
            f"its min-share, {wanted * 100 / _WHOLE_PPB:g}%",
        )


def open_runs_ns(gates: GateControlList, number: int) -> list[int]:
    """How long each stretch is for which a class is open, over the end of the cycle, too."""
    entries = gates.entries
    shut = next((i for i, e in enumerate(entries) if not e.gate_states >> number & 1), None)
    if shut is None:
        return [gates.cycle_ns]
    runs: list[int] = []
    run = 0
    for each in (*entries[shut:], *entries[: shut + 1]):
        if each.gate_states >> number & 1:
            run += each.interval_ns
        elif run:
            runs.append(run)
            run = 0
    return runs
