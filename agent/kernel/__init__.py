"""The kernel's forwarding state of one network namespace: read it, change it, take it back."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyroute2 import IPRoute

from agent.kernel import clock, link, taprio
from agent.kernel.apply import Action, Applied, execute
from agent.kernel.classifier import Classifier, Priorities, choose
from agent.model import AgentError, Clock, PortConfig, PortState
from agent.reconcile import SetTaprio, Step, plan_steps, refuse, validate

__all__ = ["Applied", "Kernel"]

log = logging.getLogger(__name__)


class Kernel:
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, classifier: Classifier | None = None) -> None:
        """Opens netlink in the current network namespace; finds a way to classify if none given."""
        self._ipr = IPRoute(ext_ack=True)
        self._speed = link.LinkSpeed()
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

    def capability(self) -> str | None:
        """None, or why taprio cannot work here."""
        return taprio.capability(self._ipr)

    def read(self) -> dict[str, PortState]:
        """Every interface but the loopback, by name."""
        return self._states(self._rules())

    def _rules(self) -> dict[str, dict[int, int]]:
        return self._classifier.read() if self._classifier else {}

    def _states(self, rules: Priorities) -> dict[str, PortState]:
        qdiscs = taprio.read(self._ipr, clock.now_ns)
        states = {}
        for port in link.read(self._ipr, self._speed):
            qdisc = qdiscs.get(port.index) or taprio.RootQdisc(port.qdisc, None)
            states[port.name] = PortState(
                name=port.name,
                ifindex=port.index,
                tx_queues=port.tx_queues,
                link_speed_bps=port.speed_bps,
                root_qdisc=qdisc.kind,
                foreign_qdisc=qdisc.foreign,
                taprio=qdisc.taprio,
                running=qdisc.running,
                pending=qdisc.pending,
                dscp_priorities=rules.get(port.name, {}),
            )
        return states

    def apply(self, desired: Mapping[str, PortConfig]) -> Applied:
        """Make the switch do `desired`, its whole wanted state, or nothing at all.

        A port absent from `desired` loses the qdisc and rules that are ours. AgentError holds all
        reasons found beforehand, one a line, or the kernel's own; nothing has changed then.
        """
        rules = self._rules()
        states = self._states(rules)
        wants_gates = any(config.taprio for config in desired.values())
        refuse(
            validate(
                desired,
                states,
                gates_impossible=self.capability() if wants_gates else None,
                rules_impossible=self._no_classifier,
            )
        )
        steps = tuple(plan_steps(desired, states))
        return execute(steps, self._actions(steps, states, rules, desired))

    def _actions(
        self,
        steps: tuple[Step, ...],
        states: Mapping[str, PortState],
        rules: Priorities,
        desired: Mapping[str, PortConfig],
    ) -> list[Action]:
        gates = [step for step in steps if isinstance(step, SetTaprio)]
        removals = [self._gate_action(step, states) for step in gates if step.after is None]
        settings = [self._gate_action(step, states) for step in gates if step.after is not None]
        return removals + self._rule_actions(rules, desired) + settings

    def _gate_action(self, step: SetTaprio, states: Mapping[str, PortState]) -> Action:
        ifindex = states[step.port].ifindex
        return Action(
            do=lambda: taprio.change(self._ipr, step.port, ifindex, step.before, step.after),
            undo=lambda: taprio.change(self._ipr, step.port, ifindex, step.after, step.before),
        )

    def _rule_actions(self, rules: Priorities, desired: Mapping[str, PortConfig]) -> list[Action]:
        """One transaction for all ports, and one also without a step: it repairs what no port
        shows, such as a second jump, and does nothing when there is nothing to repair."""
        classifier = self._classifier
        if classifier is None:
            return []
        wanted = {name: config.dscp_priorities for name, config in desired.items()}
        return [Action(do=lambda: classifier.apply(wanted), undo=lambda: classifier.apply(rules))]

    def close(self) -> None:
        self._speed.close()
        self._ipr.close()
