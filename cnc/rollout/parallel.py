"""The same question to several switches at once, and all their refusals as one error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeVar

from cnc.errors import RolloutError
from cnc.switch.device import DeviceError

UNCHANGED = "no switch was changed"


class Named(Protocol):
    """A switch, or a session with it."""

    @property
    def name(self) -> str: ...


T = TypeVar("T")
N = TypeVar("N", bound=Named)


def answers(
    items: Sequence[N], ask: Callable[[N], T], pool: Executor | None = None
) -> dict[str, T | DeviceError]:
    """What each item answers, or why it does not: one failure does not hide another's answer.

    `pool` has a thread for each item; without it threads are started for this question.

    Ctrl-C counts when all have answered, or have kept silent for as long as is waited for a reply:
    what comes next, such as taking a change back, must not meet a switch that still makes it.
    """
    with uninterrupted() as asked, ExitStack() as stack:
        threads = pool or stack.enter_context(threads_for(len(items)))
        futures = {item.name: threads.submit(ask, item) for item in items}
        wait(futures.values())
    if asked:
        signal.raise_signal(signal.SIGINT)  # for whoever handles it outside
    found: dict[str, T | DeviceError] = {}
    for name, future in futures.items():
        try:
            found[name] = future.result()
        except DeviceError as error:
            found[name] = error
    return found


def threads_for(count: int) -> ThreadPoolExecutor:
    """A pool in which `count` questions are asked at once; it starts a thread when it needs one."""
    return ThreadPoolExecutor(max_workers=max(1, count))


def unanimous(found: Mapping[str, T | DeviceError]) -> dict[str, T]:
    """The answers, if there is one from everybody; else RolloutError with the words of all."""
    failures = [answer for answer in found.values() if isinstance(answer, DeviceError)]
    if failures:
        hints = dict.fromkeys(failure.hint for failure in failures if failure.hint)
        raise RolloutError(
            "\n".join(str(failure) for failure in failures),
            hint="; ".join(hints) or None,
        ) from failures[0]
    return {name: a for name, a in found.items() if not isinstance(a, DeviceError)}


@contextmanager
def before_any_change() -> Iterator[None]:
    """Say of every failure in the block, and of Ctrl-C, that it came before the first change."""
    try:
        yield
    except RolloutError as error:
        raise RolloutError(f"{error}\n{UNCHANGED}", hint=error.hint) from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(UNCHANGED) from error


@contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Let no Ctrl-C end the block, which takes seconds and whose half is no state.

    Yields where each is noted, for whoever comes after.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    former = signal.signal(signal.SIGINT, lambda number, _frame: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, former)
