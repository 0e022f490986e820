"""A core that answers from memory, for tests of what stands before it: nothing is planned.

`python -m tests.unit.service_fixture SOCKET` serves it until it is stopped. The token of a role is
its name, that of the CUC `plc` is "plc". A stream whose body has a `user-to-network-requirements`
with a max-latency of 1 ns has no place.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from cnc.service.calls import (
    CALLS,
    Arguments,
    CucDelete,
    DocumentGet,
    EventsFollow,
    IntentPut,
    OfCuc,
    OfStream,
    Role,
    Rollback,
    StreamDelete,
    StreamPut,
    StreamsCompute,
    StreamsDelete,
    arguments_of,
)
from cnc.service.channel import Following, Request, serving
from cnc.service.names import plan_name
from cnc.service.refused import CallRefused, Code

CUC = "plc"
VIEWER = str(Role.VIEWER)
_TIME = "2026-01-01T00:00:00+00:00"


class FixtureCore:
    """Streams by CUC and id, and events, in memory."""

    def __init__(self) -> None:
        self.auto_compute = True
        self.streams: dict[tuple[str, str], dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self._more = asyncio.Condition()

    async def answer(self, request: Request) -> Any:
        if request.token not in {*Role, CUC}:
            raise CallRefused(Code.UNAUTHENTICATED, "no such token")
        role = Role.CUC if request.token == CUC else Role(request.token)
        arguments = arguments_of(request.call, request.arguments)
        if role not in CALLS[request.call].roles:
            raise CallRefused(Code.FORBIDDEN, f"{request.call} is not for the role {role}")
        if role is Role.CUC and any(cuc != CUC for cuc in arguments.of_cucs):
            raise CallRefused(Code.FORBIDDEN, f"the token is for the CUC {CUC}")
        if request.call == "who":
            cuc = CUC if role is Role.CUC else None
            return {"name": request.token, "role": role, "cuc": cuc, "expires": None}
        function = getattr(self, request.call.replace(".", "_"), None)
        if function is None:
            raise CallRefused(Code.UNAVAILABLE, f"{request.call}: not in this fixture")
        return await function(arguments)

    async def domain_get(self, _: Arguments) -> Any:
        return {
            "name": "cell",
            "auto_compute": self.auto_compute,
            "etag": str(len(self.events)),
            "cucs": sorted({cuc for cuc, _ in self.streams}),
        }

    async def domain_set(self, arguments: Any) -> Any:
        self.auto_compute = arguments.auto_compute
        return await self.domain_get(arguments)

    async def cuc_get(self, arguments: OfCuc) -> Any:
        found = [its for (cuc, _), its in self.streams.items() if cuc == arguments.cuc]
        if not found:
            raise CallRefused(Code.ABSENT, f"CUC {arguments.cuc} has no streams")
        return {"cuc": arguments.cuc, "etag": str(len(self.events)), "streams": found}

    async def cuc_delete(self, arguments: CucDelete) -> Any:
        ids = [stream_id for cuc, stream_id in self.streams if cuc == arguments.cuc]
        for stream_id in ids:
            del self.streams[arguments.cuc, stream_id]
        return {"removed": ids}

    async def stream_get(self, arguments: OfStream) -> Any:
        found = self.streams.get((arguments.cuc, arguments.stream_id))
        if found is None:
            raise CallRefused(Code.ABSENT, f"CUC {arguments.cuc} has no such stream")
        return found

    async def stream_put(self, arguments: StreamPut) -> Any:
        key = arguments.cuc, arguments.stream_id
        before = self.streams.get(key)
        self._match(arguments, before)
        refused = self._without_place(arguments.body)
        if refused and self.auto_compute:
            raise CallRefused(Code.CONFLICT, refused, details={"failure_code": 3})
        self.streams[key] = {
            "cuc": arguments.cuc,
            "stream_id": arguments.stream_id,
            "name": plan_name(*key),
            "body": arguments.body,
            "etag": str(len(self.events) + 1),
            "state": "planned",
            "placed": self.auto_compute,
            "reason": None,
            "failure_code": 0,
            "rollout": None,
            "status": None,
        }
        await self._tell("stream-placed", cuc=arguments.cuc, stream_id=arguments.stream_id)
        return {**self.streams[key], "created": before is None}

    async def stream_delete(self, arguments: StreamDelete) -> Any:
        before = await self.stream_get(arguments)
        self._match(arguments, before)
        del self.streams[arguments.cuc, arguments.stream_id]
        await self._tell("stream-removed", cuc=arguments.cuc, stream_id=arguments.stream_id)
        return {"removed": [arguments.stream_id]}

    async def streams_delete(self, arguments: StreamsDelete) -> Any:
        asked = [OfStream(cuc=arguments.cuc, stream_id=each) for each in arguments.stream_ids]
        for each in asked:
            await self.stream_get(each)
        for each in asked:
            del self.streams[each.cuc, each.stream_id]
        return {"removed": arguments.stream_ids}

    async def streams_compute(self, arguments: StreamsCompute) -> Any:
        for cuc, which in arguments.cucs.items():
            ids = [its_id for its_cuc, its_id in self.streams if its_cuc == cuc]
            asked = which if isinstance(which, list) else ids
            for stream_id in asked:
                found = await self.stream_get(OfStream(cuc=cuc, stream_id=stream_id))
                if refused := self._without_place(found["body"]):
                    raise CallRefused(Code.CONFLICT, refused, details={"failure_code": 3})
            for stream_id in asked:
                self.streams[cuc, stream_id]["placed"] = True
            await self._tell("computed", cuc=cuc, streams=asked, failed={}, failure_codes={})
        return {"placed": {}}

    async def document_get(self, arguments: DocumentGet) -> Any:
        return {"format": f"cnc-{arguments.name}/1"}

    async def intent_put(self, arguments: IntentPut) -> Any:
        return {"change": f"{len(arguments.content())} characters", "after": 0}

    async def rollback(self, arguments: Rollback) -> Any:
        return {"change": f"{arguments.number} {arguments.idempotency_key}", "after": 0}

    async def events_follow(self, arguments: EventsFollow) -> Following:
        async def items() -> AsyncIterator[Any]:
            seen = arguments.after or 0
            while True:
                while seen < len(self.events):
                    seen += 1
                    yield self.events[seen - 1]
                async with self._more:
                    while seen == len(self.events):
                        await self._more.wait()

        return Following(items())

    async def _tell(self, kind: str, **more: Any) -> None:
        self.events.append(
            {"number": len(self.events) + 1, "time": _TIME, "kind": kind, "reason": None, **more}
        )
        async with self._more:
            self._more.notify_all()

    @staticmethod
    def _match(arguments: Any, before: dict[str, Any] | None) -> None:
        if arguments.if_match not in {None, "*", before and before["etag"]}:
            raise CallRefused(Code.STALE, "the stream has changed since")
        if getattr(arguments, "if_none_match", None) == "*" and before:
            raise CallRefused(Code.STALE, "the stream is there already")

    @staticmethod
    def _without_place(body: dict[str, Any]) -> str | None:
        asked = body.get("talker", {}).get("user-to-network-requirements", {})
        return "no room at sw1/p1" if asked.get("max-latency") == 1 else None


async def _serve(path: Path) -> None:
    async with serving(path, FixtureCore().answer):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
