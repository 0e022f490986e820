"""The observations of a switch: looks at its state, its neighbours, notifications, failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cnc.data_tree.counters import PortCounters
from cnc.data_tree.state import SwitchState
from cnc.switch.device import StoredSwitch
from cnc.switch.subscription import Notification
from cnc.switch.topology import TopologyReport


@dataclass(frozen=True, slots=True)
class Poll:
    """The state of a switch at one moment, whether it was asked for it or sent it by itself."""

    switch: str
    at: datetime
    state: SwitchState
    stored: StoredSwitch
    counters: Mapping[str, PortCounters]


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The interfaces of a switch, and whom it hears there over LLDP."""

    switch: str
    at: datetime
    topology: TopologyReport


@dataclass(frozen=True, slots=True)
class SwitchNotification:
    """A notification, with the switch that sent it."""

    switch: str
    at: datetime
    notification: Notification


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The reason why a switch does not answer."""

    switch: str
    at: datetime
    reason: str


Observation = Poll | Neighbors | SwitchNotification | Unreachable
