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
