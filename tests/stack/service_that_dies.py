"""`cnc serve`, killed at a named moment of a request's life, as a power cut might end it.

Usage: service_that_dies.py MOMENT cnc serve OPTION...

The moments are those of a request: its place found (`placed`), written (`written`), on the disk
(`on-disk`); and of the rollout that brings it to the switches: before it (`rolling`), configuration
staged, committed, read back, decided, confirmed, and all switches changed (`rolled`), the outcome
written (`noted`). It dies at the first one that a CUC's stream brings about.
"""

from __future__ import annotations

import os
import signal
import sys

from cnc.__main__ import main
from cnc.rollout.history import Journal
from cnc.rollout.transaction import Transaction
from cnc.service import deciding, decisions
from cnc.service.pushing import Pushing
from cnc.service.store import Decision

MOMENTS = (
    *("placed", "written", "on-disk", "rolling"),
    *("staged", "committed", "read-back", "decided", "confirmed", "rolled", "noted"),
)
_PREFIX = "plc__"  # of the names of a CUC's streams


class Fate:
    """Ends the process at its moment, or stops it once, as soon as a CUC has a stream whose name
    begins with `prefix`."""

    def __init__(self, moment, how=signal.SIGKILL, *, prefix=_PREFIX):
        self._moment, self._how, self._prefix = moment, how, prefix
        self._has_stream = False

    def look(self, plan):
        self._has_stream = any(name.startswith(self._prefix) for name in plan.streams)

    def reach(self, moment):
        if moment == self._moment and self._has_stream:
            self._moment = None
            self.strike()

    def strike(self):
        os.kill(os.getpid(), self._how)


def around(owner, name, fate, *, before=None, after=None):
    function = getattr(owner, name)

    def followed(*args, **kwargs):
        if before:
            fate.reach(before)
        result = function(*args, **kwargs)
        if after:
            fate.reach(after)
        return result

    setattr(owner, name, followed)


def arrange(fate):
    take_plan, once, push = Decision.take_plan, deciding.Deciding.once, Pushing.__call__

    def fateful_take_plan(self, before, after, touched=None):
        fate.look(after)
        fate.reach("placed")
        take_plan(self, before, after, touched)
        fate.reach("written")

    def fateful_once(self, arguments, work):
        result = once(self, arguments, work)
        fate.reach("on-disk")
        return result

    def fateful_push(self, plan):
        fate.look(plan)
        fate.reach("rolling")
        rolled = push(self, plan)
        fate.reach("rolled")
        return rolled

    async def fateful_rolled_out(self, number, rolled):
        await rolled_out(self, number, rolled)
        fate.reach("noted")

    owner = decisions.Decisions
    rolled_out, owner._rolled_out = owner._rolled_out, fateful_rolled_out
    Decision.take_plan, deciding.Deciding.once = fateful_take_plan, fateful_once
    Pushing.__call__ = fateful_push
    around(Transaction, "_stage", fate, after="staged")
    around(Transaction, "_verify", fate, before="committed", after="read-back")
    around(Journal, "decide", fate, after="decided")
    around(Transaction, "_send_confirm", fate, after="confirmed")


if __name__ == "__main__":
    arrange(Fate(sys.argv[1]))
    sys.argv = sys.argv[2:]
    main()
