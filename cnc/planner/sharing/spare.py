"""How late frames in shared windows may be after a disturbance, and for how long.

What a disturbance delays leaves behind its window, in spare room. There it is gone before a frame
of the next slot may come, if there is time enough: then only the slots are late that the
disturbance touches. How much later frames come is handed on from port to port, but for what they
would have waited anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from cnc.mechanisms.terms import (
    control_backlog_ns,
    control_share,
    late_interference_ns,
    longest_frame_ns,
)
from cnc.model import ClassRole, GateControlList, Intent, Link, PortRef
from cnc.planner.floor import us
from cnc.planner.gates import Window
from cnc.planner.sharing.queue import Coming, Queue
from cnc.planner.sharing.times import Times
from cnc.planner.sharing.windows import Windows

_ROUNDS_MAX = 200
Periodic = tuple[int, Window]
"""A window, and its period before it."""


class Lateness:
    """How much later than planned frames may leave each link of a layout."""

    def __init__(
        self,
        intent: Intent,
        links: Sequence[Link],
        times: Times,
        windows: Windows,
        queues: Mapping[int, Queue],
    ) -> None:
        self._intent = intent
        self._links = links
        self._times = times
        self._windows = windows
        self._queues = queues
        disturbance_ns = intent.network.disturbance_ns or 0
        self._once_ns = {link: self._behind_ns(link, queue, 0) for link, queue in queues.items()}
        self.late_ns = {
            link: self._behind_ns(link, queue, disturbance_ns) for link, queue in queues.items()
        }
        self.slots = 0
        self.settles = self._settle()

    def _behind_ns(self, link: int, queue: Queue, lost_ns: int) -> int:
        """How long frames are held up by a frame of best effort, control, and one of their own that
        nobody expects, after the port has sent nothing for `lost_ns`."""
        intent, its = self._intent, self._links[link]
        longest = max(each.frame_ns for each in queue.coming.values())
        share, whole = control_share(intent, its)
        ahead = longest + longest_frame_ns(intent, its, ClassRole.BEST_EFFORT)
        ahead += control_backlog_ns(intent, its)
        if lost_ns:
            ahead += lost_ns + intent.network.gate_margin_ns - (-lost_ns * share // whole)
        return -(-ahead * whole // max(whole - share, 1))

    def _settle(self) -> bool:
        """Hand lateness on until nothing comes later any more."""
        for _ in range(_ROUNDS_MAX):
            changed = False
            for link, queue in self._queues.items():
                handed = max(self._handed(link, queue), default=0)
                if handed > 0 and handed + self._once_ns[link] > self.late_ns[link]:
                    self.late_ns[link] = handed + self._once_ns[link]
                    changed = True
            if not changed:
                return self._ends()
        return False

    def _handed(self, link: int, queue: Queue) -> list[int]:
        """How much later frames come than they may without being missed, by each link."""
        opened_ns = self._windows.opens_ns[link] + queue.its.late_ns
        return [
            self._comes_late_ns(its) - max(0, opened_ns - (its.latest_ns or 0))
            for its in queue.coming.values()
        ]

    def _comes_late_ns(self, its: Coming) -> int:
        """How much later than planned frames may come: from a talker, behind one that it sends at
        any time."""
        if its.before is not None:
            return self.late_ns[its.link]
        link = self._links[its.link]
        ahead = its.came_ns + late_interference_ns(self._intent, link)
        ahead += control_backlog_ns(self._intent, link)
        share, whole = control_share(self._intent, link)
        return -(-ahead * whole // max(whole - share, 1))

    def _ends(self) -> bool:
        """Whether lateness is not handed on around a ring of links. `self.slots` has then, by how
        many slots at most it goes on."""
        handed_on: dict[int, list[tuple[int, int]]] = {link: [] for link in self._queues}
        for link, queue in self._queues.items():
            for its, handed in zip(queue.coming.values(), self._handed(link, queue), strict=True):
                if its.before is not None and handed > 0:
                    handed_on[link].append((its.link, its.slots))
        slots: dict[int, int] = {}
        left = set(handed_on)
        while left:
            first = {link for link in left if all(by in slots for by, _ in handed_on[link])}
            if not first:
                return False
            for link in first:
                slots[link] = max((slots[by] + on for by, on in handed_on[link]), default=0)
            left -= first
        self.slots = max(slots.values(), default=0)
        return True

    def too_late(
        self, gates: Mapping[PortRef, GateControlList], windows: Mapping[int, Sequence[Periodic]]
    ) -> dict[PortRef, str]:
        """The ports whose late frames may still be there when the first of the next slot comes."""
        found = {}
        for link in windows:
            port, late_ns = self._links[link].source, self.late_ns[link]
            room_ns = self._room_ns(link, gates[port], windows[link])
            if room_ns < late_ns:
                found[port] = (
                    f"after a disturbance frames may leave up to {us(late_ns)} later, and "
                    f"{us(max(room_ns, 0))} after those of a slot have left the gate shuts or the "
                    "first of the next slot may come"
                )
        return found

    def _room_ns(self, link: int, gates: GateControlList, windows: Sequence[Periodic]) -> int:
        """How long frames may leave late in the spare room behind each window."""
        its = self._windows
        lasts_ns = its.ended_ns(link) - its.opens_ns[link]
        comes_ns = its.earliest_ns(link) + self._queues[link].slot_ns - its.ended_ns(link)
        ends = (
            window.open_ns + lasts_ns + at
            for period_ns, window in windows
            for at in range(0, gates.cycle_ns, period_ns)
        )
        number = windows[0][1].traffic_class
        open_ns = min(_open_until(gates, number, end) - end for end in ends)
        return min(comes_ns, open_ns - self._links[link].gate_early_ns)

    def lasts_ns(self) -> int:
        """How long after the end of a disturbance a frame may be sent that is late for it.

        A late frame has met a late one of its slot, and that another, back to the port of the
        disturbance, in whose window, or behind it, this has ended. From port to port the windows of
        a slot follow as planned, and late frames leave before that of the next slot.
        """
        coming = [its for queue in self._queues.values() for its in queue.coming.values()]
        sent = [its.sent_ns for its in coming if its.before is None]
        windows = self._windows
        last_ns = max(windows.ended_ns(link) + self.late_ns[link] for link in self._queues)
        slot_ns = next(iter(self._queues.values())).slot_ns
        return last_ns - min([*sent, *windows.opens_ns.values()]) + self.slots * slot_ns


def _open_until(gates: GateControlList, number: int, instant_ns: int) -> int:
    """When the gate of a class shuts that is open before an instant; that instant, if it is not."""
    phase = (instant_ns - 1) % gates.cycle_ns
    edges = list(accumulate((entry.interval_ns for entry in gates.entries * 2), initial=0))
    until = None
    for entry, (begin, end) in zip(gates.entries * 2, pairwise(edges), strict=True):
        is_open = entry.gate_states >> number & 1
        if until is None and begin <= phase < end:
            until = end if is_open else phase + 1
            if not is_open:
                break
        elif until is not None:
            if not is_open:
                break
            until = end
    return instant_ns - 1 - phase + (until or phase + 1)
