"""Signed in with a browser: what pages of other sites can make of that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from tests.unit.test_web_restconf import DOMAIN, MODULE, STREAM, asked
from tests.unit.web_worker import Reply, Worker, worker

FORM = "application/x-www-form-urlencoded"
CONTENT = {f"{MODULE}:stream": [asked()]}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("session")) as its:
        yield its


def sign_in(web: Worker, token: str, **headers: str) -> Reply:
    form = urlencode({"token": token}).encode()
    return web.ask("POST", "/login", form, by=None, Content_Type=FORM, **headers)


@pytest.fixture
def cookie(web: Worker) -> str:
    """That of an operator, as a browser sends it."""
    return sign_in(web, "operator").headers["set-cookie"].partition(";")[0]


def with_cookie(web: Worker, method: str, cookie: str, **headers: str) -> int:
    body = CONTENT if method == "PUT" else None
    path = STREAM if method == "PUT" else DOMAIN
    return web.ask(method, path, body, by=None, Cookie=cookie, **headers).status


def test_a_cookie_reads_and_changes_for_a_page_of_ours(web: Worker, cookie: str) -> None:
    ours = {"Sec_Fetch_Site": "same-origin"}
    assert with_cookie(web, "GET", cookie, **ours) == HTTPStatus.OK
    assert with_cookie(web, "PUT", cookie, X_CNC_Page="1", **ours) == HTTPStatus.CREATED


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_cookie_counts_for_nothing_where_another_site_asks(
    web: Worker, cookie: str, site: str
) -> None:
    """Same-site is another port, or another name of the same domain."""
    theirs = {"Sec_Fetch_Site": site}
    assert with_cookie(web, "GET", cookie, **theirs) == HTTPStatus.UNAUTHORIZED
    assert with_cookie(web, "PUT", cookie, X_CNC_Page="1", **theirs) == HTTPStatus.UNAUTHORIZED


def test_a_cookie_alone_changes_nothing(web: Worker, cookie: str) -> None:
    """As the form of another site sends it, by a browser that names no site."""
    assert with_cookie(web, "PUT", cookie) == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost"])
def test_nobody_is_signed_in_by_a_form_of_another_site(web: Worker, origin: str) -> None:
    refused = sign_in(web, "operator", Origin=origin)
    assert refused.status == HTTPStatus.FORBIDDEN
    assert "set-cookie" not in refused.headers


def test_a_cookie_is_no_token_and_no_other_cookie(web: Worker, cookie: str) -> None:
    _, _, sealed = cookie.partition("=")
    assert web.ask("GET", DOMAIN, by=sealed).status == HTTPStatus.UNAUTHORIZED
    for other in (sealed[:-2], sealed[:20] + "A" + sealed[21:], "operator", "", "x" * 5_000):
        found = with_cookie(web, "GET", f"__Host-cnc={other}")
        assert found == HTTPStatus.UNAUTHORIZED


def test_a_cookie_is_for_this_host_by_tls_and_for_no_script(web: Worker) -> None:
    attributes = {
        its.strip().lower() for its in sign_in(web, "viewer").headers["set-cookie"].split(";")
    }
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= attributes
    assert not any(its.startswith("domain") for its in attributes)


@pytest.mark.parametrize("path", ["/", "/login"])
def test_the_page_runs_scripts_of_its_own_alone(web: Worker, cookie: str, path: str) -> None:
    found = web.ask("GET", path, by=None, Cookie=cookie)
    policy = dict(
        its.split(maxsplit=1) for its in found.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    text = found.octets.decode()
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", text)


def test_a_script_in_a_token_comes_back_as_text(web: Worker) -> None:
    refused = sign_in(web, "<script>alert(1)</script>")
    assert refused.status == HTTPStatus.UNAUTHORIZED
    assert b"<script>alert" not in refused.octets


@pytest.mark.parametrize("form", [b"", b"token=", b"\xff", b"a=1&" * 10, b"token=" + b"x" * 5_000])
def test_a_form_that_is_none_signs_nobody_in(web: Worker, form: bytes) -> None:
    refused = web.ask("POST", "/login", form, by=None, Content_Type=FORM)
    assert refused.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED}
    assert "set-cookie" not in refused.headers
