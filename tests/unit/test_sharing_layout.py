"""Where windows that frames share lie: how far apart, in which order of ports, and when talkers
start to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise, permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents
from cnc.check.arrivals import PARTS, Arrival, most_together
from cnc.model import Link, PortRef
from cnc.planner import plan
from cnc.planner.problem import Problem
from cnc.planner.routing import price_in_hops
from cnc.planner.sharing import ways
from cnc.planner.sharing.forward import ForwardWays
from cnc.planner.sharing.order import up_and_down
from cnc.planner.sharing.phases import Apart, apart
from cnc.planner.sharing.queue import Coming
from cnc.planner.sharing.talkers import Talker
from cnc.planner.sharing.times import Times
from tests.shared_windows import networks
from tests.unit.planner_networks import LINE, intent, network, problem, stream

SLOT = 1_000_000


def ring(links: int, room_ns: int) -> list[Apart]:
    """Frames go on from each of so many links to the next, and from the last, a slot later, to the
    first: all windows lie at one time until they are moved, and each may be moved by `room_ns` less
    than the one before without that its frames come before the window of the slot before shuts."""
    forward = [Apart(n, n + 1, 0, room_ns, 10) for n in range(links - 1)]
    return [*forward, Apart(links - 1, 0, SLOT, room_ns - SLOT, 1)]


def early(its: list[Apart], later_ns: dict[int, int]) -> list[int]:
    """The links whose frames come early."""
    return [a.before for a in its if later_ns[a.before] < later_ns[a.link] - a.room_ns]


def test_windows_around_a_ring_are_moved_until_no_frame_is_early():
    its = ring(8, SLOT // 7)
    assert early(its, apart(range(8), its, {})) == []


def test_where_that_contradicts_itself_the_fewest_frames_are_early():
    its = ring(8, SLOT // 9)
    assert early(its, apart(range(8), its, {})) == [7]


def test_a_window_that_may_not_be_moved_stays():
    its = ring(8, SLOT // 7)
    assert apart(range(8), its, {7: 0})[7] == 0


def test_windows_are_moved_until_their_frames_come_when_the_next_has_opened():
    assert apart(range(2), [Apart(0, 1, 50, SLOT, 1)], {}) == {0: 50, 1: 0}


@given(seed=st.integers(0, 10_000))
def test_frames_are_early_only_where_that_contradicts_what_more_frames_need(seed: int):
    rng = Random(seed)  # noqa: S311  not for secrets
    pairs = rng.sample(sorted(permutations(range(6), 2)), 14)
    its = [
        Apart(before, link, rng.randint(0, 9), rng.randint(-9, 9), work)
        for work, (before, link) in enumerate(pairs)
    ]
    later_ns = apart(range(6), its, {0: 9})
    assert later_ns[0] <= 9
    assert all(later_ns[at.before] - at.slack_ns <= later_ns[at.link] for at in its)
    leasts = [(at.before, at.link, at.slack_ns) for at in its] + [(0, -1, 9)]
    for at in reversed(its):
        least = at.link, at.before, at.room_ns
        if early([at], later_ns):
            assert not _can_hold([*leasts, least])
        else:
            leasts.append(least)


def _can_hold(leasts: list[tuple[int, int, int]]) -> bool:
    """Whether moves exist by which each second link follows the first, less so much, and the link
    -1 is not moved; found by as many rounds as there are links (Bellman, Ford)."""
    later_ns = dict.fromkeys(range(-1, 6), 0)
    for _ in later_ns:
        for other, link, less_ns in leasts:
            later_ns[link] = max(later_ns[link], later_ns[other] - less_ns)
    return later_ns[-1] == 0 and all(
        later_ns[link] >= later_ns[other] - less_ns for other, link, less_ns in leasts
    )


@given(seed=st.integers(0, 10_000), more=st.integers(0, 2))
def test_a_way_leads_up_and_down_between_any_two_switches(seed: int, more: int):
    rng = Random(seed)  # noqa: S311  not for secrets
    switches = [f"s{n}" for n in range(rng.randint(2, 9))]
    joins = {(rng.choice(switches[:n]), switches[n]) for n in range(1, len(switches))}
    joins |= {(one, other) for one, other in _pairs(switches) if rng.random() < 0.3}
    ends = dict(enumerate([*joins, *((other, one) for one, other in joins)]))
    order = up_and_down(ends, {switch: rng.random() for switch in switches}, more)
    assert sorted(order) == sorted(ends)
    for start in switches:
        reached = {start}
        came: dict[str, set[int]] = {start: {-1}}  # the places of the last links of ways there
        for place, link in enumerate(order):
            source, target = ends[link]
            if any(before < place for before in came.get(source, ())):
                came.setdefault(target, set()).add(place)
                reached.add(target)
        assert reached == set(switches)


def test_ways_up_and_down_stay_so_though_other_switches_have_little_transit_then(
    monkeypatch: pytest.MonkeyPatch,
):
    """Through the switch with least transit no way leads: around a ring of four it is on one of
    both ways between its neighbours, and the opposite one is on the other."""
    least = cycle(("s0", "s2"))

    def by_turns(
        ends: Mapping[int, tuple[str, str]], _: Mapping[str, float], most: int
    ) -> list[int]:
        return up_and_down(ends, {f"s{n}": 1.0 for n in range(4)} | {next(least): 0.0}, most)

    monkeypatch.setattr(ways, "up_and_down", by_turns)
    around = network("s0-s1", "s1-s2", "s2-s3", "s3-s0", "t-s1", "l-s3")
    asked = problem(intent(around, stream("f", "t", "l")))
    laid = ways.Ways(asked, ["f"], SLOT, Times(asked), ways.Style.UP_AND_DOWN)
    assert not laid.has_rings


def test_few_ranks_of_switches_make_short_chains_of_links():
    rng = Random(1)  # noqa: S311  not for secrets
    switches = [f"s{n}" for n in range(60)]
    cables = list(pairwise([*switches, "s0"])) + [tuple(rng.sample(switches, 2)) for _ in range(60)]
    ends = {n: (a, b) for n, (a, b) in enumerate([*cables, *((b, a) for a, b in cables)])}

    def chain(more: int) -> int:
        longest: dict[int, int] = {}
        for link in up_and_down(ends, {}, more):
            source, target = ends[link]
            before = (n for n, its in ends.items() if its[1] == source and its[0] != target)
            longest[link] = 1 + max((longest.get(n, 0) for n in before), default=0)
        return max(longest.values())

    assert chain(1) < chain(0) < len(switches)


@given(seed=st.integers(0, 10_000))
def test_the_cheapest_way_forward_is_found_though_not_all_are_looked_at(seed: int):
    rng = Random(seed)  # noqa: S311  not for secrets
    joins = {f"s{rng.randrange(n)}-s{n}" for n in range(1, 7)}
    joins |= {f"{a}-{b}" for a, b in _pairs([f"s{n}" for n in range(7)]) if rng.random() < 0.3}
    asked = problem(intent(network(*joins, "t-s0", "l-s6"), stream("f", "t", "l")))
    forward = ForwardWays(asked)
    loads = [rng.random() for _ in asked.links]
    for link, load in enumerate(loads):
        forward.carry([link], load)
    place = dict(enumerate(rng.sample(range(99), len(asked.links))))
    del place[next(n for n, its in enumerate(asked.links) if its.source.node == "t")]
    forward.follow(place)
    prices = {
        way: sum(price_in_hops(loads[link] + 0.1) for link in way[1:])
        for way in _ways_forward(asked.links, "t", "l", place)
    }
    found = forward.find("t", "l", 0.1)
    assert (found is None) == (not prices)
    if found is not None:
        assert prices[found] == pytest.approx(min(prices.values()))


def _ways_forward(
    links: Sequence[Link], talker: str, listener: str, place: Mapping[int, int]
) -> Iterator[tuple[int, ...]]:
    """All ways whose links behind the first have ever higher places."""
    waiting = [(n,) for n, its in enumerate(links) if its.source.node == talker]
    for way in waiting:
        last = links[way[-1]]
        if last.target.node == listener:
            yield way
            continue
        waiting += [
            (*way, n)
            for n, its in enumerate(links)
            if its.source.node == last.target.node
            and its.target.node != last.source.node
            and (len(way) == 1 or place[n] > place[way[-1]])
        ]


def _pairs(switches: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for n, a in enumerate(switches) for b in switches[n + 1 :]]


def coming(queue: int, sent_ns: int, work_ns: int, start_ns: int | None = None) -> Coming:
    its = Coming(0, None, start_ns, 0, queue, [work_ns], [work_ns])
    its.sent_ns, its.sent_work_ns, its.room_ns = sent_ns, work_ns, 10_000
    return its


def talker(groups: list[list[Coming]], work_ns: int) -> Talker:
    times = Times(Problem(intent(LINE, stream("f", "t", "l")), {}))
    made = Talker(times, 0, SLOT, groups, (work_ns, 1_000))
    for group in groups:
        for its in group:
            its.sent_ns -= its.lasts_ns
    made.agree()
    return made


@given(
    wishes=st.lists(
        st.tuples(st.integers(-SLOT, 2 * SLOT), st.integers(1_000, 300_000)), min_size=1, max_size=6
    )
)
def test_a_talker_has_time_in_each_slot_for_all_that_it_sends(
    wishes: list[tuple[int, int]],
):
    groups = [[coming(n, *wish)] for n, wish in enumerate(wishes)]
    wholly = sum(work for _, work in wishes)
    if wholly > SLOT // 2:
        return
    made = talker(groups, max(work for _, work in wishes))
    sent = [its for group in groups for its in group]
    assert all(
        its.sent_ns + its.lasts_ns <= wish for its, (wish, _) in zip(sent, wishes, strict=True)
    )
    assert made.busy_ns <= SLOT
    # Frames of several groups may be on the link at once only if each has time for all of them.
    for its in sent:
        meeting = sum(
            other.sent_work_ns
            for other in sent
            if (other.sent_ns - its.sent_ns) % SLOT < its.lasts_ns
            or (its.sent_ns - other.sent_ns) % SLOT < other.lasts_ns
        )
        is_of_one_slot = max(s.sent_ns for s in sent) - min(s.sent_ns for s in sent) < SLOT
        assert its.lasts_ns >= (
            min(meeting, max(w for _, w in wishes)) if is_of_one_slot else meeting
        )


def test_a_talker_that_may_not_choose_starts_when_it_is_told():
    groups = [[coming(0, 400_000, 1_000, start_ns=7)], [coming(1, 600_000, 1_000)]]
    talker(groups, 2_000)
    assert groups[0][0].sent_ns == 7


def test_a_ring_carries_what_a_line_does():
    document = networks.loaded(
        networks.ring(8), load_percent=55, recovery="none", **{"gate-margin": "50us"}
    )
    asked = intents.from_document(document, "net.yaml")
    assert plan(asked).streams.keys() == asked.streams.keys()


@given(
    frames=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=5),
    until_ns=st.integers(0, 40),
)
def test_the_judge_lets_no_more_come_by_a_link_than_it_can_send(
    frames: list[tuple[int, int]], until_ns: int
):
    arrivals = [
        Arrival(
            earliest_ns=earliest,
            latest_ns=100,
            end_ns=200,
            opens_ns=0,
            ingress=PortRef("s1", "s2"),
            period_ns=1_000,
            numbers=[n],
            work_ns=work,
            frame_ns=work,
            shortest_ns=work,
            frames=1,
            flow=PARTS,
        )
        for n, (earliest, work) in enumerate(frames)
        if earliest <= until_ns
    ]
    if not arrivals:
        return
    longest = max(its.frame_ns for its in arrivals)
    allowed = most_together(
        [(200, n, 0, its) for n, its in enumerate(arrivals)], longest * PARTS, PARTS, until_ns
    )
    most = 0
    for order in permutations(arrivals):
        # The first comes when it may; each other one as long after that as the link takes for it.
        came, work = None, 0
        for its in order:
            comes = its.earliest_ns if came is None else max(came + its.frame_ns, its.earliest_ns)
            if comes > until_ns:
                break
            came, work = comes, work + its.work_ns
        most = max(most, work)
    assert most * PARTS <= allowed
    assert allowed <= max(longest, sum(its.work_ns for its in arrivals)) * PARTS
