"""A core that stands by: it shows what the one that leads decides, and decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cnc.cli import cnc
from cnc.service import state
from cnc.service.access import fingerprint
from cnc.service.channel import Request
from cnc.service.commands import Commands
from cnc.service.core import Core
from cnc.service.documents import Documents
from cnc.service.lease import Lease
from cnc.service.netconf.errors import error_of
from cnc.service.refused import CallRefused, Code
from cnc.service.watching import watching
from cnc.service.web.asking import Elsewhere
from cnc.switch import ConnectOptions
from tests.unit.service_network import CUC, ONE, Asking, Switches, service
from tests.unit.test_service_access import SSH_KEY
from tests.unit.test_service_core import KEYS

LEADER = Lease("its process", 1, 1, 10**10, "https://a.example:8443", "PEM")


@asynccontextmanager
async def standing_by(leading: Asking, directory: Path) -> AsyncIterator[Asking]:
    """Another core on what the one that leads has."""
    with state.opened(directory) as (store, history):
        connect = ConnectOptions(directory / "none", directory / "none", 1.0)
        watch = watching(connect, history)
        core = Core(
            store,
            documents=Documents(store, history, connect, watch, directory),
            commands=Commands(cnc, connect, directory),
            watching=watch,
            leader=lambda: LEADER,
        )
        try:
            yield Asking(core, store, history, leading.tokens)
        finally:
            await core.close()


def with_standby(directory: Path, test: Any) -> None:
    async def run() -> None:
        async with (
            service(directory, Switches()) as leading,
            standing_by(leading, directory) as standby,
        ):
            await test(leading, standby)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_standby_shows_what_the_leader_has_decided_once_it_has_looked(tmp_path):
    async def test(leading, standby):
        with pytest.raises(CallRefused, match="no controller has planned this network yet"):
            await standby.get(ONE)
        await leading.put(ONE, KEYS)
        its = await leading.until(ONE, "configured")
        await standby.core.look()
        assert await standby.get(ONE) == its
        assert standby.core.decided[0].streams.keys() == leading.core.decided[0].streams.keys()
        assert (await standby.call("document.get", {"name": "plan"}, by="viewer"))["streams"]

    with_standby(tmp_path, test)


def test_a_standby_says_of_a_change_who_leads(tmp_path):
    async def test(leading, standby):
        await standby.core.look()
        with pytest.raises(CallRefused, match=r"https://a\.example:8443 leads the network") as said:
            await standby.put(ONE, KEYS)
        assert said.value.code is Code.UNAVAILABLE
        assert said.value.details["elsewhere"] == LEADER.url
        with pytest.raises(CallRefused, match="role viewer"):
            await standby.put(ONE, KEYS, by="viewer")

    with_standby(tmp_path, test)


def test_a_standby_tells_who_changes_tokens_or_asks_over_netconf_who_leads(tmp_path):
    key = {"name": "jo", "role": "operator", "ssh_key": SSH_KEY}

    async def test(leading, standby):
        await leading.call("token.add", key, by="admin")
        await standby.core.look()
        its_id = {"cuc": CUC, "stream_id": ONE}
        put, its = {**its_id, "body": {"intent": KEYS}}, f"jo {fingerprint(SSH_KEY)}"
        over_netconf = Request("stream.put", put, token=its)
        revoked = standby.call("token.revoke", {"name": "jo"}, by="admin")
        for asked, next_step in (
            (revoked, "; run `cnc token` on its machine"),
            (standby.core.answer_named(over_netconf), f"; ask {LEADER.url}"),
        ):
            with pytest.raises(CallRefused) as refused:
                await asked
            told = error_of(Elsewhere(refused.value))["message"]
            assert f"{LEADER.url} leads the network" in told
            assert told.endswith(next_step)

    with_standby(tmp_path, test)


def test_who_follows_a_standby_gets_what_the_leader_tells(tmp_path):
    async def test(leading, standby):
        await standby.core.look()
        following = await standby.call("events.follow", {"after": 0}, by="admin")
        coming = asyncio.ensure_future(anext(following.items))
        await leading.put(ONE, KEYS)
        while not coming.done():
            await standby.core.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(coming), 0.05)
        assert (await coming)["kind"] == "stream-placed"

    with_standby(tmp_path, test)


def test_a_token_that_the_leader_has_revoked_is_none_at_a_standby(tmp_path):
    async def test(leading, standby):
        await standby.core.look()
        assert (await standby.call("who"))["name"] == CUC
        await leading.call("token.revoke", {"name": CUC}, by="admin")
        await standby.core.look()
        with pytest.raises(CallRefused) as refused:
            await standby.call("who")
        assert refused.value.code is Code.UNAUTHENTICATED

    with_standby(tmp_path, test)


def test_who_does_not_lead_any_more_decides_nothing_and_shows_all(tmp_path):
    async def test(leading, _standby):
        await leading.put(ONE, KEYS)
        await leading.core.stand_by()
        with pytest.raises(CallRefused, match="no controller leads the network") as refused:
            await leading.put(ONE, KEYS)
        assert refused.value.details["retry_after_s"] == 1
        assert (await leading.get(ONE))["placed"]

    with_standby(tmp_path, test)
