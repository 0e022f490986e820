"""How long a CUC waits for an answer over TLS, and until switches run what was accepted.

Streams come and go between stations at the ends of a few neighbouring switches of a cell, which is
rehearsed: real agents and NETCONF servers, ports in memory.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

from cnc.errors import CncError
from cnc.service.client import Client
from cnc.service.refused import CallRefused
from cnc.switch import ConnectOptions
from tests.served import cell
from tests.served.cell import Asked
from tests.served.process import Served, served

News = queue.Queue[Mapping[str, object]]
CUC = "plc"
PERIOD_NS = 100_000_000  # and so the cycle of the lists
_PLACES = 7  # groups of neighbours whose streams come and go in turn
_OCTETS = 100
_NEWS_S = 600


@dataclass(frozen=True)
class Accepted:
    """Seconds by request: from when it was sent until it was answered, and from its answer until
    the kernels of all touched switches were read back with it running, and until that was
    announced, which is when all have confirmed and saved it, too; rollouts that `failed`, such as
    for a commit that came late, and were repeated are counted in."""

    answered_s: list[float] = field(default_factory=list)
    running_s: list[float] = field(default_factory=list)
    announced_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def measure(switches: int, touched: int, requests: int, directory: Path) -> Accepted:
    """Put so many streams through `touched` of the switches, one after the other; each is removed
    when it runs. Raises CncError where a rollout was about other switches."""
    name = f"cell{os.getpid()}"  # of a lab that nobody else has up
    file = cell.written(switches, directory, name)
    with (
        _rehearsed(file, name) as connect,
        served(file, directory / "cnc", connect) as service,
        _news(service) as news,
    ):
        _until(news, "rollout-done", Accepted())
        token = service.token(CUC)
        with service.client(token) as client, service.admin() as admin:
            found = Accepted()
            wanted = islice(_streams(switches, touched), requests + 1)
            for number, asked in enumerate(wanted):
                its = found if number else Accepted()  # the first one fills caches
                rollout = _come_and_go(client, news, asked, its)
                changed = admin.document("rollouts", number=rollout)["switches"]
                if len(changed) != touched:
                    raise CncError(
                        f"a stream was brought to {len(changed)} switches instead of {touched}"
                    )
            return found


def _streams(switches: int, touched: int) -> Iterator[Asked]:
    """One after the other through each group of neighbours."""
    step = max(1, (switches - touched) // (_PLACES - 1))
    firsts = range(1, switches - touched + 2, step)
    for number, first in enumerate(cycle(firsts), 1):
        ends = first, first + touched - 1
        talker, listener = (its * cell.STATIONS_A_SWITCH for its in ends)
        yield Asked(number, talker, (listener,), PERIOD_NS, _OCTETS)


def _come_and_go(client: Client, news: News, asked: Asked, found: Accepted) -> int:
    """The number of the rollout that brought the stream to the switches."""
    sent_s = time.monotonic()
    client.put_stream(CUC, asked.body())
    answered_s, answered = time.monotonic(), datetime.now(UTC)
    event = _until(news, "stream-configured", found)
    found.answered_s.append(answered_s - sent_s)
    found.announced_s.append(time.monotonic() - answered_s)
    since = str(_until(news, "rollout-done", found)["running_since"])  # by the same clock
    found.running_s.append((datetime.fromisoformat(since) - answered).total_seconds())
    client.remove_stream(CUC, asked.stream_id)
    _until(news, "stream-removed", found)
    return int(str(event["rollout"]))


def _until(news: News, kind: str, found: Accepted) -> Mapping[str, object]:
    """The next event of a kind. Raises CncError where there is none for a long time."""
    while True:
        try:
            event = news.get(timeout=_NEWS_S)
        except queue.Empty:
            why = found.failed[-1] if found.failed else "no rollout failed"
            raise CncError(f"no event {kind} within {_NEWS_S} s: {why}") from None
        if event["kind"] == "rollout-failed":
            found.failed.append(str(event["reason"]))
        if event["kind"] == kind:
            return event


@contextmanager
def _news(service: Served) -> Iterator[News]:
    """The events as they come. They end with the service, which is to end first."""
    events: News = queue.Queue()

    def follow() -> None:
        try:
            with service.admin() as admin:
                for event in admin.events(after=0):
                    events.put(event)
        except (CallRefused, OSError):
            return

    threading.Thread(target=follow, daemon=True).start()
    yield events


@contextmanager
def _rehearsed(file: Path, name: str) -> Iterator[ConnectOptions]:
    """The switches of an intent file, as `cnc lab up --rehearse` starts them."""

    def lab(*words: str | Path) -> str:
        command = [sys.executable, "-m", "cnc", "lab", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CncError(f"cnc lab {words[0]} failed: {done.stderr}")
        return done.stdout

    keys = dict(re.findall(r"(CNC_\w+)=(\S+)", lab("up", "--rehearse", file)))
    try:
        yield ConnectOptions(Path(keys["CNC_IDENTITY"]), Path(keys["CNC_KNOWN_HOSTS"]))
    finally:
        lab("down", name)
