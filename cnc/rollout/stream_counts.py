"""What bridges have counted of the frames of streams.

Counters have grown since they were set, so that a second look, some time after the first, tells
what goes on from what is past.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from cnc.data_tree.counters import PortCounters
from cnc.data_tree.state import SwitchState
from cnc.mechanism import Counts
from cnc.mechanisms.registry import WATCHED
from cnc.model import NS_PER_S, BridgeForwarding, Intent, PortSettings
from cnc.switch.device import Device

_LOOK_MIN_NS = NS_PER_S
# What takes longer needs `cnc watch`.
_LOOK_MAX_NS = 10 * NS_PER_S

NO_COUNTS = Counts()


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a switch and the counters of its ports, at about one time."""

    state: SwitchState
    counters: Mapping[str, PortCounters]

    @classmethod
    def at(cls, device: Device, desired: Mapping[str, PortSettings]) -> Look:
        """Ask a switch. Raises DeviceError."""
        return cls.beside(device, desired, device.state(desired))

    @classmethod
    def beside(
        cls, device: Device, desired: Mapping[str, PortSettings], state: SwitchState
    ) -> Look:
        """Ask a switch of which the state is known. Raises DeviceError."""
        needed = any(
            each.needs_counters(its) for its in bridges_of(desired).values() for each in WATCHED
        )
        return cls(state, device.counters(desired) if needed else {})


def bridges_of(desired: Mapping[str, PortSettings]) -> dict[str, BridgeForwarding]:
    """The bridges among the ports of a switch."""
    return {
        port: its
        for port, settings in desired.items()
        if (its := settings.get(BridgeForwarding)) is not None
    }


def stream_counts(
    device: Device,
    intent: Intent,
    desired: Mapping[str, PortSettings],
    state: SwitchState,
) -> dict[str, Counts]:
    """By bridge of a switch what it has counted; `state` is the first look.

    A second one follows only where it can tell more. Raises DeviceError.
    """
    bridges = bridges_of(desired)
    if not bridges:
        return {}
    first = Look.beside(device, desired, state)
    second = first
    if wait_ns := max(_wait_ns(intent, name, its, first) for name, its in bridges.items()):
        time.sleep(wait_ns / NS_PER_S)
        second = Look.at(device, desired)
    return {name: compared(name, its, first, second) for name, its in bridges.items()}


def _wait_ns(intent: Intent, bridge: str, desired: BridgeForwarding, look: Look) -> int:
    """After which time a second look can tell more; 0: there is nothing to tell."""
    periods_ns = [ns for each in WATCHED for ns in each.again_ns(bridge, desired, look, intent)]
    return max((max(_LOOK_MIN_NS, ns) for ns in periods_ns if ns <= _LOOK_MAX_NS), default=0)


def compared(bridge: str, desired: BridgeForwarding, first: Look, second: Look) -> Counts:
    """What a bridge has counted by the second of two looks, and what has grown since the first."""
    counts = [each.counted(bridge, desired, first, second) for each in WATCHED]
    return Counts(
        rows=tuple(row for its in counts for row in its.rows),
        past=tuple(text for its in counts for text in its.past),
        problems=tuple(text for its in counts for text in its.problems),
        hints=tuple(hint for its in counts for hint in its.hints),
    )
