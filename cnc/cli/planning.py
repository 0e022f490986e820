"""The planner's choices as `cnc plan` lists them, and how far a search has come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cnc.cli import progress

if TYPE_CHECKING:
    from cnc.app import SearchListener
    from cnc.planner import Progress

# The planner's own names, here so that --help need not load it.
ALGORITHMS = {
    "auto": "each of the next three where the one before leaves a stream out; exact if it is small",
    "no-wait": "one stream after the other where it first fits, never waiting in a bridge",
    "waiting": "the same, but a frame may wait at bridges, alone in its queue",
    "ejection": "ejection chains: displaced streams are placed again",
    "exact": "all rules at once for a solver (OR-Tools): an exhaustive search of small networks",
}


@contextmanager
def shown_search() -> Iterator[SearchListener]:
    """A listener that shows how many streams have a place, on the error stream."""
    with progress.live() as say:

        def show(now: Progress) -> None:
            say(f"{now.step}: {now.placed:,} of {now.wanted:,} placed")

        yield show
