"""Which streams a cyclic class has room for: a sum for each port and interval, and no search.

A stream is admitted if all frames of an interval leave in their window on each port of its way, and
all streams of its talker, whose bursts it makes wait, stay within their `max-latency`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cnc.mechanism import Admission, Admitted
from cnc.mechanisms.cqf.bound import (
    Load,
    PortWindow,
    beyond_talker_ns,
    branches,
)
from cnc.mechanisms.cqf.model import Cyclic, cyclic_of
from cnc.mechanisms.cqf.obstacles import beside, obstacles
from cnc.mechanisms.cqf.windows import lead_ns, lists, windows
from cnc.mechanisms.talker_link import TalkerLink, burst_ns, bursts_in_interval
from cnc.model import Hop, Intent, Link, Plan, PortRef, Stream, StreamPlan
from cnc.support.format import counted, duration

_Ways = Sequence[Sequence[PortRef]]
_HELPS = "What would help: a longer cycle, a greater share, fewer or smaller frames"


@dataclass(slots=True)
class _Flow:
    """A stream with its ways: what its burst is on each port of a switch, and what it takes from
    when it has left its talker."""

    stream: Stream
    ways: _Ways
    first: Link
    bursts: dict[PortRef, Load]
    beyond_ns: int

    @property
    def slack_ns(self) -> int:
        """How long its burst may take to leave its talker."""
        return self.stream.max_latency_ns - self.beyond_ns


@dataclass(slots=True)
class _Talker:
    """A link of a talker and the flows that leave by it, by period. `stated_ns` is what its bursts
    may take to leave by what is promised already; 0: nothing is. `obstacle` is why planned frames
    of the talker may wait for more than is planned."""

    link: TalkerLink
    access_ns: int
    obstacle: str | None = None
    stated_ns: int = 0
    flows: defaultdict[int, list[_Flow]] = field(default_factory=lambda: defaultdict(list))
    slack_ns: int = 1 << 62
    tightest: str = ""


class Ledger:
    """What ports of a network have to send of a cyclic class in an interval, as streams come."""

    def __init__(self, intent: Intent, cyclic: Cyclic) -> None:
        self._intent, self._cyclic = intent, cyclic
        self._end_ns = lead_ns(intent.network) + cyclic.queuing.open_ns
        reserve = cyclic.even.reserve_ppb * cyclic.interval_ns
        self._reserve_ns = reserve // 10**9
        self._windows: dict[PortRef, PortWindow] = {}
        self._loads: defaultdict[PortRef, Load] = defaultdict(Load)
        self._talkers: dict[PortRef, _Talker] = {}

    def add(self, stream: Stream, ways: _Ways, promised_ns: int | None) -> str | None:
        """Admit a stream that goes these ways; or the reason why it has no place. With a promise
        no bound of its talker rises any more."""
        flow = self._flow(stream, ways)
        talker = self._talker(flow)
        period_ns, work_ns = stream.period_ns, burst_ns(self._intent, stream, flow.first)
        talker.link.add(period_ns, work_ns)
        if promised_ns is not None:
            talker.stated_ns = max(talker.stated_ns, promised_ns - flow.beyond_ns)
        access_ns = self._access_ns(talker)
        reason, loads = None, {}
        if access_ns is None:
            reason = (
                f"{flow.first.source}: the bursts of its talker take more time than there is. "
                "What would help: longer periods, fewer or smaller frames, a faster link"
            )
        else:
            reason = talker.obstacle or self._late(flow, talker, access_ns)
            loads = {} if reason else self._loads_with(flow, talker, access_ns)
            reason = reason or self._crowded(loads)
        if reason is not None or access_ns is None:
            talker.link.add(period_ns, -work_ns)
            return reason
        self._loads.update(loads)
        talker.access_ns = access_ns
        talker.flows[period_ns].append(flow)
        if flow.slack_ns < talker.slack_ns:
            talker.slack_ns, talker.tightest = flow.slack_ns, stream.name
        return None

    def plans(self) -> dict[str, StreamPlan]:
        """The streams that are admitted, each with its bound."""
        number, interval_ns = self._cyclic.even.number, self._cyclic.interval_ns
        return {
            flow.stream.name: StreamPlan(
                tuple(tuple(Hop(port, 0, number) for port in way) for way in flow.ways),
                talker.access_ns + flow.beyond_ns,
                interval_ns,
            )
            for talker in self._talkers.values()
            for flows in talker.flows.values()
            for flow in flows
        }

    def _access_ns(self, talker: _Talker) -> int | None:
        """What bursts of a talker are stated to take: with the reserve of the class, or what is
        promised, if that is enough."""
        if not talker.stated_ns:
            return talker.link.access_ns(self._reserve_ns)
        least_ns = talker.link.access_ns()
        return least_ns and max(least_ns, talker.stated_ns)

    def _flow(self, stream: Stream, ways: _Ways) -> _Flow:
        intent, network = self._intent, self._intent.network
        links = [network.links[port] for way in ways for port in way]
        first = links[0]
        return _Flow(
            stream,
            ways,
            first,
            {
                link.source: Load(stream.frames, burst_ns(intent, stream, link))
                for link in links
                if link.source.node in network.bridges
            },
            max(
                beyond_talker_ns(intent, self._cyclic, branch, first, self._end_ns)
                for branch in branches(intent, ways, stream.listeners)
            ),
        )

    def _talker(self, flow: _Flow) -> _Talker:
        """That of a flow, with the streams of other classes that leave by the link, too."""
        port = flow.first.source
        if port not in self._talkers:
            link = TalkerLink(self._intent, flow.first)
            planned = [
                its
                for its in self._intent.streams.values()
                if its.talker == port.node and not self._intent.is_cyclic(its)
            ]
            for its in planned:
                link.add(its.period_ns, its.paths * burst_ns(self._intent, its, flow.first))
            obstacles = (
                beside(self._intent, self._cyclic, its)
                for its in planned
                if self._intent.has_instants(its)
            )
            self._talkers[port] = _Talker(link, 0, next(filter(None, obstacles), None))
        return self._talkers[port]

    def _late(self, flow: _Flow, talker: _Talker, access_ns: int) -> str | None:
        if access_ns > flow.slack_ns:
            bound_ns, most_ns = access_ns + flow.beyond_ns, flow.stream.max_latency_ns
            return (
                f"in cycles of {duration(self._cyclic.interval_ns)} it may take "
                f"{duration(bound_ns)}, {duration(access_ns)} of it at {flow.first.source}, its "
                f"max-latency is {duration(most_ns)}. What would help: a shorter cycle, a longer "
                "max-latency, fewer switches on its way"
            )
        if talker.stated_ns and access_ns > talker.stated_ns:
            return (
                f"{flow.first.source}: behind its burst others of its talker would come later than "
                "is promised. What would help: a `reserve` of the class in the next plan"
            )
        if access_ns > talker.slack_ns:
            return (
                f"{flow.first.source}: behind its burst stream {talker.tightest} would be late. "
                "What would help: a longer max-latency of that, fewer or smaller frames"
            )
        return None

    def _loads_with(self, flow: _Flow, talker: _Talker, access_ns: int) -> dict[PortRef, Load]:
        """What ports would have to send with a flow: the others of its talker may have more bursts
        in an interval behind its own."""
        changed: dict[PortRef, Load] = {}

        def count(its: _Flow, bursts: int) -> None:
            for port, load in its.bursts.items():
                changed[port] = changed.get(port, self._loads[port]).plus(load, bursts)

        count(flow, self._bursts(flow.first, flow.stream.period_ns, access_ns))
        for period_ns, flows in talker.flows.items():
            more = self._bursts(flow.first, period_ns, access_ns)
            more -= self._bursts(flow.first, period_ns, talker.access_ns)
            for other in flows if more else ():
                count(other, more)
        return changed

    def _bursts(self, first: Link, period_ns: int, access_ns: int) -> int:
        network = self._intent.network
        spread_ns = access_ns + 2 * network.clock_error_ns
        return bursts_in_interval(network, first, period_ns, self._cyclic.interval_ns, spread_ns)

    def _crowded(self, loads: Mapping[PortRef, Load]) -> str | None:
        for port, load in loads.items():
            if port not in self._windows:
                link = self._intent.network.links[port]
                self._windows[port] = PortWindow(self._intent, link, self._cyclic)
            window = self._windows[port]
            if (needed_ns := window.needed_ns(load)) > window.open_ns:
                return (
                    f"{port}: {counted(load.frames, 'frame')} may come in one interval of "
                    f"{duration(self._cyclic.interval_ns)}, with its own, and need "
                    f"{duration(needed_ns)} of it; the window has {duration(window.open_ns)}. "
                    f"{_HELPS}"
                )
        return None


def admit(intent: Intent, ways: Mapping[str, _Ways], promised_ns: Mapping[str, int]) -> Admitted:
    """The streams of the class that have a place on these ways, in this order, and why others have
    none."""
    cyclic = cyclic_of(intent)
    if cyclic is None:
        return Admitted({}, {})
    ledger, refused = Ledger(intent, cyclic), {}
    for name, its in ways.items():
        if not intent.is_cyclic(intent.streams[name]):
            continue
        if reason := ledger.add(intent.streams[name], its, promised_ns.get(name)):
            refused[name] = reason
    return Admitted(ledger.plans(), refused)


def _refused(plan: Plan) -> dict[str, str]:
    """By port: limits, margins and clock errors that switches have stated since may ask for more
    than those of the intent."""
    return {f"port {port}": text for port, text in reversed([*_obstacles(plan.intent)])}


def _obstacles(intent: Intent) -> Iterator[tuple[PortRef, str]]:
    for port, found, expected in obstacles(intent):
        yield port, f"its list for cyclic queuing has {found}, expected {expected}"


ADMISSION = Admission(lists=lists, windows=windows, refused=_refused, admits=admit)
