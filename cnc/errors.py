"""Every error `cnc` raises on purpose.

    CncError
    ├── InputError        what the operator wrote is wrong                  exit 2
    ├── Unschedulable     the streams do not fit the network                exit 1
    ├── PlanRejected      the judge found a plan that breaks its promises   exit 1
    └── RolloutError      a switch or the network refused; nothing changed  exit 1

The command line prints `str(error)` and, below it, the hint: what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class CncError(Exception):
    """What happened and where, in one or a few lines; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InputError(CncError):
    """A file or argument is not what it must be. Nothing was changed.

    `quoted` has, by lines of the message, the line of the file that each is about.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str | None = None, quoted: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.quoted = quoted or {}


class Lack(Enum):
    """What there is too little of for a stream."""

    ROOM = auto()  # on links, in queues, or for frames that are late after a disturbance
    TIME = auto()  # even alone it takes longer than it may
    WAY = auto()  # to a listener
    SECOND_WAY = auto()  # for its second copies
    LIST = auto()  # entries of a gate control list
    FILTERS = auto()  # stream filters of a switch
    ENTRIES = auto()  # filtering entries of a bridge
    ADDRESS = auto()  # a destination address that no other stream has


class Unschedulable(CncError):
    """Some streams cannot be placed; `reasons` maps each to the operator's explanation, and `lacks`
    some to what they lack: others have no room. What several have in common, `summary`, is told
    before the hint."""

    def __init__(
        self,
        reasons: dict[str, str],
        *,
        hint: str | None = None,
        summary: str = "",
        lacks: Mapping[str, Lack] | None = None,
    ) -> None:
        lines = [f"{name}: {why}" for name, why in reasons.items()]
        super().__init__("cannot schedule every stream:\n  " + "\n  ".join(lines), hint=hint)
        if summary:
            self.hint = f"{summary}. {hint[0].upper()}{hint[1:]}" if hint else summary
        self.reasons, self.summary, self.lacks = reasons, summary, dict(lacks or {})


class PlanRejected(CncError):
    """A plan failed the independent check."""


class RolloutError(CncError):
    """A rollout stopped; the message names switch, port and the reason."""
