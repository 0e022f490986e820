"""Disturbances end: how long after one the streams of a plan may still be late.

A disturbance keeps a port from sending, or makes a frame miss its window. What the port could not
send leaves in spare room (`spare`), late, and may make others late there and on later ports. How
late a frame can be grows from port to port, until nothing changes any more. From the last port to
the first, each is back to the plan once the ports that feed it are, and its backlog is gone. After
a frame that was late at its talker, the talker's link is back first (`pauses`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import accumulate, pairwise
from math import lcm
from typing import NamedTuple

from cnc.mechanisms.terms import (
    control_backlog_ns,
    control_share,
    late_interference_ns,
    longest_frame_ns,
)
from cnc.model import ClassRole, GateControlList, Intent, PortRef
from cnc.planner.backlog import Ahead, Backlog, Clearing, Coming
from cnc.planner.chains import Passage, longest_chain_ns
from cnc.planner.gates import Lists
from cnc.planner.pauses import Behind, behind
from cnc.planner.problem import Problem
from cnc.planner.route import Placement
from cnc.planner.visits import Visit, sendings, visits

_PASSES_MAX = 100  # of raising how late frames are: a path has fewer hops
_NAMED_MAX = 5


class Recovery(NamedTuple):
    """By stream, how long after a disturbance it may be late, where there is a bound; by port, why
    none is found for streams that cross it, or that meet those later on their way."""

    recovery_ns: dict[str, int]
    endless: dict[PortRef, str]

    def refused(self, intent: Intent) -> dict[PortRef, str]:
        """The ports for which no plan is to be made: those, where each stream must have a bound."""
        return self.endless if intent.network.recovery_required else {}


class _Port(NamedTuple):
    """A port: the visits that cross it, and what becomes of what a disturbance leaves there.

    `disturbed` holds after a disturbance here, `calm` after one elsewhere that makes the frames be
    there later than on plan, by `later_ns` in the order of the visits.
    """

    visits: list[int]
    backlog: Backlog
    disturbed: Clearing
    calm: Clearing
    later_ns: Sequence[int]


def recovery(problem: Problem, placements: Iterable[Placement], lists: Lists) -> Recovery:
    """For placements that are sound with `lists`; nothing where the network need not recover, and
    where ports cannot run their lists anyway."""
    disturbance_ns = problem.intent.network.disturbance_ns
    if disturbance_ns is None or lists.crowded():
        return Recovery({}, {})
    placements = tuple(placements)
    talkers: dict[int, Behind] = {}
    recovery_ns: dict[str, int] = {}
    endless: dict[PortRef, str] = {}
    for_ever: set[str] = set()
    for link, sent in sendings(problem, placements).items():
        names = dict.fromkeys(sending.stream for sending in sent)
        if its := behind(sent, late_interference_ns(problem.intent, problem.links[link])):
            talkers[link] = its
            for name in names:
                recovery_ns[name] = max(its.back_ns, recovery_ns.get(name, 0))
        else:
            endless[problem.links[link].source] = _endless(names, _BUSY, _SEND_LESS)
            talkers[link] = Behind(dict.fromkeys((each.traffic_class for each in sent), 0), 0)
            for_ever |= names.keys()
    crossed = list(visits(problem, placements, talkers))
    search = _Search(problem, crossed, lists.lists, disturbance_ns, for_ever)
    return search.run(recovery_ns, endless)


class _Search:
    def __init__(
        self,
        problem: Problem,
        visits: Sequence[Visit],
        lists: Mapping[PortRef, GateControlList],
        disturbance_ns: int,
        for_ever: Set[str],
    ) -> None:
        """Streams that are late `for_ever` do so from their talker on."""
        self._problem = problem
        self._visits = visits
        self._lists = lists
        self._disturbance_ns = disturbance_ns
        self._for_ever = for_ever
        # How long after its latest time on plan each may come.
        self._late = [visit.late_ns for visit in visits]
        self._crossing: defaultdict[int, list[int]] = defaultdict(list)
        self._children: dict[int, list[int]] = {}
        for number, visit in enumerate(visits):
            self._crossing[visit.link].append(number)
            if visit.parent is not None:
                self._children.setdefault(visit.parent, []).append(number)

    def run(self, at_talkers_ns: Mapping[str, int], endless: Mapping[PortRef, str]) -> Recovery:
        """`at_talkers_ns` has for how long each stream may leave its talker late; those that are
        late for ever do so for `endless` reasons."""
        ports = {link: self._port(link) for link in sorted(self._crossing)}
        self._leave_out(ports, {v.link for v in self._visits if v.stream in self._for_ever})
        stuck = {link for link, port in ports.items() if port.disturbed.never}
        self._leave_out(ports, stuck)
        stuck |= self._settle(ports)
        recovered = self._recovered(ports)
        found = {**endless, **self._never(stuck, _STUCK)}
        found |= self._never(ports.keys() - recovered.keys(), _CIRCULAR)
        by_stream = dict(at_talkers_ns)
        for visit in self._visits:
            if visit.link not in recovered:
                by_stream.pop(visit.stream, None)
            elif visit.stream in by_stream:
                by_stream[visit.stream] = max(recovered[visit.link], by_stream[visit.stream])
        return Recovery(by_stream, found)

    def _leave_out(self, ports: dict[int, _Port], late: Iterable[int]) -> None:
        """Take those ports out at which frames stay late, and all to which such frames go on."""
        waiting = list(late)
        for link in waiting:
            if ports.pop(link, None):
                children = (c for n in self._crossing[link] for c in self._children.get(n, ()))
                waiting += dict.fromkeys(self._visits[child].link for child in children)

    def _recovered(self, ports: Mapping[int, _Port]) -> dict[int, int]:
        """How long after a disturbance frames may leave each port late: if it was there, until what
        it left is gone; if it was elsewhere, until the ports and talkers that feed this one are
        back to the plan, and the backlog is gone. Ports that feed each other may take as long as
        the longest chain of late frames besides; they are missing, with all that they feed, if such
        a chain need not end."""
        feeders = {link: its for link, its in self._feeders().items() if link in ports}
        by_talkers = {
            link: max((0, *(self._visits[number].fed_ns for number in self._crossing[link])))
            for link in ports
        }
        disturbed = {link: port.disturbed.longest_ns() for link, port in ports.items()}
        calm = {link: port.calm.longest_ns() for link, port in ports.items()}
        recovered: dict[int, int] = {}
        pending = list(feeders)
        while pending:
            ready = [link for link in pending if feeders[link].keys() <= recovered.keys()]
            for link in ready:
                ways = (recovered[f] + way for f, way in feeders[link].items())
                fed = max((by_talkers[link], *ways))
                recovered[link] = max(disturbed[link], fed + calm[link])
            if not ready:
                ring = _ring(feeders, pending)
                chain = self._chain_ns(ring, ports)
                if chain is None:
                    break
                into = [(f, way) for link in ring for f, way in feeders[link].items()]
                outside = (recovered[f] + way for f, way in into if f not in ring)
                fed = max((*(by_talkers[link] for link in ring), *outside))
                first = max(max(disturbed[link], fed + calm[link]) for link in ring)
                within = max(way for f, way in into if f in ring) + chain
                recovered |= dict.fromkeys(ring, first + within)
            pending = [link for link in pending if link not in recovered]
        return recovered

    def _chain_ns(self, ring: set[int], ports: Mapping[int, _Port]) -> int | None:
        inside = [n for link in sorted(ring) for n in ports[link].visits]
        position = {number: index for index, number in enumerate(inside)}
        cycle = lcm(*{self._visits[number].period_ns for number in inside})
        passages = []
        for number in inside:
            visit, calm = self._visits[number], ports[self._visits[number].link].calm
            late = visit.gone_ns + self._later_ns(number)
            passages.append(
                Passage(
                    visit.link,
                    visit.traffic_class,
                    visit.period_ns,
                    visit.earliest_ns,
                    visit.latest_ns,
                    visit.gone_ns,
                    [
                        time + calm.wait_ns(time)
                        for time in range(late, late + cycle, visit.period_ns)
                    ],
                    [position[c] for c in self._children.get(number, ()) if c in position],
                )
            )
        return longest_chain_ns(passages)

    def _later_ns(self, number: int) -> int:
        """How much later than on plan a frame that comes late may still be there."""
        visit = self._visits[number]
        last_comes_ns = visit.latest_ns + visit.spread_ns + self._late[number]
        return max(0, last_comes_ns - visit.gone_ns)

    def _settle(self, ports: dict[int, _Port]) -> set[int]:
        """Raise how late frames may come from what a disturbance does where it is until none comes
        later because of others. Ports where that has no end are left out, and found."""
        visits, late, lost = self._visits, self._late, self._disturbance_ns
        for number, children in self._children.items():
            visit = visits[number]
            if visit.link not in ports:
                continue
            disturbed = ports[visit.link].disturbed
            left = lost + disturbed.worst_wait_ns(visit.gone_ns + lost, visit.period_ns)
            for child in children:
                late[child] = left
        pending = set(ports)
        stuck: set[int] = set()
        for _ in range(_PASSES_MAX):
            renewed = {link for link in pending if self._renew(link, ports)}
            never = {link for link in renewed if ports[link].calm.never}
            self._leave_out(ports, never)
            stuck |= never
            pending = self._push_on(ports, renewed) & ports.keys()
            if not pending:
                break
        self._leave_out(ports, pending)
        return stuck | pending

    def _renew(self, link: int, ports: dict[int, _Port]) -> bool:
        """Let `calm` be for frames as late as they are now; False if that makes no difference."""
        port = ports[link]
        later = [self._later_ns(number) for number in port.visits]
        renewed = not port.later_ns or not all(
            port.calm.is_same_for(visit.gone_ns + before, visit.gone_ns + now, visit.period_ns)
            for visit, before, now in zip(port.backlog.coming, port.later_ns, later, strict=True)
            if now > before
        )
        calm = port.backlog.clearing(0, later) if renewed else port.calm
        ports[link] = port._replace(calm=calm, later_ns=later)
        return renewed

    def _push_on(self, ports: Mapping[int, _Port], renewed: Collection[int]) -> set[int]:
        """Let frames come as late on each port as they may leave the one before; the ports where
        that makes a difference. It only can behind those that are `renewed`, and so on."""
        visits, late = self._visits, self._late
        raised: set[int] = set()
        for number, children in self._children.items():  # none before the one before it on its way
            visit = visits[number]
            if visit.link not in ports or (visit.link not in renewed and number not in raised):
                continue
            later = self._later_ns(number)
            calm = ports[visit.link].calm
            later += calm.worst_wait_ns(visit.gone_ns + later, visit.period_ns)
            for child in children:
                if later > late[child]:
                    late[child] = later
                    raised.add(child)
        return {visits[number].link for number in raised}

    def _port(self, link: int) -> _Port:
        """The queues of all classes of a port together; no frame comes late yet."""
        intent, its = self._problem.intent, self._problem.links[link]
        gates, numbers = self._lists[its.source], self._crossing[link]
        visits = [self._visits[number] for number in numbers]
        classes = {visit.traffic_class for visit in visits}
        best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
        opened = sum(1 << number for number in classes)
        shut = sum(1 << c.number for c in best_effort if c.number > min(classes))
        longest = max(visit.wire_ns for visit in visits)
        # One that its talker sent at any time; of those that are dropped then none comes here.
        odd = max((visit.wire_ns for visit in visits if not visit.is_dropped), default=0)
        once = odd + longest_frame_ns(intent, its, ClassRole.BEST_EFFORT)
        once += control_backlog_ns(intent, its) + intent.network.gate_margin_ns
        backlog = Backlog(
            gates.cycle_ns,
            openings(gates, opened, shut, its.gate_early_ns),
            [Coming(v.period_ns, v.earliest_ns, v.gone_ns, v.wire_ns) for v in visits],
            Ahead(
                once,
                *control_share(intent, its),
                unfit_ns=longest - odd,
            ),
        )
        disturbed = backlog.clearing(self._disturbance_ns)
        return _Port(numbers, backlog, disturbed, disturbed, ())

    def _feeders(self) -> dict[int, dict[int, int]]:
        """Which ports feed each, and how long the way is."""
        found: dict[int, dict[int, int]] = {link: {} for link in self._crossing}
        for visit in self._visits:
            if visit.parent is not None:
                ways, feeder = found[visit.link], self._visits[visit.parent].link
                ways[feeder] = max(visit.way_ns, ways.get(feeder, visit.way_ns))
        return found

    def _never(self, links: Iterable[int], why: str) -> dict[PortRef, str]:
        """What to say of ports whose backlog has no bound by this account."""
        found = {}
        for link in sorted(links):
            names = dict.fromkeys(self._visits[n].stream for n in self._crossing[link])
            found[self._problem.links[link].source] = _endless(names, why, _MORE_ROOM)
        return found


def _endless(streams: Collection[str], why: str, what_helps: str) -> str:
    shown = ", ".join(list(streams)[:_NAMED_MAX])
    if len(streams) > _NAMED_MAX:
        shown += f" and {len(streams) - _NAMED_MAX} more"
    return (
        f"no bound is found on how long frames are late after a disturbance: {why.format(shown)}, "
        "as this planner counts what may be waiting. Its count is an upper bound: this is not a "
        f"proof that they stay late. {what_helps} would help; `recovery: none` under `defaults` "
        "plans without a bound"
    )


def _ring(feeders: Mapping[int, Mapping[int, int]], pending: Iterable[int]) -> set[int]:
    """Of ports that wait for each other, those that feed others of them."""
    ring = set(pending)
    while True:
        feeding = {feeder for link in ring for feeder in feeders[link]} & ring
        if feeding == ring:
            return ring
        ring = feeding


_STUCK = "outside their planned windows the gates leave too little time for {}"
_CIRCULAR = "{} may make each other late around a ring of ports, cycle after cycle"
_BUSY = "the talker sends {} one after the other without a pause to make up for a late frame"
_MORE_ROOM = (
    "Fewer streams, longer periods, a smaller max-frame of best effort or a shorter `recovery`"
)
_SEND_LESS = "Fewer or shorter streams of this talker, or longer periods,"


def openings(
    gates: GateControlList, opened: int, shut: int, early_ns: int
) -> list[tuple[int, int]]:
    """When all gates of `opened` are open and none of `shut`, even if gates change `early_ns` too
    soon; the last may end a cycle later."""
    found: list[tuple[int, int]] = []
    wanted = opened | shut
    edges = accumulate((entry.interval_ns for entry in gates.entries), initial=0)
    for entry, (begin, end) in zip(gates.entries, pairwise(edges), strict=True):
        if entry.gate_states & wanted == opened:
            if found and found[-1][1] == begin:
                found[-1] = found[-1][0], end
            else:
                found.append((begin, end))
    if len(found) > 1 and found[0][0] == 0 and found[-1][1] == gates.cycle_ns:
        found[-1] = found[-1][0], gates.cycle_ns + found.pop(0)[1]
    return [(begin, end - early_ns) for begin, end in found if end - begin > early_ns]
