"""The operations of the UNI (RFC 8040 3.6): /restconf/operations, and the action of a CUC.

The module has a string for a result. The core decides before it answers, so that the result says
how it ended; the notifications say it stream by stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cnc.service.refused import CallRefused, Code
from cnc.service.uni.shown import MODULE
from cnc.service.web.bodies import accept_json, json_of
from cnc.service.web.errors import YANG_JSON, RestconfError
from cnc.service.web.resources import Resources

DONE = "success"
_STREAMS_MAX = 0xFFFF
# The address of a free stream-id: a local one, since whose stream it will be is not known.
_FREE = "02-00-00-00-00-00"


class Operations:
    """Answers for a worker."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._by_name: Mapping[str, Callable[[Request, Mapping[str, Any]], Awaitable[str]]] = {
            "compute_streams": self._compute_streams,
            "compute_planned_and_modified_streams": self._compute_changed,
            "compute_all_streams": self._compute_all,
            "request_domain_id": self._domain_id,
            "request_free_stream_id": self._free_stream_id,
        }

    @property
    def names(self) -> list[str]:
        return [f"{MODULE}:{name}" for name in self._by_name]

    async def answer(self, request: Request) -> Response:
        """POST of an operation. Raises RestconfError, CallRefused."""
        accept_json(request)
        name = str(request.path_params["name"]).removeprefix(f"{MODULE}:")
        operation = self._by_name.get(name)
        if operation is None:
            raise RestconfError(404, "invalid-value", f"there is no operation {name[:64]}")
        return _output(await operation(request, await _input(request)))

    async def remove_streams(self, request: Request) -> Response:
        """POST of the action of a CUC: all of the streams are there, or none is removed."""
        accept_json(request)
        cuc = unquote(str(request.path_params["cuc"]))
        given = await _input(request)
        domain = unquote(str(request.path_params["domain"]))
        await self._in_domain(request, domain)
        ids = [_text(each, "stream-id") for each in _list(given, "stream-list")]
        there = await self._resources.call(request, "cuc.get", cuc=cuc)
        known = {each["stream_id"] for each in there["streams"]}
        if unknown := [each for each in ids if each not in known]:
            raise RestconfError(
                404, "invalid-value", f"the CUC {cuc} has no stream {unknown[0]}: none is removed"
            )
        for stream_id in dict.fromkeys(ids):
            await self._resources.call(request, "stream.delete", cuc=cuc, stream_id=stream_id)
        return _output(DONE)

    async def _compute_streams(self, request: Request, given: Mapping[str, Any]) -> str:
        return await self._computed(
            request,
            [
                (cuc, [_text(each, "stream-id") for each in _list(its, "stream-list")])
                async for cuc, its in self._cucs(request, given)
            ],
        )

    async def _compute_changed(self, request: Request, given: Mapping[str, Any]) -> str:
        which = "planned-and-modified"
        return await self._computed(
            request, [(cuc, which) async for cuc, _ in self._cucs(request, given)]
        )

    async def _compute_all(self, request: Request, given: Mapping[str, Any]) -> str:
        return await self._computed(
            request, [(cuc, "all") async for cuc, _ in self._cucs(request, given)]
        )

    async def _computed(self, request: Request, asked: list[tuple[str, Any]]) -> str:
        failed = []
        for cuc, which in asked:
            try:
                await self._resources.call(request, "streams.compute", cuc=cuc, which=which)
            except CallRefused as refused:
                if refused.code is not Code.CONFLICT:
                    raise
                failed.append(f"{cuc}: {refused}")
        return f"failed: {'; '.join(failed)}" if failed else DONE

    async def _domain_id(self, request: Request, _: Mapping[str, Any]) -> str:
        its = await self._resources.call(request, "domain.get")
        return str(its["name"])

    async def _free_stream_id(self, request: Request, given: Mapping[str, Any]) -> str:
        if "domain-id" in given:
            await self._in_domain(request, _text(given, "domain-id"))
        cuc = _text(given, "cuc-id")
        try:
            there = await self._resources.call(request, "cuc.get", cuc=cuc)
        except CallRefused as refused:
            if refused.code is not Code.ABSENT:
                raise
            there = {"streams": []}
        taken = {each["stream_id"].upper() for each in there["streams"]}
        free = (f"{_FREE}:{n >> 8:02X}-{n & 0xFF:02X}" for n in range(1, _STREAMS_MAX + 1))
        found = next((each for each in free if each not in taken), None)
        if found is None:
            raise CallRefused(Code.TOO_MANY, f"the CUC {cuc} has all stream-ids of {_FREE}")
        return found

    async def _cucs(self, request: Request, given: Mapping[str, Any]) -> Any:
        """The CUCs that an input names, with what it says of them."""
        for domain in _list(given, "domain"):
            await self._in_domain(request, _text(domain, "domain-id"))
            for cuc in _list(domain, "cuc"):
                yield _text(cuc, "cuc-id"), cuc

    async def _in_domain(self, request: Request, domain: str) -> None:
        its = await self._resources.call(request, "domain.get")
        if its["name"] != domain:
            raise RestconfError(404, "invalid-value", f"there is no domain {domain[:64]}")


async def _input(request: Request) -> Mapping[str, Any]:
    body = await json_of(request)
    match body.get(f"{MODULE}:input"):
        case dict(given) if len(body) == 1:
            return given
    raise _malformed(f'the body is {{"{MODULE}:input": {{…}}}}')


def _list(given: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    found = given.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _malformed(f"{name} is a list")
    return iter(found)


def _text(given: Mapping[str, Any], name: str) -> str:
    found = given.get(name)
    if not isinstance(found, str):
        raise _malformed(f"{name} is missing, or no text")
    return found


def _output(result: str) -> Response:
    return JSONResponse({f"{MODULE}:output": {"result": result}}, media_type=YANG_JSON)


def _malformed(message: str) -> RestconfError:
    return RestconfError(400, "malformed-message", message, kind="rpc")
