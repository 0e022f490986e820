"""How what was decided reaches the switches: those alone that it is about, and without a lead where
any mixture of before and after keeps what was promised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cnc import rollout
from cnc.check import Judgement, judgement
from cnc.check.change import Judged
from cnc.data_tree.tree import KeptTerm
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, Plan
from cnc.rollout import History, Report
from cnc.rollout.timing import Within
from cnc.service.names import is_of_cuc
from cnc.service.roller import Rolled
from cnc.service.store import Asker, Store
from cnc.service.store.schema import TERM
from cnc.switch import ConnectOptions
from cnc.switch.rollout_id import Term

LOG = logging.getLogger(__name__)

_WHAT = "service"
_PLANS_KEPT = 100  # of a service's rollouts, which are many


class Pushing:
    """A push for each plan that comes after another. From one thread at a time.

    The first one after a start compares all switches, whatever the history says that they run.
    `within` is of a controller that leads for a while, of several: it takes no decision of an
    operator to complete what was decided before and is not on all switches.
    """

    def __init__(
        self,
        connect: ConnectOptions,
        history: History,
        term: Term,
        *,
        take_over: bool,
        within: Within | None = None,
        judged: Judgement | None = None,
    ) -> None:
        """`judged` is the judgement on the plan that is decided at the start."""
        self._connect, self._history, self._term = connect, history, term
        self._take_over, self._within = take_over, within
        self._runs: Judged | None = None  # the plan that the switches run
        self._judged = judged  # on the plan that they are to run first
        self._was_late = False

    def __call__(self, plan: Plan) -> Rolled:
        """Raises CncError."""
        runs = self._runs
        if runs is None and (self._judged is None or self._judged.plan is not plan):
            self._judged = judgement(plan)
        at_once = runs is not None and not self._was_late and _may_be_at_once(runs, plan)
        try:
            report = self._pushed(plan, at_once=at_once)
        except RolloutError:
            # A switch that is too busy for the next cycle is given a lead.
            self._was_late = at_once
            raise
        self._was_late = self._take_over = False
        if runs is None or runs.after(plan):
            self._runs = Judged(plan, self._judged)
            self._judged = None
        if report.number is not None:
            self._history.forget_plans(plan.intent.name, _WHAT, keep=_PLANS_KEPT)
        number = report.number
        if number is None:  # a rollout that this process has not seen the end of
            newest = self._history.rollouts(plan.intent.name, phase=rollout.Phase.DONE, limit=1)
            number = newest[0].number if newest else None
        starts_in_s = max(0, report.all_start_in_ns) / NS_PER_S
        return Rolled(number, starts_in_s, _running_since(report, starts_in_s))

    def _pushed(self, plan: Plan, *, at_once: bool) -> Report:
        if self._within:
            self._within(0)  # whose lease is over does not even lock a switch
        try:
            return self._push(plan, at_once=at_once)
        except RolloutError as error:
            managed = plan.intent.network.managed.values()
            if not self._within or not rollout.unresolved(managed, self._history):
                raise
            LOG.warning("%s; it was decided, so it is completed", error)
        rollout.resume(
            network=plan.intent.name,
            connect=self._connect,
            history=self._history,
            take_over=self._take_over,
            term=self._term,
            within=self._within,
        )
        return self._push(plan, at_once=False)

    def _push(self, plan: Plan, *, at_once: bool) -> Report:
        return rollout.push(
            plan,
            connect=self._connect,
            history=self._history,
            take_over=self._take_over,
            term=self._term,
            within=self._within,
            what=_WHAT,
            change_is_judged=at_once,
            touched=self._runs is not None,
            at_once=at_once,
            judged=self._judged,
        )


def _running_since(report: Report, starts_in_s: float) -> datetime | None:
    """When the switches began to run what was pushed, as far as was read back."""
    if starts_in_s:
        return datetime.now(UTC) + timedelta(seconds=starts_in_s)
    return report.read_back


def _may_be_at_once(runs: Judged, plan: Plan) -> bool:
    """Whether any of the nodes may go by the one plan while the others go by the next; once no
    frame of a stream that has ended is on its way."""
    ended_ns = _ended_ns(runs.plan, plan)
    if runs.compatible(plan, silent=ended_ns.keys()):
        return False
    time.sleep(max(ended_ns.values(), default=0) / NS_PER_S)
    return True


def _ended_ns(runs: Plan, plan: Plan) -> Mapping[str, int]:
    """The streams of CUCs that go, whose talkers have stopped (docs/operate/uni.md), with the
    latency of their last frame. One that an agent tells when to send does so until it is told
    otherwise."""
    managed = runs.intent.network.managed
    return {
        name: its.latency_bound_ns
        for name, its in runs.streams.items()
        if name not in plan.streams
        if is_of_cuc(name) and runs.intent.streams[name].talker not in managed
    }


def term_of(
    store: Store, plan: Plan, asker: Asker, *, connect: ConnectOptions, take_over: bool
) -> Term:
    """The term by which this service acts for its network: as noted, at first 1. With `take_over`
    it is above all that switches have met, and those that can be reached are told."""
    noted = store.noted(TERM)
    term = Term(plan.intent.name, int(noted or 1))
    if take_over:
        managed = [*plan.intent.network.managed.values()]
        kept = rollout.claim(managed, term, connect=connect, take_over=True)
        met = [its.term for its in kept.values() if isinstance(its, KeptTerm)]
        if met and (noted is None or max(met) > term.number):
            term = Term(term.network, max(met) + 1)
            rollout.claim(managed, term, connect=connect, take_over=True)
    if noted != str(term.number):
        with store.deciding(asker, "term", term.network, str(term.number)) as made:
            made.note(TERM, str(term.number))
    return term
