"""The same request to several switches at once, and all their errors as one."""

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
    """The result of each item, or its DeviceError: one failure does not hide another's result.

    `pool` has a thread for each item; without it threads are started for this request.

    Ctrl-C takes effect when all have answered or timed out: what follows, such as a rollback, must
    not run on a switch that still applies the change.
    """
    with uninterrupted() as interrupts, ExitStack() as stack:
        threads = pool or stack.enter_context(threads_for(len(items)))
        futures = {item.name: threads.submit(ask, item) for item in items}
        wait(futures.values())
    if interrupts:
        signal.raise_signal(signal.SIGINT)  # for the handler outside this block
    results: dict[str, T | DeviceError] = {}
    for name, future in futures.items():
        try:
            results[name] = future.result()
        except DeviceError as error:
            results[name] = error
    return results


def threads_for(count: int) -> ThreadPoolExecutor:
    """A pool for `count` requests at once; it starts threads on demand."""
    return ThreadPoolExecutor(max_workers=max(1, count))


def unanimous(results: Mapping[str, T | DeviceError]) -> dict[str, T]:
    """The results, if every item has one; else raises RolloutError with the errors of all."""
    failures = [answer for answer in results.values() if isinstance(answer, DeviceError)]
    if failures:
        hints = dict.fromkeys(failure.hint for failure in failures if failure.hint)
        raise RolloutError(
            "\n".join(str(failure) for failure in failures),
            hint="; ".join(hints) or None,
        ) from failures[0]
    return {name: a for name, a in results.items() if not isinstance(a, DeviceError)}


@contextmanager
def before_any_change() -> Iterator[None]:
    """Add to every error in the block, and to Ctrl-C, that no switch was changed."""
    try:
        yield
    except RolloutError as error:
        raise RolloutError(f"{error}\n{UNCHANGED}", hint=error.hint) from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(UNCHANGED) from error


@contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Defer Ctrl-C during the block, which takes seconds and must not end half-way.

    Yields the list of signals that arrived, for the caller to act on afterwards.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)
