"""What keeps ports from the windows of a cyclic class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cnc.mechanisms.cqf.model import Cyclic, cyclic_of
from cnc.mechanisms.cqf.windows import dead_ns, lead_ns, lists, switch_ports
from cnc.mechanisms.runnable import obstacles as of_list
from cnc.model import Intent, PortRef, Stream, TalkerInterference
from cnc.model.clock_error import ClockErrors
from cnc.support.format import duration


class Obstacle(NamedTuple):
    """What stands in the way at a port, and what would not; both complete a sentence."""

    port: PortRef
    found: str
    expected: str


def beside(intent: Intent, cyclic: Cyclic, planned: Stream) -> str | None:
    """Why frames of a planned stream, whose talker has streams of the class, too, may wait at it
    for more than one of these; None: they do not."""
    talker = intent.network.end_stations[planned.talker]
    if talker.interference is TalkerInterference.NONE:
        return (
            f"{talker.name} has talker-interference: none, and its planned stream {planned.name} "
            f"may wait for a frame of class {cyclic.even.name}: state one-frame"
        )
    names = [
        name for name in planned.traffic_classes if intent.classes[name].number < cyclic.even.number
    ]
    return (
        f"planned stream {planned.name} of {talker.name} may have class {names[0]}, before whose "
        f"frames any number of class {cyclic.even.name} go: give it a higher traffic-class"
        if names
        else None
    )


def obstacles(intent: Intent) -> Iterator[Obstacle]:
    """The first at each port."""
    cyclic = cyclic_of(intent)
    if cyclic is None:
        return
    clocks, by_port = ClockErrors(intent.network), lists(intent)
    begin_ns, interval_ns = lead_ns(intent.network), cyclic.interval_ns
    left_ns = interval_ns - begin_ns - cyclic.queuing.open_ns
    for link in switch_ports(intent.network):
        needed_ns = dead_ns(intent, link, clocks)
        if left_ns < needed_ns:
            found = (
                f"windows of {duration(cyclic.queuing.open_ns)} that open {duration(begin_ns)} "
                f"into an interval of {duration(interval_ns)}"
            )
            expected = (
                f"{duration(needed_ns)} behind them, in which late gates shut and a frame comes to "
                f"{link.target.node} by any clock: a smaller share, or a longer cycle"
            )
            yield Obstacle(link.source, found, expected)
        elif its := next(of_list(intent, link.source, by_port[link.source]), None):
            yield Obstacle(link.source, its.found, its.expected)
