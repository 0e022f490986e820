"""Changes that a standby is asked for: its worker and its core hand them to the leader, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cnc.service import certificate
from cnc.service.calls import CALLS, VIA, Forward
from cnc.service.channel import Request
from cnc.service.forwarding import forwarded
from cnc.service.lease import Lease
from cnc.service.refused import CallRefused, Code
from tests.unit.service_fixture import FixtureCore
from tests.unit.uni_bodies import STREAM_ID, body
from tests.unit.web_worker import Worker, worker

CUC = "/restconf/data/ieee802-dot1q-cnc-config:cnc-config/domain=cell/cuc=plc"
STREAM = f"{CUC}/stream={STREAM_ID.replace(':', '%3A')}"


class Standby(FixtureCore):
    """Decides nothing: `leader` does."""

    def __init__(self, leader: Lease | None) -> None:
        super().__init__()
        self.leader = leader

    async def answer(self, request: Request) -> Any:
        its = CALLS.get(request.call)
        if its and its.changes:
            url = self.leader.url if self.leader else ""
            details = {"retry_after_s": 1, **({"elsewhere": url} if self.leader else {})}
            raise CallRefused(Code.UNAVAILABLE, f"{url} leads, not this one", details=details)
        if request.call == "forward":
            assert self.leader
            return forwarded(Forward(**request.arguments), self.leader, request.token)
        return await super().answer(request)


def standing_by(directory: Path, leader: Lease | None) -> AbstractContextManager[Worker]:
    directory.mkdir()

    @asynccontextmanager
    async def core() -> AsyncIterator[Any]:
        yield Standby(leader).answer

    return worker(directory, core)


def lease(leading: Worker, trusted: Path | None = None) -> Lease:
    pem = (trusted or leading.trusted).read_text()
    return Lease("its process", 1, 1, 10**10, leading.url, pem)


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("leader")) as its:
        yield its


@pytest.fixture(scope="module")
def standby(leading: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with standing_by(tmp_path_factory.mktemp("home") / "standby", lease(leading)) as its:
        yield its


def put(its: Worker, *, max_latency: int = 200_000, **headers: str) -> Any:
    asked = body(1, [3], [{"ipv4-tuple": {"dscp": 46}}], max_latency=max_latency)
    headers = {"Content_Type": "application/yang-data+json", **headers}
    return its.ask("PUT", STREAM, {"ieee802-dot1q-cnc-config:stream": [asked]}, **headers)


def test_a_stream_that_a_standby_is_asked_for_is_the_leaders_with_all_of_the_answer(
    standby: Worker, leading: Worker
) -> None:
    made = put(standby)
    assert made.status == 201, made.octets
    assert made.headers["location"] == STREAM
    there = leading.ask("GET", STREAM)
    assert there.headers["etag"] == made.headers["etag"]
    assert put(standby, If_None_Match="*").status == 412
    assert put(standby, If_Match='"0"').status == 412
    refused = put(standby, max_latency=1)
    assert (refused.status, refused.error["error-info"]["tsn-cnc:failure-code"]) == (409, 3)
    assert standby.ask("DELETE", STREAM).status == 204
    assert leading.ask("GET", STREAM).status == 404


def test_what_the_leader_refuses_in_the_words_of_the_other_api_comes_back_in_these(
    standby: Worker,
) -> None:
    refused = standby.ask("POST", "/api/v1/push")
    assert (refused.status, refused.json["error"]["text"]) == (503, "push: not in this fixture")


def test_who_may_not_ask_a_standby_does_not_reach_the_leader(standby: Worker) -> None:
    assert standby.ask("DELETE", STREAM, by="nobody").status == 401


def test_a_request_that_was_forwarded_is_not_forwarded_again(standby: Worker) -> None:
    refused = standby.ask("DELETE", STREAM, Via=VIA)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


def test_a_leader_with_another_certificate_is_not_asked(leading: Worker, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other, _ = certificate.ensure(tmp_path / "other")
    with standing_by(tmp_path / "standby", lease(leading, other)) as standby:
        refused = standby.ask("DELETE", STREAM)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert "gives no answer" in refused.error["error-message"]
    assert "verify failed" in refused.error["error-message"]


def test_without_a_leader_a_change_is_to_be_asked_for_again(tmp_path: Path) -> None:
    with standing_by(tmp_path / "standby", None) as standby:
        refused = standby.ask("DELETE", STREAM)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert standby.ask("GET", "/api/v1/who").status == 200
