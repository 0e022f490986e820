"""A client without rights at each switch, which attacks its server all the while.

It may read and nothing else. Computing takes no time in virtual time: an endless query would hold
the clock for ever, and no limit on CPU time would end it. So the queries here are costly and come
to an end; what endless ones do to the deadline of a commit is measured in real time
(scripts/bench-deadline). No penalty (tsn-netconf-server) ends an attack: the attackers have the
controller's address, and a host from which a user who may commit has logged in has none, not even
after a restart of the server.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import cycle
from typing import Self

import asyncssh

from cnc.testbed.lab import Lab
from cnc.testbed.lab.running import management_of
from tests.stack.attacks import AttackersSession, large_edit, names
from tests.stack.front_end import FrontEnd

USER = "observer"
# Between two requests, so that a row takes seconds of real time and not minutes.
PAUSE_S = 2.0
# When nothing is heard for so long, the switch has lost the connection without a word.
ANSWER_TIMEOUT_S = 5.0
# Fewer than those of which some are dropped at random, for that would meet the controller, too.
IDLE_CONNECTIONS = 16
# A login costs more time than all of these. Connections without one are ended by the server before.
REQUESTS_A_SESSION = 8
KIB = 1024

_RUNNING = "<source><running/></source>"
_ALL_RUNNING = f"<get-config>{_RUNNING}</get-config>"
_SUBSCRIPTION = '<create-subscription xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0"/>'
# For each rule of access control all nodes: a third of a second.
_COSTLY_QUERY = (
    f'<get-config>{_RUNNING}<filter type="xpath" '
    "select=\"//*[local-name()='rule'][count(//*)>0]\"/></get-config>"
)
_LONG_NAME = f'<get-config>{_RUNNING}<filter type="xpath" select="/{"a" * 400_000}"/></get-config>'
# Operations, and attributes of the <rpc>. None reads operational data: of the struck switch each
# such request would be steps of its agent.
_REQUESTS: Sequence[tuple[str, str]] = (
    ("<lock><target><running/></target></lock>", ""),
    (_ALL_RUNNING, names('a{}=""', 256 * KIB)),
    ("<lock><target><candidate/></target></lock>", ""),
    (large_edit(256 * KIB), ""),
    ("<commit/>", ""),
    (_ALL_RUNNING, names('xmlns:a{}="u"', 256 * KIB)),
    ("<kill-session><session-id>1</session-id></kill-session>", ""),
    (_LONG_NAME, ""),
    ("<cancel-commit/>", ""),
    ("<discard-changes/>", ""),
)
_OF_THE_STRUCK = (_COSTLY_QUERY, ""), *_REQUESTS, *_REQUESTS
_OF_THE_OTHERS = (_COSTLY_QUERY, ""), *_REQUESTS, ("<get/>", ""), *_REQUESTS


class Attackers:
    """One at each of these switches, from `with` to its end, who comes again after what strikes."""

    def __init__(self, lab: Lab, switches: Sequence[str], struck: str) -> None:
        self._servers = {name: _server(lab, name) for name in switches}
        self._struck = struck
        self._answers = dict.fromkeys(self._servers, 0)
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._attack_all())
        self._thread = threading.Thread(target=self._run, name="attackers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()

    def answers(self) -> Mapping[str, int]:
        """How many requests each switch has answered its attacker so far."""
        return dict(self._answers)

    def _run(self) -> None:
        with suppress(CancelledError):
            self._loop.run_until_complete(self._task)

    async def _attack_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self._servers:
                group.create_task(self._attack(name))

    async def _attack(self, name: str) -> None:
        requests = cycle(_OF_THE_STRUCK if name == self._struck else _OF_THE_OTHERS)
        while True:
            # The switch may be cut off, or its server struck.
            with suppress(OSError, asyncssh.Error, TimeoutError):
                await self._attack_once(name, requests)
            await asyncio.sleep(PAUSE_S)

    async def _attack_once(self, name: str, requests: Iterator[tuple[str, str]]) -> None:
        """With connections that say nothing and a subscriber beside one session of requests."""
        server = self._servers[name]
        async with AsyncExitStack() as stack:
            for _ in range(IDLE_CONNECTIONS):
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    _, idle = await asyncio.open_connection(server.host, server.port)
                stack.callback(idle.transport.abort)
            subscriber = await _session(server, stack)
            await _ask(subscriber, _SUBSCRIPTION)
            session = await _session(server, stack)
            for _ in range(REQUESTS_A_SESSION):
                if await _ask(session, *next(requests)) is None:
                    return
                self._answers[name] += 1
                await asyncio.sleep(PAUSE_S)


async def _session(server: FrontEnd, stack: AsyncExitStack) -> AttackersSession:
    session = AttackersSession()
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        await session.open(server, USER)
    stack.callback(session.close)
    return session


async def _ask(session: AttackersSession, operation: str, attributes: str = "") -> bytes | None:
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        session.send(operation, attributes)
        return await session.receive()


def _server(lab: Lab, name: str) -> FrontEnd:
    """The switch's server, as its clients reach it."""
    endpoint = management_of(lab.intent, name)
    key_type, key = (lab.switch(name).directory / "host-key.pub").read_text().split()[:2]
    return FrontEnd(endpoint.address, endpoint.port, USER, lab.identity, key_type, key)
