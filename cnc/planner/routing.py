"""Routes: trees from talkers to listeners, spread so that no link carries more than it must.

A stream first takes the least loaded of its shortest ways. Then streams leave the fullest links
for ways around, as long as that makes the fullest less full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cnc.mechanisms.terms import added_octets, client_octets, closed_ports
from cnc.model import Elimination, Forwarding, Hop, Intent, Link, Stream
from cnc.planner.copies import end_at_last_switches, keep_apart, node_disjoint_pair
from cnc.planner.given_routes import GivenRoutes
from cnc.planner.graph import Graph, Tree
from cnc.planner.shared_addresses import SharedAddresses, parting

_COMFORTABLE = 0.8  # load at which a link is no obstacle yet: below it no stream makes a detour
_TRIES_MAX = 30  # streams tried, the greatest first, before a full link is left as it is
_DETOUR_HOPS = 8.0  # hops that a stream goes around to avoid a link that is full


def price_in_hops(load: float) -> float:
    """What a link of this load costs, in hops: little while it has room, then quickly more."""
    return 1.0 + _DETOUR_HOPS * load**4


class Router:
    """Trees for streams, and the load that those chosen so far put on each link."""

    def __init__(self, intent: Intent) -> None:
        self.intent = intent
        self.graph = Graph(intent.network)
        self.loads = [0.0] * len(self.graph.links)
        self._shared = SharedAddresses(intent, self.graph)
        self._given_routes = GivenRoutes(self.graph, self.loads)
        # Where nothing is planned: a stream goes another way if there is one.
        closed = closed_ports(intent)
        self._barred = frozenset(
            number for number, link in enumerate(self.graph.links) if link.source in closed
        )
        self._occupations_ns: dict[tuple[tuple[int, bool], int, int], int] = {}
        # Frames keep all links of a kind busy for the same time.
        self._kinds = [
            (link.rate_bps, is_inner)
            for link, is_inner in zip(self.graph.links, self.graph.is_inner, strict=True)
        ]

    @property
    def forwarding(self) -> Forwarding:
        """How the network forwards frames."""
        return self.intent.network.forwarding

    @property
    def links(self) -> Sequence[Link]:
        """All links, in the order of their port names: their numbers in every tree."""
        return self.graph.links

    def unreachable(self, stream: Stream) -> tuple[str, ...]:
        """The listeners to whom no way leads."""
        graph = self.graph
        return tuple(
            name
            for name in stream.listeners
            if not graph.is_reachable(graph.node[stream.talker], graph.node[name])
        )

    def route_all(self, streams: Collection[Stream]) -> dict[str, tuple[Tree, ...]]:
        """As many paths as each stream requires; streams without them are omitted.

        Every listener must be reachable.
        """
        chosen: dict[str, tuple[Tree, ...]] = {}
        # The heaviest first: the others find their way around it more easily than it around them.
        for stream in sorted(streams, key=lambda s: (-_octets(s) / s.period_ns, s.name)):
            paths = self._first_choice(stream)
            if paths is not None:
                chosen[stream.name] = paths
                self.carry(stream, paths)
        self._relieve({stream.name: stream for stream in streams}, chosen)
        return {stream.name: chosen[stream.name] for stream in streams if stream.name in chosen}

    def carry(self, stream: Stream, paths: Iterable[Tree], sign: int = 1) -> None:
        """Count the load of a stream on its paths; with -1 no longer."""
        added = added_octets(stream)
        for tree in paths:
            self._shared.carry(stream, tree, sign)
            for link in tree:
                self.loads[link] += sign * self._share(stream, link, added)

    def carry_hops(self, stream: Stream, hops: Iterable[Hop]) -> None:
        """Count the load of a stream that is planned already."""
        self.carry(stream, [self.tree(hops)])

    def cheapest(self, stream: Stream, prices: Sequence[float]) -> Tree:
        """A tree whose branches cost little, each by itself, at a price for each link. The
        listeners must be reachable."""
        tree = self._grow(stream, prices, self._barred) or self._grow(stream, prices, ())
        if tree is None:
            raise ValueError(f"{stream.name} has listeners out of reach")
        return tree

    def is_bound(self, stream: Stream) -> bool:
        """Whether a stream has to stay on its way: it is given, or that of others that share its
        address."""
        return bool(stream.routes) or self._shared.of(stream) is not None

    def join(self, streams: Iterable[Stream]) -> None:
        """Let streams that come take the ways of others that have the addresses that they state."""
        self._shared.join(streams)

    def parting(
        self,
        trees: Mapping[str, Iterable[Tree]],
        kept: Mapping[str, Iterable[Hop]],
        streams: Mapping[str, Stream] | None = None,
    ) -> dict[str, str]:
        """The streams, of these or all of the intent, whose ways part from those of others with
        their address, and where."""
        if not self._shared:
            return {}
        there = {name: [self.tree(its)] for name, its in kept.items()}
        every = self.intent.streams if streams is None else streams
        return parting(every, self.graph, {**there, **trees}, kept)

    def tree(self, hops: Iterable[Hop]) -> Tree:
        """That of a stream that is planned already."""
        return tuple(self.graph.number[hop.egress] for hop in hops)

    def detour(self, stream: Stream, tree: Tree) -> Tree | None:
        """Another tree for a stream that does not fit on `tree`: away from its fullest link."""
        inner = [link for link in tree if self.graph.is_inner[link]]
        if self.is_bound(stream) or not inner:
            return None
        fullest = max(inner, key=lambda link: (self.loads[link], link))
        return self._grow(stream, self._prices(stream), {fullest, *self._barred})

    def _first_choice(self, stream: Stream) -> tuple[Tree, ...] | None:
        if stream.routes:
            return self._given(stream)
        if stream.paths == 1:
            tree = self._one(stream)
            return (tree,) if tree else None
        if len(stream.listeners) == 1:
            return self._disjoint_pair(stream)
        return self._disjoint_trees(stream)

    def _given(self, stream: Stream) -> tuple[Tree, ...] | None:
        """Along the routes that are given, unless switches would not keep two of them apart."""
        trees = self._given_routes.trees(stream)
        is_apart = trees is not None and (len(trees) == 1 or self._go_together(stream, trees))
        return trees if is_apart else None

    def _one(self, stream: Stream) -> Tree | None:
        """A tree around the links where nothing is planned, or over them if no other is found."""
        prices = self._prices(stream) if self._shared.of(stream) else None
        if prices and (closed := self._shared.closed(stream)):
            return self._grow(stream, prices, closed) or self._grow(stream, prices, ())
        tree = self._shortest(stream)
        if tree and self._barred.isdisjoint(tree):
            return tree
        prices = self._prices(stream)
        return self._grow(stream, prices, self._barred) or tree or self._grow(stream, prices, ())

    def _disjoint_pair(self, stream: Stream) -> tuple[Tree, ...] | None:
        """Two paths to one listener; in a bridged network such that switches copy no copies."""
        graph, prices = self.graph, self._prices(stream)
        ends = graph.node[stream.talker], graph.node[stream.listeners[0]]
        pair = graph.disjoint_pair(*ends, prices)
        if pair is None or self._go_together(stream, pair):
            return pair
        pair = node_disjoint_pair(graph, *ends, prices)
        return pair if pair and self._go_together(stream, pair) else None

    def _go_together(self, stream: Stream, trees: Sequence[Tree]) -> bool:
        """Whether frames stay on the trees if all switches forward over both, and second copies can
        be taken out of them where switches do that."""
        if self.forwarding is Forwarding.ROUTED:
            return True
        ends_there = stream.elimination is Elimination.LISTENER or end_at_last_switches(
            self.graph, trees
        )
        return ends_there and keep_apart(self.graph, trees)

    def _shortest(self, stream: Stream) -> Tree | None:
        """The least loaded of the shortest trees between stations with one link each."""
        graph = self.graph
        up = graph.only_link_from(graph.node[stream.talker])
        if up is None or not graph.is_bridge[graph.target[up]]:
            return None
        tree, reached = [up], [graph.target[up]]
        downs = [graph.only_link_to(graph.node[name]) for name in stream.listeners]
        for down in downs:
            if down is None or not graph.is_bridge[graph.source[down]]:
                return None
            distance = graph.distances_to(graph.source[down])
            node = min(reached, key=distance.__getitem__)  # the first of the nearest
            while distance[node]:
                link = self._least_loaded(node, distance)
                tree.append(link)
                node = graph.target[link]
                reached.append(node)
            tree.append(down)
        return tuple(tree)

    def _least_loaded(self, node: int, distance: Sequence[int]) -> int:
        graph, loads = self.graph, self.loads
        nearer = distance[node] - 1
        return min(
            (
                link
                for link in graph.between_bridges[node]
                if distance[graph.target[link]] == nearer
            ),
            key=lambda link: (loads[link], link),
        )

    def _prices(self, stream: Stream) -> list[float]:
        """What each link costs."""
        return [
            price_in_hops(load + share)
            for load, share in zip(self.loads, self._shares(stream), strict=True)
        ]

    def _grow(
        self, stream: Stream, prices: Sequence[float], banned: Collection[int]
    ) -> Tree | None:
        """A cheap tree: from what is reached so far always on to the listener nearest to it."""
        graph = self.graph
        talker = graph.node[stream.talker]
        missing = {graph.node[name] for name in stream.listeners}
        tree: list[int] = []
        reached = {talker}
        while missing:
            branch = graph.cheapest_path(reached, missing, prices, banned, talker)
            if branch is None:
                return None
            tree += branch
            reached.update(graph.target[link] for link in branch)
            missing -= reached
        return tuple(tree)

    def _disjoint_trees(self, stream: Stream) -> tuple[Tree, ...] | None:
        """Two trees to several listeners. One that blocks the other is tried without each of its
        links in turn; not finding a pair does not prove that there is none."""
        prices = self._prices(stream)
        first = self._grow(stream, prices, set())
        if first is None:
            return None
        is_inner = self.graph.is_inner
        for avoided in [set(), *({link} for link in first if is_inner[link])]:
            one = self._grow(stream, prices, avoided)
            if one is None:
                continue
            other = self._grow(stream, prices, {link for link in one if is_inner[link]})
            if other is not None and self._go_together(stream, (one, other)):
                return one, other
        return None

    def _relieve(self, streams: Mapping[str, Stream], chosen: dict[str, tuple[Tree, ...]]) -> None:
        """Move streams off the fullest links while that makes the fullest of all less full."""
        if max(self.loads, default=0.0) <= _COMFORTABLE:
            return
        users: dict[int, set[str]] = {}
        for name, paths in chosen.items():
            for link in paths[0]:
                users.setdefault(link, set()).add(name)
        stuck: set[int] = set()
        while True:
            full = [
                link
                for link, load in enumerate(self.loads)
                if load > _COMFORTABLE and link not in stuck and self.graph.is_inner[link]
            ]
            if not full:
                return
            fullest = max(full, key=lambda link: (self.loads[link], link))
            if not self._move_one(streams, chosen, users, fullest):
                stuck.add(fullest)

    def _move_one(
        self,
        streams: Mapping[str, Stream],
        chosen: dict[str, tuple[Tree, ...]],
        users: dict[int, set[str]],
        fullest: int,
    ) -> bool:
        """Lead one stream around the link, on links that stay less full than it is now."""
        before = self.loads[fullest]
        users_of_it = (streams[name] for name in users.get(fullest, ()))
        movable = [each for each in users_of_it if each.paths == 1 and not self.is_bound(each)]
        movable.sort(key=lambda s: (-self._share(s, fullest, added_octets(s)), s.name))
        for stream in movable[:_TRIES_MAX]:
            (old,) = chosen[stream.name]
            self.carry(stream, (old,), -1)
            banned = {
                link
                for link, share in enumerate(self._shares(stream))
                if self.loads[link] + share >= before and self.graph.is_inner[link]
            }
            banned |= self._barred
            tree = self._grow(stream, self._prices(stream), banned)
            if tree is None:
                self.carry(stream, (old,))
                continue
            self.carry(stream, (tree,))
            chosen[stream.name] = (tree,)
            for link in old:
                users[link].discard(stream.name)
            for link in tree:
                users.setdefault(link, set()).add(stream.name)
            return True
        return False

    def _shares(self, stream: Stream) -> list[float]:
        """How much of its time each link is busy with a stream."""
        added = added_octets(stream)
        found: dict[tuple[int, bool], float] = {}
        for link, kind in enumerate(self._kinds):
            if kind not in found:
                found[kind] = self._share(stream, link, added)
        return [found[kind] for kind in self._kinds]

    def _share(self, stream: Stream, link: int, added: int) -> float:
        """`added` are the octets that mechanisms add to the stream's frames."""
        key = self._kinds[link], stream.payload_octets, added
        if key not in self._occupations_ns:
            network, its = self.intent.network, self.graph.links[link]
            octets = client_octets(network, stream, its)
            self._occupations_ns[key] = network.occupation_ns(its, octets)
        return stream.frames * self._occupations_ns[key] / stream.period_ns


def _octets(stream: Stream) -> int:
    """What it sends in each period."""
    return stream.frames * stream.payload_octets
