"""A client of a service, for programs: the documents, and the streams of a CUC.

    with Client("https://cnc.example:8443", token, certificate=Path("tls.crt")) as service:
        plan = service.document("plan")
        placed = service.put_stream("plc", body)

It trusts the one certificate that it is given, as SSH clients trust a host key. What the service
refuses is a CallRefused, with code, sentence and hint; so is that it does not answer.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from cnc.errors import InputError
from cnc.service.refused import CallRefused, Code

_TIMEOUT_S = 60.0
_IDLE_MAX_S = 10.0  # less than what a service keeps a connection for
_ANSWER_MAX_OCTETS = 64 << 20
_MODULE = "ieee802-dot1q-cnc-config"
_STREAM = f"{_MODULE}:stream"
_YANG_JSON = "application/yang-data+json"
_CODES = {code.status: code for code in Code}
_OK = range(200, 300)


class Client:
    """One connection to a service; not for several threads."""

    def __init__(
        self, url: str, token: str, *, certificate: Path, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Raises InputError for what is no URL, and for a certificate that cannot be read."""
        its = urlsplit(url)
        try:
            host, port = its.hostname, its.port
        except ValueError as error:
            raise InputError(f"{url}: {error}", hint="such as https://cnc.example:8443") from error
        if its.scheme != "https" or not host or its.path.strip("/") or its.query or its.username:
            raise InputError(
                f"{url}: found no address of a service", hint="such as https://cnc.example:8443"
            )
        try:
            context = ssl.create_default_context(cafile=str(certificate))
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"{certificate}: no certificate can be read: {error}",
                hint="copy the tls.crt of the service's --state-dir",
            ) from error
        self._url, self._token, self._certificate = url.rstrip("/"), token, certificate
        self._context, self._timeout_s = context, timeout_s
        self._connection = http.client.HTTPSConnection(
            host, port, context=context, timeout=timeout_s
        )
        self._used = time.monotonic()
        self._domain: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # --- /api/v1 -----------------------------------------------------------------------------

    def document(self, name: str, **query: str | int) -> Any:
        """A document as `--json` prints it. Raises CallRefused."""
        asked = f"?{urlencode(query)}" if query else ""
        return self.ask("GET", f"/api/v1/{quote(name, safe='')}{asked}")

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What a route of `/api/v1` answers. Raises CallRefused."""
        return self._ask(method, path, body, {})[0]

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """What happens, from the event after the one with this number, or from now, until the
        caller leaves the loop or the service ends. It waits as long as nothing happens."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        host, port = self._connection.host, self._connection.port
        connection = http.client.HTTPSConnection(
            host, port, context=self._context, timeout=self._timeout_s
        )
        try:
            answer = self._answer(connection, "GET", "/api/v1/events", None, headers)
            if answer.status not in _OK:
                raise _refusal(answer.status, answer.read(_ANSWER_MAX_OCTETS))
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
        finally:
            connection.close()

    def run(self, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What a command of `cnc` prints that the service runs: {"out": text} and {"err": text} as
        it comes, at last {"exit": code}. `asked` are the arguments of the call `command.run`.
        Raises CallRefused."""
        answer = self._answer(self._connection, "POST", "/api/v1/commands", asked, {})
        try:
            if answer.status not in _OK:
                raise _refusal(answer.status, answer.read(_ANSWER_MAX_OCTETS))
            for line in answer:
                if line.isspace():
                    continue  # the command still runs
                item = json.loads(line)
                if "error" in item:
                    raise CallRefused.from_object(item["error"])
                yield item
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from error
        finally:
            self._connection.close()  # what is left of an answer is nobody's

    # --- the UNI -----------------------------------------------------------------------------

    def domains(self) -> list[dict[str, Any]]:
        """The domains that there are, with CUCs and streams as the standard's tree has them. Raises
        CallRefused."""
        found = self._ask("GET", f"/restconf/data/{_MODULE}:cnc-config", None, {})[0]
        return list(found[f"{_MODULE}:cnc-config"].get("domain", ()))

    def stream(self, cuc: str, stream_id: str) -> dict[str, Any]:
        """A stream as the standard's tree has it. Raises CallRefused."""
        return self._entry(self._ask("GET", self._path(cuc, stream_id), None, {})[0])

    def put_stream(
        self,
        cuc: str,
        body: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        only_new: bool = False,
    ) -> dict[str, Any]:
        """The stream where it has its place. Raises CallRefused, with `failure_code` among its
        details where it has none."""
        headers = {}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        if if_match:
            headers["If-Match"] = f'"{if_match}"'
        if only_new:
            headers["If-None-Match"] = "*"
        path = self._path(cuc, str(body["stream-id"]))
        return self._entry(self._ask("PUT", path, {_STREAM: [body]}, headers)[0])

    def remove_stream(
        self, cuc: str, stream_id: str, *, idempotency_key: str | None = None
    ) -> None:
        """Raises CallRefused."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        self._ask("DELETE", self._path(cuc, stream_id), None, headers)

    def _path(self, cuc: str, stream_id: str) -> str:
        if self._domain is None:
            body = {f"{_MODULE}:input": {"cuc-id": cuc}}
            path = f"/restconf/operations/{_MODULE}:request_domain_id"
            found = self._ask("POST", path, body, {})[0]
            self._domain = str(found[f"{_MODULE}:output"]["result"])
        domain, its_cuc, its_id = (quote(each, safe="") for each in (self._domain, cuc, stream_id))
        root = f"/restconf/data/{_MODULE}:cnc-config"
        return f"{root}/domain={domain}/cuc={its_cuc}/stream={its_id}"

    @staticmethod
    def _entry(found: Any) -> dict[str, Any]:
        its: dict[str, Any] = found[_STREAM][0]
        return its

    # --- HTTP --------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> tuple[Any, Mapping[str, str]]:
        answer = self._answer(self._connection, method, path, body, headers)
        try:
            octets = answer.read(_ANSWER_MAX_OCTETS)
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from error
        if answer.status not in _OK:
            raise _refusal(answer.status, octets)
        return (json.loads(octets) if octets else None), dict(answer.headers.items())

    def _answer(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        octets = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        kind = _YANG_JSON if path.startswith("/restconf") else "application/json"
        sent = {"Authorization": f"Bearer {self._token}", "Accept": kind}
        if octets is not None:
            sent["Content-Type"] = kind
        if time.monotonic() - self._used > _IDLE_MAX_S:
            connection.close()  # else the service may close it under the request
        try:
            connection.request(method, path, octets, {**sent, **headers})
            self._used = time.monotonic()
            return connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise CallRefused(
                Code.UNAVAILABLE,
                f"{self._url} has another certificate than {self._certificate}, or another name: "
                f"{error.verify_message}",
                hint="copy the tls.crt of the service's --state-dir again, if it was made again",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> CallRefused:
        return CallRefused(
            Code.UNAVAILABLE,
            f"{self._url} does not answer: {error or type(error).__name__}",
            hint="it may have done what was asked: ask again with the same Idempotency-Key",
        )


def _refusal(status: int, octets: bytes) -> CallRefused:
    """What an answer that is none says, by either API."""
    code = _CODES.get(status, Code.UNAVAILABLE if status >= http.HTTPStatus(500) else Code.INVALID)
    try:
        match json.loads(octets):
            case {"error": dict(error)}:
                return CallRefused.from_object(error)
            case {"ietf-restconf:errors": {"error": [{"error-message": str(text), **more}, *_]}}:
                info = more.get("error-info")
                failure = info.get("tsn-cnc:failure-code") if isinstance(info, dict) else None
                details = {"failure_code": failure} if failure else None
                return CallRefused(code, text, details=details)
    except (ValueError, KeyError):
        pass
    return CallRefused(code, f"the service answers with HTTP {status} and no reason")
