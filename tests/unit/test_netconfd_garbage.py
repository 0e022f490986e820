"""When the server frees what ended sessions leave in reference cycles."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agent.netconfd.garbage import Garbage


class Session:
    """One that refers to itself, as connections of asyncssh do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _no_collection_by_itself():
    gc.disable()
    yield
    gc.enable()


def collections():
    return gc.get_stats()[-1]["collections"]


def test_an_ended_session_is_freed_although_it_refers_to_itself():
    async def run():
        garbage = Garbage(delay_s=0)
        session = Session()
        is_there = weakref.ref(session)
        garbage.collect_soon()
        del session
        # The loop calls what is due in the order of its times.
        await asyncio.sleep(0.001)
        assert is_there() is None

    asyncio.run(run())


def test_sessions_that_end_together_are_collected_at_once_and_later_ones_again():
    async def run():
        garbage = Garbage(delay_s=0)
        before = collections()
        for _ in range(100):
            garbage.collect_soon()
        assert collections() == before
        await asyncio.sleep(0.001)
        assert collections() == before + 1
        garbage.collect_soon()
        await asyncio.sleep(0.001)
        assert collections() == before + 2

    asyncio.run(run())
