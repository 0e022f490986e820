"""The cbs qdiscs of ports, as the kernel shows them. They are set with the root of the port
(`agent.mechanisms.gates.children`), for all mechanisms that contribute to it."""

from __future__ import annotations

from collections.abc import Mapping

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel import tc_plugins
from agent.kernel.root_classes import child_queue, shown_classes
from agent.kernel.sched_cbs import PARAMETERS
from agent.mechanism import KernelAdapter
from agent.mechanisms.cbs.model import CBS, CreditQdisc, Shapers
from agent.model import PortState
from agent.root_qdisc import CHILD_MAJOR, HANDLE
from agent.traffic_classes import TrafficClasses

tc_plugins.register()


class ShaperAdapter(KernelAdapter):
    """Reads; it sets nothing itself."""

    def __init__(self, ipr: IPRoute) -> None:
        self._ipr = ipr
        self.objects = {}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        classes: dict[int, TrafficClasses] = {}
        queues: dict[int, dict[int, tuple[tuple[str, int], ...]]] = {}
        for message in self._ipr.get_qdiscs():
            port = message["index"]
            if message["parent"] == TC_H_ROOT and message["handle"] == HANDLE:
                if shown := shown_classes(message):
                    classes[port] = shown
            elif message.get("TCA_KIND") == CBS:
                queue = child_queue(message, CHILD_MAJOR)
                parms = message.get("TCA_OPTIONS").get("TCA_CBS_PARMS")
                if queue is not None:
                    options = tuple((name, parms[name]) for name in PARAMETERS)
                    queues.setdefault(port, {})[queue] = options
        return {
            name: state.with_part(
                Shapers(_shaped(classes.get(state.ifindex), queues.get(state.ifindex, {})))
            )
            for name, state in states.items()
        }


def _shaped(
    classes: TrafficClasses | None, queues: Mapping[int, tuple[tuple[str, int], ...]]
) -> tuple[CreditQdisc, ...]:
    return tuple(
        CreditQdisc(queue, CBS, options, traffic_class)
        for queue, options in sorted(queues.items())
        for traffic_class, its in enumerate(classes.queues if classes else ())
        if its.offset <= queue < its.offset + its.count
    )
