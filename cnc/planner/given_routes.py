"""The trees of streams whose routes are given, switch by switch.

Of several cables between two switches a stream takes the least loaded that its other path leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from cnc.model import Stream
from cnc.planner.graph import Graph, Tree


class GivenRoutes:
    """Trees along given routes in a network whose links have these `loads`, which may change."""

    def __init__(self, graph: Graph, loads: Sequence[float]) -> None:
        self._graph = graph
        self._loads = loads
        self._between: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for link, ends in enumerate(zip(graph.source, graph.target, strict=True)):
            self._between[ends].append(link)

    def trees(self, stream: Stream) -> tuple[Tree, ...] | None:
        """One for each path; None where the network does not have the links."""
        if stream.paths == 1:
            tree = self._tree(stream, zip(stream.routes, stream.listeners, strict=True))
            return None if tree is None else (tree,)
        found: list[Tree] = []
        for route in stream.routes:
            taken = {link for tree in found for link in tree if self._graph.is_inner[link]}
            if (tree := self._tree(stream, [(route, stream.listeners[0])], taken)) is None:
                return None
            found.append(tree)
        return tuple(found)

    def _tree(
        self,
        stream: Stream,
        branches: Iterable[tuple[Sequence[str], str]],
        taken: Collection[int] = (),
    ) -> Tree | None:
        """Along these routes, each to its listener."""
        reached: set[int] = set()
        tree: list[int] = []
        for route, listener in branches:
            nodes = [self._graph.node[name] for name in (stream.talker, *route, listener)]
            for ends in pairwise(nodes):
                if ends[1] in reached:
                    continue
                links = [link for link in self._between[ends] if link not in taken]
                if not links:
                    return None
                tree.append(min(links, key=lambda link: (self._loads[link], link)))
                reached.add(ends[1])
        return tuple(tree)
