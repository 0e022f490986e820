"""CUCs that ask a service for streams and give them back, while its network runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from cnc.service.client import Client
from cnc.service.refused import CallRefused, Code
from tests.served.cell import Asked, Told

# Of so many requests one gives a stream back.
REMOVED_EACH = 6
# A talker has sent its last frame, and that has arrived, so many periods after it was told to.
_LAST_PERIODS = 3
CONFIGURED_S = 120


class Talkers(Protocol):
    """What a CUC does with its stations."""

    def begin(self, asked: Asked, told: Told) -> None: ...
    def end(self, asked: Asked) -> None: ...


@dataclass
class Cuc:
    """One CUC: its requests, one after the other, and what the service made of them.

    `client` and `events` are two connections. `draw` makes the next stream to ask for. Between two
    requests it waits for up to `pause_s`, which chance draws.
    """

    name: str
    client: Client
    events: Client
    talkers: Talkers
    draw: Callable[[], Asked]
    chance: Random
    pause_s: float
    refused: list[str] = field(default_factory=list)
    placed: dict[str, tuple[Asked, Told]] = field(default_factory=dict)
    running: dict[str, Asked] = field(default_factory=dict)
    accepted: int = 0
    removed: int = 0
    _news: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, requests: int) -> None:
        """Make so many requests, and return when the switches run all that was accepted."""
        for number in range(1, requests + 1):
            time.sleep(self.chance.uniform(0, self.pause_s))
            if number % REMOVED_EACH == 0 and self.running:
                self._remove()
            else:
                self._put()
        with self._news:
            assert self._news.wait_for(lambda: not self.placed, CONFIGURED_S), [*self.placed]

    def follow(self) -> None:
        """Let talkers send the frames of each stream that switches have begun to run; in a thread
        of its own, until the service ends."""
        try:
            for event in self.events.events(after=0):
                if event["kind"] == "stream-configured":
                    self._configured(event["stream_id"])
        except (CallRefused, OSError):
            return

    def _put(self) -> None:
        asked = self.draw()
        with self._news:
            # The news that it runs may come before the answer has been read.
            try:
                answer = self.client.put_stream(self.name, asked.body())
            except CallRefused as refused:
                if refused.code is not Code.CONFLICT:
                    raise
                self.refused.append(f"{asked.stream_id}: {refused}")
                return
            self.placed[asked.stream_id] = asked, Told.of(answer)
            self.accepted += 1

    def _configured(self, stream_id: str) -> None:
        with self._news:
            asked, told = self.placed.pop(stream_id)
            self.talkers.begin(asked, told)
            self.running[stream_id] = asked
            self._news.notify_all()

    def _remove(self) -> None:
        with self._news:
            stream_id = self.chance.choice(sorted(self.running))
            asked = self.running.pop(stream_id)
        self.talkers.end(asked)
        time.sleep(_LAST_PERIODS * asked.period_ns / 1e9)
        self.client.remove_stream(self.name, stream_id)
        self.removed += 1
