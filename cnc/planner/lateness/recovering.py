"""How long after a disturbance frames may leave each port late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import lcm

from cnc.planner.chains import Passage, longest_chain_ns
from cnc.planner.endless import CIRCULAR
from cnc.planner.lateness.state import State


def recover(state: State) -> None:
    """How long after a disturbance frames may leave each port late: if it was there, until what
    it left is gone; if it was elsewhere, until the ports and talkers that feed this one are
    back to the plan, and the backlog is gone. Ports that feed each other may take as long as
    the longest chain of late frames besides; they are left out, with all that they feed, if
    such a chain need not end."""
    state.recovered_ns = {}
    for ring in [ring for ring in state.chains if not state.changed.isdisjoint(ring)]:
        state.drop(state.chains, ring)
    while True:
        pending = _recover_in_order(state)
        if not pending:
            return
        ring = frozenset(_ring(state.feeders, pending))
        chain = _chain_ns(state, ring)
        if chain is None:
            for link in sorted(pending):
                state.put(state.why, link, CIRCULAR)
            state.leave_out(pending)
            return
        into = [(f, way) for link in ring for f, way in state.feeders[link].items()]
        outside = (state.recovered_ns[f] + way for f, way in into if f not in ring)
        fed = max((*(_fed_ns(state, link) for link in ring), *outside))
        first = max(_over_ns(state, link, fed) for link in ring)
        within = max(way for f, way in into if f in ring) + chain
        state.recovered_ns |= dict.fromkeys(ring, first + within)


def _recover_in_order(state: State) -> set[int]:
    """Go through the ports that are fed by such that are through; those that are left."""
    recovered = state.recovered_ns
    onward: defaultdict[int, list[int]] = defaultdict(list)
    missing: dict[int, int] = {}
    for link in state.ports:
        if link not in recovered:
            absent = [f for f in state.feeders[link] if f not in recovered]
            missing[link] = len(absent)
            for feeder in absent:
                onward[feeder].append(link)
    ready = [link for link, count in missing.items() if not count]
    for link in ready:
        ways = [recovered[f] + way for f, way in state.feeders[link].items()]
        recovered[link] = _over_ns(state, link, max((_fed_ns(state, link), *ways)))
        for behind_it in onward[link]:
            missing[behind_it] -= 1
            if not missing[behind_it]:
                ready.append(behind_it)
    return missing.keys() - recovered.keys()


def _over_ns(state: State, link: int, fed_ns: int) -> int:
    """How long frames may leave a port late to which they come late for so long."""
    port = state.ports[link]
    return max(port.disturbed.longest_ns(), fed_ns + port.calm.longest_ns())


def _fed_ns(state: State, link: int) -> int:
    """How long they may come late from talkers."""
    return max((0, *(state.visits[number].fed_ns for number in state.crossing[link])))


def _chain_ns(state: State, ring: frozenset[int]) -> int | None:
    if ring in state.chains:
        return state.chains[ring]
    inside = [n for link in sorted(ring) for n in state.ports[link].visits]
    position = {number: index for index, number in enumerate(inside)}
    cycle = lcm(*{state.visits[number].period_ns for number in inside})
    passages = []
    for number in inside:
        visit = state.visits[number]
        calm, late = state.ports[visit.link].calm, visit.gone_ns + state.later_ns(number)
        passages.append(
            Passage(
                visit.link,
                visit.traffic_class,
                visit.period_ns,
                visit.earliest_ns,
                visit.latest_ns,
                visit.gone_ns,
                [time + calm.wait_ns(time) for time in range(late, late + cycle, visit.period_ns)],
                [position[c] for c in state.children.get(number, ()) if c in position],
            )
        )
    chain = longest_chain_ns(passages)
    state.put(state.chains, ring, chain)
    return chain


def _ring(feeders: Mapping[int, Mapping[int, int]], pending: Iterable[int]) -> set[int]:
    """Of ports that wait for each other, those that feed others of them."""
    ring = set(pending)
    while True:
        feeding = {feeder for link in ring for feeder in feeders[link]} & ring
        if feeding == ring:
            return ring
        ring = feeding
