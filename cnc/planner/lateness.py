"""How late frames may be on each port after a disturbance, and for how long: held for changes.

What is late on a port follows from the port before on the way of each frame. So a change counts at
the ports that it touches, and goes on to others as far as frames come later there than they did.
Where fewer frames may be late than before, figures stay, or come down port by port (`relax`): as
long as none is less than what follows from those before it, all hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import (
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from math import lcm
from typing import NamedTuple, TypeVar

from cnc.mechanisms.terms import (
    control_backlog_ns,
    control_share,
    late_interference_ns,
    longest_frame_ns,
)
from cnc.model import ClassRole, GateControlList, Intent, Link, PortRef
from cnc.planner.backlog import Ahead, Backlog, Clearing, Coming, openings
from cnc.planner.chains import Passage, longest_chain_ns
from cnc.planner.endless import BUSY, CIRCULAR, STUCK, Why
from cnc.planner.pauses import Behind, Sending, behind
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement
from cnc.planner.visits import Visit, sendings_of, visits_of

_PASSES_MAX = 100  # of raising how late frames are: a path has fewer hops
_RELAXED_AT_ONCE = 8  # ports, when something is taken out
_NOTHING = object()

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


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


class Lateness:
    """That of placements which are sound with the lists `gates`, which are those of now.

    `recovered_ns` is by link how long after a disturbance frames may leave it late; links are
    missing that frames may leave late for ever, for what this account finds.
    """

    def __init__(
        self, intent: Intent, links: Sequence[Link], gates: Mapping[PortRef, GateControlList]
    ) -> None:
        self._intent = intent
        self._links = links
        self._gates = gates
        self._disturbance_ns = intent.network.disturbance_ns or 0
        self._next = 0
        self._visits: dict[int, Visit] = {}
        # How long after its latest time on plan each may come.
        self._late: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        self._numbers: dict[Member, list[int]] = {}
        self._sends: dict[Member, list[int]] = {}  # the links of its talker
        self._crossing: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self._fed_by: defaultdict[int, dict[int, None]] = defaultdict(dict)  # by talkers' links
        self._sent: defaultdict[int, dict[Member, Sending]] = defaultdict(dict)
        self._behind: dict[int, Behind] = {}
        self._busy: dict[int, None] = {}  # links of talkers that never catch up
        self._ports: dict[int, _Port] = {}
        self._feeders: dict[int, dict[int, int]] = {}
        self.why: dict[int, Why] = {}
        self._slack: dict[int, None] = {}  # ports at which figures may come down
        self._chains: dict[frozenset[int], int | None] = {}
        self._changed: set[int] = set()
        self.recovered_ns: dict[int, int] = {}
        self._undo: list[tuple[MutableMapping[object, object], object, object]] | None = None
        self._before_ns: dict[int, int] = {}

    def change(
        self,
        gone: Iterable[Member],
        come: Iterable[Placement],
        problem: Problem,
        links: Collection[int],
    ) -> None:
        """Account for members that go, placements of a problem that come, and new lists of
        `links`, which are those that either crosses."""
        self._changed = set()
        fed = self._resend(gone := list(gone), come := list(come), problem)
        for member in gone:
            self._leave(member)
        for placement in come:
            self._enter(problem, placement)
        touched = {link for link in links if link in self._ports or self._crossing.get(link)}
        self._renew_ports(touched, ends_here=bool(gone))
        self._settle(touched | (fed & self._ports.keys()))
        self._recover()
        if gone:
            self.relax(_RELAXED_AT_ONCE)

    def keep(self) -> None:
        """From here on `back` takes all back."""
        self._undo, self._before_ns = [], self.recovered_ns

    def back(self) -> None:
        """Be as when `keep` was called."""
        for mapping, key, value in reversed(self._undo or ()):
            if value is _NOTHING:
                mapping.pop(key, None)
            else:
                mapping[key] = value
        self.recovered_ns = self._before_ns
        self._undo = None

    def done(self) -> None:
        """No more of what was done since `keep` is to be taken back."""
        self._undo = None

    def raised(self) -> Iterator[tuple[int, int | None, Iterator[str]]]:
        """Where frames may be late for longer since `keep`: the link, for how long now, and
        whose."""
        for link, before in self._before_ns.items():
            now = self.recovered_ns.get(link)
            if (now is None and self._crossing[link]) or (now is not None and now > before):
                yield link, now, self.streams_by(link)
        for mapping, key, value in self._undo or ():
            if mapping is self._behind and isinstance(key, int) and isinstance(value, Behind):
                its = self._behind.get(key)
                if key in self._busy or (its and its.back_ns > value.back_ns):
                    now = None if its is None or key in self._busy else its.back_ns
                    yield key, now, self.streams_by(key)

    def streams_by(self, link: int) -> Iterator[str]:
        """The streams that leave by a link."""
        names = dict.fromkeys(self._visits[n].stream for n in self._crossing[link])
        return iter(names or dict.fromkeys(its.stream for its in self._sent[link].values()))

    def bound_ns(self, members: Iterable[Member]) -> int | None:
        """How long after a disturbance frames of all of them may be late; None without a bound."""
        worst = 0
        for member in members:
            for number in self._numbers[member]:
                visit = self._visits[number]
                if visit.link not in self.recovered_ns:
                    return None
                worst = max(worst, self.recovered_ns[visit.link])
            for link in self._sends[member]:
                if link in self._busy:
                    return None
                worst = max(worst, self._behind[link].back_ns)
        return worst

    def why_not(self, member: Member) -> str:
        """Why a placement has no bound: the port nearest to its talker that keeps it from one."""
        crossed = [self._visits[number].link for number in self._numbers[member]]
        for link in (*self._sends[member], *crossed):
            if link in self.why:
                return f"at {self._links[link].source} {self.why[link].of(self.streams_by(link))}"
        late = next((link for link in crossed if link not in self.recovered_ns), crossed[0])
        return f"frames come to {self._links[late].source} of which no bound is found"

    @property
    def has_slack(self) -> bool:
        """Whether figures may come down (`relax`)."""
        return bool(self._slack)

    def bounds_ns(self) -> dict[str, int]:
        """The same of all streams of which there is one."""
        found: dict[str, int] = {}
        for link, sent in self._sent.items():
            for sending in sent.values() if link not in self._busy else ():
                found[sending.stream] = max(
                    self._behind[link].back_ns, found.get(sending.stream, 0)
                )
        for visit in self._visits.values():
            if visit.link not in self.recovered_ns:
                found.pop(visit.stream, None)
            elif visit.stream in found:
                found[visit.stream] = max(self.recovered_ns[visit.link], found[visit.stream])
        return found

    def endless(self) -> dict[PortRef, str]:
        """By port why no bound is found for streams that cross it."""
        return {
            self._links[link].source: why.of(self.streams_by(link))
            for link, why in self.why.items()
        }

    def _put(self, mapping: MutableMapping[_Key, _Value], key: _Key, value: _Value) -> None:
        if self._undo is not None:
            self._undo.append((mapping, key, mapping.get(key, _NOTHING)))  # type: ignore[arg-type]
        mapping[key] = value

    def _drop(self, mapping: MutableMapping[_Key, _Value], key: _Key) -> None:
        if key in mapping:
            if self._undo is not None:
                self._undo.append((mapping, key, mapping[key]))  # type: ignore[arg-type]
            del mapping[key]

    def _resend(
        self, gone: Iterable[Member], come: Iterable[Placement], problem: Problem
    ) -> set[int]:
        """Let talkers send what they do now; the links at which frames may come later by that."""
        talkers: dict[int, None] = {}
        for member in gone:
            for link in self._sends[member]:
                self._drop(self._sent[link], member)
                talkers[link] = None
            self._drop(self._sends, member)
        for placement in come:
            member, links = placement.route.member, []
            for link, sending in sendings_of(problem, placement):
                self._put(self._sent[link], member, sending)
                talkers[link] = None
                links.append(link)
            self._put(self._sends, member, links)
        fed: set[int] = set()
        for link in talkers:
            fed |= self._fall_behind(link)
        return fed

    def _fall_behind(self, link: int) -> set[int]:
        sent = list(self._sent[link].values())
        if not sent:
            self._drop(self._behind, link)
            return set()
        its = behind(sent, late_interference_ns(self._intent, self._links[link]))
        if its is None:
            its = Behind(dict.fromkeys((each.traffic_class for each in sent), 0), 0)
            self._put(self._busy, link, None)
            self._put(self.why, link, BUSY)
        if its == self._behind.get(link):
            return set()
        self._put(self._behind, link, its)
        fed = set()
        for number in self._fed_by[link]:
            visit = self._visits[number]
            if visit.traffic_class not in its.late_ns:
                continue  # it is about to go
            visit = visit.behind(its)
            self._put(self._visits, number, visit)
            if visit.late_ns < self._late[number]:
                self._put(self._slack, visit.link, None)
            self._put(self._late, number, visit.late_ns)
            self._changed.add(visit.link)
            fed.add(visit.link)
            if link in self._busy:
                self._leave_out([visit.link])
        return fed

    def _leave(self, member: Member) -> None:
        for number in self._numbers[member]:
            visit = self._visits[number]
            self._drop(self._crossing[visit.link], number)
            if visit.from_talker is not None:
                self._drop(self._fed_by[visit.from_talker], number)
            self._drop(self._children, number)
            self._drop(self._late, number)
            self._drop(self._visits, number)
        self._drop(self._numbers, member)

    def _enter(self, problem: Problem, placement: Placement) -> None:
        numbers = []
        late_out: dict[int, None] = {}
        for visit in visits_of(problem, placement, self._behind, self._next):
            number = self._next
            self._next += 1
            numbers.append(number)
            self._put(self._visits, number, visit)
            self._put(self._late, number, visit.late_ns)
            self._put(self._crossing[visit.link], number, None)
            if visit.from_talker is not None:
                self._put(self._fed_by[visit.from_talker], number, None)
                is_late = visit.from_talker in self._busy
            else:
                is_late = self._is_left_out(self._visits[visit.parent or 0].link)
            if is_late:
                late_out[visit.link] = None
            if visit.parent is not None:
                siblings = self._children.get(visit.parent, [])
                self._put(self._children, visit.parent, [*siblings, number])
        self._put(self._numbers, placement.route.member, numbers)
        self._leave_out(late_out)

    def _is_left_out(self, link: int) -> bool:
        """Whether frames may leave by a link late for ever."""
        return link not in self._ports and link in self._feeders

    def _leave_out(self, late: Iterable[int]) -> None:
        """Take those ports out at which frames stay late, and all to which such frames go on."""
        waiting = list(late)
        for link in waiting:
            is_known = self._is_left_out(link)
            self._put(self._feeders, link, {})
            self._drop(self._ports, link)
            if not is_known:
                children = (c for n in self._crossing[link] for c in self._children.get(n, ()))
                waiting += dict.fromkeys(self._visits[child].link for child in children)

    def _renew_ports(self, links: Iterable[int], *, ends_here: bool) -> None:
        """Account for what crosses links now with their lists of now."""
        never: dict[int, None] = {}
        for link in sorted(links):
            self._changed.add(link)
            if not self._crossing[link]:
                self._forget(link)
                continue
            if self._is_left_out(link):
                continue
            port = self._port(link)
            self._put(self._ports, link, port)
            self._put(self._feeders, link, self._feeders_of(link))
            if ends_here:
                self._put(self._slack, link, None)
            if port.disturbed.never:
                never[link] = None
        for link in never:
            self._put(self.why, link, STUCK)
        self._leave_out(never)
        for link in links:
            if link in self._ports:
                self._raise_from(link)

    def _forget(self, link: int) -> None:
        """Nothing crosses a link any more."""
        self._drop(self._ports, link)
        self._drop(self._feeders, link)
        self._drop(self.why, link)
        self._drop(self._slack, link)

    def _raise_from(self, link: int) -> None:
        """Let frames come as late behind a port as a disturbance there makes them."""
        for number in self._crossing[link]:
            if children := self._children.get(number):
                left = self._left_disturbed_ns(number)
                for child in children:
                    if left > self._late[child]:
                        self._put(self._late, child, left)

    def _left_disturbed_ns(self, number: int) -> int:
        visit, lost = self._visits[number], self._disturbance_ns
        disturbed = self._ports[visit.link].disturbed
        return lost + disturbed.worst_wait_ns(visit.gone_ns + lost, visit.period_ns)

    def _left_calm_ns(self, number: int) -> int:
        visit, later = self._visits[number], self._later_ns(number)
        calm = self._ports[visit.link].calm
        return later + calm.worst_wait_ns(visit.gone_ns + later, visit.period_ns)

    def _later_ns(self, number: int) -> int:
        """How much later than on plan a frame that comes late may still be there."""
        visit = self._visits[number]
        last_comes_ns = visit.latest_ns + visit.spread_ns + self._late[number]
        return max(0, last_comes_ns - visit.gone_ns)

    def _settle(self, links: Iterable[int]) -> None:
        """Raise how late frames may come from what a disturbance does where it is until none comes
        later because of others. Ports where that has no end are left out."""
        pending = {link for link in links if link in self._ports}
        pending |= {
            self._visits[child].link
            for link in pending
            for number in self._crossing[link]
            for child in self._children.get(number, ())
        }
        pending &= self._ports.keys()
        for _ in range(_PASSES_MAX):
            renewed = [link for link in sorted(pending) if self._renew(link)]
            never = [link for link in renewed if self._ports[link].calm.never]
            for link in never:
                self._put(self.why, link, STUCK)
            self._leave_out(never)
            pending = self._push_on(link for link in renewed if link in self._ports)
            if not pending:
                return
        for link in sorted(pending):
            self._put(self.why, link, STUCK)
        self._leave_out(pending)

    def _renew(self, link: int) -> bool:
        """Let `calm` be for frames as late as they are now; False if that makes no difference."""
        port = self._ports[link]
        later = [self._later_ns(number) for number in port.visits]
        renewed = not port.later_ns or not all(
            port.calm.is_same_for(visit.gone_ns + before, visit.gone_ns + now, visit.period_ns)
            for visit, before, now in zip(port.backlog.coming, port.later_ns, later, strict=True)
            if now > before
        )
        calm = port.backlog.clearing(0, later) if renewed else port.calm
        self._put(self._ports, link, port._replace(calm=calm, later_ns=later))
        if renewed:
            self._changed.add(link)
        return renewed

    def _push_on(self, links: Iterable[int]) -> set[int]:
        """Let frames come as late on each port as they may leave the one before, from `links` on;
        the ports where that makes a difference."""
        raised: set[int] = set()
        waiting = [number for link in links for number in self._crossing[link]]
        for number in waiting:
            children = self._children.get(number)
            if not children or self._visits[number].link not in self._ports:
                continue
            left = self._left_calm_ns(number)
            for child in children:
                if left > self._late[child]:
                    self._put(self._late, child, left)
                    raised.add(self._visits[child].link)
                    waiting.append(child)
        self._changed |= raised
        return raised & self._ports.keys()

    def relax(self, ports_max: int | None = None) -> bool:
        """Let figures come down where fewer frames are late than before, at so many ports at most;
        whether any did."""
        count = 0
        while self._slack and (ports_max is None or count < ports_max):
            count += 1
            link = next(iter(self._slack))
            self._drop(self._slack, link)
            if link not in self._ports:
                continue
            port = self._ports[link]
            later = [self._later_ns(number) for number in port.visits]
            calm = port.backlog.clearing(0, later)
            self._put(self._ports, link, port._replace(calm=calm, later_ns=later))
            self._changed.add(link)
            for number in port.visits:
                if children := self._children.get(number):
                    left = max(self._left_disturbed_ns(number), self._left_calm_ns(number))
                    for child in children:
                        if left < self._late[child]:
                            self._put(self._late, child, left)
                            self._put(self._slack, self._visits[child].link, None)
        if count:
            self._recover()
        return count > 0

    def _recover(self) -> None:
        """How long after a disturbance frames may leave each port late: if it was there, until what
        it left is gone; if it was elsewhere, until the ports and talkers that feed this one are
        back to the plan, and the backlog is gone. Ports that feed each other may take as long as
        the longest chain of late frames besides; they are left out, with all that they feed, if
        such a chain need not end."""
        self.recovered_ns = {}
        for ring in [ring for ring in self._chains if not self._changed.isdisjoint(ring)]:
            self._drop(self._chains, ring)
        while True:
            pending = self._recover_in_order()
            if not pending:
                return
            ring = frozenset(_ring(self._feeders, pending))
            chain = self._chain_ns(ring)
            if chain is None:
                for link in sorted(pending):
                    self._put(self.why, link, CIRCULAR)
                self._leave_out(pending)
                return
            into = [(f, way) for link in ring for f, way in self._feeders[link].items()]
            outside = (self.recovered_ns[f] + way for f, way in into if f not in ring)
            fed = max((*(self._fed_ns(link) for link in ring), *outside))
            first = max(self._over_ns(link, fed) for link in ring)
            within = max(way for f, way in into if f in ring) + chain
            self.recovered_ns |= dict.fromkeys(ring, first + within)

    def _recover_in_order(self) -> set[int]:
        """Go through the ports that are fed by such that are through; those that are left."""
        recovered = self.recovered_ns
        onward: defaultdict[int, list[int]] = defaultdict(list)
        missing: dict[int, int] = {}
        for link in self._ports:
            if link not in recovered:
                absent = [f for f in self._feeders[link] if f not in recovered]
                missing[link] = len(absent)
                for feeder in absent:
                    onward[feeder].append(link)
        ready = [link for link, count in missing.items() if not count]
        for link in ready:
            ways = [recovered[f] + way for f, way in self._feeders[link].items()]
            recovered[link] = self._over_ns(link, max((self._fed_ns(link), *ways)))
            for behind_it in onward[link]:
                missing[behind_it] -= 1
                if not missing[behind_it]:
                    ready.append(behind_it)
        return missing.keys() - recovered.keys()

    def _over_ns(self, link: int, fed_ns: int) -> int:
        """How long frames may leave a port late to which they come late for so long."""
        port = self._ports[link]
        return max(port.disturbed.longest_ns(), fed_ns + port.calm.longest_ns())

    def _fed_ns(self, link: int) -> int:
        """How long they may come late from talkers."""
        return max((0, *(self._visits[number].fed_ns for number in self._crossing[link])))

    def _chain_ns(self, ring: frozenset[int]) -> int | None:
        if ring in self._chains:
            return self._chains[ring]
        inside = [n for link in sorted(ring) for n in self._ports[link].visits]
        position = {number: index for index, number in enumerate(inside)}
        cycle = lcm(*{self._visits[number].period_ns for number in inside})
        passages = []
        for number in inside:
            visit = self._visits[number]
            calm, late = self._ports[visit.link].calm, visit.gone_ns + self._later_ns(number)
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
        chain = longest_chain_ns(passages)
        self._put(self._chains, ring, chain)
        return chain

    def _port(self, link: int) -> _Port:
        """The queues of all classes of a port together; no frame comes late yet."""
        intent, its = self._intent, self._links[link]
        gates, numbers = self._gates[its.source], list(self._crossing[link])
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

    def _feeders_of(self, link: int) -> dict[int, int]:
        """Which ports feed one, and how long the way is."""
        ways: dict[int, int] = {}
        for number in self._crossing[link]:
            visit = self._visits[number]
            if visit.parent is not None:
                feeder = self._visits[visit.parent].link
                ways[feeder] = max(visit.way_ns, ways.get(feeder, visit.way_ns))
        return ways


def lateness(
    problem: Problem, placements: Iterable[Placement], gates: Mapping[PortRef, GateControlList]
) -> Lateness:
    """That of all placements of a plan."""
    found = Lateness(problem.intent, problem.links, gates)
    placements = tuple(placements)
    crossed = {
        leg.link
        for placement in placements
        for leg in placement.route.legs
        if leg.parent is not None
    }
    found.change((), placements, problem, crossed)
    return found


def _ring(feeders: Mapping[int, Mapping[int, int]], pending: Iterable[int]) -> set[int]:
    """Of ports that wait for each other, those that feed others of them."""
    ring = set(pending)
    while True:
        feeding = {feeder for link in ring for feeder in feeders[link]} & ring
        if feeding == ring:
            return ring
        ring = feeding
