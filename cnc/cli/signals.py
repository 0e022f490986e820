"""Commands that run until they are told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def until_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGINT or SIGTERM, in place of what they do."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
