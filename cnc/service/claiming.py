"""Names the term of a controller that leads to each switch that its watch meets without it.

So to one that has come back, was replaced, or has got an agent that keeps terms: until it is told,
it takes what anybody sends. It is told between two rollouts, not in one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from cnc import rollout
from cnc.data_tree.tree import AgentReport
from cnc.errors import CncError
from cnc.model import Plan
from cnc.rollout.timing import Within
from cnc.service.roller import Push, Rolled
from cnc.switch import ConnectOptions
from cnc.switch.device import ManagedNode
from cnc.switch.rollout_id import Term

LOG = logging.getLogger(__name__)


class Claiming:
    """By one controller in its `term`; `within` as of `Pushing`."""

    def __init__(
        self, connect: ConnectOptions, term: Term, *, within: Within | None = None
    ) -> None:
        self._connect, self._term, self._within = connect, term, within
        self._pushing = threading.Lock()
        self._nodes: Mapping[str, ManagedNode] = {}
        self._lock = threading.Lock()
        self._unmet: set[str] = set()
        self._refused: dict[str, str] = {}  # by switch, why it was not told the last time
        self._thread: threading.Thread | None = None

    def around(self, push: Push) -> Push:
        """A push that begins when no switch is being told."""

        def pushed(plan: Plan) -> Rolled:
            with self._pushing:
                self._nodes = plan.intent.network.managed
                return push(plan)

        return pushed

    def met(self, switch: str, agent: AgentReport | None) -> None:
        """What a switch has said of itself; from any thread. It is told in another one."""
        kept = agent.kept_term if agent else None
        knows = kept and (kept.network != self._term.network or kept.term >= self._term.number)
        if agent is None or not agent.keeps_terms or knows:
            return
        with self._lock:
            self._unmet.add(switch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="terms", daemon=True)
                self._thread.start()

    def _tell(self) -> None:
        """Until all that were met know the term, or have been tried."""
        while True:
            with self._lock:
                names, self._unmet = self._unmet, set()
                if not names:
                    self._thread = None
                    return
            with self._pushing:
                self._claim([self._nodes[each] for each in sorted(names) if each in self._nodes])

    def _claim(self, nodes: list[ManagedNode]) -> None:
        try:
            if self._within:
                self._within(0)  # whose lease is over tells nothing
            answers = rollout.claim(nodes, self._term, connect=self._connect)
        except CncError as error:
            LOG.warning("term %d was not announced: %s", self._term.number, error)
            return
        for name, its in answers.items():
            reason = str(its) if isinstance(its, CncError) else ""
            if reason and reason != self._refused.get(name):
                LOG.warning("term %d was not announced: %s", self._term.number, reason)
            elif not reason:
                LOG.info("%s: term %d announced", name, self._term.number)
            self._refused[name] = reason
