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
        self._by_name: Mapping[str, Callable[[Any, Mapping[str, Any]], Awaitable[str]]] = {
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
        if name not in self._by_name:
            raise _no_operation(name)
        return _output(await self.perform(request, name, await _input(request)))

    async def remove_streams(self, request: Request) -> Response:
        """POST of the action of a CUC."""
        accept_json(request)
        cuc = unquote(str(request.path_params["cuc"]))
        given = await _input(request)
        domain = unquote(str(request.path_params["domain"]))
        return _output(await self.remove(request, domain, cuc, given))

    async def perform(self, asker: Any, name: str, given: Mapping[str, Any]) -> str:
        """The result of an operation. Raises RestconfError, CallRefused."""
        if name not in self._by_name:
            raise _no_operation(name)
        return await self._by_name[name](asker, given)

    async def remove(self, asker: Any, domain: str, cuc: str, given: Mapping[str, Any]) -> str:
        """The action of a CUC: all of the streams are there, or none is removed."""
        await self._in_domain(asker, domain)
        ids = [_text(each, "stream-id") for each in _list(given, "stream-list")]
        there = await self._call(asker, "cuc.get", cuc=cuc)
        known = {each["stream_id"] for each in there["streams"]}
        if unknown := [each for each in ids if each not in known]:
            raise RestconfError(
                404, "invalid-value", f"the CUC {cuc} has no stream {unknown[0]}: none is removed"
            )
        for stream_id in dict.fromkeys(ids):
            await self._call(asker, "stream.delete", cuc=cuc, stream_id=stream_id)
        return DONE

    async def _compute_streams(self, asker: Any, given: Mapping[str, Any]) -> str:
        return await self._computed(
            asker,
            [
                (cuc, [_text(each, "stream-id") for each in _list(its, "stream-list")])
                async for cuc, its in self._cucs(asker, given)
            ],
        )

    async def _compute_changed(self, asker: Any, given: Mapping[str, Any]) -> str:
        which = "planned-and-modified"
        return await self._computed(
            asker, [(cuc, which) async for cuc, _ in self._cucs(asker, given)]
        )

    async def _compute_all(self, asker: Any, given: Mapping[str, Any]) -> str:
        return await self._computed(
            asker, [(cuc, "all") async for cuc, _ in self._cucs(asker, given)]
        )

    async def _computed(self, asker: Any, asked: list[tuple[str, Any]]) -> str:
        failed = []
        for cuc, which in asked:
            try:
                await self._call(asker, "streams.compute", cuc=cuc, which=which)
            except CallRefused as refused:
                if refused.code is not Code.CONFLICT:
                    raise
                failed.append(f"{cuc}: {refused}")
        return f"failed: {'; '.join(failed)}" if failed else DONE

    async def _domain_id(self, asker: Any, _: Mapping[str, Any]) -> str:
        its = await self._call(asker, "domain.get")
        return str(its["name"])

    async def _free_stream_id(self, asker: Any, given: Mapping[str, Any]) -> str:
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

    async def _cucs(self, asker: Any, given: Mapping[str, Any]) -> Any:
        """The CUCs that an input names, with what it says of them."""
        for domain in _list(given, "domain"):
            await self._in_domain(asker, _text(domain, "domain-id"))
            for cuc in _list(domain, "cuc"):
                yield _text(cuc, "cuc-id"), cuc

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


def _output(result: str) -> Response:
    return JSONResponse({f"{MODULE}:output": {"result": result}}, media_type=YANG_JSON)


def _no_operation(name: str) -> RestconfError:
    return RestconfError(404, "invalid-value", f"there is no operation {name[:64]}")


def _malformed(message: str) -> RestconfError:
    return RestconfError(400, "malformed-message", message, kind="rpc")
