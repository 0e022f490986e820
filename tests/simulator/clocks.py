"""Clocks that follow each other, from one grandmaster to the last (IEEE 802.1AS)."""

from __future__ import annotations

from cnc.model import Network
from tests.simulator.adversary import Adversary


def clocks_ns(network: Network, adversary: Adversary) -> dict[str, int]:
    """How far each node's clock is ahead of time.

    Where the network states what neighbours differ by, each clock is so far from the one that it
    follows, over any tree of cables, and none is further from another than any two may be.
    """
    nodes = sorted({*network.bridges, *network.end_stations})
    each_ns = network.clock_error_neighbours_ns
    if each_ns is None:
        return {node: adversary.clock_ns(network) for node in nodes}
    neighbours: dict[str, list[str]] = {node: [] for node in nodes}
    for link in network.links.values():
        neighbours[link.source.node].append(link.target.node)
    found: dict[str, int] = {}
    while len(found) < len(nodes):
        root = adversary.chosen([node for node in nodes if node not in found])
        found[root] = 0
        following = [(root, node) for node in sorted(neighbours[root])]
        while following:
            master, node = pair = adversary.chosen(following)
            following.remove(pair)
            if node in found:
                continue
            clock = found[master] + adversary.clock_step_ns(each_ns)
            least, most = min(found.values()), max(found.values())
            room = network.clock_error_ns
            found[node] = max(most - room, min(least + room, clock))
            following += [(node, other) for other in sorted(neighbours[node]) if other not in found]
    return found
