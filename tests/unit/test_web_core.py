"""A worker before the real core, with a store and a planner: what a CUC asks for, end to end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from yangson.enumerations import ContentType

from cnc.errors import InputError
from cnc.service import certificate
from cnc.service.client import Client
from cnc.service.refused import CallRefused, Code
from cnc.service.web import schema
from tests.unit.service_network import CUC
from tests.unit.uni_bodies import STREAM_ID, body, network
from tests.unit.web_worker import Reply, Worker, planning, worker

MODULE = "ieee802-dot1q-cnc-config"
ROOT = f"/restconf/data/{MODULE}:cnc-config/domain=line3/cuc={CUC}"
PACKET = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("core")
    file = directory / "line3.yaml"
    file.write_text(yaml.safe_dump(dict(network("line3.yaml").document)))

    with worker(directory, planning(directory, file)) as its:
        yield its


@pytest.fixture(autouse=True)
def nothing_is_stored(web: Worker) -> Iterator[None]:
    yield
    web.ask("DELETE", ROOT)


@pytest.fixture
def client(web: Worker) -> Iterator[Client]:
    with Client(web.url, CUC, certificate=web.trusted) as its:
        yield its


def asked(number: int = 1, **traffic: Any) -> dict[str, Any]:
    stream_id = f"02-00-00-00-01-01:00-{number:02X}"
    return {**body(1, [3], [PACKET], **traffic), "stream-id": stream_id}


def test_an_accepted_stream_is_told_its_place_in_the_standards_words(client: Client) -> None:
    placed = client.put_stream(CUC, asked(max_latency=100_000))

    talker = placed["talker"]
    assert 0 < talker["accumulated-latency"] <= 100_000
    (interface,) = talker["interface-configuration"]["interface-list"]
    assert "time-aware-offset" in interface["config-list"][-1]
    assert placed["status-info"]["failure-code"] == 0
    assert placed["listener"][0]["accumulated-latency"] == talker["accumulated-latency"]


def test_what_is_told_is_valid_by_the_yang(web: Worker, client: Client) -> None:
    client.put_stream(CUC, asked())
    tree = web.ask("GET", f"/restconf/data/{MODULE}:cnc-config").json
    schema.model().from_raw(tree).validate(ctype=ContentType.all)


def test_a_stream_that_switches_run_is_ready(client: Client) -> None:
    """Its id is used by no other test, whose events come first."""
    its = client.put_stream(CUC, asked(0x77))
    assert its["status-info"]["talker-status"] == "none"
    for event in client.events(0):
        if event["kind"] == "stream-configured" and event["stream_id"] == its["stream-id"]:
            break
    its = client.stream(CUC, its["stream-id"])
    assert its["stream-status"] == "configured"
    assert its["status-info"]["talker-status"] == "ready"


def test_a_latency_that_no_place_keeps_is_refused_with_code_21(client: Client) -> None:
    with pytest.raises(CallRefused) as refusal:
        client.put_stream(CUC, asked(max_latency=1_000))

    assert refusal.value.code is Code.CONFLICT
    assert refusal.value.details["failure_code"] == 21
    assert "start of the interval" in str(refusal.value)
    with pytest.raises(CallRefused, match="no stream"):
        client.stream(CUC, STREAM_ID)


def test_streams_that_share_a_link_are_all_in_time_from_the_start_of_the_interval(
    client: Client,
) -> None:
    """Each has a place of its own, and the later ones have less room for an offset."""
    latencies = []
    for number in range(1, 9):
        its = client.put_stream(CUC, asked(number, max_latency=150_000))
        latencies.append(its["talker"]["accumulated-latency"])
    assert max(latencies) <= 150_000
    assert len(set(latencies)) == len(latencies)


def test_a_full_interval_refuses_and_changes_nothing(client: Client) -> None:
    client.put_stream(CUC, asked(1, max_latency=45_000))
    before = client.stream(CUC, STREAM_ID)
    with pytest.raises(CallRefused) as refusal:
        client.put_stream(CUC, asked(2, max_latency=45_000))
    assert refusal.value.details["failure_code"] == 1
    assert "no free slot" in str(refusal.value)
    assert client.stream(CUC, STREAM_ID)["talker"] == before["talker"]


def test_an_idempotency_key_has_a_request_done_once(client: Client) -> None:
    first = client.put_stream(CUC, asked(), idempotency_key="k1")
    for _ in range(2):
        client.remove_stream(CUC, STREAM_ID, idempotency_key="k2")
    with pytest.raises(CallRefused, match="no stream"):
        client.remove_stream(CUC, STREAM_ID)
    again = client.put_stream(CUC, asked(), idempotency_key="k1")
    assert again["talker"] == first["talker"]
    with pytest.raises(CallRefused, match="no stream"):
        client.stream(CUC, STREAM_ID)


def test_a_patch_that_is_repeated_with_its_key_is_answered_as_before(
    web: Worker, client: Client
) -> None:
    """The stream that it was merged into is another one by then."""
    client.put_stream(CUC, asked())

    def patched(octets: int) -> Reply:
        its = {"talker": {"traffic-specification": {"max-frame-size": octets}}}
        path = f"{ROOT}/stream={quote(STREAM_ID, safe='')}"
        return web.ask("PATCH", path, {f"{MODULE}:stream": [its]}, by=CUC, idempotency_key="k3")

    first, again = patched(300), patched(300)
    assert first.status == HTTPStatus.OK
    assert (again.json, again.headers["etag"]) == (first.json, first.headers["etag"])
    assert patched(400).status == HTTPStatus.CONFLICT


def test_a_cuc_that_is_removed_with_a_key_is_removed_once(web: Worker, client: Client) -> None:
    for _ in range(2):
        client.put_stream(CUC, asked())
        gone = web.ask("DELETE", ROOT, by=CUC, idempotency_key="k4")
        assert gone.status == HTTPStatus.NO_CONTENT
    assert client.stream(CUC, STREAM_ID)["stream-id"] == STREAM_ID


def operation(web: Worker, path: str, key: str, **given: Any) -> str:
    reply = web.ask("POST", path, {f"{MODULE}:input": given}, by=CUC, idempotency_key=key)
    assert reply.status == HTTPStatus.OK
    return str(reply.json[f"{MODULE}:output"]["result"])


def has_place(client: Client, number: int) -> bool:
    return "accumulated-latency" in client.stream(CUC, asked(number)["stream-id"])["talker"]


@pytest.fixture
def without_auto_compute(web: Worker) -> Iterator[None]:
    domain = ROOT.rpartition("/")[0]
    for value in (False, True):
        entry = {"domain-id": "line3", "tsn-cnc:auto-compute": value}
        web.ask("PATCH", domain, {f"{MODULE}:domain": [entry]})
        if not value:
            yield


@pytest.mark.usefixtures("without_auto_compute")
def test_an_operation_that_is_repeated_with_its_key_is_done_once(
    web: Worker, client: Client
) -> None:
    """A copy that comes late does not place what was stored since the first."""
    path = f"/restconf/operations/{MODULE}:compute_all_streams"
    domain = {"domain-id": "line3", "cuc": [{"cuc-id": CUC}]}
    for number in (1, 2):
        client.put_stream(CUC, asked(number))
        assert operation(web, path, "k5", domain=[domain]) == "success"
    assert (has_place(client, 1), has_place(client, 2)) == (True, False)


def test_the_action_that_is_repeated_with_its_key_removes_once(web: Worker, client: Client) -> None:
    for _ in range(2):
        client.put_stream(CUC, asked())
        listed = [{"stream-id": STREAM_ID}]
        assert operation(web, f"{ROOT}/remove_streams", "k6", **{"stream-list": listed}) == (
            "success"
        )
    assert has_place(client, 1)


def test_requests_at_once_are_decided_one_after_the_other(web: Worker) -> None:
    def put(number: int) -> int:
        path = f"{ROOT}/stream={quote(asked(number)['stream-id'], safe='')}"
        content = {f"{MODULE}:stream": [asked(number, max_latency=500_000)]}
        return web.ask("PUT", path, content, by=CUC).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(put, range(1, 17))) == {HTTPStatus.CREATED}


def test_a_client_trusts_the_certificate_that_it_is_given_and_no_other(
    web: Worker, tmp_path: Path
) -> None:
    other, _ = certificate.ensure(tmp_path, "127.0.0.1")
    with (
        Client(web.url, CUC, certificate=other) as client,
        pytest.raises(CallRefused, match="another certificate"),
    ):
        client.document("plan")
    elsewhere = web.url.replace("localhost", "127.0.0.2")
    with Client(elsewhere, CUC, certificate=web.trusted) as client, pytest.raises(CallRefused):
        client.document("plan")


@pytest.mark.parametrize(
    "url", ["http://localhost", "https://", "localhost:1", "https://a@b", "https://a:x"]
)
def test_a_client_needs_the_address_of_a_service(web: Worker, url: str) -> None:
    with pytest.raises(InputError):
        Client(url, CUC, certificate=web.trusted)


def test_a_client_has_the_documents_and_says_what_is_refused(web: Worker, client: Client) -> None:
    with Client(web.url, "admin", certificate=web.trusted) as admin:
        assert admin.document("topology")["name"] == "line3"
        added = admin.ask("POST", "/api/v1/tokens", {"name": "v", "role": "viewer"})
        assert added["token"].startswith("cnc_")
        assert admin.ask("DELETE", "/api/v1/tokens/v") == {"name": "v"}
    with pytest.raises(CallRefused) as refusal:
        client.document("plan")
    assert refusal.value.code is Code.FORBIDDEN


def test_a_service_that_is_gone_is_said_so(web: Worker) -> None:
    with Client("https://localhost:1", CUC, certificate=web.trusted) as client:
        with pytest.raises(CallRefused) as refusal:
            client.document("plan")
        assert refusal.value.code is Code.UNAVAILABLE
