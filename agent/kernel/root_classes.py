"""The traffic classes of a root qdisc of the agent's, as a dump of qdiscs shows them."""

from __future__ import annotations

from typing import Any

from agent.traffic_classes import QueueRange, TrafficClasses


def shown_classes(message: Any) -> TrafficClasses | None:
    """mqprio has them as its options, taprio among its own; None of another kind."""
    kind, options = message.get("TCA_KIND"), message.get("TCA_OPTIONS")
    if kind == "taprio":
        options = options.get("TCA_TAPRIO_ATTR_PRIOMAP")
    elif kind != "mqprio":
        return None
    count = options["num_tc"]
    queues = zip(options["count"][:count], options["offset"][:count], strict=True)
    return TrafficClasses(tuple(options["prio_tc_map"]), tuple(QueueRange(*its) for its in queues))


def child_queue(message: Any, major: int) -> int | None:
    """The transmit queue of a qdisc below a root; None for one with another handle than the agent
    gives, which is `major` and the queue."""
    queue: int = (message["parent"] & 0xFFFF) - 1
    return queue if message["handle"] >> 16 == major + queue else None
