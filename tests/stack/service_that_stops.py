"""`cnc serve`, stopped (SIGSTOP) or killed (SIGKILL) at a named moment, as a machine that stands
still or loses its power; or one whose wall clock is set at that moment.

Usage: service_that_stops.py FILE cnc serve OPTION...

What is to happen is in a file, at any time: a line each for moment, signal, or by how many seconds
the clock is set, the name of a stream in the plan, and how many such moments go by before. It
happens once, at the next one that the stream brings about; the file is removed then. The moments
are those of `service_that_dies`, and beside them: before each request to a switch (`commit`) and
each statement (`decide`) of the rollout. Switches are sent the request of the moment one after the
other, so that those which had it before have answered, and the others never get it.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from cnc.__main__ import main
from cnc.rollout.history import History, Journal
from cnc.switch.device import Device
from tests.stack import stepped_clock
from tests.stack.service_that_dies import Fate, around, arrange

STATEMENTS = {
    "begin": (History, "begin"),
    "decide": (Journal, "decide"),
    "result": (Journal, "result"),
    "end": (Journal, "end"),
}
# In the order in which they come; of two with nothing in between one.
MOMENTS = (
    *("placed", "written", "on-disk", "rolling"),
    *("get", "lock running", "lock candidate", "get-config", "begin", "edit-config", "validate"),
    *("commit", "committed", "read-back", "decide", "commit (confirm)", "result"),
    *("copy-config to startup", "end", "unlock candidate", "rolled", "noted"),
)


class ToldFate(Fate):
    """What a file says that may come, or be another one, at any time."""

    def __init__(self, file):
        super().__init__("")
        self._file = file
        self._passing = 0
        self._in_turn, self._turn = None, threading.Lock()

    def look(self, plan):
        with suppress(FileNotFoundError):
            self._moment, how, self._prefix, passing = self._file.read_text().splitlines()
            self._how = getattr(signal, how, None) or int(how)
            self._passing, self._in_turn = int(passing), self._moment
        super().look(plan)

    def reach(self, moment):
        if moment == self._moment and self._has_stream and self._passing:
            self._passing -= 1
        else:
            super().reach(moment)

    @contextmanager
    def before(self, request):
        """Reach it; while the block runs no other switch is sent the same, if it is the moment."""
        with self._turn if request == self._in_turn else nullcontext():
            self.reach(request)
            yield

    def strike(self):
        self._file.unlink(missing_ok=True)
        if isinstance(self._how, signal.Signals):
            super().strike()
        else:
            stepped_clock.step(self._how)


def arrange_requests(fate):
    request = Device._request

    @contextmanager
    def fateful_request(self, what):
        with fate.before(what), request(self, what):
            yield

    Device._request = fateful_request


if __name__ == "__main__":
    fate = ToldFate(Path(sys.argv[1]))
    arrange(fate)
    arrange_requests(fate)
    for each, (owner, function) in STATEMENTS.items():
        around(owner, function, fate, before=each)
    sys.argv = sys.argv[2:]
    main()
