"""The operations of the UNI (RFC 8040 3.6): /restconf/operations, and the action of a CUC.

The module has a string for a result. The core decides before it answers, so that the result says
how it ended; the notifications say it stream by stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cnc.service.refused import CallRefused, Code
from cnc.service.uni.shown import MODULE
from cnc.service.web.bodies import accept_json, json_of
from cnc.service.web.errors import YANG_JSON, RestconfError
from cnc.service.web.resources import key_of

DONE = "success"
_STREAMS_MAX = 0xFFFF
# The address of a free stream-id: a local one, since whose stream it will be is not known.
_FREE = "02-00-00-00-00-00"


class Operations:
    """Answers for a worker.

    Who asks is a request, over RESTCONF, or the user of a session (`cnc.service.netconf`): what
    `call` makes calls of the core by.
    """

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        """`call` takes who asks, the name of a call, and its arguments by name."""
        self._call = call
        self._by_name: Mapping[str, Callable[..., Awaitable[str]]] = {
            "compute_streams": partial(self._compute, _ids),
            "compute_planned_and_modified_streams": partial(
                self._compute, lambda _: "planned-and-modified"
            ),
            "compute_all_streams": partial(self._compute, lambda _: "all"),
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
        if name not in self._by_name:
            raise _no_operation(name)
        return _output(await self.perform(request, name, await _input(request), key_of(request)))

    async def remove_streams(self, request: Request) -> Response:
        """POST of the action of a CUC."""
        accept_json(request)
        cuc = unquote(str(request.path_params["cuc"]))
        given = await _input(request)
        domain = unquote(str(request.path_params["domain"]))
        return _output(await self.remove(request, domain, cuc, given, key_of(request)))

    async def perform(
        self, asker: Any, name: str, given: Mapping[str, Any], key: str | None = None
    ) -> str:
        """The result of an operation, with the Idempotency-Key `key` of who asks. Raises
        RestconfError, CallRefused."""
        if name not in self._by_name:
            raise _no_operation(name)
        return await self._by_name[name](asker, given, key)

    async def remove(
        self, asker: Any, domain: str, cuc: str, given: Mapping[str, Any], key: str | None = None
    ) -> str:
        """The action of a CUC: all of the streams are there, or none is removed."""
        await self._in_domain(asker, domain)
        ids = _ids(given)
        await self._call(asker, "streams.delete", cuc=cuc, stream_ids=ids, idempotency_key=key)
        return DONE

    async def _compute(
        self,
        which: Callable[[Mapping[str, Any]], Any],
        asker: Any,
        given: Mapping[str, Any],
        key: str | None,
    ) -> str:
        """`which`: those of a CUC that are asked for, of what an input says of it."""
        cucs: dict[str, Any] = {}
        for domain in _list(given, "domain"):
            await self._in_domain(asker, _text(domain, "domain-id"))
            for its in _list(domain, "cuc"):
                cuc = _text(its, "cuc-id")
                if cuc in cucs:
                    raise _malformed(f"the CUC {cuc[:64]} twice")
                cucs[cuc] = which(its)
        try:
            await self._call(asker, "streams.compute", cucs=cucs, idempotency_key=key)
        except CallRefused as refused:
            if refused.code is not Code.CONFLICT:
                raise
            return f"failed: {refused}"
        return DONE

    async def _domain_id(self, asker: Any, *_: Any) -> str:
        its = await self._call(asker, "domain.get")
        return str(its["name"])

    async def _free_stream_id(self, asker: Any, given: Mapping[str, Any], *_: Any) -> str:
        if "domain-id" in given:
            await self._in_domain(asker, _text(given, "domain-id"))
        cuc = _text(given, "cuc-id")
        try:
            there = await self._call(asker, "cuc.get", cuc=cuc)
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

    async def _in_domain(self, asker: Any, domain: str) -> None:
        its = await self._call(asker, "domain.get")
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


def _ids(given: Mapping[str, Any]) -> list[str]:
    return [_text(each, "stream-id") for each in _list(given, "stream-list")]


def _output(result: str) -> Response:
    return JSONResponse({f"{MODULE}:output": {"result": result}}, media_type=YANG_JSON)


def _no_operation(name: str) -> RestconfError:
    return RestconfError(404, "invalid-value", f"there is no operation {name[:64]}")


def _malformed(message: str) -> RestconfError:
    return RestconfError(400, "malformed-message", message, kind="rpc")
