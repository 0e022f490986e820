"""The ports of one network namespace, as the kernel has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyroute2 import IPRoute

from agent.composition import Change, Contribution, KernelObject, Step
from agent.kernel import link, ptp
from agent.kernel.change_monitor import KernelChangeMonitor
from agent.kernel.clock import MachineClocks
from agent.kernel.ethtool import Ethtool
from agent.mechanism import Mechanism, Node
from agent.model import PortConfig, PortState, PtpStatus


class KernelPorts(MachineClocks):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, mechanisms: Sequence[Mechanism]) -> None:
        """Opens netlink in the current network namespace."""
        self.mechanisms = mechanisms
        self._ipr = IPRoute(ext_ack=True)
        self._ethtool = Ethtool()
        self._adapters = {each.name: each.kernel(self._ipr) for each in mechanisms}
        self._replace = {
            kind: replace
            for adapter in self._adapters.values()
            for kind, replace in adapter.objects.items()
        }

    def read(self) -> Mapping[str, PortState]:
        """Every interface but the loopback, by name."""
        with_mac_merge = self._ethtool.with_mac_merge()
        states = {
            port.name: PortState(
                name=port.name,
                ifindex=port.index,
                tx_queues=port.tx_queues,
                link_speed_bps=self._ethtool.speed_bps(port.name),
                root_qdisc=port.qdisc,
                oper_status=port.oper_status,
                mac_address=port.mac_address,
                driver=self._ethtool.driver(port.name),
                has_mac_merge=port.index in with_mac_merge,
                statistics=port.statistics,
                carrier_losses=port.carrier_losses,
                bridge=port.bridge,
            )
            for port in link.read(self._ipr)
        }
        for adapter in self._adapters.values():
            states = adapter.read(states)
        return states

    def execute(self, step: Step) -> None:
        self._replace[type(step.target)](step.target, step.before, step.after)

    def problems(self, config: PortConfig) -> Iterator[str]:
        for adapter in self._adapters.values():
            yield from adapter.problems(config)

    def repairs(self) -> Iterator[Change]:
        for adapter in self._adapters.values():
            yield from adapter.repairs()

    def restart(
        self, states: Sequence[PortState], present: Mapping[KernelObject, Sequence[Contribution]]
    ) -> Mapping[str, str]:
        refused: dict[str, str] = {}
        for adapter in self._adapters.values():
            refused |= adapter.restart(states, present)
        return refused

    def capabilities(self) -> Mapping[str, str]:
        reasons = {name: adapter.capability() for name, adapter in self._adapters.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def leaves(self) -> Node:
        leaves: Node = {}
        for adapter in self._adapters.values():
            leaves |= adapter.leaves()
        return leaves

    def change_monitor(self) -> KernelChangeMonitor:
        return KernelChangeMonitor()

    def ptp_status(self) -> PtpStatus | None:
        """What the ptp4l of this namespace says; None where none answers."""
        return ptp.status()

    def close(self) -> None:
        self._ethtool.close()
        self._ipr.close()
