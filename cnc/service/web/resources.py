"""/restconf/data of the UNI (RFC 8040 section 4): domain, CUC and stream, by JSON (RFC 7951)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cnc.service.refused import CallRefused, Code
from cnc.service.uni import shown
from cnc.service.uni.shown import MODULE, OURS
from cnc.service.web import schema
from cnc.service.web.asking import Asking
from cnc.service.web.bodies import accept_json, json_of
from cnc.service.web.errors import YANG_JSON, RestconfError, not_allowed
from cnc.service.web.patches import merged

ROOT = f"{MODULE}:cnc-config"
_STREAM, _DOMAIN, _CUC = f"{MODULE}:stream", f"{MODULE}:domain", f"{MODULE}:cuc"
_AUTO = f"{OURS}:auto-compute"
_LISTS = ("domain", "cuc", "stream")
_ALLOW = {
    0: "GET, HEAD, OPTIONS",
    1: "GET, HEAD, OPTIONS, PUT, PATCH",
    2: "GET, HEAD, OPTIONS, POST, DELETE",
    3: "GET, HEAD, OPTIONS, PUT, PATCH, DELETE",
}
_BELOW = _ALLOW[0]
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
_CONTENTS = frozenset({"all", "config", "nonconfig"})


class Resources:
    """Answers for a worker whose core is behind `asking`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._domain: str | None = None  # a core has one, by the same name for ever

    async def answer(self, request: Request) -> Response:
        """Any method on any resource of the tree. Raises RestconfError, CallRefused."""
        keys, below = _path(request)
        level = len(keys)
        method = request.method
        if method in {"GET", "HEAD"}:
            return await self._get(request, keys, below)
        allow = _BELOW if below else _ALLOW[level]
        if method == "OPTIONS":
            patch = {"Accept-Patch": YANG_JSON} if "PATCH" in allow else {}
            return Response(status_code=204, headers={"Allow": allow, **patch})
        if method not in allow.split(", "):
            hint = "write the stream as a whole" if below else ""
            if level == 2 and not below:  # noqa: PLR2004  of a CUC
                hint = "a CUC is there as long as it has streams: write these, one by one"
            raise not_allowed(method, "this resource", allow, hint)
        if request.query_params:
            raise _unknown_query(next(iter(request.query_params)))
        await self._in_domain(request, keys[0])
        if level == 1:
            return await self._set_domain(request, keys[0])
        if method == "DELETE":
            return await self._delete(request, keys)
        if method == "POST":
            return await self._create(request, keys[1])
        return await self._put(request, keys[1], keys[2])

    async def call(self, request: Request, call: str, **arguments: Any) -> Any:
        """A call with the token of a request. Raises CallRefused."""
        given = {name: value for name, value in arguments.items() if value is not None}
        return await self._asking.call(call, given, token=token_of(request), source=source(request))

    # --- reads -------------------------------------------------------------------------------

    async def _get(self, request: Request, keys: list[str], below: list[str]) -> Response:
        accept_json(request)
        content, depth = _query(request)
        config_only = content == "config"
        etag, name, found = await self._found(request, keys, config_only=config_only)
        for step in below:
            name, found = _step(name, found, step)
        if content == "nonconfig" and len(keys) < len(_LISTS):
            raise _invalid("content=nonconfig is for a stream")
        if depth is not None:
            found = _to_depth(found, depth)
        headers = {"ETag": f'"{etag}"'}
        if f'"{etag}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        is_entry = isinstance(found, dict) and ("=" in below[-1] if below else bool(keys))
        shown_as = [found] if is_entry else found
        prefixed = name if ":" in name else f"{MODULE}:{name}"
        return JSONResponse({prefixed: shown_as}, headers=headers, media_type=YANG_JSON)

    async def _found(
        self, request: Request, keys: list[str], *, config_only: bool
    ) -> tuple[str, str, Any]:
        """The entity tag, the name and the value of a resource."""
        if len(keys) == len(_LISTS):
            await self._in_domain(request, keys[0])
            its = await self.call(request, "stream.get", cuc=keys[1], stream_id=keys[2])
            return its["etag"], "stream", shown.stream(its, config_only=config_only)
        if len(keys) == 2:  # noqa: PLR2004  of a CUC
            await self._in_domain(request, keys[0])
            its = await self.call(request, "cuc.get", cuc=keys[1])
            return its["etag"], "cuc", shown.cuc(its, config_only=config_only)
        its = await self.call(request, "domain.get")
        if keys and keys[0] != its["name"]:
            raise _no_domain(keys[0], its["name"])
        cucs = [await self.call(request, "cuc.get", cuc=cuc) for cuc in its["cucs"]]
        domain = shown.domain(its, cucs, config_only=config_only)
        etag = ".".join([its["etag"], *(each["etag"] for each in cucs)])
        return (etag, "domain", domain) if keys else (etag, ROOT, {"domain": [domain]})

    async def _in_domain(self, request: Request, domain: str) -> None:
        """Raises RestconfError where the domain is another one.

        Where a body follows, the core is asked, and looks at the token: to validate what a stranger
        sends costs more than to refuse it.
        """
        if domain == self._domain and request.method in _WITHOUT_BODY:
            return
        its = await self.call(request, "domain.get")
        self._domain = its["name"]
        if domain != self._domain:
            raise _no_domain(domain, its["name"])

    # --- writes ------------------------------------------------------------------------------

    async def _set_domain(self, request: Request, domain: str) -> Response:
        its = _entry(await json_of(request), _DOMAIN)
        if its.get("domain-id", domain) != domain:
            raise _invalid("domain-id is not that of the URL")
        if not its.get("cnc-enabled", True):
            raise _invalid("cnc-enabled false: stop the service of this domain instead")
        if others := its.keys() - {"domain-id", "cnc-enabled", _AUTO}:
            raise _invalid(f"{sorted(others)[0]}: write CUCs and streams by their own resources")
        wanted = its.get(_AUTO, request.method == "PUT" or None)
        if wanted is None:
            return Response(status_code=204)
        if not isinstance(wanted, bool):
            raise _invalid(f"{_AUTO} is true or false")
        found = await self.call(
            request,
            "domain.set",
            auto_compute=wanted,
            if_match=_tag(request, "if-match"),
            idempotency_key=key_of(request),
        )
        return Response(status_code=204, headers={"ETag": f'"{found["etag"]}"'})

    async def _create(self, request: Request, cuc: str) -> Response:
        its = _entry(await json_of(request), _STREAM)
        body = schema.stream(its, cuc)
        try:
            return await self._stored(request, cuc, body, if_none_match="*")
        except CallRefused as refused:
            if refused.code is not Code.STALE:
                raise
            raise RestconfError(409, "data-exists", str(refused)) from refused

    async def _put(self, request: Request, cuc: str, stream_id: str) -> Response:
        its = _entry(await json_of(request), _STREAM)
        if_match, patch = _tag(request, "if-match"), None
        if request.method == "PATCH":
            patch = its
            there = await self.call(request, "stream.get", cuc=cuc, stream_id=stream_id)
            its = merged({**there["body"], "stream-id": stream_id}, its)
            if if_match in {None, "*"}:
                if_match = there["etag"]  # else what came between would be lost
        if its.get("stream-id") != stream_id:
            raise _invalid("stream-id is not that of the URL")
        body = schema.stream(its, cuc)
        none = _tag(request, "if-none-match")
        return await self._stored(
            request, cuc, body, if_match=if_match, if_none_match=none, patch=patch
        )

    async def _stored(
        self,
        request: Request,
        cuc: str,
        body: Mapping[str, Any],
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        patch: Mapping[str, Any] | None = None,
    ) -> Response:
        """The core's answer to a stream: where it has its place."""
        stream_id = body["stream-id"]
        found = await self.call(
            request,
            "stream.put",
            cuc=cuc,
            stream_id=stream_id,
            body=body,
            if_match=if_match,
            if_none_match=if_none_match,
            idempotency_key=key_of(request),
            patch=patch,
        )
        headers = {"ETag": f'"{found["etag"]}"'}
        if found["created"]:
            base = request.url.path.partition("/cuc=")[0]
            headers["Location"] = f"{base}/cuc={quote(cuc)}/stream={quote(stream_id, safe='')}"
        content = {_STREAM: [shown.stream(found)]}
        status = 201 if found["created"] else 200
        return JSONResponse(content, status, headers=headers, media_type=YANG_JSON)

    async def _delete(self, request: Request, keys: list[str]) -> Response:
        is_of_cuc = len(keys) == 2  # noqa: PLR2004
        await self.call(
            request,
            "cuc.delete" if is_of_cuc else "stream.delete",
            cuc=keys[1],
            stream_id=None if is_of_cuc else keys[2],
            if_match=_tag(request, "if-match"),
            idempotency_key=key_of(request),
        )
        return Response(status_code=204)


