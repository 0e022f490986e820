"""Python's garbage collector, where it would only be in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Build many objects that all stay, without a search for garbage among them every so often.

    In a file with thousands of streams those searches take as long as reading it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def in_steps() -> Iterator[None]:
    """The same for what is called again and again: what is new is searched at the end of each call.

    Searches that come by themselves find what hundreds of calls left, and keep one of them waiting
    for several times as long as it takes itself.
    """
    if not gc.isenabled():
        yield
        return
    with paused():
        try:
            yield
        finally:
            gc.collect(1)
