"""How far apart two clocks may be in any clock tree of a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.model.clock_error import ClockErrors, ClockHops
from tests.unit.planner_networks import examples, network

Cable = tuple[str, str]


def hops_of(cables: list[Cable]) -> ClockHops:
    return ClockHops(network(*(f"{one}-{other}" for one, other in cables)).links)


def ways(cables: tuple[Cable, ...] | list[Cable], root: str) -> dict[str, int]:
    """The hops from a node to all others that it reaches."""
    found = {root: 0}
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for cable in cables:
            if node in cable:
                (other,) = set(cable) - {node}
                if other not in found:
                    found[other] = found[node] + 1
                    waiting.append(other)
    return found


def spanning_trees(cables: list[Cable]) -> Iterator[tuple[Cable, ...]]:
    """All of them, by trying: for small networks."""
    nodes = {node for cable in cables for node in cable}
    for tree in combinations(cables, len(nodes) - 1):
        if len(ways(tree, min(nodes))) == len(nodes):
            yield tree


def trees_of_grandmasters(cables: list[Cable]) -> Iterator[tuple[Cable, ...]]:
    """Those that 802.1AS may choose: each clock follows a neighbour that is nearer to the root
    (stepsRemoved), whichever of them a tie gives it."""
    for root in sorted({node for cable in cables for node in cable}):
        far = ways(cables, root)
        choices = [
            [cable for cable in cables if node in cable and far[(set(cable) - {node}).pop()] < its]
            for node, its in far.items()
            if its
        ]
        yield from product(*choices)


def longest(cables: list[Cable], trees: Iterator[tuple[Cable, ...]]) -> dict[Cable, int]:
    found: dict[Cable, int] = {}
    nodes = sorted({node for cable in cables for node in cable})
    for tree in trees:
        for one in nodes:
            for other, hops in ways(tree, one).items():
                found[one, other] = max(hops, found.get((one, other), 0))
    return found


RING = [(f"s{i}", f"s{(i + 1) % 6}") for i in range(6)]
LINE = list(pairwise(f"s{i}" for i in range(6)))
TWO_RINGS = [*RING, ("s3", "s6"), ("s6", "s7"), ("s7", "s8"), ("s8", "s6"), ("s8", "e1")]


@pytest.mark.parametrize("cables", [RING, LINE, TWO_RINGS, [*RING[:4], ("s4", "s0")]])
def test_in_lines_and_rings_it_is_the_longest_way_in_any_tree(cables: list[Cable]) -> None:
    hops = hops_of(cables)
    for (one, other), most in longest(cables, spanning_trees(cables)).items():
        assert hops.between(one, other) == most, (one, other)


@pytest.mark.parametrize("cables", [RING, LINE])
def test_the_algorithm_of_802_1as_chooses_such_trees(cables: list[Cable]) -> None:
    assert longest(cables, trees_of_grandmasters(cables)) == longest(cables, spanning_trees(cables))


def test_neighbours_in_a_ring_may_be_the_whole_ring_apart() -> None:
    hops = hops_of([*RING, ("s0", "e1")])
    assert hops.between("s0", "s1") == 5
    assert hops.between("s0", "s3") == 3
    assert hops.between("s0", "s2") == 4
    assert hops.between("e1", "s1") == 6
    assert hops.between("e1", "s0") == 1
    assert hops.between("s4", "s4") == 0


def test_what_is_not_connected_has_no_distance() -> None:
    hops = hops_of([("s1", "s2"), ("s3", "s4")])
    assert hops.between("s1", "s3") is None
    assert hops.between("s1", "s2") == 1
    assert hops.between("s1", "nobody") is None


@st.composite
def graphs(draw: st.DrawFn) -> list[Cable]:
    """Connected, of up to six nodes."""
    count = draw(st.integers(2, 6))
    tree = [(f"s{draw(st.integers(0, node - 1))}", f"s{node}") for node in range(1, count)]
    others = [(f"s{a}", f"s{b}") for a, b in combinations(range(count), 2)]
    more = draw(st.lists(st.sampled_from(others), max_size=4, unique=True))
    return list(dict.fromkeys([*tree, *more]))


@examples(max_examples=150)
@given(graphs())
def test_no_tree_is_longer_whatever_the_graph(cables: list[Cable]) -> None:
    hops = hops_of(cables)
    most = longest(cables, spanning_trees(cables))
    by_grandmasters = longest(cables, trees_of_grandmasters(cables))
    for (one, other), its in most.items():
        bound = hops.between(one, other)
        assert bound is not None
        assert by_grandmasters[one, other] <= its <= bound
        # No more than all nodes between which there are rings.
        assert bound <= len(ways(cables, one)) - 1
    for cable in cables:
        if len(ways([each for each in cables if each != cable], cable[0])) < len(
            ways(cables, cable[0])
        ):
            assert hops.between(*cable) == 1


@examples(max_examples=50)
@given(graphs())
def test_the_differences_of_clocks_are_those_of_a_metric(cables: list[Cable]) -> None:
    """The judge leaves out a clock that another one rules out."""
    net = network(*(f"{one}-{other}" for one, other in cables))
    errors = ClockErrors(replace(net, clock_error_ns=350, clock_error_neighbours_ns=100))
    nodes = sorted(net.bridges)
    for one, other, third in product(nodes, repeat=3):
        direct = errors.between_ns(one, other)
        assert direct == errors.between_ns(other, one)
        assert direct <= errors.between_ns(one, third) + errors.between_ns(third, other)
        assert direct <= 350


def test_a_long_line_takes_no_recursion_and_little_time() -> None:
    count = 5000
    hops = hops_of([(f"s{i}", f"s{i + 1}") for i in range(count)])
    assert hops.between("s0", f"s{count}") == count


def test_without_neighbours_any_two_clocks_differ_by_the_same() -> None:
    errors = ClockErrors(network("s1-s2", "s2-s3", clock_error_ns=700))
    assert errors.between_ns("s1", "s2") == errors.between_ns("s1", "s3") == 700
