"""The streams that leave an end station by a port, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.wake_ups import WakeUps


@dataclass(frozen=True, slots=True)
class Transmission:
    """The frames of one stream; `path` is 2 for the second copy of a frame that is sent twice.

    The first bit of each leaves `offset_ns` after a multiple of `period_ns` on TAI, counted from
    1970; of several `frames` in a period that of the first. `payload_octets` is the longest IP
    packet that has room. In a bridged network frames go to `destination_mac`, six pairs of
    lower-case hexadecimal digits with colons, in a tag with `vlan_id` and `priority` as the PCP;
    both are None in a routed one.
    """

    name: str
    path: int
    period_ns: int
    offset_ns: int
    payload_octets: int
    priority: int
    dscp: int | None
    listeners: tuple[str, ...]
    destination_mac: str | None = None
    vlan_id: int | None = None
    frames: int = 1


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """What is sent in the periods that begin at `base_time_ns` (TAI) or later; 0: in all."""

    base_time_ns: int
    transmissions: tuple[Transmission, ...]


@dataclass(frozen=True, slots=True)
class OffsetConfig:
    """The table that a port is asked to have; None: none."""

    table: OffsetTable | None = None


@dataclass(frozen=True, slots=True)
class OffsetState:
    """The published tables: the one in force, and the one whose base time is still to come."""

    running: OffsetTable | None = None
    pending: OffsetTable | None = None

    @property
    def newest(self) -> OffsetTable | None:
        return self.pending or self.running

    def at(self, now_tai_ns: int) -> OffsetState:
        """The same tables at another time: a pending one whose base time has come is running."""
        if self.pending and self.pending.base_time_ns <= now_tai_ns:
            return OffsetState(running=self.pending)
        return self

    def followed_by(self, table: OffsetTable | None) -> OffsetState:
        """With `table` from its base time on; None: no table at all, at once.

        A table that still waits for its base time is replaced, as by the gates of a port.
        """
        return OffsetState(self.running, table) if table else OffsetState()


@dataclass(frozen=True, slots=True)
class Launches:
    """Frames with a time of transmission that did not leave, since their program was started: they
    missed it in the qdisc, or were refused there."""

    missed: int
    refused: int


@dataclass(frozen=True, slots=True)
class Stated:
    """What a talker says: how late it sends, None: it does not know yet; `launches` is None where
    its frames have no time of transmission."""

    lateness: WakeUps | None
    launches: Launches | None = None


@dataclass(frozen=True, slots=True)
class StatedLateness:
    """What the talkers of a port say, by name and path of their streams."""

    by_stream: Mapping[tuple[str, int], Stated] = field(default_factory=dict)
