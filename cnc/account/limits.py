"""Gate control lists against their ports' limits: can this list run there at all?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.account.violation import Violation
from cnc.model import GateControlList, GateMode, Link, Network, PortRef, transmission_ns
from cnc.support.format import counted

_INTERVAL_MIN_OCTETS = 60  # taprio wants room for the smallest frame, without its FCS
# A dump of taprio holds two lists, the running one and the next, of this length at most; of longer
# ones the kernel shows nothing, and the running list would be unknown.
_KERNEL_ENTRIES_MAX = 430


def judge_limits(network: Network, gates: Mapping[PortRef, GateControlList]) -> Iterator[Violation]:
    """What is wrong with the length, cycle and intervals of the lists of ports."""
    for port, listed in gates.items():
        link = network.links.get(port)
        if link is None or network.gate_mode(port.node) is None:
            continue  # a list where none belongs is another rule's to report
        yield from _judge_length(network, link, listed)
        yield from _judge_intervals(link, listed)
        if 0 < link.gate_cycle_max_ns < listed.cycle_ns:
            text = f"the cycle is {listed.cycle_ns} ns, the port takes {link.gate_cycle_max_ns} ns"
            yield Violation("gate-cycle", str(port), text)


def _judge_length(network: Network, link: Link, gates: GateControlList) -> Iterator[Violation]:
    limits = [link.gate_entries_max]
    if network.gate_mode(link.source.node) is not GateMode.FULL_OFFLOAD:
        limits.append(_KERNEL_ENTRIES_MAX)
    limit = min(filter(None, limits), default=len(gates.entries))
    if len(gates.entries) > limit:
        text = f"{counted(len(gates.entries), 'entry')}, the port holds {limit}"
        yield Violation("gate-entries", str(link.source), text)


def _judge_intervals(link: Link, gates: GateControlList) -> Iterator[Violation]:
    kernel_min = transmission_ns(_INTERVAL_MIN_OCTETS, link.rate_bps)
    shortest = max(link.gate_interval_min_ns, kernel_min)
    longest = link.gate_interval_max_ns
    for index, entry in enumerate(gates.entries):
        interval, tick = entry.interval_ns, link.gate_tick_ns
        if shortest <= interval and not 0 < longest < interval and not interval % tick:
            continue  # nearly always, and there are very many
        lasts = f"entry {index} lasts {interval} ns, the port"
        if interval < shortest:
            yield Violation("gate-interval", str(link.source), f"{lasts} needs {shortest} ns")
        if 0 < longest < interval:
            yield Violation("gate-interval", str(link.source), f"{lasts} takes {longest} ns")
        if interval % tick:
            text = f"{lasts} counts in ticks of {tick} ns"
            yield Violation("gate-tick", str(link.source), text)
