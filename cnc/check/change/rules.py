"""The rules of the judge, asked about what may be other in a plan than in the sound one before it.

What is wrong with a stream follows from itself and from the lists of the ports on its way; what is
wrong with a port from its list and from what leaves by it; what is wrong with what a switch is told
from the streams that cross it, or that come in by it. So each rule is asked about

- the streams that differ, and those that may leave some port sooner or later by its new list;
- all that leaves by ports where frames of these are planned otherwise than before or may be there
  at other times, and by ports with other lists;
- what bridges are told for the streams that differ, how many entries the switches hold that these
  cross, and all that comes in by the switches where they do.

How late a disturbance makes frames follows from all ports before them: it is counted for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from math import lcm
from typing import TypeVar

from cnc.account.frames import Transmission, earliest_start_ns
from cnc.account.limits import judge_limits
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.check.change.differences import Named, differences
from cnc.check.change.known import Frames, Known, by_port, first_nodes
from cnc.check.change.parts import bridges_of, part_of
from cnc.check.forwarding import judge_forwarding
from cnc.check.lists import judge_cycles, judge_lists, readable_lists
from cnc.check.mechanisms import judge_entering, judge_given, judge_times
from cnc.check.paths import transmissions_of
from cnc.check.queues import judge_links, judge_queues
from cnc.check.recovery import account_of, is_promised, judge_recovery
from cnc.check.seams import judge_seams
from cnc.check.shared import judge_shared
from cnc.check.windows import judge_windows
from cnc.loops.judge import judge_loops
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.forwarding.judge import judge_entries
from cnc.model import Elimination, Forwarding, Plan, PortRef

K = TypeVar("K")
V = TypeVar("V")


class Parts:
    """From the plan that is known to one on the same ground."""

    def __init__(self, known: Known, plan: Plan, named: Named | None) -> None:
        self._known = known
        self._plan = plan
        self._streams, wanted, self._ports = differences(known.plan, plan, named)
        self._periods = known.periods.copy()
        for intent, sign in ((known.plan.intent, -1), (plan.intent, 1)):
            for name in wanted & intent.streams.keys():
                self._periods[intent.streams[name].period_ns] += sign
        self._hyperperiod_ns = lcm(*(+self._periods))
        # What is other than known: None and nothing where there is none any more.
        self._lists: dict[PortRef, GateCycle | None] = {}
        self._frames: dict[str, Frames] = {}
        self._leaving: dict[PortRef, dict[str, Frames]] = {}

    def are_sound(self) -> bool:
        """Whether no rule finds anything. Each relies on those before it."""
        rules: tuple[Callable[[], Iterator[Violation]], ...] = (
            self._judge_cycles,
            self._judge_lists,
            self._judge_streams,
            self._judge_ports,
            self._judge_ways,
            self._judge_entering,
            lambda: judge_loops(self._plan),
            self._judge_recovery,
        )
        return not any(next(rule(), None) for rule in rules)

    def take(self) -> None:
        """Let the plan, found sound, be the one that is known."""
        known, before = self._known, self._known.plan
        for name in self._streams:
            if name in before.addresses:
                known.users[before.addresses[name]].discard(name)
            for switch in first_nodes(known.frames.get(name, ())):
                known.entering[switch].discard(name)
        for name in self._streams:
            if name in self._plan.addresses:
                known.users[self._plan.addresses[name]].add(name)
            for switch in first_nodes(self._frames[name]):
                known.entering[switch].add(name)
        known.plan = self._plan
        known.periods = +self._periods
        _update(known.lists, self._lists)
        _update(known.frames, self._frames)
        _update(known.leaving, self._leaving)

    # --- rules ------------------------------------------------------------------------------------

    def _judge_cycles(self) -> Iterator[Violation]:
        plan, known = self._plan, self._known
        streams = plan.intent.streams
        periods: defaultdict[PortRef, set[int]] = defaultdict(set)
        for name in self._streams & plan.streams.keys() & streams.keys():
            for hop in plan.streams[name].hops:
                periods[hop.egress].add(streams[name].period_ns)
        for port in periods.keys() | self._ports:
            others = known.leaving.get(port, {}).items()
            periods[port].update(its[0].period_ns for n, its in others if n not in self._streams)
        gates = {port: plan.gates[port] for port in periods if port in plan.gates}
        return judge_cycles(gates, periods)

    def _judge_lists(self) -> Iterator[Violation]:
        """Those that are new, and those that do not go with the streams any more."""
        plan, known = self._plan, self._known
        ports = {port for port in self._ports if port in plan.gates}
        if known.periods.keys() != (+self._periods).keys():
            ports |= {p for p, its in plan.gates.items() if self._hyperperiod_ns % its.cycle_ns}
        part = replace(plan, gates={port: plan.gates[port] for port in ports})
        lists = readable_lists(part, self._hyperperiod_ns)
        self._lists = {port: lists.get(port) for port in self._ports}
        yield from judge_lists(part, lists, self._hyperperiod_ns)
        yield from judge_given(plan, self._ports)
        yield from judge_limits(plan.intent.network, part.gates)

    def _judge_streams(self) -> Iterator[Violation]:
        known = self._known
        names = self._streams | self._held_back_otherwise()
        travel = replace(known.travel, lists=self._all_lists())
        transmissions, violations = transmissions_of(part_of(self._plan, names), travel)
        yield from violations
        found: defaultdict[str, list[Transmission]] = defaultdict(list)
        for t in transmissions:
            found[t.stream].append(t)
        for name in names:
            before, after = known.frames.get(name, ()), tuple(found.get(name, ()))
            if before == after and name not in self._streams:
                continue
            self._frames[name] = after
            former, now = by_port(before), by_port(after)
            for port in former.keys() | now.keys():
                if former.get(port) == now.get(port):
                    continue
                its = self._leaving.setdefault(port, {**known.leaving.get(port, {})})
                its.pop(name, None)
                if port in now:
                    its[name] = now[port]

    def _held_back_otherwise(self) -> set[str]:
        """The streams whose frames, when they come to a port early, wait for another opening of its
        gate than before."""
        known = self._known
        found: set[str] = set()
        for port in self._ports & known.leaving.keys():
            before, after = known.lists.get(port), self._lists[port]
            frames = [
                t
                for its in known.leaving[port].values()
                for t in its
                if t.ingress is not None and t.stream not in self._streams
            ]
            numbers = {t.traffic_class for t in frames}
            others = {n for n in numbers if not _opens_alike(before, after, n)}
            found.update(
                t.stream
                for t in frames
                if t.traffic_class in others
                and earliest_start_ns(before, t) != earliest_start_ns(after, t)
            )
        return found

    def _judge_ports(self) -> Iterator[Violation]:
        plan = self._plan
        moved = self._frames_by(self._leaving)
        yield from judge_links(moved)
        yield from judge_queues(moved)
        ports = self._leaving.keys() | self._ports
        frames, every = self._frames_by(ports), self._all_lists()
        lists = {port: every[port] for port in ports if port in every}
        yield from judge_shared(plan, lists, frames)
        yield from judge_windows(plan, lists, frames)
        yield from judge_seams(plan, lists, frames)

    def _judge_ways(self) -> Iterator[Violation]:
        """With the streams that have an address of one that differs, and those that are told from
        it where it comes in untagged."""
        plan, known = self._plan, self._known
        streams = plan.intent.streams
        names = {*self._streams}
        for name in self._streams & plan.streams.keys():
            if name in plan.addresses:
                names |= known.users.get(plan.addresses[name], set())
            if streams[name].identification is not None:
                for t in self._frames[name]:
                    company = self._all_leaving(t.egress) if t.ingress is None else ()
                    names.update(n for n in company if streams[n].identification is not None)
        # Their copies may come further apart by other lists.
        names.update(
            n for n in self._frames if n in streams and streams[n].elimination is Elimination.SWITCH
        )
        part = part_of(self._plan, names)
        told = bridge_forwardings(part, bridges_of(part))
        yield from judge_forwarding(part, told)
        yield from judge_times(part, told, [t for name in names for t in self._of(name)])
        if plan.intent.network.forwarding is Forwarding.BRIDGED:
            # A switch has an entry for each stream that it sends on: they have different addresses.
            yield from judge_entries(
                plan.intent.network,
                {
                    switch: len(set().union(*map(self._all_leaving, known.ports[switch])))
                    for switch in {port.node for port in self._leaving}
                    if switch in plan.intent.network.bridges
                },
            )

    def _judge_entering(self) -> Iterator[Violation]:
        known, bridges = self._known, self._plan.intent.network.bridges
        switches: set[str] = set()
        for name in self._streams:
            switches |= first_nodes(known.frames.get(name, ())) | first_nodes(self._frames[name])
        names: set[str] = set()
        for switch in switches:
            names |= known.entering.get(switch, set())
        names = (names - self._streams) | {
            name for name in self._streams if first_nodes(self._frames[name])
        }
        part = part_of(self._plan, names)
        told = bridge_forwardings(part, switches & bridges.keys())
        return judge_entering(part, told, [t for name in names for t in self._of(name)])

    def _judge_recovery(self) -> Iterator[Violation]:
        intent, known = self._plan.intent, self._known
        disturbance_ns = intent.network.disturbance_ns
        if disturbance_ns is None or not is_promised(self._plan):
            return judge_recovery(self._plan, {})
        frames = [t for its in {**known.frames, **self._frames}.values() for t in its]
        account = account_of(intent, self._all_lists(), frames, disturbance_ns)
        return judge_recovery(self._plan, account.by_stream())

    # --- parts ------------------------------------------------------------------------------------

    def _of(self, name: str) -> Frames:
        """The frames of a stream."""
        return self._frames[name] if name in self._frames else self._known.frames.get(name, ())

    def _all_lists(self) -> dict[PortRef, GateCycle]:
        lists = {**self._known.lists}
        _update(lists, self._lists)
        return lists

    def _all_leaving(self, port: PortRef) -> Mapping[str, Frames]:
        """What leaves by a port, by stream."""
        found = self._leaving.get(port)
        return self._known.leaving.get(port, {}) if found is None else found

    def _frames_by(self, ports: Iterable[PortRef]) -> list[Transmission]:
        return [t for port in ports for its in self._all_leaving(port).values() for t in its]


def _opens_alike(before: GateCycle | None, after: GateCycle | None, number: int) -> bool:
    """Whether a class has the same openings by both lists."""
    if before is None or after is None:
        return False
    return before.gate(number).when == after.gate(number).when


def _update(known: MutableMapping[K, V], changed: Mapping[K, V | None]) -> None:
    """Let what changed be known: nothing of what there is no more."""
    for key, value in changed.items():
        if value:
            known[key] = value
        else:
            known.pop(key, None)
