"""All rooms of a worker as one application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cnc.service.refused import CallRefused
from cnc.service.web.api import OPERATIONS, PREFIX, Api
from cnc.service.web.asking import Asking
from cnc.service.web.commands import Commands
from cnc.service.web.discovery import EVENTS, Discovery
from cnc.service.web.errors import RestconfError, refused
from cnc.service.web.events import Events
from cnc.service.web.forwarding import Forwarding
from cnc.service.web.guard import Guard
from cnc.service.web.operations import Operations
from cnc.service.web.resources import ROOT, Resources

_Answer = Callable[[Request], Awaitable[Response]]
_ALL = ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE"]


def application(
    asking: Asking,
    names: Collection[str],
    *,
    pages: Sequence[BaseRoute] = (),
    before: Sequence[Middleware] = (),
) -> Starlette:
    """What answers for a host of these `names`. `pages` come before the routes of the API, `before`
    between the guard and all routes."""
    resources = Resources(asking)
    operations = Operations(resources.call)
    discovery = Discovery(resources, operations)
    events = Events(asking, resources)
    api = Api(resources, events)
    commands = Commands(asking)
    return Starlette(
        routes=[
            *pages,
            _get("/.well-known/host-meta", discovery.host_meta),
            _get("/restconf", discovery.api),
            _get("/restconf/yang-library-version", discovery.library_version),
            _get("/restconf/operations", discovery.operations),
            Route("/restconf/operations/{name}", operations.answer, methods=["POST"]),
            _get(EVENTS, events.notifications),
            *_below("/restconf/data/ietf-yang-library:modules-state", discovery.library),
            *_below("/restconf/data/ietf-restconf-monitoring:restconf-state", discovery.monitoring),
            Route(
                f"/restconf/data/{ROOT}/domain={{domain}}/cuc={{cuc}}/remove_streams",
                operations.remove_streams,
                methods=["POST"],
            ),
            Route("/restconf/data/{rest:path}", resources.answer, methods=_ALL),
            _get(f"{PREFIX}/openapi.json", api.description),
            Route(f"{PREFIX}/commands", commands.run, methods=["POST"]),
            Route(f"{PREFIX}/intent", commands.put_intent, methods=["PUT"]),
            *(
                Route(PREFIX + each.path, api.answering(each), methods=[each.method])
                for each in OPERATIONS
            ),
        ],
        middleware=[Middleware(Guard, names=names), *before, Middleware(Forwarding, asking=asking)],
        exception_handlers={
            RestconfError: _restconf_error,
            CallRefused: _refused,
            HTTPException: _http_error,
        },
    )


def _get(path: str, answer: _Answer) -> Route:
    return Route(path, answer, methods=["GET"])


def _below(path: str, answer: _Answer) -> list[Route]:
    return [_get(path, answer), _get(f"{path}/{{below:path}}", answer)]


def _restconf_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RestconfError)  # noqa: S101  starlette calls it for these alone
    return error.response()


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, CallRefused)  # noqa: S101
    return refused(error)


def _http_error(request: Request, error: Exception) -> Response:
    """What starlette itself refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code == 405:  # noqa: PLR2004
        allow = (error.headers or {}).get("Allow")
        text = f"{request.method} of this resource is not supported"
        return RestconfError(405, "operation-not-supported", text, allow=allow).response()
    text = "there is no such resource" if error.status_code == 404 else str(error.detail)  # noqa: PLR2004
    return RestconfError(error.status_code, "invalid-value", text).response()
