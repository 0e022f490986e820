"""Algorithm 2: a connection gets all paths once it is a download.

The listing compares the size of an object of HTTP with a1 (20 MB), and the time of anything else
with a2 (30 s). The text compares the time of completion with a1 as well, which is no size: that
sentence is left out. A kernel does not see the size of an object, but what has come of it, which is
the least that it can be; so both comparisons are made, with what is under way. At the thresholds
themselves, which the listing leaves open, a connection is none.
"""

from __future__ import annotations

from agent.mechanisms.multipath.decisions.policy import Download

_NS_PER_S = 1_000_000_000


def is_download(octets: int, active_ns: int, policy: Download) -> str | None:
    """Why it is one; None: it is none yet. `active_ns` is how long data have moved."""
    if octets > policy.small_object_octets:
        return f"more than {policy.small_object_octets} octets have come"
    if active_ns > policy.long_running_ns:
        return f"data have come for more than {policy.long_running_ns / _NS_PER_S:g} s"
    return None
