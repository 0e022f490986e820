"""Disturbances end: after one, frames come in time again, and when.

While a disturbance keeps a port from sending, or makes a frame miss its window, a backlog grows. It
leaves in the open stretches that drain the queue (`drains`), late; and late frames make others late
on the ports to come. How late frames can be on each port follows from how late they were on the
port before, so it is raised from nothing until no figure changes any more.

A frame that is on time and finds the queue of its port empty, or with frames on time only, leaves
on time. So a port is back to its plan when it has drained once after the ports before it are, and
after the links of talkers have made up for one late frame (`talkers`).

Plans whose streams share windows have accounts of their own (`shared_recovery`, `busy`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm

from cnc.account.frames import Transmission, from_switches
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import (
    best_effort_ns,
    blocking_ns,
    control_part,
    control_waiting_ns,
    longest_unplanned_ns,
    unplanned_best_effort_ns,
)
from cnc.check.busy import BusyPeriods
from cnc.check.drains import Arrival, Drained, Interference, Port
from cnc.check.mechanisms import drops_misfits
from cnc.check.shared_recovery import BUSY, SharedRecovery, are_all_shared
from cnc.check.spread import Stay, spread_ns
from cnc.mechanisms.talker_offsets.judge import Lag, Load, lag
from cnc.model import ClassRole, Intent, Link, Plan, PortRef

_STUCK = "beside planned windows its gates are open for too short a time to clear its queues"
_CIRCULAR = "late frames may make others late around a ring of ports, cycle after cycle"
_ROUNDS_MAX = 200  # more hops than any path has, with room for paths that feed each other


def judge_recovery(plan: Plan, found: Mapping[str, int | None]) -> Iterator[Violation]:
    """Streams that may stay late for longer after a disturbance than the plan says.

    `found` is by stream for how long it may be late, by the account of a plan that is sound
    otherwise (`account_of`), where that `is_promised`; None: no bound is found.
    """
    network = plan.intent.network
    if network.disturbance_ns is None:
        for name in plan.recovery_ns:
            text = "the plan promises a recovery, and the intent asks for none"
            yield Violation("recovery", name, text)
        return
    for name in plan.streams:
        recovery_ns = found.get(name, 0)
        promised = plan.recovery_ns.get(name)
        if promised is None and not network.recovery_required:
            continue
        if recovery_ns is None:
            yield Violation(
                "recovery", name, "no bound is found on how long it may be late after a disturbance"
            )
        elif promised is None:
            yield Violation("recovery", name, "the plan does not say when it recovers")
        elif recovery_ns > promised:
            text = (
                f"may be late for {recovery_ns} ns after a disturbance, the plan promises "
                f"{promised} ns"
            )
            yield Violation("recovery", name, text)


def is_promised(plan: Plan) -> bool:
    """Whether any stream of a plan is promised when it recovers, or must be: else the verdict does
    not depend on it."""
    return plan.intent.network.recovery_required or bool(plan.recovery_ns)


def account_of(
    intent: Intent,
    lists: Mapping[PortRef, GateCycle],
    transmissions: Sequence[Transmission],
    disturbance_ns: int,
) -> _Sharing | _Recovery:
    """The account that holds for a plan that is sound otherwise."""
    account = _Sharing if any(t.is_shared for t in transmissions) else _Recovery
    return account(intent, lists, transmissions, disturbance_ns)


class _Sharing:
    """Both accounts of plans whose streams share windows: the shorter bound of the two holds."""

    def __init__(
        self,
        intent: Intent,
        lists: Mapping[PortRef, GateCycle],
        transmissions: Sequence[Transmission],
        disturbance_ns: int,
    ) -> None:
        self._given = intent, lists, transmissions, disturbance_ns
        self._is_alone = are_all_shared(transmissions)
        self.endless: dict[PortRef, str] = {}  # why there is no bound, once streams are judged

    def by_stream(self) -> dict[str, int | None]:
        """For how long after a disturbance each stream may be late; None: no bound is found."""
        by_window = SharedRecovery(*self._given).by_stream() if self._is_alone else {}
        if by_window and None not in by_window.values():
            return by_window
        account = BusyPeriods(*self._given)
        found = account.by_stream()
        self.endless = account.endless
        for name, ns in by_window.items():
            if (other := found[name]) is None or (ns is not None and ns < other):
                found[name] = ns
        return found


class _Recovery:
    """The lateness on all ports of one plan. Transmissions are known by their numbers."""

    def __init__(
        self,
        intent: Intent,
        lists: Mapping[PortRef, GateCycle],
        transmissions: Sequence[Transmission],
        disturbance_ns: int,
    ) -> None:
        self._intent = intent
        self._lists = lists
        self._disturbance_ns = disturbance_ns
        self._gated, self._before = from_switches(transmissions)
        self._by_port: defaultdict[PortRef, list[int]] = defaultdict(list)
        for n, t in enumerate(self._gated):
            self._by_port[t.egress].append(n)
        self._is_dropped = {
            t.stream: drops_misfits(intent, t.stream, t.traffic_class) for t in self._first()
        }
        # From when the last frame is to leave, or from its latest arrival, until it has left.
        self._last_stays_ns = [self._stay_ns(t) - t.spread_ns for t in self._gated]
        self._sent: dict[tuple[str, PortRef | None, int], Transmission] = {
            (t.stream, t.egress, t.offset_ns): t for t in transmissions if t.ingress is None
        }
        self._talkers = self._lags()
        self.endless: dict[PortRef, str] = {}  # why there is no bound, once streams are judged
        self._overdue_ns = self._delayed_by_their_talkers()

    def _first(self) -> Iterator[Transmission]:
        """Those from first switches, of all streams."""
        before = zip(self._gated, self._before, strict=True)
        return (t for t, its in before if its is None)

    def by_stream(self) -> dict[str, int | None]:
        """For how long after a disturbance each stream may be late; None: for ever."""
        ports = {port: self._port(port) for port in self._by_port}
        disturbed = {port: its.drained(self._disturbance_ns) for port, its in ports.items()}
        calm = self._calm(ports, disturbed)
        ends = self._ends(disturbed, calm)
        worst: dict[str, int | None] = {}
        for t in (*self._sent.values(), *self._gated):
            end, known = ends.get(t.egress), worst.get(t.stream, 0)
            worst[t.stream] = None if end is None or known is None else max(end, known)
        return worst

    def _lags(self) -> dict[PortRef | None, Lag]:
        """What one late frame does on the link of each talker."""
        intent, links = self._intent, self._intent.network.links
        loads: defaultdict[PortRef, list[Load]] = defaultdict(list)
        for t in self._sent.values():
            takes = self._takes_ns(t) - best_effort_ns(intent, links[t.egress])
            loads[t.egress].append(Load(t.traffic_class, t.period_ns, t.offset_ns, takes))
        return {
            port: lag(
                its,
                max(load.takes_ns for load in its),
                unplanned_best_effort_ns(intent, links[port]),
            )
            for port, its in loads.items()
        }

    def _delayed_by_their_talkers(self) -> list[int]:
        """How much longer than planned a frame may stay on each port if one of its talker's frames
        was late there, and so delayed it; or, if late ones are dropped, as late as may pass. What
        has no bound counts as none here: such a talker's link is never back to its plan."""
        bridges = self._intent.network.bridges
        overdue = []
        for t, before, last_stay_ns in zip(
            self._gated, self._before, self._last_stays_ns, strict=True
        ):
            late_ns = 0
            if before is None and self._is_dropped[t.stream]:  # later ones do not pass its filter
                late_ns = bridges[t.egress.node].processing_max_ns
            elif before is None:
                late_ns = self._talkers[t.ingress].late_ns[t.traffic_class] or 0
            overdue.append(max(0, late_ns - last_stay_ns) if before is None else 0)
        return overdue

    def _stay_ns(self, t: Transmission) -> int:
        """From when frames are to leave, or from their latest arrival, until all have left."""
        return t.busy_until_ns - max(t.offset_ns, t.latest_ns)

    def _takes_ns(self, t: Transmission) -> int:
        """For how long frames keep the link at most, with what delays them, but not others of their
        window."""
        if not t.is_shared:
            return self._stay_ns(t)
        return t.work_ns + blocking_ns(self._intent, self._intent.network.links[t.egress])

    def _calm(
        self, ports: Mapping[PortRef, Port], disturbed: Mapping[PortRef, Drained]
    ) -> dict[PortRef, Drained]:
        """The drains of every port to which frames come as late as a disturbance elsewhere makes
        them, where that has a bound."""
        calm: dict[PortRef, Drained] = {}
        for n, before in enumerate(self._before):
            if before is not None and not (drained := disturbed[self._gated[before].egress]).never:
                left = self._left_late_ns(before, drained, self._disturbance_ns)
                self._overdue_ns[n] = max(0, left - self._last_stays_ns[n])
        changed = set(ports)
        assumed: dict[PortRef, list[int]] = {}  # how long frames stay, in `calm`
        raised: set[int] = set()
        for _ in range(_ROUNDS_MAX):
            anew = set()
            for port in changed:
                overdue = [self._overdue_ns[n] for n in self._by_port[port]]
                known = calm.get(port)
                if known is None or not ports[port].is_same(known, assumed[port], overdue):
                    calm[port] = ports[port].drained(overdue_ns=overdue)
                    anew.add(port)
                assumed[port] = overdue
            raised = self._raise(calm, anew, raised)
            changed = {self._gated[n].egress for n in raised}
            if not changed:
                break
        return {port: its for port, its in calm.items() if not its.never and port not in changed}

    def _raise(
        self, calm: Mapping[PortRef, Drained], anew: set[PortRef], raised: set[int]
    ) -> set[int]:
        """Let frames come as late as they may have left the port before; those that come later so.

        They only can behind a port whose drains are `anew`, or where they were `raised` themselves,
        then or now.
        """
        further: set[int] = set()
        for n, before in enumerate(self._before):
            if before is None:
                continue
            feeder = self._gated[before].egress
            if feeder in anew or before in raised or before in further:
                drained = calm[feeder]
                if drained.never:
                    continue
                left = self._left_late_ns(before, drained, self._overdue_ns[before])
                if left - self._last_stays_ns[n] > self._overdue_ns[n]:
                    self._overdue_ns[n] = left - self._last_stays_ns[n]
                    further.add(n)
        return further

    def _left_late_ns(self, n: int, drained: Drained, by_ns: int) -> int:
        """How much later than planned a frame has left for sure, in the worst period, if it is
        there or may be stopped for `by_ns` longer."""
        t = self._gated[n]
        return by_ns + drained.longest_stay_ns(t.busy_until_ns + by_ns, t.period_ns)

    def _ends(
        self, disturbed: Mapping[PortRef, Drained], calm: Mapping[PortRef, Drained]
    ) -> dict[PortRef | None, int]:
        """How long after a disturbance frames may leave each port late, if that has an end.

        It has when the disturbance was there and it is drained; or when those before it in the flow
        of frames have one, and it is drained once more. Ports in a circle have it when what is late
        in one of them spreads for a limited time only. The links of talkers have one after a late
        frame.
        """
        feeders = self._feeders()
        ends = {port: its.over_ns for port, its in self._talkers.items() if its.over_ns is not None}
        stuck = {port for port in feeders if port not in calm or disturbed[port].never}
        busy = {f for its in feeders.values() for f in its} & self._talkers.keys() - ends.keys()
        self.endless = dict.fromkeys(stuck, _STUCK) | dict.fromkeys(busy, BUSY)
        waiting = set(feeders) - _behind(stuck | busy, feeders)
        while waiting:
            ready = {port for port in waiting if feeders[port].keys() <= ends.keys()}
            for port in ready:
                last = max((ends[f] + way for f, way in feeders[port].items()), default=0)
                last = max(last, 0) + calm[port].longest_ns()
                ends[port] = max(last, disturbed[port].longest_ns())
            waiting -= ready
            if not ready:
                circle = waiting
                while circle != (feeding := circle & {f for p in circle for f in feeders[p]}):
                    circle = feeding
                spread = spread_ns(self._stays(circle, calm))
                if spread is None:
                    self.endless |= dict.fromkeys(circle, _CIRCULAR)
                    break
                ways = [pair for port in circle for pair in feeders[port].items()]
                fed = max([0, *(ends[f] + way for f, way in ways if f not in circle)])
                last = max(fed + calm[port].longest_ns() for port in circle)
                last = max(last, *(disturbed[port].longest_ns() for port in circle))
                last += max(way for f, way in ways if f in circle) + spread
                ends |= dict.fromkeys(circle, last)
                waiting -= circle
        return ends

    def _stays(self, circle: set[PortRef], calm: Mapping[PortRef, Drained]) -> list[Stay]:
        """All frames that pass the ports of a circle."""
        inside = [n for n, t in enumerate(self._gated) if t.egress in circle]
        place = {n: index for index, n in enumerate(inside)}
        onward: defaultdict[int, list[int]] = defaultdict(list)
        for n in inside:
            before = self._before[n]
            if before is not None and before in place:
                onward[before].append(place[n])
        cycle = lcm(*{self._gated[n].period_ns for n in inside})
        return [
            Stay(
                t.egress,
                t.traffic_class,
                t.period_ns,
                t.earliest_ns,
                max(t.offset_ns, t.latest_ns),
                t.busy_until_ns,
                [
                    calm[t.egress].left_by_ns(t.busy_until_ns + self._overdue_ns[n] + shift)
                    for shift in range(0, cycle, t.period_ns)
                ],
                onward[n],
            )
            for n in inside
            for t in [self._gated[n]]
        ]

    def _feeders(self) -> dict[PortRef, dict[PortRef, int]]:
        """From which ports and talkers frames come to each port, and how long they take."""
        feeders: dict[PortRef, dict[PortRef, int]] = {port: {} for port in self._by_port}
        for t, before in zip(self._gated, self._before, strict=True):
            came = t.stream, t.ingress, t.ingress_offset_ns
            feeding = self._sent[came] if before is None else self._gated[before]
            way_ns = t.all_there_ns - feeding.busy_until_ns
            its, feeder = feeders[t.egress], feeding.egress
            its[feeder] = max(way_ns, its.get(feeder, way_ns))
        return feeders

    def _port(self, port: PortRef) -> Port:
        """All scheduled queues of a port: they are drained together."""
        intent, link, gates = self._intent, self._intent.network.links[port], self._lists[port]
        crossing = [self._gated[n] for n in self._by_port[port]]
        blocking = blocking_ns(intent, link)
        arrivals = [
            Arrival(t.period_ns, t.earliest_ns, t.busy_until_ns, self._takes_ns(t) - blocking)
            for t in crossing
        ]
        numbers = {t.traffic_class for t in crossing}
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        cycle = lcm(gates.cycle_ns, *{a.period_ns for a in arrivals})
        stretches = gates.stretches(
            opened=_mask(numbers),
            shut=_mask({c.number for c in best_effort if c.number > min(numbers)}),
            within_ns=cycle,
        )
        stretches = [
            (start, end - gates.early_ns)
            for start, end in stretches
            if end - start > gates.early_ns
        ]
        beside = longest_unplanned_ns(intent, link)
        longest = max(a.wire_ns for a in arrivals)
        # A frame that its talker sends at any time comes here only if no filter drops it.
        unasked = max(
            (
                a.wire_ns
                for a, t in zip(arrivals, crossing, strict=True)
                if not self._is_dropped[t.stream]
            ),
            default=0,
        )
        against = self._interference(link, beside + unasked, longest - unasked)
        return Port(cycle, stretches, arrivals, against)

    def _interference(self, link: Link, ahead_ns: int, idle_ns: int) -> Interference:
        network = self._intent.network
        return Interference(
            ahead_ns + control_waiting_ns(self._intent, link) + network.gate_margin_ns,
            *control_part(self._intent, link),
            idle_ns,
        )


def _behind(ports: set[PortRef], feeders: Mapping[PortRef, Mapping[PortRef, int]]) -> set[PortRef]:
    """These ports, and all to which frames go on from them."""
    onward: defaultdict[PortRef, set[PortRef]] = defaultdict(set)
    for port, its in feeders.items():
        for feeder in its:
            onward[feeder].add(port)
    found, waiting = set(ports), list(ports)
    for port in waiting:
        waiting += onward[port] - found
        found |= onward[port]
    return found


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)
