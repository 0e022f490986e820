"""What RFC 8040 has a client find first: where the API is, its modules, capabilities, streams."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cnc.service.web import schema
from cnc.service.web.bodies import accept_json
from cnc.service.web.errors import YANG_JSON, RestconfError
from cnc.service.web.operations import Operations
from cnc.service.web.resources import Resources

_XRD = (
    "<XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>"
    "<Link rel='restconf' href='/restconf'/></XRD>\n"
)
_LIBRARY = "ietf-yang-library:modules-state"
_MONITORING = "ietf-restconf-monitoring:restconf-state"
_LIBRARY_VERSION = "2016-06-21"  # RFC 7895
_CAPABILITIES = (
    "urn:ietf:params:restconf:capability:defaults:1.0?basic-mode=explicit",
    "urn:ietf:params:restconf:capability:depth:1.0",
)
EVENTS = "/restconf/streams/NETCONF"


class Discovery:
    """Answers for a worker. All but the first are for who has a token."""

    def __init__(self, resources: Resources, operations: Operations) -> None:
        self._resources, self._operations = resources, operations

    async def host_meta(self, _: Request) -> Response:
        return Response(_XRD, media_type="application/xrd+xml")

    async def api(self, request: Request) -> Response:
        operations = self._shown_operations()
        api = {"data": {}, "operations": operations, "yang-library-version": _LIBRARY_VERSION}
        return await self._answer(request, {"ietf-restconf:restconf": api})

    async def library_version(self, request: Request) -> Response:
        version = {"ietf-restconf:yang-library-version": _LIBRARY_VERSION}
        return await self._answer(request, version)

    async def operations(self, request: Request) -> Response:
        shown = {"ietf-restconf:operations": self._shown_operations()}
        return await self._answer(request, shown)

    async def library(self, request: Request) -> Response:
        return await self._answer(request, self._within(request, schema.library()))

    async def monitoring(self, request: Request) -> Response:
        stream = {
            "name": "NETCONF",
            "description": "The notifications of ieee802-dot1q-cnc-config.",
            "access": [{"encoding": "json", "location": f"{request.base_url}{EVENTS[1:]}"}],
        }
        state = {"capabilities": {"capability": [*_CAPABILITIES]}, "streams": {"stream": [stream]}}
        return await self._answer(request, self._within(request, {_MONITORING: state}))

    def _shown_operations(self) -> dict[str, Any]:
        return {name: [None] for name in self._operations.names}

    def _within(self, request: Request, found: dict[str, Any]) -> dict[str, Any]:
        """What the rest of the path names."""
        ((module, _),) = ((name.partition(":")[0], None) for name in found)
        name = next(iter(found))
        value: Any = found[name]
        for step in filter(None, str(request.path_params.get("below", "")).split("/")):
            name = step.removeprefix(f"{module}:")
            if not isinstance(value, dict) or name not in value:
                raise RestconfError(404, "invalid-value", f"there is no resource {step[:64]}")
            value = value[name]
        return {name if ":" in name else f"{module}:{name}": value}

    async def _answer(self, request: Request, content: dict[str, Any]) -> Response:
        accept_json(request)
        await self._resources.call(request, "who")
        return JSONResponse(content, media_type=YANG_JSON)
