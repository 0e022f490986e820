"""Requests to the core of a service: decided once, kept, rolled out, announced."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import app
from cnc.account.violation import Violation
from cnc.check import judge
from cnc.model import Plan
from cnc.service import decisions, intent_put, roller, state, watching
from cnc.service.admission import Admission
from cnc.service.names import plan_name
from cnc.service.refused import CallRefused, Code
from tests.unit.service_network import CUC, FILE, ONE, THREE, TWO, Asking, Switches, service

KEYS = {
    "talker": "t1",
    "listeners": ["l1"],
    "class": "cyclic",
    "period": "1ms",
    "payload": "200B",
    "max-latency": "200us",
}


def run(directory: Path, ask: Callable[[Asking], Awaitable[Any]], **more: Any) -> Any:
    switches = more.pop("switches", None) or Switches()

    async def whole() -> Any:
        async with service(directory, switches, **more) as asking:
            return await ask(asking)

    return asyncio.run(asyncio.wait_for(whole(), 60))


def refused(coroutine: Awaitable[Any]) -> Awaitable[CallRefused]:
    async def caught() -> CallRefused:
        with pytest.raises(CallRefused) as error:
            await coroutine
        return error.value

    return caught()


def test_a_stream_is_placed_rolled_out_and_announced(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        put = await service.put(ONE, KEYS)
        assert (put["created"], put["state"], put["placed"]) == (True, "planned", True)
        assert put["status"]["latency_bound_ns"] <= 200_000
        configured = await service.until(ONE, "configured")
        assert configured["rollout"] == len(switches.plans)
        kinds = [its["kind"] for its in await service.events() if its.get("stream_id") == ONE]
        assert kinds == ["stream-placed", "stream-configured"]

    run(tmp_path, ask, switches=switches)
    assert put_name(ONE) in switches.plans[-1].streams
    assert not judge(switches.plans[-1])


def put_name(stream_id: str) -> str:
    return f"plc__{stream_id.replace(':', '_')}"


def test_no_other_stream_moves_for_one_that_comes_or_goes(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        await service.until(ONE, "configured")
        await service.put(TWO, KEYS)
        await service.until(TWO, "configured")
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        while put_name(ONE) in switches.plans[-1].streams:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    run(tmp_path, ask, switches=switches)
    for before, after in zip(switches.plans, switches.plans[1:], strict=False):
        assert not app.moves(before, after)
        assert not judge(after)


async def fill(service: Asking, keys: Any) -> None:
    """Put streams until one is refused."""
    for number in range(40):
        await service.put(f"00-1B-21-00-00-02:00-{number:02d}", keys)


async def left(service: Asking, before: Any, now: Any) -> set[str]:
    """What of the plan now was neither there before nor is a stream that was accepted."""
    cuc = await service.call("cuc.get", {"cuc": CUC}, by="viewer")
    accepted = {its["name"] for its in cuc["streams"]}
    return now["streams"].keys() ^ (before["streams"].keys() | accepted)


def test_what_has_no_place_is_refused_with_port_and_reason_and_nothing_changes(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        before = await service.call("document.get", {"name": "plan"}, by="viewer")
        greedy = {**KEYS, "payload": "1400B", "frames": 8, "max-latency": "990us"}
        error = await refused(fill(service, greedy))
        now = await service.call("document.get", {"name": "plan"}, by="viewer")
        assert not await left(service, before, now)
        await service.put(ONE, {**KEYS, "period": "8ms"})  # and the service goes on
        return error

    error = run(tmp_path, ask)
    assert error.code is Code.CONFLICT
    assert re.search(r"\bs[23]/\w+", str(error))
    assert error.details["failure_code"]


def test_a_refusal_is_an_event_with_its_code_and_of_its_cuc(tmp_path):
    async def ask(service: Asking) -> None:
        error = await refused(service.put(ONE, {**KEYS, "max-latency": "20us"}))
        await refused(service.put(TWO, {**KEYS, "talker": "nobody"}))  # says nothing of the network
        (told,) = [its for its in await service.events() if its["kind"] == "stream-refused"]
        assert (told["cuc"], told["stream_id"], told["reason"]) == (CUC, ONE, str(error))
        assert told["failure_code"] == error.details["failure_code"] == 21

    run(tmp_path, ask)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"talker": "nobody"}, "talker: found 'nobody', expected one of"),
        ({"max-latency": "1us"}, "max-latency: found 1us, expected at least"),
        ({"for": {"n": "1-3"}}, "the key 'for'"),
    ],
)
def test_what_no_intent_may_say_is_refused_in_its_words(tmp_path, keys, said):
    error = run(tmp_path, lambda service: refused(service.put(ONE, {**KEYS, **keys})))
    assert error.code is Code.INVALID
    assert said in str(error)


def test_what_the_first_change_needs_is_prepared_before_anybody_asks(tmp_path, monkeypatch):
    prepared = threading.Event()
    monkeypatch.setattr(Admission, "prepare", lambda _: prepared.set())
    monkeypatch.setattr(decisions, "PREPARED_AFTER_S", 0.1)

    async def ask(_: Asking) -> bool:
        return await asyncio.to_thread(prepared.wait, 20)

    assert run(tmp_path, ask)


def test_a_put_stream_is_there_after_a_restart_and_in_its_place(tmp_path):
    switches = Switches()

    async def put(service: Asking) -> Any:
        await service.put(ONE, KEYS)
        await service.until(ONE, "configured")
        return (await service.call("document.get", {"name": "plan"}, by="viewer"))["streams"]

    async def look(service: Asking) -> Any:
        assert (await service.get(ONE))["state"] == "configured"
        return (await service.call("document.get", {"name": "plan"}, by="viewer"))["streams"]

    before = run(tmp_path, put, switches=switches)
    count = len(switches.plans)
    assert run(tmp_path, look, switches=switches, first=pytest.fail) == before
    assert len(switches.plans) == count  # what runs is not rolled out again


def test_what_was_decided_and_not_rolled_out_is_rolled_out_after_a_restart(tmp_path):
    switches = Switches()
    switches.failure = "s1: does not answer"

    async def put(service: Asking) -> None:
        await service.put(ONE, KEYS)

    run(tmp_path, put, switches=switches)
    switches.failure = None
    run(tmp_path, lambda service: service.until(ONE, "configured"), switches=switches)
    assert put_name(ONE) in switches.plans[-1].streams


def test_a_failed_rollout_leaves_the_stream_planned_with_the_reason_and_is_tried_again(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        switches.failure = "s1: does not answer"
        await service.put(ONE, KEYS)
        following = await service.call("events.follow", {"after": 0})
        async for event in following.items:
            if event["kind"] == "rollout-failed":
                break
        found = await service.get(ONE)
        assert (found["state"], found["reason"]) == ("planned", "s1: does not answer")
        switches.failure = None
        found = await service.until(ONE, "configured")
        assert found["reason"] is None

    run(tmp_path, ask, switches=switches)


def test_changes_within_a_moment_share_a_rollout(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        await asyncio.gather(*(service.put(each, KEYS) for each in (ONE, TWO, THREE)))
        for each in (ONE, TWO, THREE):
            await service.until(each, "configured")

    run(tmp_path, ask, switches=switches)
    assert [len(plan.streams) for plan in switches.plans[-2:]] == [
        len(switches.plans[0].streams),
        len(switches.plans[0].streams) + 3,
    ]


def test_the_whole_plan_is_judged_beside_everything_else_and_what_is_found_is_told(
    tmp_path, monkeypatch
):
    judged: list[Plan] = []

    def judge_of_the_whole(plan: Plan) -> list[Violation]:
        judged.append(plan)
        return [Violation("overlap", "s1/s2", "two frames at once")] if len(judged) == 2 else []

    monkeypatch.setattr(decisions, "WHOLE_AFTER_S", 0.0)
    monkeypatch.setattr(decisions, "judge", judge_of_the_whole)

    async def ask(service: Asking) -> dict[str, Any]:
        await service.until_quiet()
        assert judged == []  # which was done at the start
        following = await service.call("events.follow", {"after": 0}, by="admin")
        await service.put(ONE, KEYS)
        while not judged:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await service.put(TWO, KEYS)
        async for event in following.items:
            if event["kind"] == "plan-unsound":
                return event
        raise AssertionError("the core has ended")

    found = run(tmp_path, ask)
    assert "s1/s2: two frames at once" in found["reason"]
    before, after = (plan.streams.keys() for plan in judged)
    assert after - before == {put_name(TWO)}


def test_the_same_put_again_changes_nothing(tmp_path):
    async def ask(service: Asking) -> None:
        first = await service.put(ONE, KEYS)
        again = await service.put(ONE, KEYS)
        assert again["etag"] == first["etag"]
        assert not again["created"]

    run(tmp_path, ask)


def test_a_stream_that_changes_has_its_new_place_or_keeps_its_old_one(tmp_path):
    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        await service.until(ONE, "configured")
        other = await service.put(ONE, {**KEYS, "payload": "400B"})
        assert (other["created"], other["state"]) == (False, "modified")
        await service.until(ONE, "configured")
        plan = await service.call("document.get", {"name": "plan"}, by="viewer")
        too_much = {**KEYS, "payload": "1400B", "frames": 1000, "max-latency": "900us"}
        await refused(service.put(ONE, too_much))
        now = await service.call("document.get", {"name": "plan"}, by="viewer")
        assert now == plan
        assert (await service.get(ONE))["body"]["intent"]["payload"] == "400B"
        await service.put(TWO, KEYS)  # beside the place that was kept

    run(tmp_path, ask)


def test_who_decides_by_what_is_not_any_more_is_refused(tmp_path):
    async def ask(service: Asking) -> None:
        etag = (await service.put(ONE, KEYS, if_none_match="*"))["etag"]
        assert (await refused(service.put(ONE, KEYS, if_none_match="*"))).code is Code.STALE
        await service.put(ONE, {**KEYS, "payload": "300B"}, if_match=etag)
        assert (await refused(service.put(ONE, KEYS, if_match=etag))).code is Code.STALE
        stale = {"cuc": CUC, "stream_id": ONE, "if_match": etag}
        assert (await refused(service.call("stream.delete", stale))).code is Code.STALE
        assert (await refused(service.put(TWO, KEYS, if_match="*"))).code is Code.STALE

    run(tmp_path, ask)


def test_without_auto_compute_streams_wait_until_they_are_computed_all_or_none(tmp_path):
    async def ask(service: Asking) -> None:
        off = await service.call("domain.set", {"auto_compute": False}, by="operator")
        assert not off["auto_compute"]
        put = await service.put(ONE, KEYS)
        assert (put["placed"], put["state"], put["status"]) == (False, "planned", None)
        await service.put(TWO, {**KEYS, "max-latency": "1us"})
        both = {"cucs": {CUC: "planned-and-modified"}}
        error = await refused(service.call("streams.compute", both))
        assert "max-latency" in str(error)
        found = await service.get(TWO)
        assert not found["placed"]
        assert found["failure_code"]
        assert not (await service.get(ONE))["placed"]
        one = await service.call("streams.compute", {"cucs": {CUC: [ONE]}})
        assert one == {"placed": {CUC: [ONE]}}
        await service.until(ONE, "configured")

    run(tmp_path, ask)


def test_the_streams_of_several_cucs_are_computed_all_or_none_too(tmp_path):
    other = {"cuc": "hmi", "stream_id": ONE}
    both = {"cucs": {CUC: "all", "hmi": [ONE]}}

    async def ask(service: Asking) -> None:
        await service.call("domain.set", {"auto_compute": False}, by="operator")
        await service.put(ONE, KEYS)
        late = {"intent": {**KEYS, "max-latency": "1us"}}
        await service.call("stream.put", {**other, "body": late}, by="operator")
        error = await refused(service.call("streams.compute", both, by="operator"))
        assert "max-latency" in str(error)
        assert not (await service.get(ONE))["placed"]
        failed = [its for its in await service.events() if its["kind"] == "computed"]
        assert [(its["cuc"], [*its["failed"]]) for its in failed] == [(CUC, [ONE]), ("hmi", [ONE])]
        await service.call("stream.put", {**other, "body": {"intent": KEYS}}, by="operator")
        done = await service.call("streams.compute", both, by="operator")
        assert done == {"placed": {CUC: [ONE], "hmi": [ONE]}}

    run(tmp_path, ask)


def test_streams_that_go_together_all_go_or_none(tmp_path):
    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        gone = {"cuc": CUC, "stream_ids": [ONE, TWO]}
        assert (await refused(service.call("streams.delete", gone))).code is Code.ABSENT
        assert (await service.get(ONE))["placed"]
        await service.put(TWO, KEYS)
        assert await service.call("streams.delete", gone) == {"removed": [ONE, TWO]}
        assert (await refused(service.call("cuc.get", {"cuc": CUC}))).code is Code.ABSENT

    run(tmp_path, ask)


def test_a_cuc_goes_with_all_its_streams(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        for each in (ONE, TWO):
            await service.put(each, KEYS)
        etag = (await service.call("cuc.get", {"cuc": CUC}))["etag"]
        stale = {"cuc": CUC, "if_match": "1"}
        assert (await refused(service.call("cuc.delete", stale))).code is Code.STALE
        gone = await service.call("cuc.delete", {"cuc": CUC, "if_match": etag})
        assert gone == {"removed": [ONE, TWO]}
        assert (await refused(service.call("cuc.get", {"cuc": CUC}))).code is Code.ABSENT
        await service.until_quiet()
        kinds = [its["kind"] for its in await service.events()]
        assert kinds.count("stream-removed") == 2

    run(tmp_path, ask, switches=switches)
    assert switches.plans[-1].streams.keys() == app.load_intent(FILE).streams.keys()


def test_a_decision_whose_asker_goes_is_made_and_rolled_out_all_the_same(tmp_path):
    async def ask(service: Asking) -> None:
        putting = asyncio.create_task(service.put(ONE, KEYS))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        putting.cancel()
        await asyncio.gather(putting, return_exceptions=True)
        await service.until(ONE, "configured")

    run(tmp_path, ask)


def test_a_stream_of_the_file_is_no_cucs(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.call("stream.put", {"cuc": "x", "stream_id": ONE, "body": {}}))

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def test_every_change_is_in_the_audit_log_with_who_and_its_rollout(tmp_path):
    async def ask(service: Asking) -> list[dict[str, Any]]:
        await service.put(ONE, KEYS, by="operator")
        await refused(service.put(TWO, {**KEYS, "payload": "1400B", "frames": 1000}))
        await service.until(ONE, "configured")
        return (await service.call("document.get", {"name": "audit"}, by="admin"))["audit"]

    found = run(tmp_path, ask)
    put, *_ = [its for its in found if its["call"] == "stream.put"]
    assert (put["who"], put["role"], put["source"]) == ("operator", "operator", "192.0.2.1")
    assert put["subject"] == f"{CUC} {ONE}"
    assert put["outcome"] == "placed"
    assert put["rollout"]


def test_nothing_is_accepted_while_the_store_cannot_be_written(tmp_path, monkeypatch):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        store = service.store
        monkeypatch.setattr(store, "deciding", _full)
        error = await refused(service.put(ONE, KEYS))
        assert error.code is Code.UNAVAILABLE
        monkeypatch.undo()
        assert (await refused(service.get(ONE))).code is Code.ABSENT
        await service.put(ONE, KEYS)
        await service.until(ONE, "configured")

    run(tmp_path, ask, switches=switches)


def test_an_outcome_that_the_store_cannot_take_is_noted_once_it_can(tmp_path, monkeypatch):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        switches.hold = threading.Event()
        await service.put(ONE, KEYS)
        monkeypatch.setattr(service.store, "deciding", _full)
        switches.hold.set()
        while len(switches.plans) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        monkeypatch.undo()
        assert (await service.until(ONE, "configured"))["rollout"]
        service.core.raise_if_failed()

    run(tmp_path, ask, switches=switches)


def _full(*_: object) -> Any:
    raise CallRefused(Code.UNAVAILABLE, "database or disk is full")


def test_a_rollout_that_is_on_its_way_ends_before_the_service_does(tmp_path):
    switches = Switches()

    async def ask(service: Asking) -> None:
        await service.until_quiet()
        switches.hold = threading.Event()
        await service.put(ONE, KEYS)
        await asyncio.sleep(2 * roller.TOGETHER_S)
        asyncio.get_running_loop().call_later(0.2, switches.hold.set)

    run(tmp_path, ask, switches=switches)
    assert put_name(ONE) in switches.plans[-1].streams
    with state.opened(tmp_path) as (store, _):
        assert store.stream(CUC, ONE).state == "planned"  # the next start finds that it runs


def test_who_follows_gets_what_was_and_what_comes_of_its_own(tmp_path):
    async def ask(service: Asking) -> list[str]:
        await service.put(ONE, KEYS)
        following = await service.call("events.follow", {"after": 0})
        seen = []
        async for event in following.items:
            seen.append(event["kind"])
            if event["kind"] == "stream-placed" and event["stream_id"] == ONE:
                await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
            if event["kind"] == "stream-removed":
                return seen
        return seen

    assert run(tmp_path, ask)[-1] == "stream-removed"


@pytest.mark.parametrize("name", ["topology", "plan", "streams", "rollouts", "events"])
def test_documents_are_there(tmp_path, name):
    found = run(tmp_path, lambda service: service.call("document.get", {"name": name}, by="viewer"))
    assert found is not None


def test_switches_that_do_not_answer_are_in_the_status(tmp_path):
    async def ask(service: Asking) -> Any:
        return await service.call("document.get", {"name": "status"}, by="viewer")

    assert {its["agrees"] for its in run(tmp_path, ask)} == {False}


@pytest.mark.parametrize("name", ["clocks", "metrics"])
def test_what_is_watched_is_unknown_while_rollouts_follow_one_another(tmp_path, name):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.call("document.get", {"name": name}, by="viewer"))

    assert run(tmp_path, ask).details["retry_after_s"]


def test_switches_are_watched_once_rollouts_are_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_QUIET_S", 0.1)

    async def ask(service: Asking) -> tuple[str, Any]:
        await service.until_quiet()
        while not (text := await metrics(service)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        return text, await service.call("document.get", {"name": "clocks"}, by="viewer")

    async def metrics(service: Asking) -> str:
        try:
            found = await service.call("document.get", {"name": "metrics"}, by="viewer")
        except CallRefused:
            return ""
        return found["text"] if "tsn_condition{" in found["text"] else ""

    text, clocks = run(tmp_path, ask)
    assert 'kind="unreachable",port="",switch="s1"' in text
    assert clocks["clocks"] == []


def changed_intent(**streams: Any) -> str:
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    document["streams"] |= streams
    del document["streams"]["valves"]
    return yaml.safe_dump(document)


def test_an_operator_puts_another_intent_and_the_streams_of_cucs_stay(tmp_path):
    switches = Switches()
    put = {"file": "line3.yaml", "text": changed_intent(late=KEYS)}

    async def ask(service: Asking) -> Any:
        await service.put(ONE, KEYS)
        await service.until_quiet()
        before = service.core.decided[0].streams
        answer = await service.call("intent.put", put, by="operator")
        await service.until_quiet()
        assert (await service.call("intent.put", put, by="operator"))["change"] == ""
        return before, answer["change"], service.core.decided[0]

    before, answer, plan = run(tmp_path, ask, switches=switches)
    assert answer == "added late; removed valves"
    assert switches.plans[-1] == plan
    assert plan.streams.keys() == (before.keys() | {"late"}) - {"valves"}
    assert all(plan.streams[name] == before[name] for name in before if name != "valves")
    # The file on this machine says nothing new at the next start.
    assert run(tmp_path, decided) == plan


async def decided(service: Asking) -> Any:
    return service.core.decided[0]


MANY = {f"more{n}": {**KEYS, "period": "10ms", "payload": "64B"} for n in range(30)}


@pytest.mark.parametrize("streams", [{"late": KEYS}, MANY])
def test_others_are_answered_while_an_intent_is_read_and_its_streams_are_placed(
    tmp_path, monkeypatch, streams
):
    """The intent waits at each of the two until a stream was read and another one was put."""
    put = {"file": "line3.yaml", "text": changed_intent(**streams)}
    waits, goes_on = queue.SimpleQueue(), queue.SimpleQueue()

    def waiting(function: Any) -> Any:
        def its(*args: Any, **more: Any) -> Any:
            found = function(*args, **more)
            waits.put(function.__name__)
            goes_on.get(timeout=30)
            return found

        return its

    monkeypatch.setattr(intent_put, "intent_of", waiting(intent_put.intent_of))
    monkeypatch.setattr(intent_put.owner, "tried", waiting(intent_put.owner.tried))

    async def ask(service: Asking) -> Any:
        await service.put(ONE, KEYS)
        answer = asyncio.create_task(service.call("intent.put", put, by="operator"))
        waited = []
        while not answer.done():
            with suppress(queue.Empty):
                waited.append(await asyncio.to_thread(waits.get, timeout=0.05))
                assert (await service.get(ONE))["placed"]
                if len(waited) <= 2:
                    await service.put((TWO, THREE)[len(waited) - 1], KEYS)
                goes_on.put(None)
        return waited, await answer, service.core.decided[0]

    waited, answer, plan = run(tmp_path, ask)
    # What was placed beside the second stream is of no use once that is there.
    assert waited == (["intent_of"] if streams is not MANY else ["intent_of", "tried", "tried"])
    assert "removed valves" in answer["change"]
    of_cuc = {plan_name(CUC, each) for each in (ONE, TWO, THREE)[: 1 + min(len(waited), 2)]}
    assert of_cuc | streams.keys() <= plan.streams.keys()
    assert "valves" not in plan.streams
    assert not judge(plan)


def test_an_intent_that_is_overtaken_again_and_again_holds_up_others_at_last(tmp_path, monkeypatch):
    put = {"file": "line3.yaml", "text": changed_intent(**MANY)}
    overtaken = []

    async def ask(service: Asking) -> Any:
        loop, try_it = asyncio.get_running_loop(), intent_put.owner.tried

        def tried(*args: Any, **more: Any) -> Any:
            found = try_it(*args, **more)
            body = {**KEYS, "payload": f"{100 + len(overtaken)}B"}
            overtaken.append(asyncio.run_coroutine_threadsafe(service.put(ONE, body), loop))
            overtaken[-1].result(30)
            return found

        monkeypatch.setattr(intent_put.owner, "tried", tried)
        answer = await service.call("intent.put", put, by="operator")
        return answer["change"], service.core.decided[0]

    change, plan = run(tmp_path, ask)
    assert len(overtaken) == intent_put.COPIES_MAX
    assert "removed valves" in change
    assert MANY.keys() | {plan_name(CUC, ONE)} <= plan.streams.keys()
    assert not judge(plan)


def intent_with(former: str, text: str) -> str:
    return FILE.read_text(encoding="utf-8").replace(former, text, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("network: [", r"cell.yaml:\d: not YAML"),
        (intent_with("name: line3", "name: other"), "owns line3"),
        (intent_with("period: 1ms", "period: 1 inch"), r"cell.yaml:\d+: "),
        (changed_intent(huge={**KEYS, "max-latency": "1us"}), "huge"),
    ],
)
def test_an_intent_that_cannot_be_taken_changes_nothing(tmp_path, text, why):
    async def ask(service: Asking) -> Any:
        before = service.core.decided
        asked = {"file": "cell.yaml", "text": text}
        error = await refused(service.call("intent.put", asked, by="admin"))
        assert service.core.decided == before
        return error

    error = run(tmp_path, ask)
    assert error.code is Code.INVALID
    assert re.search(why, str(error))
