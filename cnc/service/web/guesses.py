"""Tokens that are none: a host that sends many waits, and costs the core nothing meanwhile.

A token has 256 random bits, so that guessing is hopeless; what counts is what it costs. Hosts from
which a good token came within a day are not held up: their programs go on, whatever else runs
there, such as a script whose token has expired.
"""

from __future__ import annotations

import time
from collections import OrderedDict

GUESSES_MAX = 20
_EACH_S = 3.0  # after this one of them is forgotten
_GOOD_FOR_S = 86_400.0
_HOSTS_MAX = 4096


class Guesses:
    """By host, of one worker."""

    def __init__(self) -> None:
        self._forgotten_at: OrderedDict[str, float] = OrderedDict()
        self._good_until: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, host: str) -> int:
        """How long until its next token is looked at; 0: it is."""
        now = time.monotonic()
        if self._good_until.get(host, 0.0) > now:
            return 0
        over_s = self._forgotten_at.get(host, 0.0) - now - GUESSES_MAX * _EACH_S
        return max(0, int(over_s) + 1) if over_s > 0 else 0

    def was_bad(self, host: str) -> None:
        now = time.monotonic()
        self._keep(self._forgotten_at, host, max(self._forgotten_at.get(host, now), now) + _EACH_S)

    def was_good(self, host: str) -> None:
        self._keep(self._good_until, host, time.monotonic() + _GOOD_FOR_S)

    def _keep(self, of: OrderedDict[str, float], host: str, until: float) -> None:
        of[host] = until
        of.move_to_end(host)
        if len(of) > _HOSTS_MAX:
            of.popitem(last=False)
