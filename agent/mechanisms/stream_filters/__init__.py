"""Per-stream filtering and policing of a Linux bridge (IEEE Std 802.1Q-2022, 8.6.5).

Where frames of a stream come in, those pass that are as long, as early and as many as the stream
may send; the others are counted, and dropped unless the stream filter only counts. Which frames are
those of a stream is what stream identification says.
"""

from __future__ import annotations

import time
from pathlib import Path

from agent.mechanism import BRIDGE, ByClock, Mechanism, MemoryAdapter
from agent.mechanisms.stream_filters import rules
from agent.mechanisms.stream_filters.kernel import adapter
from agent.mechanisms.stream_filters.problems import problems
from agent.mechanisms.stream_filters.tree import configured, operational


def stream_filters(directory: Path) -> Mechanism:
    """Of an agent whose BPF objects are pinned in this directory."""
    return Mechanism(
        name=rules.NAME,
        subtrees=(BRIDGE,),
        configured=configured,
        as_is=rules.as_is,
        contributions=rules.contributions,
        diff=rules.diff,
        problems=problems,
        # Under the bridge, not under the interface.
        operational=lambda _state, _context: {},
        memory=MemoryAdapter(rules.applied),
        kernel=adapter(directory),
        by_clock=ByClock(rules.timed_gates, rules.runs_timed_gates, rules.without_timed_gates),
        operational_of_bridge=lambda state: operational(
            state, time.clock_gettime_ns(time.CLOCK_TAI)
        ),
    )
