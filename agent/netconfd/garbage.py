"""When to free what connections and sessions leave behind in reference cycles.

asyncssh's connections and asyncio's tasks refer to themselves, so that only Python's garbage
collector frees them. At their end most are in its oldest generation, which it looks through after
70,000 more objects (gc.set_threshold): by then some hundred ended sessions take their memory.
"""

from __future__ import annotations

import asyncio
import gc

DELAY_S = 1.0


class Garbage:
    """Of one process, whose modules and other lasting objects are frozen (gc.freeze).

    What is left takes milliseconds to look through.
    """

    def __init__(self, delay_s: float = DELAY_S) -> None:
        """`delay_s` is how long an ended session keeps its memory; all that end meanwhile are freed
        at once."""
        self._delay_s = delay_s
        self._is_due = False

    def collect_soon(self) -> None:
        """A session or a connection has ended. Needs a running event loop."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._delay_s, self._collect)

    def _collect(self) -> None:
        self._is_due = False
        gc.collect()
