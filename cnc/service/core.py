"""The core: one asyncio process, one writer. Every call comes here, and is checked here.

It answers what changes nothing at any time, and decides while it leads its network. One that has
the state for itself leads as long as it runs; of several controllers one does (`succession`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from cnc.model import Plan
from cnc.service.access import fingerprint
from cnc.service.admission import Admission
from cnc.service.calls import CALLS, Forward, arguments_of
from cnc.service.channel import Request
from cnc.service.commands import Commands
from cnc.service.decisions import ITSELF, Decisions
from cnc.service.documents import Documents
from cnc.service.forwarding import forwarded
from cnc.service.lease.member import Lease
from cnc.service.reads import Reads
from cnc.service.refused import CallRefused, Code
from cnc.service.roller import Push
from cnc.service.store import Asker, Store
from cnc.service.watching import Watching

__all__ = ["ITSELF", "Core"]

_FORWARDED_AT_ONCE = 16


class Core:
    """The service of one network, until `close`. `leader` says who leads while this one does not;
    None: nobody."""

    def __init__(
        self,
        store: Store,
        *,
        documents: Documents,
        commands: Commands,
        watching: Watching,
        leader: Callable[[], Lease | None] = lambda: None,
    ) -> None:
        self._reads = Reads(store, documents=documents, commands=commands, watching=watching)
        self._leader = leader
        self._decisions: Decisions | None = None
        self._why_not: CallRefused | None = None
        # Of their own: a leader that stands still holds up nothing else.
        self._forwarding = ThreadPoolExecutor(_FORWARDED_AT_ONCE, "forwarding")

    @property
    def decided(self) -> tuple[Plan, int] | None:
        """The plan that was decided last, and the number of its decision."""
        return self._reads.decided

    def lead(self, admission: Admission, push: Push) -> None:
        """Decide from now on, beginning with the plan that is decided, and roll out."""
        self._decisions, self._why_not = Decisions(self._reads, admission, push), None
        self._decisions.start()

    async def stand_by(self, why_not: CallRefused | None = None) -> None:
        """Decide nothing any more; a rollout that is on its way ends first. `why_not`: what stands
        in the way of decisions, if not that another leads."""
        self._why_not = why_not
        ended, self._decisions = self._decisions, None
        if ended:
            await ended.close()

    def look_who(self) -> None:
        """Know the tokens and quotas that the store has. From any thread. Raises CncError."""
        self._reads.look_who()

    async def look(self) -> None:
        """While another leads: what it has decided since. Raises CncError."""
        await self._reads.look()

    def raise_if_failed(self) -> None:
        """Raise what has ended the rollouts, or what has parted the store from what is in memory: a
        service that is started again is better than one that decides in vain."""
        self._reads.store.raise_if_unknown()
        if self._decisions:
            self._decisions.raise_if_failed()

    async def close(self) -> None:
        """End; a rollout that is on its way ends first."""
        await self.stand_by()
        self._forwarding.shutdown(wait=False, cancel_futures=True)
        await self._reads.close()

    async def answer(self, request: Request) -> Any:
        """The result of a call, or a Following. Raises CallRefused."""
        asker = self._reads.access.asker(request.token, request.source)
        return await self._answer(asker, request)

    async def answer_named(self, request: Request) -> Any:
        """As `answer`, for a NETCONF server: `token` is the name of one and the fingerprint of the
        SSH key with which who asks has logged in. Before that the server asks for the key. Raises
        CallRefused."""
        access = self._reads.access
        if request.call == "ssh-key.get":
            key = access.ssh_key(str(request.arguments.get("name")))
            return {"key": key, "fingerprint": fingerprint(key) if key else None}
        return await self._answer(access.asker_named(request.token, request.source), request)

    async def _answer(self, asker: Asker, request: Request) -> Any:
        access = self._reads.access
        arguments = arguments_of(request.call, request.arguments)
        access.check(asker, request.call, arguments)
        if isinstance(arguments, Forward):
            loop = asyncio.get_running_loop()
            send = partial(self._forwarded, arguments, request.token)
            return await loop.run_in_executor(self._forwarding, send)
        if not CALLS[request.call].changes:
            return await self._reads.calls[request.call](asker, arguments)
        if self._decisions is None:
            raise self._not_here(request.call)
        return await self._decisions.calls[request.call](asker, arguments)

    def _forwarded(self, arguments: Forward, token: str) -> dict[str, Any]:
        leader = self._leader()
        if leader is None:
            raise self._nobody()
        return forwarded(arguments, leader, token)

    def _not_here(self, call: str) -> CallRefused:
        if self._why_not:
            return self._why_not
        leader = self._leader()
        if leader is None:
            return self._nobody()
        is_local = call.startswith("token.")  # which come by the socket of the core alone
        return CallRefused(
            Code.UNAVAILABLE,
            f"this controller stands by; {leader.url} leads the network, and decides",
            hint="run `cnc token` on its machine" if is_local else f"ask {leader.url}",
            details={"elsewhere": leader.url, "retry_after_s": 1},
        )

    @staticmethod
    def _nobody() -> CallRefused:
        return CallRefused(
            Code.UNAVAILABLE,
            "no controller leads the network at the moment: the one that did has ended or lost its "
            "database, and another takes its place when its lease is over",
            hint="ask again, with the same Idempotency-Key",
            details={"retry_after_s": 1},
        )
