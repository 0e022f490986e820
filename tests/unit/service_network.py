"""A core on a real store, whose rollouts succeed or fail as told: for tests of what it decides."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cnc import app
from cnc.cli import cnc
from cnc.errors import RolloutError
from cnc.model import Intent, Plan
from cnc.rollout import History
from cnc.service import owner, state
from cnc.service.access import new_token
from cnc.service.calls import Role
from cnc.service.channel import Request
from cnc.service.commands import Commands
from cnc.service.core import ITSELF, Core
from cnc.service.documents import Documents
from cnc.service.roller import Rolled
from cnc.service.store import Store
from cnc.service.watching import watching
from cnc.switch import ConnectOptions

FILE = Path(__file__).resolve().parents[2] / "schedules/line3.yaml"
CUC = "plc"
ONE, TWO, THREE = (f"00-1B-21-00-00-01:00-0{n}" for n in range(1, 4))


def planned(intent: Intent) -> Plan:
    """The first plan of a service, without a switch that states its limits."""
    return app.plan(intent)


class Switches:
    """What stands for all switches: it runs the last plan, or refuses as long as it has `failure`.
    With `hold` a rollout waits until it is let go."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.failure: str | None = None
        self.hold: threading.Event | None = None

    def push(self, plan: Plan) -> Rolled:
        if self.hold:
            self.hold.wait(10)
        if self.failure:
            raise RolloutError(self.failure)
        self.plans.append(plan)
        return Rolled(len(self.plans))


class Asking:
    """Calls to a core as the tokens of the roles make them."""

    def __init__(
        self, core: Core, store: Store, history: History, tokens: Mapping[str, str]
    ) -> None:
        self.core, self.store, self.history, self.tokens = core, store, history, dict(tokens)

    async def call(self, call: str, arguments: Any = None, *, by: str = CUC) -> Any:
        token = self.tokens.get(by, by)
        return await self.core.answer(Request(call, arguments or {}, token, "192.0.2.1"))

    async def put(self, stream_id: str, keys: Any, *, by: str = CUC, **more: Any) -> Any:
        body = {"intent": keys}
        arguments = {"cuc": CUC, "stream_id": stream_id, "body": body, **more}
        return await self.call("stream.put", arguments, by=by)

    async def get(self, stream_id: str) -> Any:
        return await self.call("stream.get", {"cuc": CUC, "stream_id": stream_id})

    async def until(self, stream_id: str, state: str) -> Any:
        """The stream, once it is in this state."""
        following = await self.call("events.follow", {"after": 0}, by="admin")
        async for _ in following.items:
            if (found := await self.get(stream_id))["state"] == state:
                return found
        raise AssertionError("the core has ended")

    async def until_quiet(self) -> None:
        """Once the switches run all that is decided."""
        following = await self.call("events.follow", {"after": 0}, by="admin")
        store, decided = self.store, self.core.decided
        async for event in following.items:
            done = event["kind"] == "rollout-done"
            if done and store.noted("running") == str(decided[1]):
                return

    async def events(self) -> list[dict[str, Any]]:
        found = await self.call("document.get", {"name": "events"}, by="admin")
        return list(found["events"])


@asynccontextmanager
async def service(
    directory: Path, switches: Switches, *, file: Path = FILE, first: Any = planned
) -> AsyncIterator[Asking]:
    """A core on what `directory` has, with a token for each role and the CUC `plc`."""
    connect = ConnectOptions(directory / "none", directory / "none", 1.0)
    with state.opened(directory) as (store, history):
        admission = owner.begin(file, store, first)
        kept = {its.name for its in store.tokens()}
        tokens = {}
        for role in Role:
            cuc = CUC if role is Role.CUC else None
            name = cuc or str(role)
            if name not in kept:
                tokens[name], record = new_token(name, role, cuc, None)
                with store.deciding(ITSELF, "token.add", name) as made:
                    made.put_token(record)
                (directory / f"token-{name}").write_text(tokens[name])
            tokens[name] = (directory / f"token-{name}").read_text()
        watch = watching(connect, history)
        core = Core(
            store,
            documents=Documents(store, history, connect, watch, directory),
            commands=Commands(cnc, connect, directory),
            watching=watch,
        )
        core.lead(admission, switches.push)
        try:
            yield Asking(core, store, history, tokens)
        finally:
            await core.close()
