"""Routes: short where there is room, around where there is not, apart where two are asked for."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.model import Intent, Network, Stream
from cnc.planner.graph import Tree
from cnc.planner.routing import Router
from tests.unit.planner_networks import RING, examples, intent, intents, network, stream


def routes(net: Network, *streams: Stream) -> dict[str, list[list[str]]]:
    """For each stream with a way the ports of its paths."""
    router = Router(intent(net, *streams))
    return {
        name: [ports(router, tree) for tree in trees]
        for name, trees in router.route_all(streams).items()
    }


def ports(router: Router, tree: Tree) -> list[str]:
    return [str(router.links[link].source) for link in tree]


def test_the_shortest_way_is_taken() -> None:
    net = network("t-s1", "s1-s2", "s2-s3", "s1-s3", "s3-l")
    assert routes(net, stream("a", "t", "l"))["a"] == [["t/s1", "s1/s3", "s3/l"]]


def test_of_two_equal_ways_the_one_with_the_first_port_name_is_taken() -> None:
    assert routes(RING, stream("a", "t", "l"))["a"] == [["t/s1", "s1/s2", "s2/s3", "s3/l"]]


def test_equal_ways_share_the_load() -> None:
    taken = routes(RING, *(stream(name, "t", "l") for name in "abcd"))
    ways = sorted(path[1] for (path,) in taken.values())
    assert ways == ["s1/s2", "s1/s2", "s1/s4", "s1/s4"]


def test_a_full_link_is_relieved_by_a_detour() -> None:
    """Five streams at 25 % of a link each: the shortest way takes three, the way around two."""
    net = network("t-s1", "u-s1", "s1-s2", "s1-s3", "s3-s2", "s2-l", "s2-m")
    load = {"payload_octets": 1500, "period_ns": 50_000}
    streams = [
        stream(f"{a}{b}{i}", a, b, **load)
        for i, (a, b) in enumerate(["tl", "um", "tm", "ul", "tl"])
    ]
    taken = routes(net, *streams)
    assert sorted(path[1] for (path,) in taken.values()) == ["s1/s2"] * 3 + ["s1/s3"] * 2


def test_a_comfortable_link_is_not_left_for_a_longer_way() -> None:
    net = network("t-s1", "s1-s2", "s1-s3", "s3-s2", "s2-l")
    streams = [stream(name, "t", "l", payload_octets=1500, period_ns=50_000) for name in "abc"]
    assert {path[1] for (path,) in routes(net, *streams).values()} == {"s1/s2"}


def test_a_stream_that_does_not_fit_is_led_around_its_fullest_link() -> None:
    wanted = intent(RING, stream("a", "t", "m"))
    router = Router(wanted)
    a = wanted.streams["a"]
    (tree,) = router.route_all([a])["a"]
    detour = router.detour(a, tree)
    assert detour is not None
    assert ports(router, detour) == ["t/s1", "s1/s4", "s4/s3", "s3/s2", "s2/m"]


def test_without_a_way_around_there_is_no_detour() -> None:
    net = network("t-s1", "s1-s2", "s2-l")
    wanted = intent(net, stream("a", "t", "l"))
    router = Router(wanted)
    a = wanted.streams["a"]
    (tree,) = router.route_all([a])["a"]
    assert router.detour(a, tree) is None


def test_two_paths_of_a_ring_go_around_it_in_both_directions() -> None:
    one, other = routes(RING, stream("a", "t", "l", paths=2))["a"]
    assert one == ["t/s1", "s1/s2", "s2/s3", "s3/l"]
    assert other == ["t/s1", "s1/s4", "s4/s3", "s3/l"]


def test_a_shortest_path_that_blocks_every_second_one_is_given_up() -> None:
    """The trap: s1-s2-s3-s4 is the shortest way, and without its links no other leads on."""
    net = network(
        "t-s1", "s1-s2", "s2-s3", "s3-s4", "s4-l",
        "s1-s5", "s5-s6", "s6-s3",
        "s2-s7", "s7-s8", "s8-s4",
    )  # fmt: skip
    one, other = routes(net, stream("a", "t", "l", paths=2))["a"]
    assert sorted([one, other], key=lambda path: path[1]) == [
        ["t/s1", "s1/s2", "s2/s7", "s7/s8", "s8/s4", "s4/l"],
        ["t/s1", "s1/s5", "s5/s6", "s6/s3", "s3/s4", "s4/l"],
    ]


def test_two_trees_to_several_listeners_share_no_link_between_switches() -> None:
    one, other = routes(RING, stream("a", "t", "l", "m", paths=2))["a"]
    shared = set(one) & set(other)
    assert shared == {"t/s1", "s3/l", "s2/m"}


def test_a_line_has_no_second_path() -> None:
    net = network("t-s1", "s1-s2", "s2-l", "s1-n")
    assert routes(net, stream("a", "t", "l", paths=2), stream("b", "t", "l")).keys() == {"b"}


def test_at_one_switch_two_paths_need_no_second_link() -> None:
    net = network("t-s1", "s1-l")
    one, other = routes(net, stream("a", "t", "l", paths=2))["a"]
    assert one == other == ["t/s1", "s1/l"]


def test_stations_with_two_ports_use_both_for_two_paths() -> None:
    net = network("t-s1", "t-s2", "s1-s3", "s2-s4", "s3-l", "s4-l")
    paths = routes(net, stream("a", "t", "l", paths=2))["a"]
    assert sorted(paths) == [["t/s1", "s1/s3", "s3/l"], ["t/s2", "s2/s4", "s4/l"]]


def test_a_station_with_two_ports_sends_by_the_nearer_one() -> None:
    net = network("t-s1", "t-s2", "s1-s2", "s2-l")
    assert routes(net, stream("a", "t", "l"))["a"] == [["t/s2", "s2/l"]]


@pytest.mark.parametrize("paths", [1, 2])
def test_stations_do_not_forward(paths: int) -> None:
    """x has a port at both switches and would be the shorter way."""
    ways = ["s1-s3", "s3-s5", "s5-s2", "s1-s4", "s4-s6", "s6-s2"]
    net = network("t-s1", "s1-x", "x-s2", "s2-l", *ways)
    taken = routes(net, stream("a", "t", "l", paths=paths))["a"]
    assert len(taken) == paths
    assert not any(port.startswith("x/") for path in taken for port in path)


def test_listeners_out_of_reach_are_named() -> None:
    net = network("t-s1", "s1-m", "s1-x", "x-s2", "s2-l")
    a = stream("a", "t", "m", "l")
    assert Router(intent(net, a)).unreachable(a) == ("l",)


def test_stations_side_by_side_need_no_switch() -> None:
    net = network("t-l", "t-s1", "s1-m")
    a = stream("a", "t", "l")
    assert Router(intent(net, a)).unreachable(a) == ()
    assert routes(net, a)["a"] == [["t/l"]]


def test_the_order_of_the_streams_does_not_matter() -> None:
    streams = [stream(name, "t", "l", payload_octets=100 + 10 * i) for i, name in enumerate("abc")]
    assert len({str(sorted(routes(RING, *order).items())) for order in permutations(streams)}) == 1


def simple_paths(net: Network, way: list[str], target: str) -> list[list[str]]:
    """The nodes of every way on from the end of `way` that visits none twice."""
    if way[-1] == target:
        return [way]
    if len(way) > 1 and way[-1] not in net.bridges:
        return []
    onward = sorted(port.port for port in net.links if port.node == way[-1])
    return [
        path
        for node in onward
        if node not in way
        for path in simple_paths(net, [*way, node], target)
    ]


def shared_between_switches(net: Network, one: list[str], other: list[str]) -> bool:
    hops = set(pairwise(one)) & set(pairwise(other))
    return any({a, b} <= net.bridges.keys() for a, b in hops)


@examples(max_examples=150)
@given(st.sets(st.sampled_from([f"s{a}-s{b}" for a in range(6) for b in range(a)]), min_size=3))
def test_two_paths_are_found_wherever_there_are_two_and_as_short_as_any(cables: set[str]) -> None:
    net = network("t-s0", "s5-l", *sorted(cables))
    ways = simple_paths(net, ["t"], "l")
    lengths = [
        len(one) + len(other) - 2
        for one, other in combinations_with_replacement(ways, 2)
        if not shared_between_switches(net, one, other)
    ]
    found = routes(net, stream("a", "t", "l", paths=2)).get("a") if ways else None
    assert (sum(map(len, found)) if found else None) == min(lengths, default=None)


@examples(max_examples=150)
@given(intents(streams_max=10))
def test_a_tree_reaches_its_listeners_crosses_no_link_twice_and_ends_nowhere_else(
    wanted: Intent,
) -> None:
    router = Router(wanted)
    for name, trees in router.route_all(wanted.streams.values()).items():
        its = wanted.streams[name]
        assert len(trees) == its.paths
        inner = []
        for tree in trees:
            links = [router.links[number] for number in tree]
            reached = [its.talker]
            for link in links:
                assert link.source.node in reached
                assert link.target.node not in reached
                reached.append(link.target.node)
            leaves = set(reached) - {link.source.node for link in links}
            assert leaves == set(its.listeners)
            bridges = wanted.network.bridges
            inner += [n.source for n in links if {n.source.node, n.target.node} <= bridges.keys()]
        assert len(inner) == len(set(inner))


@examples(max_examples=100)
@given(intents(streams_max=10))
def test_the_load_of_the_links_is_that_of_the_streams_that_cross_them(wanted: Intent) -> None:
    router = Router(wanted)
    expected = [0.0] * len(router.links)
    for name, trees in router.route_all(wanted.streams.values()).items():
        its = wanted.streams[name]
        for tree in trees:
            for number in tree:
                link = router.links[number]
                busy = wanted.network.occupation_ns(link, its.payload_octets)
                expected[number] += its.frames * busy / its.period_ns
    assert router.loads == pytest.approx(expected)
