"""What strangers send to a worker costs them, and nobody else."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http import HTTPStatus
from typing import Any

import pytest

from cnc.service.packed import DOCUMENT_MAX_OCTETS
from cnc.service.web.bodies import BODY_MAX_OCTETS, DEPTH_MAX
from cnc.service.web.guard import HEAD_MAX_OCTETS
from cnc.service.web.guesses import GUESSES_MAX
from cnc.service.web.guests import CONNECTIONS_MAX_OF_HOST
from cnc.service.web.server import HANDSHAKE_WITHIN_S, HEAD_WITHIN_S
from tests.unit.test_web_restconf import DOMAIN, MODULE, STREAM, asked
from tests.unit.uni_bodies import STREAM_ID
from tests.unit.web_worker import START_S, Worker, worker

_SOON_S = 2.0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("hostile")) as its:
        yield its


@pytest.fixture(autouse=True)
def it_still_serves(web: Worker) -> Iterator[None]:
    yield
    started = time.monotonic()
    assert web.ask("GET", DOMAIN).status == HTTPStatus.OK
    assert time.monotonic() - started < _SOON_S


def head(method: str, path: str, *lines: str) -> bytes:
    """The head of a request, as octets."""
    first = f"{method} {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer admin"
    return ("\r\n".join([*first, *lines]) + "\r\n\r\n").encode("latin-1")


def until_closed(connection: socket.socket) -> bytes:
    found = b""
    with suppress(OSError):
        while octets := connection.recv(65536):
            found += octets
    return found


def test_a_body_of_a_megabyte_is_refused_without_being_read_whole(web: Worker) -> None:
    with web.connect() as connection:
        connection.sendall(
            head("PUT", STREAM, "Content-Type: application/json", "Content-Length: 1048576")
        )
        with suppress(OSError):
            connection.sendall(b" " * (2 * BODY_MAX_OCTETS))
        assert b" 413 " in connection.recv(4096)


def test_a_body_in_chunks_without_an_end_is_refused(web: Worker) -> None:
    with web.connect() as connection:
        connection.sendall(
            head("PUT", STREAM, "Content-Type: application/json", "Transfer-Encoding: chunked")
        )
        chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
        with suppress(OSError):
            for _ in range(8):
                connection.sendall(chunk)
        assert b" 413 " in connection.recv(4096)


@pytest.mark.parametrize(
    ("role", "octets", "status"),
    [
        ("operator", 2_000_000, HTTPStatus.OK),
        ("operator", DOCUMENT_MAX_OCTETS, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("viewer", 1_000_000, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("plc", 2 * BODY_MAX_OCTETS, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("nobody", 100, HTTPStatus.UNAUTHORIZED),
    ],
)
def test_only_operators_send_documents_of_megabytes(
    web: Worker, role: str, octets: int, status: HTTPStatus
) -> None:
    """An intent of 10,000 streams has two."""
    content = {"file": "cell.yaml", "text": "# {[( \n" * (octets // 8)}
    answer = web.ask("PUT", "/api/v1/intent", content, by=role)
    assert answer.status == status
    if status is HTTPStatus.OK:
        assert answer.json["change"] == f"{len(content['text'])} characters"
    elif status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        assert "octets at most" in answer.error["error-message"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused_before_it_is_parsed(web: Worker, opening: str) -> None:
    deep = opening * (BODY_MAX_OCTETS // len(opening))
    refused = web.ask("PUT", STREAM, deep.encode())
    assert refused.status == HTTPStatus.BAD_REQUEST
    assert f"more than {DEPTH_MAX} deep" in refused.error["error-message"]


@pytest.mark.parametrize(
    "octets",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 2}', b'{"a": 1e999}'],
)
def test_what_is_no_json_object_of_a_stream_is_refused(web: Worker, octets: bytes) -> None:
    assert web.ask("PUT", STREAM, octets).status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "its",
    [
        [],
        [1],
        {},
        [{"stream-id": 1}],
        [{"stream-id": STREAM_ID, "listener": {"index": 0}}],
        [{"stream-id": STREAM_ID, "talker": [None]}],
        [{"stream-id": STREAM_ID, "talker": {"interface-capabilities": {"a:b:c": 0}}}],
        [{f"{MODULE}:stream-id": STREAM_ID, "@stream-id": {"a": "b"}}],
    ],
)
def test_json_of_another_shape_is_refused(web: Worker, its: Any) -> None:
    assert web.ask("PUT", STREAM, {f"{MODULE}:stream": its}).status == HTTPStatus.BAD_REQUEST


def test_a_wide_body_costs_no_more_than_its_length(web: Worker) -> None:
    listener = {"index": 0, "end-station-interfaces": []}
    many = {**asked(), "listener": [{**listener, "index": n} for n in range(1_000)]}
    started = time.monotonic()
    assert web.ask("PUT", STREAM, {f"{MODULE}:stream": [many]}).status == HTTPStatus.BAD_REQUEST
    assert time.monotonic() - started < _SOON_S


def test_a_long_leaf_list_is_refused_before_its_values_are_compared(web: Worker) -> None:
    its = asked()
    its["talker"]["interface-capabilities"] = {"cb-stream-iden-type-list": [*range(8_000)]}
    started = time.monotonic()
    refused = web.ask("PUT", STREAM, {f"{MODULE}:stream": [its]})
    assert time.monotonic() - started < _SOON_S / 2
    assert "leaf-list" in refused.error["error-message"]


def test_who_is_slow_is_cut_off_before_tls_in_a_head_and_in_a_body(web: Worker) -> None:
    begun = head("PUT", STREAM, "Content-Type: application/json", "Content-Length: 1000") + b"{"
    with (
        socket.create_connection(("127.0.0.1", web.port)) as silent,
        web.connect() as in_head,
        web.connect() as in_body,
    ):
        started = time.monotonic()
        in_head.sendall(b"GET / HTTP/1.1\r\nHost: local")
        in_body.sendall(begun)
        for each in (silent, in_head, in_body):
            each.settimeout(3 * HEAD_WITHIN_S)
        assert b" 408 " in in_body.recv(4096)
        assert until_closed(in_head) == b""
        assert until_closed(silent) == b""
        assert time.monotonic() - started < HEAD_WITHIN_S + _SOON_S


def test_a_head_that_is_too_long_is_refused(web: Worker) -> None:
    with web.connect() as connection:
        with suppress(OSError):
            connection.sendall(head("GET", "/", "X: " + "x" * 2 * HEAD_MAX_OCTETS))
        # What comes at once the guard refuses, what does not the server.
        assert connection.recv(4096).split()[1] in {b"400", b"431"}


def has_ended(connection: socket.socket, within_s: float) -> bool:
    """Whether the worker ends a connection on which nothing has been said, in so many seconds."""
    connection.settimeout(within_s)
    try:
        return not connection.recv(1)
    except (BlockingIOError, TimeoutError):
        return False
    except OSError:
        return True


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_one_host_has_so_many_connections_from_before_their_handshake_on(web: Worker) -> None:
    with ExitStack() as held:
        mine = [
            held.enter_context(web.silent("127.0.0.2")) for _ in range(CONNECTIONS_MAX_OF_HOST + 8)
        ]
        assert all(has_ended(each, START_S) for each in mine[CONNECTIONS_MAX_OF_HOST:])
        assert web.ask("GET", DOMAIN, source="127.0.0.3").status == HTTPStatus.OK


def test_a_thousand_connections_of_many_hosts_make_room_for_who_has_a_token(
    web: Worker, many_descriptors: None
) -> None:
    """And one that has shown its token stays, however many strangers come."""
    known = http.client.HTTPSConnection("localhost", web.port, context=web.context, timeout=START_S)
    known.connect()
    served = 0
    with ExitStack() as held, closing(known):
        for number in range(1_000):
            if not number % 100:
                known.request("GET", DOMAIN, headers={"Authorization": "Bearer admin"})
                answer = known.getresponse()
                assert answer.read()
                served += answer.status == HTTPStatus.OK
            held.enter_context(web.silent(f"127.0.1.{number // 60 + 1}"))
        assert served == 10
        assert web.ask("GET", DOMAIN, source="127.0.0.3").status == HTTPStatus.OK


def test_a_thousand_connections_that_say_nothing_all_stay_until_their_time_is_over(
    web: Worker, many_descriptors: None
) -> None:
    """Whoever makes another one for each that is closed has none to make, which would take time."""
    begun_s = time.monotonic()
    with ExitStack() as held:
        silent = [
            held.enter_context(web.silent(f"127.0.2.{number // 60 + 1}")) for number in range(1_000)
        ]
        assert web.ask("GET", DOMAIN, source="127.0.0.3").status == HTTPStatus.OK
        ended = [each for each in silent if has_ended(each, 0)]
        assert not ended or time.monotonic() > begun_s + HANDSHAKE_WITHIN_S


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "192.0.2.1:443"])
def test_another_name_for_this_host_is_refused(web: Worker, host: str) -> None:
    """As after DNS rebinding: a page of evil.example has its name lead to this address."""
    refused = web.ask("GET", DOMAIN, Host=host)
    assert refused.status == HTTPStatus.MISDIRECTED_REQUEST


def test_a_page_of_another_site_changes_nothing(web: Worker) -> None:
    content = {f"{MODULE}:stream": [asked()]}
    refused = web.ask("PUT", STREAM, content, Origin="https://evil.example")
    assert refused.status == HTTPStatus.FORBIDDEN
    answer = web.ask("OPTIONS", STREAM, Origin="https://evil.example")
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("query", ["token=admin", "access_token=admin", "a=b&TOKEN=admin"])
def test_a_token_in_a_url_is_refused_even_if_it_is_good(web: Worker, query: str) -> None:
    refused = web.ask("GET", f"{DOMAIN}?{query}")
    assert refused.status == HTTPStatus.BAD_REQUEST
    assert "rotated" in refused.error["error-message"]


def test_a_script_in_a_name_comes_back_as_json_that_no_browser_runs(web: Worker) -> None:
    its = asked()
    its["talker"]["end-station-interfaces"][0]["interface-name"] = "<script>alert(1)</script>"
    web.ask("PUT", STREAM, {f"{MODULE}:stream": [its]})

    found = web.ask("GET", STREAM)

    assert found.headers["content-type"] == "application/yang-data+json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in found.headers["content-security-policy"]
    web.ask("DELETE", STREAM)


@pytest.mark.parametrize(
    "path",
    [
        "/restconf/data/..%2f..%2fetc/passwd",
        f"{DOMAIN}/cuc=..%2f..",
        f"{DOMAIN}/cuc=%00",
        f"{DOMAIN}/cuc=plc/stream=%27%20OR%201=1",
        f"{DOMAIN}/cuc=plc%0d%0aX:%20y",
        "/api/v1/..%2fplan",
        f"{DOMAIN}/" + "a/" * 500,
        "/" + "x" * 4000,
    ],
)
def test_paths_that_lead_nowhere_are_refused(web: Worker, path: str) -> None:
    refused = web.ask("GET", path)
    assert 400 <= refused.status < 500
    assert b"Traceback" not in refused.octets


def test_two_requests_in_one_are_not_answered_as_two(web: Worker) -> None:
    """Request smuggling: a length and chunks say two things of where the body ends."""
    with web.connect() as connection:
        connection.sendall(
            head("PUT", STREAM, "Content-Length: 4", "Transfer-Encoding: chunked")
            + b"0\r\n\r\n"
            + head("GET", "/.well-known/host-meta")
        )
        connection.settimeout(_SOON_S)
        assert b"XRD" not in until_closed(connection)


def test_a_guessed_token_learns_nothing(web: Worker) -> None:
    replies = {web.ask("GET", DOMAIN, by=f"guess-{n}").octets for n in range(20)}
    assert len(replies) == 1
    assert json.loads(replies.pop())["ietf-restconf:errors"]


def test_a_host_that_guesses_waits_and_others_do_not(web: Worker) -> None:
    for _ in range(10 * GUESSES_MAX):
        refused = web.ask("GET", DOMAIN, by="guess", source="127.0.0.4")
        if refused.status != HTTPStatus.UNAUTHORIZED:
            break
    assert refused.status == HTTPStatus.TOO_MANY_REQUESTS
    assert int(refused.headers["retry-after"]) >= 1
    assert web.ask("GET", DOMAIN, source="127.0.0.5").status == HTTPStatus.OK


def test_a_host_with_a_good_token_goes_on_beside_a_script_with_an_old_one(web: Worker) -> None:
    assert web.ask("GET", DOMAIN, source="127.0.0.6").status == HTTPStatus.OK
    for _ in range(2 * GUESSES_MAX):
        web.ask("GET", DOMAIN, by="expired", source="127.0.0.6")
    assert web.ask("GET", DOMAIN, source="127.0.0.6").status == HTTPStatus.OK


@pytest.mark.parametrize("path", ["/login", "/.well-known/host-meta", "/api/v1/openapi.json"])
def test_what_everybody_may_read_makes_no_token_of_a_guess(web: Worker, path: str) -> None:
    source = f"127.0.2.{len(path)}"
    for _ in range(2 * GUESSES_MAX):
        web.ask("GET", DOMAIN, by="guess", source=source)
        refused = web.ask("GET", path, by="guess", source=source)
    assert refused.status == HTTPStatus.TOO_MANY_REQUESTS


def test_a_core_that_is_gone_is_said_by_503(tmp_path: Any) -> None:
    with worker(tmp_path) as its:
        (tmp_path / "core.sock").rename(tmp_path / "elsewhere")
        assert its.ask("GET", DOMAIN).status == HTTPStatus.SERVICE_UNAVAILABLE
