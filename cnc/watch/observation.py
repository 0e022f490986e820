"""What the watch sees and hears of a switch at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cnc.switch.counters import PortCounters
from cnc.switch.device import StoredSwitch, SwitchState
from cnc.switch.subscription import Notification


@dataclass(frozen=True, slots=True)
class Look:
    """All that a switch answered when it was asked."""

    switch: str
    at: datetime
    state: SwitchState
    stored: StoredSwitch
    counters: Mapping[str, PortCounters]


@dataclass(frozen=True, slots=True)
class Notice:
    """What a switch reported by itself."""

    switch: str
    at: datetime
    notification: Notification


@dataclass(frozen=True, slots=True)
class Silence:
    """Why a switch gives no answer."""

    switch: str
    at: datetime
    reason: str


Observation = Look | Notice | Silence
