"""pyroute2 plugin for the mqprio queueing discipline (`struct tc_mqprio_qopt` of linux/pkt_sched.h;
tc-mqprio(8)), without its hardware modes.

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "mqprio", index, handle, map=[0, 1, *[0] * 14], queues=[(1, 0), (1, 1)])

`map` names the traffic class of each of the 16 skb priorities, `queues` the (count, offset) of each
class.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT

PRIORITIES = 16  # TC_QOPT_BITMASK + 1
MAX_CLASSES = 16  # TC_QOPT_MAX_QUEUE
MQPRIO_QOPT = (
    ("num_tc", "B"),
    ("prio_tc_map", f"{PRIORITIES}B"),
    ("hw", "B"),
    ("count", f"{MAX_CLASSES}H"),
    ("offset", f"{MAX_CLASSES}H"),
)

parent = TC_H_ROOT


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request."""
    return mqprio_qopt(kwarg)


def mqprio_qopt(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """struct tc_mqprio_qopt, which taprio has, too."""
    queues = kwarg["queues"]
    return {
        "num_tc": kwarg.get("num_tc", len(queues)),
        "prio_tc_map": _padded(kwarg["map"], PRIORITIES),
        "hw": 0,
        "count": _padded((count for count, _ in queues), MAX_CLASSES),
        "offset": _padded((offset for _, offset in queues), MAX_CLASSES),
    }


def _padded(values: Iterable[int], length: int) -> list[int]:
    given = list(values)
    return given + [0] * (length - len(given))


class options(nla):  # noqa: N801  the name that pyroute2 looks for
    """`TCA_OPTIONS`; the kernel adds attributes behind the structure, which are not read."""

    fields = MQPRIO_QOPT
