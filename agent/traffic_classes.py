"""The traffic classes of a port: which priorities lead to which, and their transmit queues. Pure.

They are configured under the bridge port (IEEE 802.1Q 8.6.6), also of a router or an end station.
What `tsn-linux` adds is the queues of each class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from agent.mechanism import TAPRIO, Refused, Tree
from agent.wording import counted

PRIORITIES = 8  # of 802.1Q
SKB_PRIORITIES = 16  # of a priority map of taprio and mqprio

# 802.1Q Table 8-5: row n-1 is the recommended class of priorities 0..7 on a port with n classes.
RECOMMENDED_CLASSES = (
    (0, 0, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 1, 1, 1, 1),
    (0, 0, 0, 0, 1, 1, 2, 2),
    (0, 0, 1, 1, 2, 2, 3, 3),
    (0, 0, 1, 1, 2, 2, 3, 4),
    (1, 0, 2, 2, 3, 3, 4, 5),
    (1, 0, 2, 3, 4, 4, 5, 6),
    (1, 0, 2, 3, 4, 5, 6, 7),
)


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The transmit queues `offset … offset+count-1` serve one traffic class."""

    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class TrafficClasses:
    """`priority_map[p]` is the traffic class of skb priority p (16 entries), `queues[t]` the
    transmit queues of class t."""

    priority_map: tuple[int, ...]
    queues: tuple[QueueRange, ...]

    def queues_of(self, priority: int) -> range:
        """The transmit queues of a priority."""
        its = self.queues[self.priority_map[priority]]
        return range(its.offset, its.offset + its.count)


def traffic_classes(bridge_port: Tree) -> TrafficClasses:
    """Those configured of a port; raises `Refused`.

    Without configuration there are eight, as 802.1Q recommends, with a queue for each.
    """
    table = bridge_port.get("traffic-class", {}).get("traffic-class-table", {})
    class_count = table.get("number-of-traffic-classes", PRIORITIES)
    queues = bridge_port.get(TAPRIO, {}).get("queue", [])
    return TrafficClasses(_priority_map(table, class_count), _queues(queues, class_count))


def _priority_map(table: Tree, class_count: int) -> tuple[int, ...]:
    """The class of each skb priority; those above 7 have no meaning in 802.1Q and go with 0."""
    recommended = RECOMMENDED_CLASSES[class_count - 1]
    classes = [table.get(f"priority{p}", recommended[p]) for p in range(PRIORITIES)]
    return (*classes, *[classes[0]] * (SKB_PRIORITIES - PRIORITIES))


def _queues(configured: Sequence[Tree], class_count: int) -> tuple[QueueRange, ...]:
    if not configured:
        return tuple(QueueRange(count=1, offset=t) for t in range(class_count))
    ranges = {
        queue["traffic-class"]: QueueRange(queue.get("count", 1), queue["offset"])
        for queue in configured
    }
    if sorted(ranges) != list(range(class_count)):
        listed = ", ".join(map(str, sorted(ranges)))
        raise Refused(
            f"taprio/queue lists the traffic classes {listed}; list each of 0..{class_count - 1}, "
            "or none for one queue a class"
        )
    return tuple(ranges[t] for t in range(class_count))


def queue_problems(queues: Sequence[QueueRange], tx_queues: int) -> Iterator[str]:
    """Why a port with so many transmit queues cannot have these for its classes."""
    needed = max((queue.offset + queue.count for queue in queues), default=0)
    if needed > tx_queues:
        yield (
            f"needs {counted(needed, 'TX queue')}, has {tx_queues} "
            "(the kernel: Multi-queue device is required); use an interface with more queues or "
            "fewer traffic classes"
        )
    for traffic_class, queue in enumerate(queues):
        if queue.count < 1:
            yield f"traffic class {traffic_class} has no queue"
    for (one, a), (other, b) in combinations(enumerate(queues), 2):
        if a.offset < b.offset + b.count and b.offset < a.offset + a.count:
            yield (
                f"traffic classes {one} and {other} share TX queues "
                f"({a.count}@{a.offset} and {b.count}@{b.offset})"
            )
