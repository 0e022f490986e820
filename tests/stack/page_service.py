"""The live page served over TLS by a worker, before a core that answers from memory."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cnc.service import certificate
from cnc.service.calls import DocumentGet
from cnc.service.channel import serving
from cnc.service.refused import CallRefused, Code
from tests.unit.service_fixture import FixtureCore

START_S, END_S = 20, 10


class PageCore(FixtureCore):
    """Documents as a test sets them; `page` is the data of a plan, by `cnc.page.data`."""

    def __init__(self, page: dict[str, Any]) -> None:
        super().__init__()
        self.page = {**page, "number": 1}
        self.live: dict[str, Any] = {
            "watched": True,
            "clock_error_ns": 1_000,
            "switches": [
                {
                    "name": node["name"],
                    "answers": True,
                    "agent": True,
                    "clock_offset_ns": 1_200_000,
                    "tai_offset_s": 37,
                    "ptp": {
                        "locked": True,
                        "is_grandmaster": False,
                        "grandmaster": "00-1b-21-ff-fe-00-00-01",
                        "offset_ns": 42,
                    },
                }
                for node in page["nodes"]
                if node["bridge"]
            ],
            "ports": [
                {"port": port["name"], "agrees": True, "link": "up", "told": []}
                for port in page["ports"]
                if page["nodes"][port["node"]]["bridge"]
            ],
            "conditions": [],
            "notices": [],
            "unfinished": 0,
            "waiting": 0,
            "rollout": 12,
        }
        self.rollouts: list[dict[str, Any]] = []
        self.diff: dict[str, Any] = {"same": True}

    async def document_get(self, arguments: DocumentGet) -> Any:
        match arguments.name:
            case "page":
                text = json.dumps(self.page).encode()
                return {"gzip": base64.b64encode(gzip.compress(text, 1)).decode()}
            case "live":
                newest = len(self.events)
                return {**self.live, "decided": self.page["number"], "newest_event": newest}
            case "counters":
                return {"owner": None, "ports": self._counted(arguments.stream), "streams": []}
            case "rollouts":
                return self.rollouts
            case "diff":
                return self.diff
        raise CallRefused(Code.UNAVAILABLE, f"{arguments.name}: not in this fixture")

    def _counted(self, stream: str | None) -> list[dict[str, Any]]:
        its = next(each for each in self.page["streams"] if each["name"] == stream)
        return [
            {
                "port": self.page["ports"][hop[0]]["name"],
                "class": its["class"],
                "sent": 123_456,
                "waiting": 0,
                "dropped": 0,
                "overruns": 0,
            }
            for hop in its["hops"]
        ]

    def begin(self, kind: str, switch: str | None, port: str | None, text: str) -> None:
        """A condition, as `cnc watch` has them."""
        since = "2026-11-29T17:00:00+00:00"
        condition = {"kind": kind, "switch": switch, "port": port, "text": text, "since": since}
        self.live["conditions"] = [*self.live["conditions"], condition]

    def note(self, kind: str, switch: str, text: str) -> None:
        """A momentary event, as `cnc watch` has them."""
        at = "2026-11-29T17:00:00+00:00"
        notice = {"kind": kind, "switch": switch, "port": None, "text": text, "at": at}
        self.live["notices"] = [notice, *self.live["notices"]]

    def rolled_out(self, number: int, **more: Any) -> None:
        self.rollouts.insert(
            0,
            {
                "number": number,
                "operator": "service",
                "what": "service",
                "started": f"2026-11-29T17:{number:02}:00+00:00",
                "phase": "done",
                "under_way": False,
                "detail": "",
                "switches": {"s1": {}, "s2": {}},
                **more,
            },
        )

    async def tell(self, kind: str, **more: Any) -> None:
        await self._tell(kind, **more)


def crowded(page: dict[str, Any], count: int) -> dict[str, Any]:
    """The data of a page with so many streams of a CUC, on the ways of those that it has."""
    its = page["streams"]
    streams = [{**its[n % len(its)], "name": stream_name(n)} for n in range(count)]
    return {**page, "streams": streams}


def stream_name(number: int) -> str:
    return f"plc__00-1B-21-00-00-01_{number >> 8:02X}-{number & 0xFF:02X}"


class Served:
    """A page that runs: its address, and its core, which lives in another thread."""

    def __init__(self, url: str, core: PageCore, loop: asyncio.AbstractEventLoop) -> None:
        self.url, self.core, self._loop = url, core, loop

    def tell(self, kind: str, **more: Any) -> None:
        """An event happens."""
        telling = self.core.tell(kind, **more)
        asyncio.run_coroutine_threadsafe(telling, self._loop).result(END_S)


@contextmanager
def served(core: PageCore, directory: Path) -> Iterator[Served]:
    """A worker as `cnc serve` starts it, and this core behind it, while the block runs."""
    loop = asyncio.new_event_loop()
    socket_path = directory / "core.sock"
    started, stop = threading.Event(), asyncio.Event()

    async def answer() -> None:
        async with serving(socket_path, core.answer):
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(answer()), daemon=True)
    thread.start()
    try:
        assert started.wait(START_S)
        with _worker(directory, socket_path) as url:
            yield Served(url, core, loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(END_S)
        assert not thread.is_alive()


@contextmanager
def _worker(directory: Path, socket_path: Path) -> Iterator[str]:
    certificate_file, key = certificate.ensure(directory, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        command = [
            *(sys.executable, "-m", "cnc.service.web", "--core", str(socket_path)),
            *("--fd", str(listening.fileno())),
            *("--certificate", str(certificate_file), "--key", str(key)),
        ]
        process = subprocess.Popen(command, pass_fds=(listening.fileno(),))
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            process.terminate()
            process.wait(END_S)
