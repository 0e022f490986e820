"""The root qdisc of a port: the taprio of its gates, or a mqprio that gives frames to the qdiscs
below it where there are no gates."""

from __future__ import annotations

from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel.refusal import reason
from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import Taprio
from agent.model import AgentError
from agent.root_qdisc import HANDLE
from agent.traffic_classes import TrafficClasses

Root = Taprio | TrafficClasses


def same_fixed_part(one: Root, other: Root) -> bool:
    """True when the kernel can go from one to the other in place; mqprio cannot be changed."""
    if isinstance(one, Taprio) and isinstance(other, Taprio):
        return taprio.same_fixed_part(one, other)
    return one == other


def change(ipr: IPRoute, port: str, ifindex: int, before: Root | None, after: Root | None) -> None:
    """Bring a port from `before` to `after`; when the kernel refuses, `before` is in force again.

    A root that replaces another one has no children. Raises `AgentError`.
    """
    if not isinstance(before, TrafficClasses) and not isinstance(after, TrafficClasses):
        taprio.change(ipr, port, ifindex, before, after)
    elif before != after:
        _remove(ipr, port, ifindex, before)
        try:
            _add(ipr, port, ifindex, after)
        except BaseException:
            _add(ipr, port, ifindex, before)
            raise


def _remove(ipr: IPRoute, port: str, ifindex: int, root: Root | None) -> None:
    if isinstance(root, TrafficClasses):
        _mqprio(ipr, "del", None, port, ifindex, parent=TC_H_ROOT)
    else:
        taprio.change(ipr, port, ifindex, root, None)


def _add(ipr: IPRoute, port: str, ifindex: int, root: Root | None) -> None:
    if isinstance(root, TrafficClasses):
        queues = [(queue.count, queue.offset) for queue in root.queues]
        _mqprio(ipr, "add", "mqprio", port, ifindex, map=root.priority_map, queues=queues)
    else:
        taprio.change(ipr, port, ifindex, None, root)


def _mqprio(
    ipr: IPRoute, command: str, kind: str | None, port: str, ifindex: int, **options: Any
) -> None:
    try:
        ipr.tc(command, kind, ifindex, HANDLE, **options)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel refused mqprio as the root qdisc: {reason(refusal)}"
        ) from refusal