def token_of(request: Request) -> str:
    """The bearer token of a request (RFC 6750 2.1); none is for the core to refuse."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip()[:256] if scheme.lower() == "bearer" else ""


def source(request: Request) -> str:
    return request.client.host if request.client else ""


def _path(request: Request) -> tuple[list[str], list[str]]:
    """The keys of domain, CUC and stream in the path of a request, and the steps below."""
    raw = request.scope["raw_path"].decode("latin-1").partition("/restconf/data/")[2]
    first, *steps = raw.rstrip("/").split("/")
    if unquote(first) != ROOT:
        raise _absent(unquote(first))
    keys: list[str] = []
    for place, step in enumerate(steps[: len(_LISTS)]):
        name, equals, key = step.partition("=")
        if unquote(name).removeprefix(f"{MODULE}:") != _LISTS[place] or not equals:
            raise _absent(unquote(step))
        keys.append(unquote(key))
    return keys, [unquote(step) for step in steps[len(_LISTS) :]]


def _step(name: str, found: Any, step: str) -> tuple[str, Any]:
    """The child of an object that a step of the path names."""
    child, equals, key = step.partition("=")
    child = child.removeprefix(f"{MODULE}:")
    if not isinstance(found, dict) or child not in found:
        raise _absent(f"{name}/{step}")
    value = found[child]
    if not equals:
        return child, value
    wanted = [unquote(each) for each in key.split(",")]
    keys = ("mac-address", "interface-name") if child.endswith("interfaces") else ("index",)
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict) and [str(each.get(its)) for its in keys] == wanted:
            return child, each
    raise _absent(f"{name}/{step}")


def _query(request: Request) -> tuple[str, int | None]:
    content, depth = "all", "unbounded"
    for name, value in request.query_params.items():
        match name:
            case "content" if value in _CONTENTS:
                content = value
            case "depth" if value == "unbounded" or (value.isascii() and value.isdigit()):
                depth = value
            case _:
                raise _unknown_query(name)
    if depth == "unbounded":
        return content, None
    levels = int(depth[:6])
    if not 1 <= levels <= 65535:  # noqa: PLR2004  RFC 8040 4.8.2
        raise _unknown_query("depth")
    return content, levels


def _to_depth(found: Any, depth: int) -> Any:
    """What of a value is that deep: with one level a container has its leaves alone."""
    if isinstance(found, list):
        return [_to_depth(each, depth) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        name: _to_depth(value, depth - 1) if _is_node(value) else value
        for name, value in found.items()
        if depth > 1 or not _is_node(value)
    }


def _is_node(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(each, dict) for each in value)
    return isinstance(value, dict)


def _entry(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The one entry of a list that a body has."""
    match body.get(name):
        case [dict(entry)] if len(body) == 1:
            return entry
    raise RestconfError(
        400, "malformed-message", f'the body is {{"{name}": [{{…}}]}} with one entry', kind="rpc"
    )


def _tag(request: Request, header: str) -> str | None:
    """The entity tag in a header (RFC 9110 13.1); None without one."""
    value = request.headers.get(header)
    if value is None:
        return None
    return value.strip().removeprefix("W/").strip('"')


def key_of(request: Request) -> str | None:
    """Its Idempotency-Key."""
    return request.headers.get("idempotency-key")


def _absent(what: str) -> RestconfError:
    return RestconfError(404, "invalid-value", f"there is no resource {what[:200]}")


def _no_domain(asked: str, its: str) -> RestconfError:
    return RestconfError(404, "invalid-value", f"there is no domain {asked[:64]}, but {its}")


def _invalid(message: str) -> RestconfError:
    return RestconfError(400, "invalid-value", message)


def _unknown_query(name: str) -> RestconfError:
    return RestconfError(
        400, "invalid-value", f"the query parameter {name[:64]} or its value is none here"
    )
