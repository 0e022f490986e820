"""The etf qdiscs of ports, as the kernel shows them. They are set with the root of the port
(`agent.mechanisms.gates.children`), for all mechanisms that contribute to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel import tc_plugins
from agent.kernel.root_classes import child_queue, shown_classes
from agent.mechanism import KernelAdapter
from agent.mechanisms.launch_time.model import ETF, Discarded, LaunchTime
from agent.model import PortState
from agent.root_qdisc import CHILD_MAJOR, HANDLE, ChildQdisc
from agent.traffic_classes import TrafficClasses

tc_plugins.register()


class LaunchTimeAdapter(KernelAdapter):
    """Reads; it sets nothing itself."""

    def __init__(self, ipr: IPRoute) -> None:
        self._ipr = ipr
        self.objects = {}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        classes: dict[int, TrafficClasses] = {}
        with_mqprio: set[int] = set()
        queues: dict[int, list[ChildQdisc]] = {}
        discarded: dict[int, dict[int, int]] = {}
        for message in self._ipr.get_qdiscs():
            port, kind = message["index"], message.get("TCA_KIND")
            if message["parent"] == TC_H_ROOT and message["handle"] == HANDLE:
                if kind == "mqprio":
                    with_mqprio.add(port)
                if shown := shown_classes(message):
                    classes[port] = shown
            elif kind == ETF and (child := _child(message)):
                queues.setdefault(port, []).append(child)
                drops = message.get("TCA_STATS2").get("TCA_STATS_QUEUE")["drops"]
                discarded.setdefault(port, {})[child.queue] = drops

        def with_part(state: PortState) -> PortState:
            port = state.ifindex
            own = tuple(sorted(queues.get(port, ()), key=lambda each: each.queue))
            # Gates alone have no part in it; a root without gates is there for nothing else.
            its = LaunchTime(classes.get(port), own) if own or port in with_mqprio else LaunchTime()
            return state.with_part(its).with_part(Discarded(discarded.get(port, {})))

        return {name: with_part(state) for name, state in states.items()}


def _child(message: Any) -> ChildQdisc | None:
    """None for one with another handle than the agent gives."""
    queue = child_queue(message, CHILD_MAJOR)
    if queue is None:
        return None
    shown = message.get("TCA_OPTIONS").get("TCA_ETF_PARMS")
    options = (
        ("clockid", shown["clockid"]),
        ("delta_ns", shown["delta"]),
        ("flags", shown["flags"]),
    )
    return ChildQdisc(queue, ETF, options)
