"""A controller of several: it stands by until the lease of the one that leads is over, and leads
then until another has it.

    standby     shows what the leader has decided, by the shared store; changes go to the leader
    takes over  asks all switches what they keep; takes the lease, in a term above all of them;
                closes what the former one had not decided; names its term to all switches that can
                be reached; loads the stored plan
    leads       its first rollout completes what was decided, and compares all switches
    restrained  holds the lease and decides nothing: switches keep what the database does not know,
                and an admin chooses
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from cnc import rollout
from cnc.data_tree.tree import KeptTerm
from cnc.errors import CncError, RolloutError
from cnc.model import Intent, Plan
from cnc.rollout import History
from cnc.rollout.recovery import settle
from cnc.service.admission import Admission
from cnc.service.claiming import Claiming
from cnc.service.core import Core
from cnc.service.decisions import ITSELF
from cnc.service.lease import Keeper
from cnc.service.lease.survey import Survey, survey
from cnc.service.pushing import Pushing
from cnc.service.refused import CallRefused, Code
from cnc.service.roller import Push
from cnc.service.store import Store
from cnc.switch import ConnectOptions
from cnc.switch.device import ManagedNode
from cnc.switch.rollout_id import Term

LOG = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
_LOOK_SHARE = 10  # what others decide takes a tenth of a standby's time at most
_AGAIN_S = 1.0
_UNKNOWN, _KNOWN = "unknown", "known"  # notes of the store: lines of a Survey, and its rollouts
_NAMED_MAX = 8
_CHOICES = (
    "put a newer backup of the database in its place; or start `cnc serve` with --adopt, which "
    "takes what runs for the plan of the database if it agrees with that, or with --take-over, "
    "which puts that plan on the switches: streams that it does not have are gone then"
)


@dataclass(frozen=True, slots=True)
class Ways:
    """What a controller leads with. `first` makes the admission of a network that nobody has led;
    `around` puts the watch of the switches around a push; `end_others` ends the sessions of former
    leaders whose rollouts have not ended."""

    store: Store
    history: History
    connect: ConnectOptions
    first: Callable[[], Admission]
    around: Callable[[Push, Claiming], Push]
    end_others: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """What an admin has chosen for switches that keep what the database does not know."""

    adopt: bool = False
    take_over: bool = False

    def __bool__(self) -> bool:
        return self.adopt or self.take_over


class Restrained(CallRefused):
    """This controller may decide nothing before an admin has chosen."""

    def __init__(self, what: str, lines: Collection[str], hint: str = _CHOICES) -> None:
        more = len(lines) - _NAMED_MAX
        shown = [*list(lines)[:_NAMED_MAX], *([f"and {more} more"] if more > 0 else [])]
        super().__init__(
            Code.UNAVAILABLE, f"nothing is changed: {what}: {'; '.join(shown)}", hint=hint
        )


class Succession:
    """Of the network of an `intent`, for a core and its `keeper`, which are there until `run` has
    been cancelled. `changed` is set when the keeper knows something new."""

    def __init__(
        self,
        core: Core,
        keeper: Keeper,
        changed: asyncio.Event,
        *,
        intent: Intent,
        ways: Ways,
        choice: Choice,
    ) -> None:
        self._core, self._keeper, self._changed = core, keeper, changed
        self._intent, self._ways, self._choice = intent, ways, choice

    async def run(self) -> None:
        """Until it is cancelled. Raises CncError where the network cannot be led at all."""
        while True:
            await self._while(lambda: self._keeper.own_term is None and not self._keeper.may_take())
            try:
                found = await asyncio.to_thread(self._survey)
                term = await asyncio.to_thread(self._take, found)
                if term is not None:
                    await self._lead(term, found)
            except CallRefused as error:  # of the database
                LOG.warning("cannot lead: %s", error)
                await asyncio.sleep(_AGAIN_S)
            finally:
                # No other term is taken before all that works in this one has ended.
                await self._core.stand_by()

    async def _while(self, holds: Callable[[], bool]) -> None:
        """Show what others decide, as long as this holds."""
        wait_s, failure = 0.0, ""
        while holds():
            await self._news(wait_s)
            begun_s = time.monotonic()
            try:
                await self._core.look()
                failure = ""
            except CncError as error:
                if str(error) != failure:
                    failure = str(error)
                    LOG.warning("what has been decided is not known: %s", failure)
            wait_s = max(_LOOK_EVERY_S, _LOOK_SHARE * (time.monotonic() - begun_s))

    async def _news(self, at_most_s: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), at_most_s)
        self._changed.clear()

    async def _lead(self, term: int, found: Survey) -> None:
        """Until another has the lease."""
        LOG.warning("takes over the network %s in term %d", self._intent.name, term)
        try:
            admission, push = await asyncio.to_thread(self._succeed, term, found)
        except Restrained as why_not:
            LOG.warning("%s; %s", why_not, why_not.hint)
            await self._core.stand_by(why_not)
            await self._while(lambda: self._keeper.own_term == term)
            return
        self._choice = Choice()
        self._core.lead(admission, push)
        while self._keeper.own_term == term:
            await self._news(None)
        LOG.warning("another controller leads the network %s", self._intent.name)

    # --- taking over, in a thread --------------------------------------------------------------

    def _survey(self) -> Survey:
        store, seen = self._ways.store, self._keeper.seen
        known = {*json.loads(store.noted(_KNOWN) or "[]")}
        return survey(
            self._nodes(store.plan()),
            self._intent.name,
            known_term=seen.term if seen else 0,
            knows=lambda its: its in known or self._ways.history.knows(its),
            connect=self._ways.connect,
        )

    def _take(self, found: Survey) -> int | None:
        """The term in which this controller leads from now on; None: another was faster."""
        own, seen = self._keeper.own_term, self._keeper.seen
        if own is not None and own >= found.highest:
            return own  # the database's answer was lost, or the lease was over for a while
        term = max(found.highest, seen.term if seen else 0) + 1
        return term if self._keeper.take(term) else None

    def _succeed(self, number: int, found: Survey) -> tuple[Admission, Push]:
        """What this controller leads with. Raises Restrained, and CallRefused."""
        ways, choice = self._ways, self._choice
        plan, term = ways.store.plan(), Term(self._intent.name, number)
        nodes = self._nodes(plan)
        self._require_known(found)
        ways.end_others()
        with suppress(RolloutError):  # the first rollout completes what was decided
            settle(nodes, connect=ways.connect, history=ways.history)
        self._claim(nodes, term)
        admission = Admission(plan) if plan else ways.first()
        ways.store.forget_old()
        self._core.look_who()
        push = Pushing(
            ways.connect,
            ways.history,
            term,
            take_over=bool(choice),
            within=self._keeper.within,
            judged=admission.begun,
        )
        claiming = Claiming(ways.connect, term, within=self._keeper.within)
        return admission, ways.around(push, claiming)

    def _require_known(self, found: Survey) -> None:
        """Raise Restrained where switches keep what the database does not know, and no admin has
        chosen; it is noted, since the database knows of the term by now."""
        store = self._ways.store
        unknown = [*found.unknown, *json.loads(store.noted(_UNKNOWN) or "[]")]
        if not unknown:
            return
        if not self._choice:
            with store.deciding(ITSELF, "restrained", self._intent.name) as made:
                made.note(_UNKNOWN, json.dumps(unknown))
            raise Restrained("switches keep what the database does not know", unknown)
        if self._choice.adopt:
            self._require_running(store.plan())
        known = {*json.loads(store.noted(_KNOWN) or "[]"), *found.rollouts}
        choice = "adopted" if self._choice.adopt else "taken over"
        with store.deciding(ITSELF, choice, self._intent.name) as made:
            made.note(_UNKNOWN, "[]")
            made.note(_KNOWN, json.dumps(sorted(known)))

    def _require_running(self, plan: Plan | None) -> None:
        if plan is None:
            raise Restrained("the database has no plan that could run", [self._intent.name])
        ports = rollout.status(plan, connect=self._ways.connect)
        if others := [str(its.port) for its in ports if not its.agrees]:
            raise Restrained("what runs is not the plan of the database, at ports", others)

    def _claim(self, nodes: Collection[ManagedNode], term: Term) -> None:
        """Raise CallRefused where a switch has met a higher term meanwhile."""
        answers = rollout.claim(
            nodes,
            term,
            connect=self._ways.connect,
            take_over=self._choice.take_over,
            succeeds=True,
        )
        for name, its in answers.items():
            if isinstance(its, KeptTerm) and its.term > term.number:
                raise CallRefused(Code.UNAVAILABLE, f"{name}: {its}")
            if isinstance(its, CncError):
                LOG.warning("term %d was not announced: %s", term.number, its)

    def _nodes(self, plan: Plan | None) -> Collection[ManagedNode]:
        network = plan.intent.network if plan else self._intent.network
        return network.managed.values()
