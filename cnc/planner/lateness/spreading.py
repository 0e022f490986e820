"""How lateness goes on from port to port, and comes down again."""

from __future__ import annotations

from collections.abc import Iterable

from cnc.planner.endless import STUCK
from cnc.planner.lateness.port import feeders_of, port_of
from cnc.planner.lateness.recovering import recover
from cnc.planner.lateness.state import State

_PASSES_MAX = 100  # of raising how late frames are: a path has fewer hops


def renew_ports(state: State, links: Iterable[int], *, ends_here: bool) -> None:
    """Account for what crosses links now with their lists of now."""
    never: dict[int, None] = {}
    for link in sorted(links):
        state.changed.add(link)
        if not state.crossing[link]:
            _forget(state, link)
            continue
        if state.is_left_out(link):
            continue
        port = port_of(state, link)
        state.put(state.ports, link, port)
        state.put(state.feeders, link, feeders_of(state, link))
        if ends_here:
            state.put(state.slack, link, None)
        if port.disturbed.never:
            never[link] = None
    for link in never:
        state.put(state.why, link, STUCK)
    state.leave_out(never)
    for link in links:
        if link in state.ports:
            _raise_from(state, link)


def _forget(state: State, link: int) -> None:
    """Nothing crosses a link any more."""
    state.drop(state.ports, link)
    state.drop(state.feeders, link)
    state.drop(state.why, link)
    state.drop(state.slack, link)


def _raise_from(state: State, link: int) -> None:
    """Let frames come as late behind a port as a disturbance there makes them."""
    for number in state.crossing[link]:
        if children := state.children.get(number):
            left = _left_disturbed_ns(state, number)
            for child in children:
                if left > state.late[child]:
                    state.put(state.late, child, left)


def settle(state: State, links: Iterable[int]) -> None:
    """Raise how late frames may come from what a disturbance does where it is until none comes
    later because of others. Ports where that has no end are left out."""
    pending = {link for link in links if link in state.ports}
    pending |= {
        state.visits[child].link
        for link in pending
        for number in state.crossing[link]
        for child in state.children.get(number, ())
    }
    pending &= state.ports.keys()
    for _ in range(_PASSES_MAX):
        renewed = [link for link in sorted(pending) if _renew(state, link)]
        never = [link for link in renewed if state.ports[link].calm.never]
        for link in never:
            state.put(state.why, link, STUCK)
        state.leave_out(never)
        pending = _push_on(state, (link for link in renewed if link in state.ports))
        if not pending:
            return
    for link in sorted(pending):
        state.put(state.why, link, STUCK)
    state.leave_out(pending)


def _renew(state: State, link: int) -> bool:
    """Let `calm` be for frames as late as they are now; False if that makes no difference."""
    port = state.ports[link]
    later = [state.later_ns(number) for number in port.visits]
    renewed = not port.later_ns or not all(
        port.calm.is_same_for(visit.gone_ns + before, visit.gone_ns + now, visit.period_ns)
        for visit, before, now in zip(port.backlog.coming, port.later_ns, later, strict=True)
        if now > before
    )
    calm = port.backlog.clearing(0, later) if renewed else port.calm
    state.put(state.ports, link, port._replace(calm=calm, later_ns=later))
    if renewed:
        state.changed.add(link)
    return renewed


def _push_on(state: State, links: Iterable[int]) -> set[int]:
    """Let frames come as late on each port as they may leave the one before, from `links` on;
    the ports where that makes a difference."""
    raised: set[int] = set()
    waiting = [number for link in links for number in state.crossing[link]]
    for number in waiting:
        children = state.children.get(number)
        if not children or state.visits[number].link not in state.ports:
            continue
        left = _left_calm_ns(state, number)
        for child in children:
            if left > state.late[child]:
                state.put(state.late, child, left)
                raised.add(state.visits[child].link)
                waiting.append(child)
    state.changed |= raised
    return raised & state.ports.keys()


def relax(state: State, ports_max: int | None = None) -> bool:
    """Let figures come down where fewer frames are late than before, at so many ports at most;
    whether any did."""
    count = 0
    while state.slack and (ports_max is None or count < ports_max):
        count += 1
        link = next(iter(state.slack))
        state.drop(state.slack, link)
        if link not in state.ports:
            continue
        port = state.ports[link]
        later = [state.later_ns(number) for number in port.visits]
        calm = port.backlog.clearing(0, later)
        state.put(state.ports, link, port._replace(calm=calm, later_ns=later))
        state.changed.add(link)
        for number in port.visits:
            if children := state.children.get(number):
                left = max(_left_disturbed_ns(state, number), _left_calm_ns(state, number))
                for child in children:
                    if left < state.late[child]:
                        state.put(state.late, child, left)
                        state.put(state.slack, state.visits[child].link, None)
    if count:
        recover(state)
    return count > 0


def _left_disturbed_ns(state: State, number: int) -> int:
    visit, lost = state.visits[number], state.disturbance_ns
    disturbed = state.ports[visit.link].disturbed
    return lost + disturbed.worst_wait_ns(visit.gone_ns + lost, visit.period_ns)


def _left_calm_ns(state: State, number: int) -> int:
    visit, later = state.visits[number], state.later_ns(number)
    calm = state.ports[visit.link].calm
    return later + calm.worst_wait_ns(visit.gone_ns + later, visit.period_ns)
