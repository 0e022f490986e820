"""Troubles that last: each is told of once when it begins and once when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What can be wrong for a while."""

    UNREACHABLE = "unreachable"  # the switch gives no answer
    AGENT_DOWN = "agent-down"
    LINK_DOWN = "link-down"
    DRIFT = "drift"  # the kernel does not run what the plan wants
    CONFIGURATION = "configuration"  # the switch is configured for something else than the plan
    FOREIGN_CHANGE = "foreign-change"  # its last rollout came from a controller not known here
    UNFINISHED_ROLLOUT = "unfinished-rollout"
    CLOCK_OFFSET = "clock-offset"
    TAI_OFFSET = "tai-offset"
    PTP_UNLOCKED = "ptp-unlocked"
    CONFIG_CHANGE_ERROR = "config-change-error"
    OVERRUNS = "overruns"
    DROPS = "drops"
    STARVED = "starved"  # a scheduled class has a backlog and sends nothing


class Note(StrEnum):
    """What happens at a moment, and is worth a line."""

    AGENT_STARTED = "agent-started"
    CLOCK_STEP = "clock-step"
    CONFIGURATION_CHANGED = "configuration-changed"
    COMMIT_TAKEN_BACK = "commit-taken-back"
    HEAL = "heal"


class What(StrEnum):
    """What an event says of its kind."""

    BEGAN = "began"
    ENDED = "ended"
    NOTED = "noted"


# In the place of a port: the whole switch. In the place of a switch: the whole network.
WHOLE = ""


class Key(NamedTuple):
    """What is wrong where."""

    kind: Kind
    switch: str
    port: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A trouble that lasts; `text` is how it looks now."""

    kind: Kind
    switch: str
    port: str
    text: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One line for the operator. `since` is when a condition that ends had begun."""

    what: What
    kind: Kind | Note
    switch: str
    port: str
    text: str
    at: datetime
    since: datetime | None = None


# Of every kind that could be judged on a switch: the ports in trouble (or WHOLE), and how it looks.
Verdicts = Mapping[Kind, Mapping[str, str]]


class Conditions:
    """The conditions that are now."""

    def __init__(self) -> None:
        self._active: dict[Key, Condition] = {}

    def __iter__(self) -> Iterator[Condition]:
        return iter(tuple(self._active.values()))

    def settle(self, switch: str, verdicts: Verdicts, at: datetime) -> list[Event]:
        """Take over what was found on a switch; what could not be judged stays as it was."""
        events = []
        for kind, found in verdicts.items():
            over = [
                key
                for key in self._active
                if (key.kind, key.switch) == (kind, switch) and key.port not in found
            ]
            events += [_ended(self._active.pop(key), at) for key in over]
            for port, text in found.items():
                key = Key(kind, switch, port)
                if known := self._active.get(key):
                    self._active[key] = replace(known, text=text)
                else:
                    self._active[key] = Condition(kind, switch, port, text, at)
                    events.append(Event(What.BEGAN, kind, switch, port, text, at))
        return events


def _ended(condition: Condition, at: datetime) -> Event:
    return Event(
        What.ENDED,
        condition.kind,
        condition.switch,
        condition.port,
        condition.text,
        at,
        condition.since,
    )
