"""Frames on their way: what the judges know of them, planned, at worst and at best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cnc.account.openings import Openings
from cnc.model import PortRef, Stream

Clocked = tuple[tuple[str, int], ...]
"""Times by the clocks of nodes."""

AddedOctets = Callable[[Stream], int]
"""What the first switch puts before the payload of a stream's frames, and the last one takes away,
in octets."""


class Transmission(NamedTuple):
    """The planned frames of each period of a stream on one link: one, or several back to back.

    The first starts by `offset_ns` plus blocking, or by its latest arrival plus blocking where that
    is after its offset, the last up to `spread_ns` later, and they keep the link busy until
    `busy_until_ns` at the latest. On a bridge they came in by `ingress`, planned to start there at
    `ingress_offset_ns`. The first lies in this queue from some time in [earliest, latest] by the
    bridge's clock, the last from `all_there_ns` on; `latest_ns` counts frames that come too late
    for their turn behind the first as if the first came so late.

    Where they share a window, which `is_shared`, no instant is planned for any of them: all may
    start from `offset_ns` on, or as soon as they may be there, and `spread_ns` is nothing.
    """

    stream: str
    egress: PortRef
    target: str
    traffic_class: int
    period_ns: int
    offset_ns: int
    busy_until_ns: int
    spread_ns: int
    received_ns: int  # the first frame's last bit is at the far end, clock error included
    flight_ns: int  # from its start to that, at least
    leaves_ns: int  # the earliest start, by some clock of the network
    ingress: PortRef | None
    ingress_offset_ns: int
    earliest_ns: int
    latest_ns: int
    all_there_ns: int
    due_ns: int  # its latest arrival by the clocks of those that may have sent it so late
    left: Clocked  # the first frame starts at all of these or later
    arrives: Clocked  # its last bit is at the far end at the last of these or before
    elapsed_ns: int  # when the last bit of the last frame is; of a listener by the talker's, too
    is_shared: bool
    work_ns: int  # for how long all of them keep the link busy at most, nothing between them
    frame_ns: int  # the same of one of them
    frame_min_ns: int  # and at least
    ahead_ns: int  # for how long one kept the link before busy, at least

    @property
    def all_received_ns(self) -> int:
        """The last bit of the last frame is at the far end, clock error included."""
        return self.received_ns + self.spread_ns


def from_switches(
    transmissions: Iterable[Transmission],
) -> tuple[list[Transmission], list[int | None]]:
    """The transmissions by switches, and for each the number of that before it on its way among
    them; None where its frames come from their talker."""
    found = [t for t in transmissions if t.ingress is not None]
    number: dict[tuple[str, PortRef | None, int], int] = {
        (t.stream, t.egress, t.offset_ns): n for n, t in enumerate(found)
    }
    return found, [number.get((t.stream, t.ingress, t.ingress_offset_ns)) for t in found]


def earliest_start_ns(gates: Openings | None, t: Transmission) -> int:
    """When frames may leave a port by its list, by the clock of its bridge, whatever other frames
    there are or are lost."""
    if gates is None:
        return t.earliest_ns
    return gates.earliest_start_ns(t.traffic_class, t.earliest_ns, t.offset_ns, t.period_ns)
