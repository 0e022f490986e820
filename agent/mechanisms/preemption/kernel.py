"""The preemptable classes of ports, as the kernel shows them. They are set with the root of the
port (`agent.mechanisms.gates.kernel`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel import tc_plugins
from agent.kernel.root_classes import shown_classes
from agent.kernel.sched_taprio import FP_PREEMPTIBLE
from agent.mechanism import KernelAdapter
from agent.mechanisms.preemption.model import Preemptable
from agent.model import PortState
from agent.root_qdisc import HANDLE
from agent.traffic_classes import PRIORITIES

tc_plugins.register()


class PreemptionAdapter(KernelAdapter):
    """Reads; it sets nothing itself."""

    def __init__(self, ipr: IPRoute) -> None:
        self._ipr = ipr
        self.objects = {}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        """Only where some port has a MAC merge layer there is anything to read."""
        if all(state.mac_merge is None for state in states.values()):
            return dict(states)
        found = {
            message["index"]: preemptable(message)
            for message in self._ipr.get_qdiscs()
            if message["parent"] == TC_H_ROOT and message["handle"] == HANDLE
        }
        return {
            name: state.with_part(found.get(state.ifindex, Preemptable()))
            for name, state in states.items()
        }


def preemptable(message: Any) -> Preemptable:
    """What a root qdisc of the agent's has handed to its port."""
    shown = shown_classes(message)
    if shown is None or message.get("TCA_KIND") != "taprio":
        return Preemptable()
    classes = {
        entry.get("TCA_TAPRIO_TC_ENTRY_INDEX")
        for entry in message.get("TCA_OPTIONS").get_attrs("TCA_TAPRIO_ATTR_TC_ENTRY")
        if entry.get("TCA_TAPRIO_TC_ENTRY_FP") == FP_PREEMPTIBLE
    } & set(range(len(shown.queues)))
    priorities = (p for p in range(PRIORITIES) if shown.priority_map[p] in classes)
    return Preemptable(tuple(sorted(classes)), tuple(priorities))
