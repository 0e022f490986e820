"""A rollback of a service: the streams of a former intent come back, those of CUCs stay."""

from __future__ import annotations

from typing import Any

import pytest

from cnc.rollout import History, Phase
from cnc.service.names import plan_name
from cnc.service.refused import Code
from tests.unit.rollout_history import begin
from tests.unit.service_network import CUC, ONE, TWO, Asking, Switches
from tests.unit.test_service_core import KEYS, changed_intent, refused, run

PUT = {"file": "line3.yaml", "text": changed_intent(late=KEYS)}  # late comes, valves goes


async def back(service: Asking, **asked: Any) -> Any:
    return await service.call("rollback", asked, by="operator")


def test_a_rollback_puts_the_former_intent_back_beside_the_streams_of_cucs(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> Any:
        await service.call("intent.put", PUT, by="operator")
        await service.put(ONE, KEYS)
        before = service.core.decided[0].streams
        answer = await back(service)
        await service.until_quiet()
        return before, answer["change"], service.core.decided[0]

    before, change, plan = run(tmp_path, ask, switches=switches)
    assert change == "added valves; removed late"
    assert plan.streams.keys() == (before.keys() | {"valves"}) - {"late"}
    assert plan.streams[plan_name(CUC, ONE)] == before[plan_name(CUC, ONE)]
    assert switches.plans[-1] == plan


def test_a_second_rollback_undoes_the_first(tmp_path):
    async def ask(service: Asking) -> Any:
        await service.call("intent.put", PUT, by="operator")
        return [(await back(service))["change"] for _ in range(2)]

    assert run(tmp_path, ask) == ["added valves; removed late", "added late; removed valves"]


def test_a_rollback_that_is_repeated_with_its_key_is_done_once(tmp_path):
    async def ask(service: Asking) -> Any:
        await service.call("intent.put", PUT, by="operator")
        first, again = [await back(service, idempotency_key="k1") for _ in range(2)]
        assert first == again
        return service.core.decided[0]

    assert "valves" in run(tmp_path, ask).streams


def test_an_intent_that_comes_again_late_with_its_key_does_not_undo_what_came_after(tmp_path):
    keyed = {**PUT, "idempotency_key": "k1"}

    async def ask(service: Asking) -> Any:
        first = await service.call("intent.put", keyed, by="operator")
        await back(service)
        assert await service.call("intent.put", keyed, by="operator") == first
        return service.core.decided[0]

    assert "late" not in run(tmp_path, ask).streams


def test_a_rollback_to_a_rollout_brings_no_stream_of_a_cuc_back(tmp_path):
    """One that the CUC has removed meanwhile; and one that came since stays."""

    async def ask(service: Asking) -> Any:
        await service.put(TWO, KEYS)
        rollout(service.history, service)
        await service.call("stream.delete", {"cuc": CUC, "stream_id": TWO})
        await service.put(ONE, KEYS)
        await service.call("intent.put", PUT, by="operator")
        answer = await back(service, number=1)
        return answer["change"], service.core.decided[0].streams

    change, streams = run(tmp_path, ask)
    assert change == "added valves; removed late"
    assert plan_name(CUC, ONE) in streams
    assert plan_name(CUC, TWO) not in streams


def rollout(history: History, service: Asking) -> None:
    plan = service.core.decided[0]
    begin(history, plan=plan, network=plan.intent.name).end(Phase.DONE)


@pytest.mark.parametrize(
    ("asked", "code", "why"),
    [
        ({}, Code.ABSENT, "no other intent before"),
        ({"number": 7}, Code.INVALID, "no rollout 7"),
    ],
)
def test_without_a_former_intent_nothing_changes(tmp_path, asked, code, why):
    async def ask(service: Asking) -> Any:
        before = service.core.decided
        error = await refused(back(service, **asked))
        assert service.core.decided == before
        return error

    error = run(tmp_path, ask)
    assert error.code is code
    assert why in str(error)


def test_a_former_stream_without_room_is_refused_and_all_stays(tmp_path):
    whole = {**KEYS, "payload": "1400B", "frames": 8, "max-latency": "990us"}  # two have no room

    async def ask(service: Asking) -> Any:
        await service.call("intent.put", {**PUT, "text": changed_intent(whole=whole)}, by="admin")
        await service.call("intent.put", PUT, by="admin")
        await service.put(ONE, whole)
        before = service.core.decided
        error = await refused(back(service))
        assert service.core.decided == before
        return error

    error = run(tmp_path, ask)
    assert str(error).startswith("the previous intent: added whole; removed late")
