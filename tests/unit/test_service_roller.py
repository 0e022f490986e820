"""When what was decided goes to the switches."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from cnc.model import Plan
from cnc.service import roller
from cnc.service.roller import Rolled, Roller

PLAN = cast("Plan", object())


def test_what_comes_along_is_waited_for_since_the_first_request_and_not_since_its_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roller, "TOGETHER_S", 3600.0)
    done: list[int] = []

    async def whole() -> None:
        ended = asyncio.Event()

        async def note(number: int, _: Rolled) -> None:
            done.append(number)
            ended.set()

        async def failed(error: Exception, _: float) -> None:
            raise error

        its = Roller(lambda: (PLAN, 7), lambda _plan: Rolled(1), done=note, failed=failed)
        asked_s = asyncio.get_running_loop().time() - 3600
        its.want(asked_s)
        its.want()  # another one, which was asked for just now
        running = asyncio.create_task(its.run())
        await asyncio.wait_for(ended.wait(), 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(whole())
    assert done == [7]
