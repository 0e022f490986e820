"""What a session process reports of its session to the broker."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

# RFC 6470, section 2.2, but for `killed`, which the process of a killed session cannot report.
Reason = Literal["closed", "dropped", "timeout", "bad-hello", "other"]


@dataclass
class Counters:
    """The counters of RFC 6022 for each session, in the order in which they are reported."""

    in_rpcs: int = 0
    in_bad_rpcs: int = 0
    out_rpc_errors: int = 0
    out_notifications: int = 0

    def add(self, other: Counters) -> None:
        """Add the other counters."""
        for each in fields(other):
            name = each.name
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Ending(NamedTuple):
    """Why a session ended, and a text for the log."""

    reason: Reason
    text: str
