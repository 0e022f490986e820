"""How late frames may be on each port after a disturbance, and for how long: held for changes.

What is late on a port follows from the port before on the way of each frame. So a change counts at
the ports that it touches, and goes on to others as far as frames come later there than they did.
Where fewer frames may be late than before, figures stay, or come down port by port (`relax`): as
long as none is less than what follows from those before it, all hold.

    state       who crosses which port, and how late; what is taken back
    arrivals    talkers and frames that come and go
    port        what a disturbance leaves at one port, and when that is gone
    spreading   how lateness goes on from port to port, and comes down again
    recovering  how long after a disturbance frames may leave each port late
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from cnc.model import GateControlList, PortRef
from cnc.planner.lateness import arrivals, recovering, spreading
from cnc.planner.lateness.state import State
from cnc.planner.pauses import Behind
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement

_RELAXED_AT_ONCE = 8  # ports, when something is taken out


class Lateness(State):
    """That of placements which are sound with the lists `gates`, which are those of now."""

    def change(
        self,
        gone: Iterable[Member],
        come: Iterable[Placement],
        problem: Problem,
        links: Collection[int],
    ) -> None:
        """Account for members that go, placements of a problem that come, and new lists of
        `links`, which are those that either crosses."""
        self.changed = set()
        fed = arrivals.resend(self, gone := list(gone), come := list(come), problem)
        for member in gone:
            arrivals.leave(self, member)
        for placement in come:
            arrivals.enter(self, problem, placement)
        touched = {link for link in links if link in self.ports or self.crossing.get(link)}
        spreading.renew_ports(self, touched, ends_here=bool(gone))
        spreading.settle(self, touched | (fed & self.ports.keys()))
        recovering.recover(self)
        if gone:
            self.relax(_RELAXED_AT_ONCE)

    def relax(self, ports_max: int | None = None) -> bool:
        """Let figures come down where fewer frames are late than before, at so many ports at most;
        whether any did."""
        return spreading.relax(self, ports_max)

    def raised(self) -> Iterator[tuple[int, int | None, Iterator[str]]]:
        """Where frames may be late for longer since `keep`: the link, for how long now, and
        whose."""
        for link, before in self._before_ns.items():
            now = self.recovered_ns.get(link)
            if (now is None and self.crossing[link]) or (now is not None and now > before):
                yield link, now, self.streams_by(link)
        for mapping, key, value in self._undo or ():
            if mapping is self.behind and isinstance(key, int) and isinstance(value, Behind):
                its = self.behind.get(key)
                if key in self.busy or (its and its.back_ns > value.back_ns):
                    now = None if its is None or key in self.busy else its.back_ns
                    yield key, now, self.streams_by(key)

    def streams_by(self, link: int) -> Iterator[str]:
        """The streams that leave by a link."""
        names = dict.fromkeys(self.visits[n].stream for n in self.crossing[link])
        return iter(names or dict.fromkeys(its.stream for its in self.sent[link].values()))

    def bound_ns(self, members: Iterable[Member]) -> int | None:
        """How long after a disturbance frames of all of them may be late; None without a bound."""
        worst = 0
        for member in members:
            for number in self.numbers[member]:
                visit = self.visits[number]
                if visit.link not in self.recovered_ns:
                    return None
                worst = max(worst, self.recovered_ns[visit.link])
            for link in self.sends[member]:
                if link in self.busy:
                    return None
                worst = max(worst, self.behind[link].back_ns)
        return worst

    def why_not(self, member: Member) -> str:
        """Why a placement has no bound: the port nearest to its talker that keeps it from one."""
        crossed = [self.visits[number].link for number in self.numbers[member]]
        for link in (*self.sends[member], *crossed):
            if link in self.why:
                return f"at {self.links[link].source} {self.why[link].of(self.streams_by(link))}"
        late = next((link for link in crossed if link not in self.recovered_ns), crossed[0])
        return f"frames come to {self.links[late].source} of which no bound is found"

    @property
    def has_slack(self) -> bool:
        """Whether figures may come down (`relax`)."""
        return bool(self.slack)

    def bounds_ns(self) -> dict[str, int]:
        """How long after a disturbance each stream may be late, where there is a bound."""
        found: dict[str, int] = {}
        for link, sent in self.sent.items():
            for sending in sent.values() if link not in self.busy else ():
                found[sending.stream] = max(self.behind[link].back_ns, found.get(sending.stream, 0))
        for visit in self.visits.values():
            if visit.link not in self.recovered_ns:
                found.pop(visit.stream, None)
            elif visit.stream in found:
                found[visit.stream] = max(self.recovered_ns[visit.link], found[visit.stream])
        return found

    def endless(self) -> dict[PortRef, str]:
        """By port why no bound is found for streams that cross it."""
        return {
            self.links[link].source: why.of(self.streams_by(link)) for link, why in self.why.items()
        }


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
