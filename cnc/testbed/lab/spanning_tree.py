"""Where the ordinary traffic of a bridged lab goes: along a spanning tree of its switches.

Ordinary frames are learnt and flooded, so they must not find a ring. A spanning tree protocol would
block a port for the frames of streams as well (without MST it blocks all VLANs), and those have to
cross every cable that the plan uses. So a port off the tree stays up and is no member of the VLAN
of ordinary traffic.
"""

from __future__ import annotations

from collections import deque

from cnc.model import Network, PortRef


def spanning_tree(network: Network) -> frozenset[PortRef]:
    """Both ends of each cable that ordinary frames may cross: those of a breadth-first search from
    the first switch by name, and all cables of end stations. The same in every run."""
    leaving: dict[str, list[PortRef]] = {}
    tree = set()
    for port, link in sorted(network.links.items()):
        if {port.node, link.target.node} <= network.bridges.keys():
            leaving.setdefault(port.node, []).append(port)
        else:
            tree |= {port, link.target}
    reached: set[str] = set()
    for first in sorted(network.bridges):
        if first in reached:  # not so in a network of several parts
            continue
        reached.add(first)
        queue = deque([first])
        while queue:
            for port in leaving.get(queue.popleft(), ()):
                target = network.links[port].target
                if target.node not in reached:
                    reached.add(target.node)
                    tree |= {port, target}
                    queue.append(target.node)
    return frozenset(tree)
