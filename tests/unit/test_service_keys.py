"""Bodies of the UNI on their way through the core: what `cnc.service.uni` says is what happens.

The mapping itself has tests of its own; here it is replaced, so that it refuses and narrows on cue.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cnc.errors import CncError
from cnc.service.refused import CallRefused, Code
from tests.unit.service_network import CUC, ONE, TWO, Asking, Switches, service
from tests.unit.test_service_core import KEYS, refused

LATE, EARLY = {"window": {"earliest": "400us", "latest": "600us"}}, {"window": {"latest": "300us"}}


class Refused(CncError):
    def __init__(self, failure_code: int, text: str) -> None:
        super().__init__(text, hint="ask for less")
        self.failure_code = failure_code


class Uni(ModuleType):
    """A body is `{"keys": …, "narrow": [further keys, one a try, …]}`."""

    Refused = Refused

    def __init__(self) -> None:
        super().__init__("cnc.service.uni")
        self.tries: list[int] = []

    def wanted(self, body: Any, name: str, _intent: Any) -> Any:
        if "refuse" in body:
            raise Refused(body["refuse"], f"{name} asks for too much")
        return body["keys"]

    def narrowed(self, plan: Any, name: str, body: Any, tried: int) -> Any:
        assert name in plan.streams
        self.tries.append(tried)
        left = body.get("narrow", [])[tried - 1 :]
        if left == ["never"]:
            raise Refused(21, f"{name} is too late")
        return {**body["keys"], **left[0]} if left else None

    def answer(self, plan: Any, name: str, _body: Any) -> Any:
        return {"offset": plan.streams[name].talker_offsets_ns[0]}


@pytest.fixture
def uni(monkeypatch: pytest.MonkeyPatch) -> Uni:
    its = Uni()
    monkeypatch.setitem(sys.modules, "cnc.service.uni", its)
    return its


def run(directory: Path, ask: Callable[[Asking], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with service(directory, Switches()) as asking:
            return await ask(asking)

    return asyncio.run(asyncio.wait_for(whole(), 60))


def put(service: Asking, body: Any, stream_id: str = ONE) -> Awaitable[Any]:
    return service.call("stream.put", {"cuc": CUC, "stream_id": stream_id, "body": body})


def test_a_body_is_placed_by_its_keys_and_told_by_the_mapping(tmp_path, uni):
    found = run(tmp_path, lambda service: put(service, {"keys": {**KEYS, **LATE}}))
    assert 400_000 <= found["status"]["offset"] <= 600_000
    assert uni.tries == [1]


def test_a_place_that_is_late_for_the_cuc_is_sought_once_more(tmp_path, uni):
    async def ask(service: Asking) -> Any:
        found = await put(service, {"keys": {**KEYS, **LATE}, "narrow": [EARLY]})
        plan = await service.call("document.get", {"name": "plan"}, by="viewer")
        return found, plan["intent"]["streams"][found["name"]]

    found, keys = run(tmp_path, ask)
    assert found["status"]["offset"] <= 300_000
    assert keys["window"] == EARLY["window"]
    assert uni.tries == [1, 2]


def test_a_place_that_never_is_in_time_is_refused_and_nothing_changes(tmp_path, uni):
    async def ask(service: Asking) -> CallRefused:
        before = await service.call("document.get", {"name": "plan"}, by="viewer")
        error = await refused(put(service, {"keys": KEYS, "narrow": [LATE, "never"]}))
        assert await service.call("document.get", {"name": "plan"}, by="viewer") == before
        await put(service, {"keys": KEYS})
        return error

    error = run(tmp_path, ask)
    assert (error.code, error.details["failure_code"]) == (Code.CONFLICT, 21)


def test_what_the_mapping_refuses_comes_with_its_code(tmp_path, uni):
    error = run(tmp_path, lambda service: refused(put(service, {"refuse": 24})))
    assert (error.code, error.details["failure_code"]) == (Code.CONFLICT, 24)
    assert error.hint == "ask for less"


def test_what_the_intent_does_not_take_of_a_right_body_is_a_conflict(tmp_path, uni):
    body = {"keys": {**KEYS, "max-latency": "1us"}}
    assert run(tmp_path, lambda service: refused(put(service, body))).code is Code.CONFLICT


def test_of_streams_that_are_computed_together_each_is_told_its_own_reason(tmp_path, uni):
    async def ask(service: Asking) -> Any:
        await service.call("domain.set", {"auto_compute": False}, by="operator")
        await put(service, {"keys": KEYS})
        await put(service, {"refuse": 24}, TWO)
        error = await refused(service.call("streams.compute", {"cucs": {CUC: "all"}}))
        assert error.details["failure_code"] == 24
        return (await service.events())[-1]

    event = run(tmp_path, ask)
    assert event["kind"] == "computed"
    assert "asks for too much" in event["failed"][TWO]
    assert event["failure_codes"] == {ONE: 24, TWO: 24}
