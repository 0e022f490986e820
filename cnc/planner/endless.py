"""Why no bound is found on how long frames are late after a disturbance, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_NAMED_MAX = 5
_MORE_ROOM = (
    "Fewer streams, longer periods, a smaller max-frame of best effort or a shorter `recovery`"
)
_SEND_LESS = "Fewer or shorter streams of this talker, or longer periods,"


class Why(NamedTuple):
    """A reason, with a place for the names of streams, and what would help."""

    reason: str
    what_helps: str

    def of(self, streams: Iterable[str]) -> str:
        """The reason for these."""
        names = list(streams)
        shown = ", ".join(names[:_NAMED_MAX])
        if len(names) > _NAMED_MAX:
            shown += f" and {len(names) - _NAMED_MAX} more"
        return (
            "no bound is found on how long frames are late after a disturbance: "
            f"{self.reason.format(shown)}, "
            "as this planner counts what may be waiting. Its count is an upper bound: this is not "
            f"a proof that they stay late. {self.what_helps} would help; `recovery: none` under "
            "`defaults` plans without a bound"
        )


STUCK = Why("outside their planned windows the gates leave too little time for {}", _MORE_ROOM)
CIRCULAR = Why("{} may make each other late around a ring of ports, cycle after cycle", _MORE_ROOM)
BUSY = Why(
    "the talker sends {} one after the other without a pause to make up for a late frame",
    _SEND_LESS,
)
