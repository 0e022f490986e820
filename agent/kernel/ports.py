"""The ports of one network namespace, as the kernel has them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyroute2 import IPRoute

from agent.composition import Change, Contribution, KernelObject, Step
from agent.kernel import clsact, link, ptp, timer_probe
from agent.kernel.change_monitor import KernelChangeMonitor
from agent.kernel.clock import MachineClocks
from agent.kernel.ethtool import Ethtool
from agent.kernel.netlink_batch import NetlinkSocket
from agent.kernel.wake_up_monitor import WakeUpMonitor, monitored
from agent.mechanism import Mechanism, Node, Observation, present_objects
from agent.model import AgentError, Clock, EmulatedLink, MacMerge, PortConfig, PortState, PtpStatus
from agent.root_qdisc import RootQdisc
from agent.wake_ups import WakeUps

EMULATING_DRIVER = "veth"  # a cable of an emulated network; of any other the driver knows the speed


class KernelPorts(MachineClocks):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(
        self, mechanisms: Sequence[Mechanism], emulated_bps: Mapping[str, int] | None = None
    ) -> None:
        """Opens netlink in the current network namespace.

        `emulated_bps`: the rates of links that are emulated, by port. Raises `AgentError` where one
        of these ports is missing, or has a driver that knows its speed.
        """
        self.mechanisms = mechanisms
        self._emulated_bps = emulated_bps or {}
        self._ipr = IPRoute(ext_ack=True)
        self._netlink = NetlinkSocket(socket.NETLINK_ROUTE)
        self._ethtool = Ethtool()
        self._adapters = {each.name: each.kernel(self._ipr) for each in mechanisms}
        self._wake_up_monitor: WakeUpMonitor | None = None
        self._change_monitor: KernelChangeMonitor | None = None
        self._replace = {
            kind: replace
            for adapter in self._adapters.values()
            for kind, replace in adapter.objects.items()
        }

        for name in self._emulated_bps:
            self._refuse_real(name)

    def _refuse_real(self, name: str) -> None:
        driver = self._ethtool.driver(name)
        if driver != EMULATING_DRIVER:
            cause = f"its driver is {driver}" if driver else "there is no such interface"
            raise AgentError(
                f"port {name}: a rate is emulated on {EMULATING_DRIVER} interfaces only: {cause}; "
                "leave the port out of --emulate"
            )

    def read(self) -> Mapping[str, PortState]:
        """Every interface but the loopback, by name."""
        mac_merges = self._ethtool.mac_merges()
        states = {
            port.name: self._port_state(port, mac_merges.get(port.index))
            for port in link.read(self._ipr)
        }
        for adapter in self._adapters.values():
            states = adapter.read(states)
        return states

    def _port_state(self, port: link.Link, mac_merge: MacMerge | None) -> PortState:
        driver = self._ethtool.driver(port.name)
        speed_bps, emulated = self._ethtool.speed_bps(port.name), None
        rate_bps = self._emulated_bps.get(port.name)
        if rate_bps and speed_bps and driver == EMULATING_DRIVER:
            emulated = EmulatedLink(speed_bps, rate_bps)
            speed_bps = rate_bps
        return PortState(
            name=port.name,
            ifindex=port.index,
            tx_queues=port.tx_queues,
            link_speed_bps=speed_bps,
            root_qdisc=port.qdisc,
            oper_status=port.oper_status,
            mac_address=port.mac_address,
            driver=driver,
            mac_merge=mac_merge,
            has_hardware_stamps=self._ethtool.time_stamping(port.name).hardware_clock is not None,
            statistics=port.statistics,
            carrier_losses=port.carrier_losses,
            bridge=port.bridge,
            as_bridge=port.as_bridge,
            emulated=emulated,
            bridge_departures=(
                self._change_monitor.departures(port.index) if self._change_monitor else 0
            ),
            mtu_octets=port.mtu_octets,
            switch_id=port.switch_id,
            xdp_program=port.xdp_program,
            rx_vlan_offload=self._ethtool.takes_vlan_tags_off(port.name),
        )

    def execute(self, step: Step) -> None:
        if isinstance(step.target, RootQdisc):
            self._set_root(step.target, step)
            return
        had_hook = self._hook_beside_gates(step.target)
        try:
            self._replace[type(step.target)](step.target, step.before, step.after)
        finally:
            # Where the qdisc for filters comes or goes, the kernel takes the port down and up, and
            # the timer of a taprio that had run does not start again (`agent.kernel.clsact`).
            if had_hook not in {None, self._hook_beside_gates(step.target)}:
                self._start_gates_again(step.target)

    def _set_root(self, target: RootQdisc, step: Step) -> None:
        """Set or remove the gates of a port; on a bridge's they come behind the qdisc for filters,
        which then need not come or go beside gates that run."""
        _port, ifindex = target.port_and_ifindex()
        (found,) = self._ipr.get_links(ifindex)
        is_bridged = found.get("IFLA_MASTER") is not None
        if is_bridged and step.after and not clsact.has_gates(self._netlink, ifindex):
            clsact.ensure(self._netlink, ifindex)
        self._replace[type(target)](target, step.before, step.after)
        if is_bridged and not step.after:
            clsact.remove_unused(self._netlink, ifindex)

    def _hook_beside_gates(self, target: KernelObject) -> bool | None:
        """Whether the port has the qdisc for filters; None where no gates run beside it."""
        if target.ifindex is None:
            return None
        return clsact.beside_gates(self._netlink, target.ifindex)

    def _start_gates_again(self, target: KernelObject) -> None:
        states = [each for each in self.read().values() if each.ifindex == target.ifindex]
        for port, reason in self.restart(states, present_objects(self.mechanisms, states)).items():
            raise AgentError(f"port {port}: its gates do not start again: {reason}")

    def problems(self, config: PortConfig) -> Iterator[str]:
        for adapter in self._adapters.values():
            yield from adapter.problems(config)

    def repairs(self) -> Iterator[Change]:
        for adapter in self._adapters.values():
            yield from adapter.repairs()

    def observe(self) -> Observation:
        now_ns = self.now_ns(Clock.MONOTONIC)
        observed = [adapter.observe(now_ns) for adapter in self._adapters.values()]
        return Observation(
            tuple(event for each in observed for event in each.events),
            min((each.next_ns for each in observed if each.next_ns is not None), default=None),
        )

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
        """From now on states tell how often a port has left a bridge, too."""
        self._change_monitor = KernelChangeMonitor()
        return self._change_monitor

    def ptp_status(self) -> PtpStatus | None:
        """What the ptp4l that keeps the clock says, one of ours or another; None: none answers."""
        ours = (adapter.ptp_status() for adapter in self._adapters.values())
        return next((each for each in ours if each), None) or ptp.status()

    def unsettled(self, clock_error_ns: int) -> str | None:
        reasons = (adapter.unsettled(clock_error_ns) for adapter in self._adapters.values())
        return next((reason for reason in reasons if reason), None)

    def measure_wake_ups(self, path: Path) -> None:
        """Begin to measure how late timers wake up; `path` is where that outlives a restart."""
        self._wake_up_monitor = monitored(path)

    def wake_ups(self) -> WakeUps | None:
        """How late timers woke up in the last 24 hours; None where that is not measured."""
        return self._wake_up_monitor.wake_ups() if self._wake_up_monitor else None

    def remove_probe(self) -> None:
        """Remove what a killed agent measured wake-ups with."""
        timer_probe.remove_interface(self._ipr)

    def close(self) -> None:
        if self._wake_up_monitor:
            self._wake_up_monitor.close()
        for adapter in self._adapters.values():
            adapter.close()
        self._ethtool.close()
        self._netlink.close()
        self._ipr.close()
