"""The state of a service that begins with files and goes on with a PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cnc.errors import InputError
from cnc.rollout.history import Phase
from cnc.service import state
from cnc.service.access import digest_of
from tests.unit.rollout_history import begin
from tests.unit.service_network import CUC, ONE, TWO, Asking, Switches, service
from tests.unit.test_service_core import KEYS


def run(directory: Path, ask: Callable[[Asking], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with service(directory, Switches()) as asking:
            return await ask(asking)

    return asyncio.run(asyncio.wait_for(whole(), 60))


async def shown(service: Asking) -> dict[str, Any]:
    await service.until_quiet()
    documents = {
        name: await service.call("document.get", {"name": name}, by="admin")
        for name in ("plan", "streams", "events", "audit")
    }
    return {
        **documents,
        "stream": await service.get(ONE),
        "domain": await service.call("domain.get"),
        "tokens": await service.call("token.list", by="admin"),
    }


def test_what_was_in_files_goes_on_in_a_database(tmp_path: Path, database: str) -> None:
    async def in_files(service: Asking) -> tuple[Any, Any]:
        first = await service.put(ONE, KEYS, idempotency_key="k1")
        return first, await shown(service)

    async def in_the_database(service: Asking) -> None:
        assert await shown(service) == before
        assert await service.put(ONE, KEYS, idempotency_key="k1") == first
        later = await service.put(TWO, KEYS)
        assert int(later["etag"]) > max(its["number"] for its in before["audit"]["audit"])
        await service.until(TWO, "configured")
        newest = max(its["number"] for its in before["events"]["events"])
        numbers = [its["number"] for its in await service.events()]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] > newest

    first, before = run(tmp_path, in_files)
    with state.history(tmp_path) as files, begin(files) as journal:
        journal.decide()
        journal.end(Phase.DONE)
        rollouts, plan = files.rollouts(), files.plan_of(journal.number)
    state.note_database(tmp_path, database, moves=True)
    state.note_database(tmp_path, database, moves=True)  # as each start says
    run(tmp_path, in_the_database)
    with state.history(tmp_path) as moved, begin(moved) as next_one:
        assert next_one.number == journal.number + 1
        assert moved.rollouts()[1:] == rollouts
        assert moved.plan_of(journal.number) == plan


def test_a_database_that_has_a_state_is_left_as_it_is(tmp_path: Path, database: str) -> None:
    async def ask(service: Asking) -> Any:
        return await service.put(ONE, KEYS)

    one, other = tmp_path / "one", tmp_path / "other"
    for each in (one, other):
        each.mkdir(mode=0o700)
        run(each, ask)
    state.note_database(one, database, moves=True)
    with pytest.raises(InputError, match="a controller has its state there already"):
        state.note_database(other, database, moves=True)
    token = (one / f"token-{CUC}").read_text()
    with state.opened(one) as (store, _):
        assert digest_of(token) in {its.digest for its in store.tokens()}
    with state.opened(other) as (store, _):  # goes on with its files
        assert store.stream(CUC, ONE)


def test_there_is_nothing_to_move_where_no_service_was(tmp_path: Path, database: str) -> None:
    with pytest.raises(InputError, match="to move"):
        state.note_database(tmp_path, database, moves=True)
    assert not list(tmp_path.iterdir())
