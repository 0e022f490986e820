"""Who may what: tokens, roles and quotas, as the core looks at them with each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cnc.service.access import Access, digest_of, new_token
from cnc.service.calls import CALLS, Role, TokenAdd
from cnc.service.channel import Request
from cnc.service.refused import CallRefused, Code
from cnc.service.store import FILE_NAME
from tests.unit.service_network import CUC, ONE, TWO, Asking, Switches, service
from tests.unit.test_service_core import KEYS, refused

_ARGUMENTS: dict[str, Any] = {
    "domain.set": {"auto_compute": True},
    "cuc.get": {"cuc": CUC},
    "cuc.delete": {"cuc": CUC},
    "stream.get": {"cuc": CUC, "stream_id": ONE},
    "stream.put": {"cuc": CUC, "stream_id": ONE, "body": {"intent": KEYS}},
    "stream.delete": {"cuc": CUC, "stream_id": ONE},
    "streams.delete": {"cuc": CUC, "stream_ids": [ONE]},
    "streams.compute": {"cucs": {CUC: "all"}},
    "document.get": {"name": "topology"},
    "command.run": {"words": ["status"]},
    "intent.put": {"file": "line3.yaml", "text": ""},
    "token.add": {"name": "x", "role": "viewer"},
    "token.rotate": {"name": "viewer"},
    "token.key": {"name": "viewer", "ssh_key": None},
    "token.revoke": {"name": "viewer"},
    "quota.set": {"cuc": CUC, "streams": 5},
}


def run(directory: Path, ask: Callable[[Asking], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        async with service(directory, Switches()) as asking:
            return await ask(asking)

    return asyncio.run(asyncio.wait_for(whole(), 60))


async def through(items: AsyncIterator[Any]) -> None:
    async for _ in items:
        pass


def test_every_call_is_refused_to_every_role_that_may_not(tmp_path):
    async def ask(service: Asking) -> None:
        for call, its in CALLS.items():
            for role in Role:
                by = CUC if role is Role.CUC else str(role)
                if role not in its.roles:
                    error = await refused(service.call(call, _ARGUMENTS.get(call), by=by))
                    assert error.code is Code.FORBIDDEN, (call, role)
            for nobody in ("", "cnc_guessed"):
                error = await refused(service.call(call, _ARGUMENTS.get(call), by=nobody))
                assert error.code is Code.UNAUTHENTICATED, call

    run(tmp_path, ask)


@pytest.mark.parametrize("call", [each for each in _ARGUMENTS if "cuc" in _ARGUMENTS[each]])
def test_a_cuc_asks_for_its_own_alone(tmp_path, call):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.call(call, {**_ARGUMENTS[call], "cuc": "other"}))

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def test_a_cuc_has_its_own_streams_computed_alone(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        both = {"cucs": {CUC: "all", "other": "all"}}
        return await refused(service.call("streams.compute", both))

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def test_a_viewer_does_not_read_the_audit_log(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.call("document.get", {"name": "audit"}, by="viewer"))

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def test_of_a_token_nothing_is_kept_that_would_let_in(tmp_path):
    async def ask(service: Asking) -> str:
        return service.tokens["admin"]

    token = run(tmp_path, ask)
    kept = b"".join(its.read_bytes() for its in tmp_path.glob(f"{FILE_NAME}*"))
    assert token.encode() not in kept
    assert digest_of(token).encode() in kept


def test_a_rotated_token_is_good_for_minutes_and_its_successor_after_a_restart(tmp_path):
    async def ask(service: Asking) -> str:
        made = await service.call("token.rotate", {"name": CUC}, by="admin")
        for token in (made["token"], service.tokens[CUC]):
            assert (await service.call("who", by=token))["cuc"] == CUC
        return made["token"]

    token = run(tmp_path, ask)

    async def later(service: Asking) -> None:
        assert (await service.call("who", by=token))["name"] == CUC

    run(tmp_path, later)


def test_tokens_end_when_they_expire_and_former_ones_after_their_time():
    token, its = new_token("one", Role.VIEWER, None, 1)
    past = datetime.now(UTC) - timedelta(seconds=1)
    with pytest.raises(CallRefused, match="token one expired"):
        Access([replace(its, expires=past)], {}).asker(token, "")
    rotated = replace(its, digest="another", former_digest=its.digest, former_until=past)
    with pytest.raises(CallRefused, match="no valid token"):
        Access([rotated], {}).asker(token, "")


SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICs3Mp1FyVdTuyhJlqbRq3Aqdq1fEwqvu3yFW1VrS3Zy"


OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFpLQkhuT2gDFXbzM4ZXZ4ZhCYy4NbcDiFh4uYHDPcJ9"
FINGERPRINT = "SHA256:0imacVU+3/kFz7swEzWX1es8JRXddMyYkO9w3jP/UP8"  # by ssh-keygen -l
LOGGED_IN = f"plc-1 {FINGERPRINT}"


def adding(**changes: Any) -> TokenAdd:
    return TokenAdd(**{"name": "plc-1", "role": "cuc", "cuc": CUC, "ssh_key": SSH_KEY, **changes})


def test_an_ssh_key_logs_in_as_its_token_for_as_long_as_that_is_good():
    _, its = Access([], {}).added(adding(ssh_key=f"{SSH_KEY} jo@laptop"))
    assert its.ssh_key == SSH_KEY
    now = datetime.now(UTC)
    for record, key in (
        (its, SSH_KEY),
        (Access([its], {}).rotated("plc-1", None)[1], SSH_KEY),
        (replace(its, revoked=now), None),
        (replace(its, expires=now), None),
        (replace(its, ssh_key=None), None),
    ):
        access = Access([record], {})
        assert access.ssh_key("plc-1") == key
        if key:
            assert access.asker_named(LOGGED_IN, "").cuc == CUC
        else:
            with pytest.raises(CallRefused) as error:
                access.asker_named(LOGGED_IN, "")
            assert error.value.code is Code.UNAUTHENTICATED
    assert Access([], {}).ssh_key("plc-1") is None


def test_another_key_takes_the_place_of_one_and_sessions_of_the_former_are_refused(tmp_path):
    async def ask(service: Asking) -> Any:
        await service.call("token.add", adding().model_dump(), by="admin")
        named, asked = service.core.answer_named, {"name": "plc-1", "ssh_key": OTHER_KEY}
        shown = await service.call("token.key", asked, by="admin")
        error = await refused(named(Request("who", token=LOGGED_IN)))
        assert error.code is Code.UNAUTHENTICATED
        now = f"plc-1 {shown['ssh_key']}"
        assert (await named(Request("who", token=now)))["name"] == "plc-1"
        listed = (await service.call("token.list", by="admin"))["tokens"]
        assert {its["name"]: its["ssh_key"] for its in listed}["plc-1"] == shown["ssh_key"]
        gone = await service.call("token.key", {**asked, "ssh_key": None}, by="admin")
        assert gone["ssh_key"] is None
        assert (await refused(named(Request("who", token=now)))).code is Code.UNAUTHENTICATED
        audit = await service.call("document.get", {"name": "audit"}, by="admin")
        return shown["ssh_key"], [
            each["outcome"] for each in audit["audit"] if each["call"] == "token.key"
        ]

    key, outcomes = run(tmp_path, ask)
    assert key != FINGERPRINT
    assert outcomes == [f"key: {key}", "key: none"]


def test_what_is_no_public_key_is_refused():
    for wrong in ("", "ssh-ed25519", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----"):
        with pytest.raises(CallRefused, match="no public SSH key") as error:
            Access([], {}).added(adding(ssh_key=wrong))
        assert error.value.code is Code.INVALID


def test_a_revoked_token_gets_neither_a_successor_nor_another_key():
    _, its = Access([], {}).added(adding())
    access = Access([replace(its, revoked=datetime.now(UTC))], {})
    for change in (access.rotated, access.with_key):
        with pytest.raises(CallRefused, match="token plc-1 is revoked") as error:
            change("plc-1", None)
        assert error.value.code is Code.CONFLICT


def test_a_netconf_server_asks_by_the_names_of_tokens_with_a_key(tmp_path):
    async def ask(service: Asking) -> None:
        await service.call("token.add", adding().model_dump(), by="admin")
        named = service.core.answer_named
        its = await named(Request("ssh-key.get", {"name": "plc-1"}))
        assert its == {"key": SSH_KEY, "fingerprint": FINGERPRINT}
        its = await named(Request("ssh-key.get", {"name": "admin"}))
        assert its == {"key": None, "fingerprint": None}
        assert (await named(Request("who", token=LOGGED_IN)))["cuc"] == CUC
        error = await refused(named(Request("token.list", token=LOGGED_IN)))
        assert error.code is Code.FORBIDDEN
        for name in ("admin", "admin None", "plc-1"):
            error = await refused(named(Request("who", token=name)))
            assert error.code is Code.UNAUTHENTICATED
        error = await refused(service.core.answer(Request("who", token="plc-1")))  # noqa: S106
        assert error.code is Code.UNAUTHENTICATED

    run(tmp_path, ask)


def test_who_follows_is_cut_off_when_its_token_is_revoked(tmp_path):
    async def ask(service: Asking) -> None:
        following = await service.call("events.follow", {"after": 0}, by="viewer")
        items = aiter(following.items)
        await anext(items)
        await service.call("token.revoke", {"name": "viewer"}, by="admin")
        assert (await refused(through(items))).code is Code.UNAUTHENTICATED

    run(tmp_path, ask)


def test_the_last_admin_is_not_revoked(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.call("token.revoke", {"name": "admin"}, by="admin"))

    assert "the last one of an admin" in str(run(tmp_path, ask))


def test_a_cuc_has_as_many_streams_as_its_quota(tmp_path):
    async def ask(service: Asking) -> None:
        await service.call("quota.set", {"cuc": CUC, "streams": 1}, by="admin")
        await service.put(ONE, KEYS)
        error = await refused(service.put(TWO, KEYS))
        assert (error.code, "its quota" in str(error)) == (Code.TOO_MANY, True)
        await service.put(ONE, {**KEYS, "payload": "300B"})  # no more than it has
        await service.call("stream.delete", {"cuc": CUC, "stream_id": ONE})
        await service.put(TWO, KEYS)

    run(tmp_path, ask)


def test_a_cuc_that_asks_too_often_is_told_when_to_come_again_and_others_are_served(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        await service.call("quota.set", {"cuc": CUC, "requests_per_minute": 60}, by="admin")
        asked = [service.call("who") for _ in range(100)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        await service.call("who", by="viewer")
        return next(its for its in found if isinstance(its, CallRefused))

    error = run(tmp_path, ask)
    assert error.code is Code.TOO_MANY
    assert error.details["retry_after_s"] > 0


def test_the_call_that_looks_at_the_token_and_the_one_behind_it_are_one_request(tmp_path):
    """As a worker makes them for each PUT; more than twice as many calls are no way around."""

    async def ask(service: Asking) -> None:
        await service.call("quota.set", {"cuc": CUC, "requests_per_minute": 1}, by="admin")
        stream = {"cuc": CUC, "stream_id": ONE}
        calls = [("domain.get", {}), ("stream.get", stream), ("stream.get", stream)]
        codes = []
        for call, arguments in calls * 10:
            try:
                await service.call(call, arguments)
            except CallRefused as error:
                codes.append(error.code)
            else:
                codes.append(None)
        served = [code is not Code.TOO_MANY for code in codes]
        assert served[:6] == [True, True, True, False, False, False]
        assert not any(served[6:])

    run(tmp_path, ask)


def test_what_frames_are_policed_by_is_not_for_a_cuc_to_say(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.put(ONE, {**KEYS, "policing": "off"}))

    assert run(tmp_path, ask).code is Code.FORBIDDEN


def test_a_body_that_is_longer_than_a_stream_is_refused(tmp_path):
    async def ask(service: Asking) -> CallRefused:
        return await refused(service.put(ONE, {**KEYS, "class": ["x" * 100] * 1000}))

    assert run(tmp_path, ask).code is Code.TOO_LARGE
