"""When the counters of each port began anew (RFC 8343, `discontinuity-time`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from agent.model import PortState


class CounterStarts:
    """Looks at the ports whenever their counters are read.

    The kernel does not say since when it counts. RFC 8343 then asks for the start of the management
    system. A port that was removed and added again is another interface, which counts from 0.
    """

    def __init__(self, started: datetime) -> None:
        self._started = started
        # By port: the interface index, and since when.
        self._seen: dict[str, tuple[int, datetime]] = {}

    def of(self, states: Mapping[str, PortState], now: datetime) -> dict[str, datetime]:
        """The start of the counters of each port that is there now.

        A change since the last look counts from `now`: the exact time is not known.
        """
        for name, state in states.items():
            seen = self._seen.get(name)
            if seen is None:
                self._seen[name] = (state.ifindex, self._started)
            elif seen[0] != state.ifindex:
                self._seen[name] = (state.ifindex, now)
        return {name: self._seen[name][1] for name in states}
