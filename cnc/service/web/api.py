"""/api/v1: the documents of `--json`, rollouts, tokens and quotas. Its description is OpenAPI 3.1,
made from the table of routes and from the shapes of the calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cnc.service.calls import CALLS, DocumentName
from cnc.service.refused import CallRefused, Code
from cnc.service.web.bodies import json_of
from cnc.service.web.errors import add_headers
from cnc.service.web.events import EVENT_STREAM, Events
from cnc.service.web.resources import Resources, key_of
from cnc.version import __version__

PREFIX = "/api/v1"
DOCUMENTS = frozenset(get_args(DocumentName))
_NUMBERS = ("number", "after")
_KEY, _KEY_HEADER = "idempotency_key", "Idempotency-Key"
_DIGITS_MAX = 15


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: what it asks of the core. Names in braces of the path are arguments; those of
    `query` may follow it; a body has the others, but the header Idempotency-Key is one of a route
    that `is_keyed`."""

    method: str
    path: str
    call: str
    summary: str
    status: int = 200
    query: tuple[str, ...] = ()
    has_body: bool = False
    is_keyed: bool = False


OPERATIONS = (
    Operation("GET", "/who", "who", "Whose token it is"),
    Operation("POST", "/push", "push", "Roll the decided plan out again", status=202),
    Operation(
        "POST",
        "/rollback",
        "rollback",
        "Back to the intent of a rollout, or the previous one",
        status=202,
        has_body=True,
        is_keyed=True,
    ),
    Operation("GET", "/tokens", "token.list", "All tokens, without their text"),
    Operation("POST", "/tokens", "token.add", "A new token", status=201, has_body=True),
    Operation("POST", "/tokens/{name}/rotate", "token.rotate", "Another text", has_body=True),
    Operation("PUT", "/tokens/{name}/ssh-key", "token.key", "Another SSH key", has_body=True),
    Operation("DELETE", "/tokens/{name}", "token.revoke", "End a token"),
    Operation("PUT", "/quotas/{cuc}", "quota.set", "What a CUC may have", has_body=True),
    Operation(
        "GET",
        "/{name}",
        "document.get",
        "A document, as commands print it with --json; events also as text/event-stream",
        query=("stream", *_NUMBERS),
    ),
)


class Api:
    """Answers for a worker."""

    def __init__(self, resources: Resources, events: Events) -> None:
        self._resources, self._events = resources, events

    def answering(self, operation: Operation) -> Any:
        """What answers a route. Raises RestconfError."""

        async def answer(request: Request) -> Response:
            path = request.path_params
            follows = EVENT_STREAM in request.headers.get("accept", "")
            try:
                if operation.call == "document.get" and path["name"] == "events" and follows:
                    return await self._events.all(request)
                if operation.call == "document.get" and path["name"] not in DOCUMENTS:
                    there = ", ".join(sorted(DOCUMENTS))
                    raise CallRefused(Code.ABSENT, f"there is no such document, but {there}")
                arguments = await _arguments(operation, request)
                found = await self._resources.call(request, operation.call, **arguments)
            except CallRefused as refused:
                return refusal(refused)
            return JSONResponse(found, operation.status)

        return answer

    async def description(self, _: Request) -> Response:
        return JSONResponse(openapi())


def refusal(its: CallRefused) -> Response:
    response = JSONResponse({"error": its.to_object()}, its.code.status)
    add_headers(response, its)
    return response


async def _arguments(operation: Operation, request: Request) -> dict[str, Any]:
    """Those that a request has: of its body, its query, its path, and its key."""
    found: dict[str, Any] = {}
    has_length = request.headers.get("content-length", "0") != "0"
    if operation.has_body and (has_length or "transfer-encoding" in request.headers):
        found.update(await json_of(request))
    for name, value in request.query_params.items():
        if name not in operation.query:
            raise CallRefused(Code.INVALID, f"there is no query parameter {name[:64]} here")
        found[name] = _number(name, value) if name in _NUMBERS else value
    for name, value in request.path_params.items():
        if name in found:
            raise CallRefused(Code.INVALID, f"{name} is in the URL: leave it out of the body")
        found[name] = value
    if operation.is_keyed:
        if _KEY in found:
            raise CallRefused(Code.INVALID, f"{_KEY} is the header {_KEY_HEADER}, not in the body")
        found[_KEY] = key_of(request)
    return found


def _number(name: str, value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX:
        return int(value)
    raise CallRefused(Code.INVALID, f"{name} is a number")


def openapi() -> dict[str, Any]:
    """The description of `/api/v1` by OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _described(
            operation
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "CNC", "version": __version__},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _described(operation: Operation) -> dict[str, Any]:
    call = CALLS[operation.call]
    schema = call.arguments.model_json_schema()
    shapes: Mapping[str, Any] = schema.get("properties", {})
    in_path = [each for each in shapes if f"{{{each}}}" in operation.path]
    not_in_body = [*in_path, _KEY]
    parameters = [
        {"name": each, "in": where, "required": where == "path", "schema": shapes[each]}
        for where, names in (("path", in_path), ("query", operation.query))
        for each in names
    ]
    if operation.is_keyed:
        parameters.append(
            {"name": _KEY_HEADER, "in": "header", "required": False, "schema": shapes[_KEY]}
        )
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": f"For tokens of the roles {', '.join(sorted(call.roles))}.",
        "parameters": parameters,
        "responses": {
            str(operation.status): {
                "description": "done",
                "content": {"application/json": {"schema": {}}},
            },
            "default": {"description": "refused: `error` has code, text and hint"},
        },
    }
    if operation.has_body:
        body = {
            "type": "object",
            "properties": {name: its for name, its in shapes.items() if name not in not_in_body},
            "required": [each for each in schema.get("required", ()) if each not in in_path],
            "additionalProperties": False,
        }
        described["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return described
