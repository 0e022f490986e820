"""Conditions: each is reported once when it begins and once when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kinds of conditions, beside those of mechanisms."""

    UNREACHABLE = "unreachable"  # the switch does not answer
    AGENT_DOWN = "agent-down"
    LINK_DOWN = "link-down"
    CABLING = "cabling"  # the neighbour at a port is another one than the intent's, by LLDP
    DRIFT = "drift"  # the kernel's state differs from the plan
    CONFIGURATION = "configuration"  # the configuration differs from the plan
    FOREIGN_CHANGE = "foreign-change"  # its last rollout is not in this controller's history
    UNFINISHED_ROLLOUT = "unfinished-rollout"
    CLOCK_OFFSET = "clock-offset"
    CLOCK_ERROR = "clock-error"  # clocks may be further apart than the plan allows
    GATES_WAIT = "gates-wait"  # stored gates are not set until the clock has settled
    TAI_OFFSET = "tai-offset"
    PTP_UNLOCKED = "ptp-unlocked"
    CONFIG_CHANGE_ERROR = "config-change-error"
    OVERRUNS = "overruns"
    DROPS = "drops"


class Note(StrEnum):
    """The kinds of momentary events."""

    AGENT_STARTED = "agent-started"
    CLOCK_STEP = "clock-step"
    PTP_GRANDMASTER = "ptp-grandmaster"
    PTP_PORT_STATE = "ptp-port-state"
    CONFIGURATION_CHANGED = "configuration-changed"
    COMMIT_TAKEN_BACK = "commit-taken-back"
    HEAL = "heal"


class What(StrEnum):
    """Whether a condition began or ended, or an event is momentary."""

    BEGAN = "began"
    ENDED = "ended"
    NOTED = "noted"


# As a port: the whole switch. As a switch: the whole network.
WHOLE = ""


class Key(NamedTuple):
    """Identifies a condition."""

    kind: StrEnum
    switch: str
    port: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A current condition; `text` is its latest description."""

    kind: StrEnum
    switch: str
    port: str
    text: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One line for the operator. `since` is the begin of a condition that ends."""

    what: What
    kind: StrEnum
    switch: str
    port: str
    text: str
    at: datetime
    since: datetime | None = None


# For each kind that was evaluated on a switch: the affected ports (or WHOLE) with a description.
Verdicts = Mapping[StrEnum, Mapping[str, str]]


class Conditions:
    """The current conditions."""

    def __init__(self) -> None:
        self._active: dict[Key, Condition] = {}

    def __iter__(self) -> Iterator[Condition]:
        return iter(tuple(self._active.values()))

    def settle(self, switch: str, verdicts: Verdicts, at: datetime) -> list[Event]:
        """Apply the verdicts on a switch; kinds that were not evaluated do not change."""
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
