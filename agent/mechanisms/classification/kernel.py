"""The DSCP rules of all ports in the kernel, one chain whatever the number of ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.composition import Change, Contribution, KernelObject
from agent.mechanism import KernelAdapter, Node
from agent.mechanisms.classification.classifier import (
    Chains,
    Classifier,
    as_written,
    choose,
    in_force,
)
from agent.mechanisms.classification.model import DscpConfig, DscpState
from agent.mechanisms.classification.rules import RuleTable, repair
from agent.model import AgentError, PortConfig, PortState


class RuleAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, classifier: Classifier | None = None) -> None:
        """Finds a way to classify if none is given; without one, rules are refused."""
        self._classifier = classifier
        self._no_classifier: str | None = None
        # What the newest `read` found, until the chains are written: they need no second look.
        self._chains: Chains | None = None
        self._is_disturbed = False
        self.objects = {RuleTable: self._replace}
        if classifier is None:
            try:
                self._classifier = choose()
            except AgentError as reason:
                self._no_classifier = str(reason)

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        if self._classifier is None:
            return dict(states)
        self._chains = self._classifier.chains()
        rules = {port: own for port, own in in_force(self._chains).items() if port in states}
        expected = as_written(rules)
        self._is_disturbed = any(chain != expected for chain in self._chains.values())
        return {
            name: state.with_part(DscpState(rules.get(name, {}))) for name, state in states.items()
        }

    def capability(self) -> str | None:
        return self._no_classifier

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[DscpConfig].priorities and self._no_classifier:
            yield self._no_classifier

    def repairs(self) -> Iterator[Change]:
        """A second jump, a rule of a port that is gone, one that the agent did not write."""
        if self._is_disturbed:
            yield repair()

    def leaves(self) -> Node:
        return {"classifier": self._classifier.name if self._classifier else "none"}

    def _replace(
        self, _target: KernelObject, _before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        if self._classifier is None:
            raise AgentError(self._no_classifier or "no way to classify by DSCP")
        chains, self._chains = self._chains, None
        self._classifier.apply({each.port: each.content for each in after}, chains)
