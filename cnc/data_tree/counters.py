"""What a port of a switch has counted that should not increase.

Counters restart at 0 when the schedule of a port is set again or the agent starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cnc.model import StreamAddress

RECOVERY_COUNTERS = ("passed", "discarded", "out-of-order", "rogue", "lost", "tagless", "resets")


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Counters of one port, those of frames by traffic class; a counter that the switch does not
    have is left out.

    `config_change_errors`: schedules whose base time had passed when they were set (802.1Q
    12.29.1). `overruns`: frames that were still being sent when their gate closed
    (transmission-overrun). `drops`: frames dropped before they were sent; `window_drops` those of
    them for which the list has no window. `recovery` is by the address of a stream of which the
    port recovers the sequence, and by the name of the counter (802.1CB 10.8, without `rx-`).
    """

    config_change_errors: int | None = None
    overruns: Mapping[int, int] = field(default_factory=dict)
    drops: Mapping[int, int] = field(default_factory=dict)
    window_drops: Mapping[int, int] = field(default_factory=dict)
    recovery: Mapping[StreamAddress, Mapping[str, int]] = field(default_factory=dict)
