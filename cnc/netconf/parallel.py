"""The same question to several switches at once, and all their refusals as one error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from cnc.errors import RolloutError
from cnc.model import Bridge
from cnc.netconf.device import Device, DeviceError

T = TypeVar("T")

UNCHANGED = "no switch was changed"


def in_parallel(items: Sequence[Bridge] | Sequence[Device], ask: Callable[..., T]) -> dict[str, T]:
    """`ask` of every item at once; raises one RolloutError with the words of all that failed."""
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = {item.name: pool.submit(ask, item) for item in items}
    failures = [e for f in futures.values() if isinstance(e := f.exception(), DeviceError)]
    if failures:
        hints = dict.fromkeys(e.hint for e in failures if e.hint)
        raise RolloutError(
            "\n".join(str(e) for e in failures),
            hint="; ".join(hints) or None,
        ) from failures[0]
    return {name: future.result() for name, future in futures.items()}


@contextmanager
def before_any_change() -> Iterator[None]:
    """Say of every failure in the block that it came before the first change."""
    try:
        yield
    except RolloutError as error:
        raise RolloutError(f"{error}\n{UNCHANGED}", hint=error.hint) from error
