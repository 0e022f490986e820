"""The kernel's forwarding state of one network namespace: read it, change it, take it back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyroute2 import IPRoute

from agent.kernel import clock, limits, link, ptp, taprio, taprio_dump
from agent.kernel.apply import Action, Applied, execute
from agent.kernel.classifier import Chains, Classifier, choose, in_force
from agent.kernel.doorbell import Doorbell
from agent.kernel.ethtool import Ethtool
from agent.kernel.link import Link
from agent.kernel.taprio_dump import RootQdisc
from agent.model import (
    AgentError,
    Clock,
    PortConfig,
    PortState,
    PtpStatus,
    Schedule,
    Taprio,
    TaprioMode,
)
from agent.reconcile import SetTaprio, Step, plan_steps, refuse, validate

__all__ = ["Applied", "Kernel"]

log = logging.getLogger(__name__)


class Kernel:
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, classifier: Classifier | None = None) -> None:
        """Opens netlink in the current network namespace; finds a way to classify if none given."""
        self._ipr = IPRoute(ext_ack=True)
        self._ethtool = Ethtool()
        # The newest taprio set on each interface: the kernel hides a waiting list's frame sizes.
        self._sent: dict[int, Taprio] = {}
        self._chains: Chains = {}
        self._classifier = classifier
        self._no_classifier: str | None = None
        if classifier is None:
            try:
                self._classifier = choose()
            except AgentError as reason:
                self._no_classifier = str(reason)
                log.warning("%s", reason)

    @property
    def classifier_name(self) -> str:
        return self._classifier.name if self._classifier else "none"

    def tai_offset_s(self) -> int:
        """TAI - UTC as the kernel knows it."""
        return clock.tai_offset_s()

    def now_ns(self, of: Clock) -> int:
        return clock.now_ns(of)

    def clock_offsets_ns(self) -> dict[Clock, int]:
        """How far each clock that can be set is ahead of CLOCK_MONOTONIC."""
        return clock.offsets_ns()

    def ptp_status(self) -> PtpStatus | None:
        """What the ptp4l of this namespace says; None where none answers."""
        return ptp.status()

    def capability(self) -> str | None:
        """None, or why taprio cannot work here."""
        return taprio.capability(self._ipr)

    def read(self) -> dict[str, PortState]:
        """Every interface but the loopback, by name."""
        self._chains = self._classifier.chains() if self._classifier else {}
        rules = in_force(self._chains) if self._chains else {}
        links = link.read(self._ipr)
        speeds_bps = {port.index: self._ethtool.speed_bps(port.name) for port in links}
        qdiscs = taprio_dump.read(self._ipr, clock.now_ns, speeds_bps)
        with_mac_merge = self._ethtool.with_mac_merge()
        states = {}
        for port in links:
            qdisc = qdiscs.get(port.index) or RootQdisc(port.qdisc, None)
            driver = self._ethtool.driver(port.name)
            own = self._with_sent_limits(port.index, qdisc)
            states[port.name] = PortState(
                name=port.name,
                ifindex=port.index,
                tx_queues=port.tx_queues,
                link_speed_bps=speeds_bps[port.index],
                root_qdisc=qdisc.kind,
                foreign_qdisc=qdisc.foreign,
                taprio=own,
                running=qdisc.running,
                pending=qdisc.pending,
                dscp_priorities=rules.get(port.name, {}),
                limits=limits.of(own.mode if own else TaprioMode.SOFTWARE, driver),
                counters=qdisc.counters,
                oper_status=port.oper_status,
                mac_address=port.mac_address,
                driver=driver,
                has_mac_merge=port.index in with_mac_merge,
                statistics=_statistics(port, qdisc),
                carrier_losses=port.carrier_losses,
                bridge=port.bridge,
            )
        return states

    def _with_sent_limits(self, ifindex: int, qdisc: RootQdisc) -> Taprio | None:
        """The kernel shows the frame size limits of the running list only, so those of one that
        waits are the ones sent with it; an agent that did not send it takes the running list's."""
        sent, shown = self._sent.get(ifindex), qdisc.taprio
        if sent and shown and qdisc.pending == sent.schedule:
            return replace(shown, max_sdu_octets=sent.max_sdu_octets)
        return shown

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> Applied:
        """Make the switch do `desired`, its whole wanted state, or nothing at all.

        A port absent from `desired` loses the qdisc and rules that are ours. `states` is the newest
        `read()`, if nothing has been applied since; without it the kernel is read first. AgentError
        holds all reasons found beforehand, one a line, or the kernel's own; nothing has changed
        then.
        """
        if states is None:
            states = self.read()
        steps = tuple(plan_steps(desired, states))
        # What a port does already needs nobody's leave: a link that is down now counts as slower.
        touched = {step.port for step in steps}
        asked = {n: c for n, c in desired.items() if n in touched or n not in states}
        wanted = [config.taprio for config in asked.values() if config.taprio]
        refuse(
            validate(
                asked,
                {name: _as_in_mode(state, desired.get(name)) for name, state in states.items()},
                gates_impossible=self.capability() if wanted else None,
                rules_impossible=self._no_classifier,
                max_sdu_impossible=taprio.no_max_sdu(),
            )
        )
        return execute(steps, self._actions(steps, states, desired))

    def restart(self, states: Sequence[PortState]) -> dict[str, str]:
        """Set the gate control lists of these ports anew, so that they start with the next cycle.

        Returns the kernel's reason by port where it refused; such a port may have no gates then.
        """
        refused: dict[str, str] = {}
        waiting = [state for state in states if state.running and state.pending]
        for state in states:
            if first := _with_list(state, state.running or state.pending):
                refused |= self._refusal(taprio.restart, state, first)
        # A list takes the place of another that has not started: both would not be set.
        cycles_ns = (state.running.cycle_time_ns for state in waiting if state.running)
        time.sleep(max(cycles_ns, default=0) / clock.NS_PER_S)
        for state in waiting:
            running = _with_list(state, state.running)
            refused |= self._refusal(taprio.change, state, running, state.taprio)
        return refused

    def _refusal(
        self, do: Callable[..., None], state: PortState, *lists: Taprio | None
    ) -> dict[str, str]:
        try:
            do(self._ipr, state.name, state.ifindex, *lists)
        except (AgentError, OSError) as reason:
            return {state.name: str(reason)}
        return {}

    def doorbell(self) -> Doorbell:
        """Rings when `read()` may have something new to say, or a clock was set."""
        return Doorbell()

    def _actions(
        self,
        steps: tuple[Step, ...],
        states: Mapping[str, PortState],
        desired: Mapping[str, PortConfig],
    ) -> list[Action]:
        gates = [step for step in steps if isinstance(step, SetTaprio)]
        removals = [self._gate_action(step, states) for step in gates if step.after is None]
        settings = [self._gate_action(step, states) for step in gates if step.after is not None]
        return removals + self._rule_actions(desired) + settings

    def _gate_action(self, step: SetTaprio, states: Mapping[str, PortState]) -> Action:
        ifindex = states[step.port].ifindex
        return Action(
            do=lambda: self._change(step.port, ifindex, step.before, step.after),
            undo=lambda: self._change(step.port, ifindex, step.after, step.before),
        )

    def _change(self, port: str, ifindex: int, before: Taprio | None, after: Taprio | None) -> None:
        taprio.change(self._ipr, port, ifindex, before, after)
        if after is None:
            self._sent.pop(ifindex, None)
        else:
            self._sent[ifindex] = after

    def _rule_actions(self, desired: Mapping[str, PortConfig]) -> list[Action]:
        """One transaction for all ports, and one also without a step: it repairs what no port
        shows, such as a second jump, and does nothing when there is nothing to repair."""
        classifier, chains = self._classifier, self._chains
        if classifier is None:
            return []
        wanted = {name: config.dscp_priorities for name, config in desired.items()}
        return [
            Action(
                do=lambda: classifier.apply(wanted, chains),
                undo=lambda: classifier.apply(in_force(chains)),
            )
        ]

    def close(self) -> None:
        self._ethtool.close()
        self._ipr.close()


def _with_list(state: PortState, schedule: Schedule | None) -> Taprio | None:
    return replace(state.taprio, schedule=schedule) if state.taprio and schedule else None


def _as_in_mode(state: PortState, config: PortConfig | None) -> PortState:
    """The state with the limits of the mode that is asked for."""
    if config is None or config.taprio is None:
        return state
    return replace(state, limits=limits.of(config.taprio.mode, state.driver))


def _statistics(port: Link, qdisc: RootQdisc) -> dict[str, int]:
    """The interface's counters; what the gates dropped before the driver saw it counts as discarded
    too (and no longer once the gates are removed)."""
    statistics = dict(port.statistics)
    if qdisc.drops:
        statistics["out-discards"] = statistics.get("out-discards", 0) + qdisc.drops
    return statistics
