"""Gates of a lab that open late, as those do whose timers are late; each by what a seed draws.

In virtual time no timer is late. What the kernel does when one is follows from `advance_sched` and
`taprio_dequeue_from_txq` (net/sched/sch_taprio.c, Linux 6.12). The timer that begins an entry is
set when that of the entry before has run. Until it runs, the entry before is in force, of which
each gate still shuts when the list says: frames are compared with the clock (`gate_close_time`). So
with late timers gates open late and shut on time. A list of many cycles says just that, each
opening late by a draw of its own; it takes the place of the list that a port runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import and_
from random import Random

from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateEntry, GateSchedule, GateState, Taprio
from cnc.model import NS_PER_S
from cnc.talker import sleep_until, tai_ns
from cnc.testbed.lab import Lab
from cnc.testbed.lab.namespaces import inside

# A port of a lab takes no shorter interval: 60 octets at the 10 Gb/s that a veth says it has.
SHORTEST_NS = 48
# A request has room for 2,340: 28 octets each, in an attribute of at most 65,535.
LONGEST_LIST = 2_000
AHEAD_NS = 100_000_000  # of the second from which on lists run, and longer than a cycle


@dataclass(frozen=True, slots=True)
class LateSchedule:
    """A list of many cycles, and how late each of its openings is."""

    schedule: GateSchedule
    openings_ns: tuple[int, ...]


def late_schedule(
    schedule: GateSchedule, late_ns: int, random: Random, from_ns: int
) -> LateSchedule:
    """As many cycles of a list as a request has room for, each timer up to `late_ns` late, evenly
    drawn; from the first begin of a cycle after `from_ns`.

    The first timer is on time: the end of the list does not reach into its begin.
    """
    cycles = LONGEST_LIST // (2 * len(schedule.entries))
    due_ns, states = [0], []
    for entry in schedule.entries * cycles:
        due_ns.append(due_ns[-1] + entry.interval_ns)
        states.append(entry.gate_states)
    begun_ns = _begun_ns(due_ns, late_ns, random)
    opened = (new & ~old for old, new in pairwise(states))
    lateness_ns = (begun - due for begun, due in zip(begun_ns[1:], due_ns[1:], strict=False))
    return LateSchedule(
        GateSchedule(
            from_ns + (schedule.base_time_ns - from_ns) % schedule.cycle_time_ns,
            schedule.cycle_time_ns * cycles,
            tuple(_entries(due_ns, begun_ns, states)),
        ),
        tuple(late for late, gates in zip(lateness_ns, opened, strict=True) if gates),
    )


def _begun_ns(due_ns: Sequence[int], late_ns: int, random: Random) -> list[int]:
    """When each entry begins: so that no instant is so short after another that the kernel would
    refuse the interval between them."""
    begun_ns = [0]
    for due in due_ns[1:-1]:
        while True:
            at_ns = max(due + random.randint(0, late_ns), begun_ns[-1])
            after = bisect_left(due_ns, at_ns)
            near_ns = {*due_ns[after - 1 : after + 1], begun_ns[-1]}
            if all(at_ns == each or abs(at_ns - each) >= SHORTEST_NS for each in near_ns):
                break
        begun_ns.append(at_ns)
    return begun_ns


def _entries(
    due_ns: Sequence[int], begun_ns: Sequence[int], states: Sequence[int]
) -> Iterator[GateEntry]:
    """Open are the gates of the entry that has begun, without those that were to shut since."""
    end_ns = due_ns[-1]
    changes: list[tuple[int, int]] = []
    for at_ns in sorted({*due_ns, *begun_ns}):
        first, last = bisect_right(begun_ns, at_ns) - 1, bisect_right(due_ns, at_ns) - 1
        gates = reduce(and_, states[first : last + 1], -1)
        if at_ns < end_ns and (not changes or gates != changes[-1][1]):
            changes.append((at_ns, gates))
    for (at_ns, gates), (until_ns, _) in pairwise([*changes, (end_ns, 0)]):
        yield GateEntry(gates, until_ns - at_ns)


@contextmanager
def late_gates(running: Lab, late_ns: int, seed: int) -> Iterator[list[int]]:
    """The gates of all switches are late from the next second on until the end of a `with` block.
    As long the agents, which would set them right, stand still. Yields how late each opening is."""
    openings_ns: list[int] = []
    before: list[tuple[str, str, Taprio]] = []
    with running.quiet():
        # A run begins with a second, and meets the same openings when it is repeated.
        from_ns = -(-(tai_ns() + AHEAD_NS) // NS_PER_S) * NS_PER_S
        try:
            for switch in running.intent.network.bridges:
                for port, present in _gates(running, switch).items():
                    random = Random(f"{seed} {switch}/{port}")  # noqa: S311  not a secret
                    late = late_schedule(present.schedule, late_ns, random, from_ns)
                    before.append((switch, port, present))
                    _change(running, switch, port, present, late.schedule)
                    openings_ns += late.openings_ns
            assert tai_ns() < from_ns
            yield openings_ns
        finally:
            for switch, port, present in before:
                _change(running, switch, port, present, present.schedule)
            sleep_until(tai_ns() + AHEAD_NS)


def _gates(running: Lab, switch: str) -> dict[str, Taprio]:
    """What each port with gates runs."""
    links = running.intent.network.links
    rates_bps = {port.port: links[port].rate_bps for port in links if port.node == switch}

    def read_here() -> dict[str, GateState]:
        with closing(KernelPorts(MECHANISMS, rates_bps)) as opened:
            return {name: port[GateState] for name, port in opened.read().items()}

    states = inside(running.namespace(switch), read_here)
    assert not any(state.pending for state in states.values())
    return {name: state.taprio for name, state in states.items() if state.taprio}


def _change(running: Lab, switch: str, port: str, present: Taprio, schedule: GateSchedule) -> None:
    def change_here() -> None:
        with IPRoute(ext_ack=True) as ip:
            (index,) = ip.link_lookup(ifname=port)
            taprio.change(ip, port, index, present, replace(present, schedule=schedule))

    inside(running.namespace(switch), change_here)
