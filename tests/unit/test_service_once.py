"""A request with an Idempotency-Key is answered once, however often and however late it comes."""

from __future__ import annotations

from cnc.service.refused import CallRefused, Code
from cnc.service.store import Decision
from tests.unit.service_network import CUC, ONE, TWO, Asking
from tests.unit.test_service_core import KEYS, refused, run

GREEDY = {**KEYS, "payload": "1400B", "frames": 8, "max-latency": "990us"}  # two have no room


def test_a_repeated_request_with_the_same_key_is_done_once(tmp_path):
    async def ask(service: Asking) -> None:
        first = await service.put(ONE, KEYS, idempotency_key="k1")
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        again = await service.put(ONE, KEYS, idempotency_key="k1")
        assert again == first
        assert (await refused(service.get(ONE))).code is Code.ABSENT
        other = await refused(service.put(TWO, KEYS, idempotency_key="k1"))
        assert other.code is Code.CONFLICT

    run(tmp_path, ask)


def test_the_key_of_another_token_is_another_key(tmp_path):
    """Who replays somebody else's request makes it himself, and learns nothing of the answer."""

    async def ask(service: Asking) -> None:
        first = await service.put(ONE, KEYS, idempotency_key="k1")
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        viewer = await refused(service.put(ONE, KEYS, idempotency_key="k1", by="viewer"))
        assert viewer.code is Code.FORBIDDEN
        operator = await service.put(ONE, KEYS, idempotency_key="k1", by="operator")
        assert operator["etag"] != first["etag"]
        assert (await service.get(ONE))["etag"] == operator["etag"]
        again = await service.put(ONE, KEYS, idempotency_key="k1")
        assert again == first  # its own answer is still there

    run(tmp_path, ask)


def test_what_was_refused_is_not_placed_when_a_copy_of_it_comes_late(tmp_path):
    """One that waited at a controller which stood still comes when there is room."""

    async def ask(service: Asking) -> None:
        await service.put(ONE, GREEDY)
        first = await refused(service.put(TWO, GREEDY, idempotency_key="k1"))
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        late = await refused(service.put(TWO, GREEDY, idempotency_key="k1"))
        assert late.to_object() == first.to_object()
        assert first.code is Code.CONFLICT
        assert (await service.put(TWO, GREEDY, idempotency_key="k2"))["created"]
        (audited,) = [
            its
            for its in (await service.call("document.get", {"name": "audit"}, by="admin"))["audit"]
            if its["outcome"].startswith("refused")
        ]
        assert audited["subject"] == f"{CUC} {TWO}"

    run(tmp_path, ask)


def test_what_was_not_there_to_remove_is_not_removed_when_a_copy_comes_late(tmp_path):
    gone = {"cuc": CUC, "stream_id": ONE, "idempotency_key": "k1"}

    async def ask(service: Asking) -> None:
        for _ in range(2):
            assert (await refused(service.call("stream.delete", gone))).code is Code.ABSENT
            await service.put(ONE, KEYS)
        assert (await service.get(ONE))["placed"]

    run(tmp_path, ask)


def test_what_was_there_already_is_not_put_again_when_a_copy_comes_late(tmp_path):
    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        unchanged = await service.put(ONE, KEYS, idempotency_key="k1")
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        assert await service.put(ONE, KEYS, idempotency_key="k1") == unchanged
        assert (await refused(service.get(ONE))).code is Code.ABSENT

    run(tmp_path, ask)


def test_what_is_asked_of_a_cuc_or_the_domain_is_done_once_too(tmp_path):
    gone = {"cuc": CUC, "idempotency_key": "k1"}

    async def ask(service: Asking) -> None:
        await service.put(ONE, KEYS)
        first = await service.call("cuc.delete", gone)
        await service.put(TWO, KEYS)
        assert await service.call("cuc.delete", gone) == first == {"removed": [ONE]}
        assert (await service.get(TWO))["placed"]
        off = {"auto_compute": False, "idempotency_key": "k2"}
        domain = await service.call("domain.set", off, by="operator")
        assert domain == await service.call("domain.get")
        await service.call("domain.set", {"auto_compute": True}, by="operator")
        assert await service.call("domain.set", off, by="operator") == domain
        assert (await service.call("domain.get"))["auto_compute"]

    run(tmp_path, ask)


def test_who_has_too_many_streams_asks_again_with_the_same_key(tmp_path):
    async def ask(service: Asking) -> None:
        await service.call("quota.set", {"cuc": CUC, "streams": 0}, by="admin")
        full = await refused(service.put(ONE, KEYS, idempotency_key="k1"))
        assert full.code is Code.TOO_MANY
        await service.call("quota.set", {"cuc": CUC, "streams": 1}, by="admin")
        assert (await service.put(ONE, KEYS, idempotency_key="k1"))["created"]

    run(tmp_path, ask)


def test_who_is_refused_by_what_cannot_be_kept_is_to_ask_again(tmp_path, monkeypatch):
    """Else a copy that comes when the store is written again would do what was refused. Without a
    key there is no such copy, and the reason is what helps."""

    def full(*_: object, **_more: object) -> None:
        raise CallRefused(Code.UNAVAILABLE, "database or disk is full")

    async def ask(service: Asking) -> None:
        await service.put(ONE, GREEDY)
        await service.until_quiet()
        monkeypatch.setattr(Decision, "remember", full)
        monkeypatch.setattr(Decision, "tell", full)
        kept = await refused(service.put(TWO, GREEDY, idempotency_key="k1"))
        assert kept.code is Code.UNAVAILABLE
        assert (await refused(service.put(TWO, GREEDY))).code is Code.CONFLICT

    run(tmp_path, ask)


def test_what_has_no_key_is_the_same_when_it_is_done_twice(tmp_path):
    """Of `/api/v1`: a copy that comes late rolls out what is decided then, sets what it set, or is
    refused. A token that is rotated twice has the text of the second answer."""
    same = {
        "quota.set": {"cuc": CUC, "streams": 5},
        "token.key": {"name": "viewer", "ssh_key": None},
        "token.revoke": {"name": "viewer"},
    }

    async def ask(service: Asking) -> None:
        for call, arguments in same.items():
            first = await service.call(call, arguments, by="admin")
            assert await service.call(call, arguments, by="admin") == first
        added = {"name": "x", "role": "viewer"}
        token = (await service.call("token.add", added, by="admin"))["token"]
        assert (await refused(service.call("token.add", added, by="admin"))).code is Code.CONFLICT
        assert (await service.call("who", by=token))["name"] == "x"
        texts = [
            (await service.call("token.rotate", {"name": "x"}, by="admin"))["token"]
            for _ in range(2)
        ]
        assert (await service.call("who", by=texts[-1]))["name"] == "x"
        await service.put(ONE, KEYS)
        await service.until_quiet()
        decided = service.core.decided
        for _ in range(2):
            assert (await service.call("push", by="operator"))["accepted"]
        await service.until_quiet()
        assert service.core.decided == decided

    run(tmp_path, ask)
