"""Which streams may be late because clocks are further apart than the plan allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from cnc.clocks.synchronization_tree import ClockTree
from cnc.data_tree.state import SwitchState
from cnc.model import NS_PER_S, ClocksApart, Plan
from cnc.support.format import counted, duration
from cnc.watch.condition import WHOLE

# A switch asks its ptp4l once a second, and polls of all switches ask here.
PERIOD_NS = NS_PER_S
NAMED_MAX = 5


class Promises:
    """Compares what clocks measure with the clock error of a plan, once a second at most."""

    def __init__(self, plan: Plan) -> None:
        self._clock_error_ns = plan.intent.network.clock_error_ns
        self._streams: dict[frozenset[str], list[str]] = defaultdict(list)
        for name, planned in sorted(plan.streams.items()):
            self._streams[frozenset(hop.egress.node for hop in planned.hops)].append(name)
        self._broken: dict[str, str] = {}
        self._at_ns: int | None = None

    def broken(self, states: Mapping[str, SwitchState], now_ns: int) -> Mapping[str, str]:
        """What is to be told of the network; nothing while all promises hold."""
        if self._at_ns is None or now_ns - self._at_ns >= PERIOD_NS:
            self._at_ns = now_ns
            self._broken = self._compared(ClockTree(states))
        return self._broken

    def _compared(self, tree: ClockTree) -> dict[str, str]:
        apart = tree.widest()
        if apart is None or apart.apart_ns <= self._clock_error_ns:
            return {}
        late = sorted(
            name
            for nodes, names in self._streams.items()
            if self._is_too_wide(tree.widest(nodes))
            for name in names
        )
        which = "no stream is late for that"
        if late:
            named = ", ".join(late[:NAMED_MAX]) + (", …" if len(late) > NAMED_MAX else "")
            which = f"{counted(len(late), 'stream')} may be late: {named}"
        text = (
            f"the clocks of {apart.first} and {apart.second} are up to {duration(apart.apart_ns)} "
            f"apart, the plan allows {duration(self._clock_error_ns)}: {which}"
        )
        return {WHOLE: text}

    def _is_too_wide(self, apart: ClocksApart | None) -> bool:
        return apart is not None and apart.apart_ns > self._clock_error_ns
