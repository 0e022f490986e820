"""A patch is merged into the stream that was read, and into no other."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from starlette.requests import Request

from cnc.service.web.asking import Asking
from cnc.service.web.patches import merged
from cnc.service.web.resources import Resources
from tests.unit.test_web_restconf import MODULE, STREAM, asked


def test_neither_what_is_there_nor_the_patch_is_changed() -> None:
    there, patch = asked(), {"talker": {"stream-rank": {"rank": 0}}}
    made = merged(there, patch)
    assert (there, patch) == (asked(), {"talker": {"stream-rank": {"rank": 0}}})
    assert made == {**there, "talker": {**there["talker"], "stream-rank": {"rank": 0}}}


def test_a_leaf_list_gets_what_it_lacks() -> None:
    assert merged({"a": [1, 2]}, {"a": [2, 3]}) == {"a": [1, 2, 3]}


def test_entries_that_are_none_are_left_to_the_yang() -> None:
    assert merged({"listener": [{"index": 0}]}, {"listener": [1]}) == {
        "listener": [{"index": 0}, 1]
    }


class Core:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.put: dict[str, Any] = {}

    async def call(self, call: str, arguments: Any, **_: str) -> Any:
        if call == "domain.get":
            return {"name": "cell", "etag": "1", "auto_compute": True, "cucs": []}
        found = {"etag": "7", "body": asked(), "stream_id": asked()["stream-id"]}
        if call == "stream.put":
            self.put = dict(arguments)
        state = {"state": "planned", "placed": True, "reason": None, "failure_code": 0}
        return {**found, **state, "status": None, "created": False}


def test_what_came_between_reading_and_writing_is_not_lost() -> None:
    core = Core()
    content = json.dumps({f"{MODULE}:stream": [{"talker": {"stream-rank": {"rank": 0}}}]})

    async def receive() -> Any:
        return {"type": "http.request", "body": content.encode(), "more_body": False}

    scope = {
        "type": "http",
        "method": "PATCH",
        "path": STREAM,
        "raw_path": STREAM.encode(),
        "query_string": b"",
        "headers": [],
        "client": ("192.0.2.1", 1),
        "server": ("localhost", 443),
        "scheme": "https",
    }
    resources = Resources(cast("Asking", core))
    answer = asyncio.run(resources.answer(Request(scope, receive)))

    assert answer.status_code == 200
    assert core.put["if_match"] == "7"
    assert core.put["body"]["talker"]["stream-rank"] == {"rank": 0}
