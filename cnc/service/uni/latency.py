"""Latency as 802.1Q counts it (46.2.3.6.2, 46.2.5.2), and as the intent does.

    ours     from the planned offset of the talker, at its PHY, to the last bit of the last frame of
             the period at the last listener's PHY
    theirs   from the start of the interval, as if the offset were 0, to the first bit of a frame at
             the listener's PHY

So theirs = offset + ours - the time of one frame on the link to the listener. That time is counted
as short as it may be: for the fastest transmitter, and, where the network takes the VLAN tag away,
without it. In a shared window a frame that is shorter than the longest may start later by what it
is shorter, so there the shortest frame counts.
"""

from __future__ import annotations

from cnc.model import Intent
from cnc.service.uni.asked import Asked
from cnc.service.uni.ground import ground

_SHORTEST_OCTETS = 1  # padded to what a frame has at least


def frame_time_ns(
    listener: str, octets: int, intent: Intent, *, untagged: bool, shared: bool = False
) -> int:
    """The shortest that one frame of a stream takes on a link to `listener`."""
    network = intent.network
    size = _SHORTEST_OCTETS if shared else octets
    times = (
        network.reception_min_ns(link, size)
        - (network.untagged_lead_ns(link, size) if untagged else 0)
        for link in ground(network).arriving[listener]
    )
    return min(times, default=0)


def budget_ns(
    asked: Asked, listeners: tuple[str, ...], octets: int, intent: Intent, *, untagged: bool
) -> int | None:
    """The most that offset and latency of ours may be together, so that every listener's
    max-latency holds, the talker's counting for all; None: nobody states one."""
    limits = []
    for end, listener in zip(asked.listeners, listeners, strict=True):
        stated = [m for m in (asked.talker.max_latency_ns, end.max_latency_ns) if m]
        if stated:
            frame_ns = frame_time_ns(listener, octets, intent, untagged=untagged)
            limits.append(min(stated) + frame_ns)
    return min(limits, default=None)
