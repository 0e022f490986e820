"""Routes: a shortest tree from a talker to its listeners."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from cnc.model import Link, Network, Stream


def egress_links(network: Network) -> dict[str, list[Link]]:
    """The links leaving each node, in the order of their port names."""
    egress = defaultdict(list)
    for port in sorted(network.links):
        egress[port.node].append(network.links[port])
    return dict(egress)


def shortest_tree(
    network: Network, egress: Mapping[str, list[Link]], stream: Stream
) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """A tree with the fewest hops to every listener, and the listeners it cannot reach.

    Parents come before children. Among equally short ways the first port name wins, so that the
    same network always gives the same tree. End stations do not forward.
    """
    inbound: dict[str, Link] = {}
    queue = deque([stream.talker])
    while queue:
        node = queue.popleft()
        for link in egress.get(node, ()):
            target = link.target.node
            if target == stream.talker or target in inbound:
                continue
            inbound[target] = link
            if target in network.bridges:
                queue.append(target)
    needed = set()
    unreachable = []
    for listener in stream.listeners:
        if listener not in inbound:
            unreachable.append(listener)
            continue
        node = listener
        while node != stream.talker and node not in needed:
            needed.add(node)
            node = inbound[node].source.node
    # `inbound` is in the order of discovery: a node's parent was found before the node itself.
    tree = tuple(link for node, link in inbound.items() if node in needed)
    return tree, tuple(unreachable)
