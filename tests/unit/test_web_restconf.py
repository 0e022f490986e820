"""RESTCONF of a worker (RFC 8040), before a core that answers from memory."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tests.unit.uni_bodies import STREAM_ID, body
from tests.unit.web_worker import Reply, Worker, worker

MODULE = "ieee802-dot1q-cnc-config"
DOMAIN = f"/restconf/data/{MODULE}:cnc-config/domain=cell"
CUC = f"{DOMAIN}/cuc=plc"
STREAM = f"{CUC}/stream={STREAM_ID.replace(':', '%3A')}"
OPERATIONS = f"/restconf/operations/{MODULE}"
YANG_JSON = "application/yang-data+json"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("web")) as its:
        yield its


@pytest.fixture(autouse=True)
def nothing_is_stored(web: Worker) -> Iterator[None]:
    yield
    web.ask("DELETE", CUC)
    set_auto_compute(web, value=True)


def set_auto_compute(web: Worker, *, value: bool) -> Reply:
    entry = {"domain-id": "cell", "tsn-cnc:auto-compute": value}
    return web.ask("PATCH", DOMAIN, {f"{MODULE}:domain": [entry]})


def asked(**traffic: Any) -> dict[str, Any]:
    return body(1, [3], [{"ipv4-tuple": {"dscp": 46}}], **traffic)


def put(web: Worker, its: dict[str, Any], **headers: str) -> Reply:
    return web.ask("PUT", STREAM, {f"{MODULE}:stream": [its]}, **headers)


def operation(web: Worker, name: str, **given: Any) -> Reply:
    return web.ask("POST", f"{OPERATIONS}:{name}", {f"{MODULE}:input": given})


def test_a_client_finds_the_api_its_modules_and_its_event_stream(web: Worker) -> None:
    assert b"href='/restconf'" in web.ask("GET", "/.well-known/host-meta", by=None).octets
    api = web.ask("GET", "/restconf").json["ietf-restconf:restconf"]
    assert f"{MODULE}:compute_streams" in api["operations"]
    modules = web.ask("GET", "/restconf/data/ietf-yang-library:modules-state").json
    names = {each["name"] for each in modules["ietf-yang-library:modules-state"]["module"]}
    assert {MODULE, "tsn-cnc"} <= names
    state = "/restconf/data/ietf-restconf-monitoring:restconf-state"
    (stream,) = web.ask("GET", f"{state}/streams").json["ietf-restconf-monitoring:streams"][
        "stream"
    ]
    assert stream["access"][0]["location"].endswith("/restconf/streams/NETCONF")


def test_a_stream_is_created_changed_read_and_deleted(web: Worker) -> None:
    created = put(web, asked())
    changed = put(web, asked(max_frame_size=300))
    found = web.ask("GET", STREAM)
    gone = web.ask("DELETE", STREAM)

    assert (created.status, changed.status) == (HTTPStatus.CREATED, HTTPStatus.OK)
    assert created.headers["location"] == STREAM
    assert found.headers["content-type"] == YANG_JSON
    (its,) = found.json[f"{MODULE}:stream"]
    assert its["talker"]["traffic-specification"]["max-frame-size"] == 300
    assert its["stream-status"] == "planned"
    assert gone.status == HTTPStatus.NO_CONTENT
    assert web.ask("GET", STREAM).status == HTTPStatus.NOT_FOUND


def test_a_stream_without_a_place_is_a_conflict_with_code_and_reason(web: Worker) -> None:
    refused = put(web, asked(max_latency=1))

    assert refused.status == HTTPStatus.CONFLICT
    assert refused.error["error-tag"] == "operation-failed"
    assert refused.error["error-info"] == {
        "tsn-cnc:failure-code": 3,
        "tsn-cnc:reason": "no room at sw1/p1",
    }
    assert web.ask("GET", STREAM).status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("leaf", "value", "place"),
    [
        ("max-frame-size", 65536, "/talker/traffic-specification/max-frame-size"),
        ("max-frame-size", "100", "/talker/traffic-specification/max-frame-size"),
        ("no-such-leaf", 1, "/talker/traffic-specification/no-such-leaf"),
    ],
)
def test_what_the_yang_does_not_have_is_refused_with_its_place(
    web: Worker, leaf: str, value: Any, place: str
) -> None:
    its = asked()
    its["talker"]["traffic-specification"][leaf] = value

    refused = put(web, its)

    assert refused.status == HTTPStatus.BAD_REQUEST
    assert refused.error["error-path"].endswith(place)


def test_a_stream_that_is_not_that_of_the_url_is_refused(web: Worker) -> None:
    assert put(web, {**asked(), "stream-id": "02-00-00-00-01-01:00-02"}).status == 400


def test_state_is_not_written(web: Worker) -> None:
    assert put(web, {**asked(), "stream-status": "configured"}).status == 400


def test_a_patch_merges_containers_and_lists_by_their_keys(web: Worker) -> None:
    put(web, asked())
    patch = {
        "talker": {"traffic-specification": {"max-frame-size": 300}},
        "listener": [
            {"index": 0, "user-to-network-requirements": {"max-latency": 9_000}},
            {
                "index": 1,
                "end-station-interfaces": [
                    {"mac-address": "02-00-00-00-01-04", "interface-name": ""}
                ],
            },
        ],
    }

    patched = web.ask("PATCH", STREAM, {f"{MODULE}:stream": [patch]})

    assert patched.status == HTTPStatus.OK
    (its,) = web.ask("GET", f"{STREAM}?content=config").json[f"{MODULE}:stream"]
    assert its["talker"]["traffic-specification"]["max-frame-size"] == 300
    assert its["talker"]["traffic-specification"]["max-frames-per-interval"] == 1
    first, second = its["listener"]
    assert first["user-to-network-requirements"] == {"max-latency": 9_000}
    assert first["end-station-interfaces"][0]["mac-address"] == "02-00-00-00-01-03"
    assert second["index"] == 1


def test_a_patch_of_another_header_takes_the_place_of_the_former(web: Worker) -> None:
    put(web, asked())
    entry = {"index": 0, "ipv6-tuple": {"dscp": 46}}
    web.ask(
        "PATCH", STREAM, {f"{MODULE}:stream": [{"talker": {"data-frame-specification": [entry]}}]}
    )
    found = web.ask("GET", f"{STREAM}/talker/data-frame-specification").json
    assert found == {f"{MODULE}:data-frame-specification": [entry]}


def test_a_patch_of_what_is_not_there_is_refused(web: Worker) -> None:
    assert web.ask("PATCH", STREAM, {f"{MODULE}:stream": [{}]}).status == HTTPStatus.NOT_FOUND


def test_entity_tags_keep_clients_from_overwriting_each_other(web: Worker) -> None:
    tag = put(web, asked()).headers["etag"]
    assert tag.startswith('"')
    put(web, asked(max_frame_size=300))
    stale = put(web, asked(max_frame_size=400), If_Match=tag)
    assert stale.status == HTTPStatus.PRECONDITION_FAILED
    assert web.ask("DELETE", STREAM, If_Match=tag).status == HTTPStatus.PRECONDITION_FAILED
    fresh = web.ask("GET", STREAM).headers["etag"]
    assert web.ask("GET", STREAM, If_None_Match=fresh).status == HTTPStatus.NOT_MODIFIED
    assert put(web, asked(max_frame_size=400), If_Match=fresh).status == HTTPStatus.OK
    assert put(web, asked(), If_None_Match="*").status == HTTPStatus.PRECONDITION_FAILED


def test_a_post_creates_what_is_not_there_yet(web: Worker) -> None:
    content = {f"{MODULE}:stream": [asked()]}
    assert web.ask("POST", CUC, content).headers["location"] == STREAM
    again = web.ask("POST", CUC, content)
    assert (again.status, again.error["error-tag"]) == (HTTPStatus.CONFLICT, "data-exists")


def test_parts_of_a_stream_have_addresses(web: Worker) -> None:
    put(web, asked())
    found = web.ask("GET", f"{STREAM}/talker/traffic-specification/max-frame-size")
    assert found.json == {f"{MODULE}:max-frame-size": 100}
    interface = web.ask("GET", f"{STREAM}/listener=0/end-station-interfaces=02-00-00-00-01-03,")
    (its,) = interface.json[f"{MODULE}:end-station-interfaces"]
    assert its["mac-address"] == "02-00-00-00-01-03"
    assert web.ask("GET", f"{STREAM}/listener=7").status == HTTPStatus.NOT_FOUND


def test_depth_and_content_choose_what_is_told(web: Worker) -> None:
    put(web, asked())
    (shallow,) = web.ask("GET", f"{STREAM}?depth=1").json[f"{MODULE}:stream"]
    assert shallow == {"stream-id": STREAM_ID, "stream-status": "planned"}
    (config,) = web.ask("GET", f"{STREAM}?content=config").json[f"{MODULE}:stream"]
    assert config == asked()


@pytest.mark.parametrize("query", ["fields=a", "depth=0", "depth=x", "content=some", "depth=²"])
def test_a_query_that_is_not_supported_is_refused(web: Worker, query: str) -> None:
    assert web.ask("GET", f"{DOMAIN}?{query.replace('²', '%C2%B2')}").status == 400


def test_the_domain_says_what_is_in_it(web: Worker) -> None:
    put(web, asked())
    (domain,) = web.ask("GET", DOMAIN).json[f"{MODULE}:domain"]
    assert domain["cnc-enabled"] is True
    assert domain["cuc"][0]["stream"][0]["stream-id"] == STREAM_ID
    root = web.ask("GET", f"/restconf/data/{MODULE}:cnc-config").json[f"{MODULE}:cnc-config"]
    assert root["domain"][0]["domain-id"] == "cell"
    assert web.ask("GET", DOMAIN.replace("cell", "other")).status == HTTPStatus.NOT_FOUND
    assert put_elsewhere(web).status == HTTPStatus.NOT_FOUND


def put_elsewhere(web: Worker) -> Reply:
    return web.ask("PUT", STREAM.replace("cell", "other"), {f"{MODULE}:stream": [asked()]})


def test_without_auto_compute_a_stream_is_stored_and_computed_by_an_operation(web: Worker) -> None:
    assert set_auto_compute(web, value=False).status == HTTPStatus.NO_CONTENT
    put(web, asked(max_latency=1))
    input_ = {"domain": [{"domain-id": "cell", "cuc": [{"cuc-id": "plc"}]}]}

    failed = operation(web, "compute_planned_and_modified_streams", **input_)

    assert failed.json == {f"{MODULE}:output": {"result": "failed: no room at sw1/p1"}}
    put(web, asked())
    named = {"stream-list": [{"stream-id": STREAM_ID}]}
    chosen = {"domain": [{"domain-id": "cell", "cuc": [{"cuc-id": "plc", **named}]}]}
    done = operation(web, "compute_streams", **chosen)
    assert done.json == {f"{MODULE}:output": {"result": "success"}}


@pytest.mark.parametrize("given", [{"domain": 1}, {"domain": [1]}, {"domain": [{}]}])
def test_an_operation_with_another_input_is_refused(web: Worker, given: Any) -> None:
    assert operation(web, "compute_all_streams", **given).status == HTTPStatus.BAD_REQUEST


def test_a_cuc_is_told_its_domain_and_a_free_stream_id(web: Worker) -> None:
    domain = operation(web, "request_domain_id", **{"cuc-id": "plc"})
    assert domain.json[f"{MODULE}:output"]["result"] == "cell"
    free = operation(web, "request_free_stream_id", **{"cuc-id": "plc"})
    assert free.json[f"{MODULE}:output"]["result"] == "02-00-00-00-00-00:00-01"


def test_the_action_removes_all_of_the_streams_or_none(web: Worker) -> None:
    put(web, asked())
    listed = [{"stream-id": STREAM_ID}, {"stream-id": "02-00-00-00-01-01:00-09"}]

    refused = web.ask("POST", f"{CUC}/remove_streams", {f"{MODULE}:input": {"stream-list": listed}})

    assert refused.status == HTTPStatus.NOT_FOUND
    assert web.ask("GET", STREAM).status == HTTPStatus.OK
    web.ask("POST", f"{CUC}/remove_streams", {f"{MODULE}:input": {"stream-list": listed[:1]}})
    assert web.ask("GET", STREAM).status == HTTPStatus.NOT_FOUND


def test_resources_say_what_can_be_done_with_them(web: Worker) -> None:
    options = web.ask("OPTIONS", STREAM)
    assert options.headers["allow"] == "GET, HEAD, OPTIONS, PUT, PATCH, DELETE"
    assert options.headers["accept-patch"] == YANG_JSON
    refused = web.ask("PUT", CUC, {})
    assert refused.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert refused.error["error-tag"] == "operation-not-supported"
    assert web.ask("DELETE", DOMAIN).status == HTTPStatus.METHOD_NOT_ALLOWED


def test_xml_is_refused_by_name(web: Worker) -> None:
    sent = web.ask("PUT", STREAM, b"<stream/>", Content_Type="application/yang-data+xml")
    assert sent.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    asked_for = web.ask("GET", STREAM, Accept="application/yang-data+xml")
    assert asked_for.status == HTTPStatus.NOT_ACCEPTABLE


def test_a_cuc_reads_and_writes_its_own_streams_alone(web: Worker) -> None:
    put(web, asked())
    assert web.ask("GET", STREAM, by="plc").status == HTTPStatus.OK
    other = STREAM.replace("cuc=plc", "cuc=other")
    assert web.ask("GET", other, by="plc").status == HTTPStatus.FORBIDDEN
    assert web.ask("GET", STREAM, by="viewer").status == HTTPStatus.OK
    assert web.ask("DELETE", STREAM, by="viewer").status == HTTPStatus.FORBIDDEN


def test_without_a_token_nothing_is_told(web: Worker) -> None:
    for path in ("/restconf", DOMAIN, STREAM, "/api/v1/plan", "/restconf/streams/NETCONF"):
        refused = web.ask("GET", path, by=None)
        assert refused.status == HTTPStatus.UNAUTHORIZED, path
        assert refused.headers["www-authenticate"].startswith("Bearer")


def test_notifications_follow_as_they_come_and_continue_where_a_client_was(web: Worker) -> None:
    put(web, asked())
    with web.connect() as connection:
        connection.sendall(
            b"GET /restconf/streams/NETCONF HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer admin\r\nAccept: text/event-stream\r\nLast-Event-ID: 0\r\n\r\n"
        )
        text = b""
        while text.count(b"\ndata: ") < 1:
            text += connection.recv(65536)
        web.ask("DELETE", STREAM)
        while b"remove_streams_completed" not in text:
            text += connection.recv(65536)
    assert b"text/event-stream" in text
    assert b"id: 1\n" in text
    assert b"compute_streams_completed" in text
    assert b'"eventTime":"2026-01-01T00:00:00+00:00"' in text


def test_documents_and_their_description(web: Worker) -> None:
    assert web.ask("GET", "/api/v1/plan").json == {"format": "cnc-plan/1"}
    assert web.ask("GET", "/api/v1/nothing").status == HTTPStatus.NOT_FOUND
    assert web.ask("GET", "/api/v1/plan?number=x").status == HTTPStatus.BAD_REQUEST
    assert web.ask("GET", "/api/v1/plan", by="plc").status == HTTPStatus.FORBIDDEN
    described = web.ask("GET", "/api/v1/openapi.json", by=None).json
    assert described["openapi"] == "3.1.0"
    add = described["paths"]["/api/v1/tokens"]["post"]
    assert add["requestBody"]["content"]["application/json"]["schema"]["required"] == [
        "name",
        "role",
    ]


def test_a_rollback_takes_its_idempotency_key_from_the_header_alone(web: Worker) -> None:
    path, key = "/api/v1/rollback", {"idempotency_key": "k1"}
    headers = {"Idempotency-Key": "k1"}
    answer = web.ask("POST", path, {"number": 3}, by="operator", **headers)
    assert (answer.status, answer.json["change"]) == (HTTPStatus.ACCEPTED, "3 k1")
    assert web.ask("POST", path, key, by="operator").status == HTTPStatus.BAD_REQUEST
    described = web.ask("GET", "/api/v1/openapi.json", by=None).json["paths"][path]["post"]
    assert [its["name"] for its in described["parameters"]] == ["Idempotency-Key"]
    body = described["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"].keys() == {"number"}
