"""Windows that an operator gives to classes by share: what is taken of a port before any stream.

Frames of these classes come at any time and fill what their gates leave them. So behind such a
window there is a guard band before a planned one, as there is behind best effort's turn; before it
there is none, for nothing is planned in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cnc.model import GivenWindow, Intent, Link
from cnc.planner.ports import guard_band_ns
from cnc.planner.route import Member

_Reservation = tuple[int, int, int]  # start, duration, period


def reservations(
    intent: Intent, link: Link, windows: Collection[GivenWindow]
) -> Mapping[Member, _Reservation]:
    """Until when each keeps planned frames off a link; as members that no search moves."""
    classes = {its.number: its for its in intent.classes.values()}
    return {
        Member(f"class {classes[its.number].name}", 0): (
            its.start_ns,
            its.window_ns + _guarded_ns(intent, link, its),
            its.every_ns,
        )
        for its in windows
    }


def _guarded_ns(intent: Intent, link: Link, window: GivenWindow) -> int:
    its = [c for c in intent.classes.values() if c.number == window.number]
    return guard_band_ns(intent, link, its)


def without_turn(
    intent: Intent, link: Link, windows: Collection[GivenWindow]
) -> Iterator[_Reservation]:
    """What best effort's turns are without, if a guard band is thought before each window: there is
    none before these, and best effort goes on until they open."""
    guard = guard_band_ns(intent, link)
    for _, start_ns, window_ns, every_ns in windows:
        later_ns = min(guard, window_ns)
        yield start_ns + later_ns, window_ns - later_ns, every_ns
