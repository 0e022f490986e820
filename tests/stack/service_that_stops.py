"""`cnc serve`, stopped (SIGSTOP) or killed (SIGKILL) at a named moment, as a machine that stands
still or loses its power.

Usage: service_that_stops.py MOMENT SIGNAL NAME cnc serve OPTION...

The moments are those of `service_that_dies`, and beside them: before each request to a switch
(`commit`) and each statement (`decide`) of the rollout. It happens once, at the first one that the
stream called NAME in the plan brings about.
"""

from __future__ import annotations

import signal
import sys

from cnc.__main__ import main
from cnc.rollout.history import History, Journal
from cnc.switch.device import Device
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


def arrange_requests(fate):
    request = Device._request

    def fateful_request(self, what):
        fate.reach(what)
        return request(self, what)

    Device._request = fateful_request


if __name__ == "__main__":
    moment, name, stream = sys.argv[1:4]
    fate = Fate(moment, signal.Signals[name], prefix=stream)
    arrange(fate)
    arrange_requests(fate)
    for each, (owner, function) in STATEMENTS.items():
        around(owner, function, fate, before=each)
    sys.argv = sys.argv[4:]
    main()
