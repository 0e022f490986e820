"""Two controllers on one database: one leads, and the other when that has lost its lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cnc import app, rollout
from cnc.cli import cnc
from cnc.data_tree.tree import KeptTerm
from cnc.model import NS_PER_S
from cnc.rollout.claim import Met
from cnc.service import owner, state
from cnc.service.access import new_token
from cnc.service.calls import Role
from cnc.service.commands import Commands
from cnc.service.core import Core
from cnc.service.decisions import ITSELF
from cnc.service.documents import Documents
from cnc.service.lease import Keeper
from cnc.service.refused import CallRefused, Code
from cnc.service.store import FILE_NAME, Database
from cnc.service.succession import Choice, Succession, Ways
from cnc.service.watching import watching
from cnc.switch import ConnectOptions
from tests.unit.service_network import CUC, FILE, ONE, THREE, TWO, Asking, Switches, planned
from tests.unit.test_service_core import KEYS

LENGTH_NS = 3 * NS_PER_S
LIMIT_S = 60


class Controller:
    """One of them. `is_cut_off`: its lease cannot reach the database."""

    def __init__(self, asking: Asking, keeper: Keeper, database: Database) -> None:
        self.asking, self.keeper, self._database = asking, keeper, database
        self._writing = database.writing

    def cut_off(self) -> None:
        def away() -> Any:
            raise CallRefused(Code.UNAVAILABLE, "the database is away")

        self._database.writing = away

    def reach(self) -> None:
        self._database.writing = self._writing

    async def knows_token(self, file: Path) -> bool:
        """Once the token of the CUC is one."""
        with suppress(OSError, CallRefused):
            self.asking.tokens[CUC] = file.read_text()  # noqa: ASYNC240  a few octets
            return bool(await self.asking.call("who"))
        return False

    async def is_over(self) -> bool:
        return self.keeper.held() is None

    async def says(self, stream_id: str, reason: str) -> bool:
        """Whether that is why it takes no stream."""
        with pytest.raises(CallRefused) as refused:
            await self.asking.put(stream_id, KEYS)
        return reason in str(refused.value)

    async def puts(self, stream_id: str) -> bool:
        return await self._is_placed(self.asking.put(stream_id, KEYS))

    async def shows(self, stream_id: str) -> bool:
        """What has been decided is read after it is known who leads."""
        return await self._is_placed(self.asking.get(stream_id))

    async def _is_placed(self, answer: Awaitable[dict[str, Any]]) -> bool:
        try:
            return bool((await answer)["placed"])
        except CallRefused as refused:
            if refused.code is not Code.UNAVAILABLE:
                raise
            return False


@asynccontextmanager
async def controller(
    directory: Path, name: str, switches: Switches, choice: Choice
) -> AsyncIterator[Controller]:
    database, changed = Database(directory / FILE_NAME), asyncio.Event()
    keeper = Keeper(
        database,
        "line3",
        name=name,
        url=f"https://{name}:8443",
        certificate="PEM",
        length_ns=LENGTH_NS,
    )
    with state.opened(directory, keeper.fence) as (store, history):
        connect = ConnectOptions(directory / "none", directory / "none", 1.0)
        watch = watching(connect, history)
        core = Core(
            store,
            documents=Documents(store, history, connect, watch, directory),
            commands=Commands(cnc, connect, directory),
            watching=watch,
            leader=keeper.leader,
        )

        def first() -> Any:
            made = owner.begin(FILE, store, planned)
            token, record = new_token(CUC, Role.CUC, CUC, None)
            with store.deciding(ITSELF, "token.add", CUC) as decision:
                decision.put_token(record)
            (directory / "token").write_text(token)
            return made

        ways = Ways(store, history, connect, first, lambda *_: switches.push, lambda: None)
        succession = Succession(
            core, keeper, changed, intent=app.load_intent(FILE), ways=ways, choice=choice
        )
        loop = asyncio.get_running_loop()
        keeper.start(lambda: loop.call_soon_threadsafe(changed.set) and None)
        task = asyncio.create_task(succession.run())
        its = Controller(Asking(core, store, history, {}), keeper, database)
        await until(lambda: its.knows_token(directory / "token"))
        try:
            yield its
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(keeper.close)
            await core.close()


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await condition():  # noqa: ASYNC110  of another process, as it were
            await asyncio.sleep(0.05)


@pytest.fixture
def met(monkeypatch) -> dict[str, Met]:
    """What switches keep, by name."""
    found: dict[str, Met] = {}
    monkeypatch.setattr(rollout, "meet", lambda *_, **__: found)
    monkeypatch.setattr(rollout, "claim", lambda *_, **__: {})
    return found


def with_controllers(directory: Path, test: Any, *choices: Choice) -> None:
    async def run() -> None:
        switches = Switches()
        async with AsyncExitStack() as stack:
            two = [
                await stack.enter_async_context(controller(directory, name, switches, choice))
                for name, choice in zip("ab", choices, strict=False)
            ]
            await test(*two)

    asyncio.run(asyncio.wait_for(run(), 2 * LIMIT_S))


def test_who_has_lost_its_lease_stands_by_and_the_other_one_leads(tmp_path, met):
    async def test(a, b):
        await until(lambda: a.puts(ONE))
        with pytest.raises(CallRefused, match="https://a:8443 leads the network"):
            await b.asking.put(TWO, KEYS)
        a.cut_off()
        await until(lambda: b.puts(TWO))
        assert not await a.puts(THREE)
        a.reach()
        await until(lambda: a.says(THREE, "https://b:8443 leads the network"))
        assert (await a.asking.get(TWO))["placed"]
        assert (a.keeper.own_term, b.keeper.own_term) == (None, 2)

    with_controllers(tmp_path, test, Choice(), Choice())


def test_who_has_lost_its_database_for_a_while_and_nobody_else_leads_goes_on(tmp_path, met):
    async def test(a):
        await until(lambda: a.puts(ONE))
        a.cut_off()
        await until(a.is_over)
        assert not await a.puts(TWO)
        a.reach()
        await until(lambda: a.puts(TWO))
        assert a.keeper.own_term == 1

    with_controllers(tmp_path, test, Choice())


KEPT = Met(KeptTerm("line3", 9, "cnc@other", "2026-11-29T10:00:00+00:00"), None)


def test_where_switches_keep_a_term_that_the_database_does_not_know_nothing_is_decided(
    tmp_path, met
):
    async def begin(a):
        await until(lambda: a.puts(ONE))

    async def test(a):
        await until(lambda: a.says(TWO, "nothing is changed"))
        with pytest.raises(CallRefused, match=r"s2: .*\(term 9\)") as said:
            await a.asking.put(TWO, KEYS)
        assert "--adopt" in said.value.hint
        await until(lambda: a.shows(ONE))

    async def taken_over(a):
        await until(lambda: a.puts(TWO))
        assert a.keeper.own_term > 9

    with_controllers(tmp_path, begin, Choice())
    met["s2"] = KEPT
    with_controllers(tmp_path, test, Choice())
    with_controllers(tmp_path, test, Choice())
    with_controllers(tmp_path, taken_over, Choice(take_over=True))
    with_controllers(tmp_path, begin, Choice())
