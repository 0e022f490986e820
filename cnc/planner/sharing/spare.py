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
        # Behind frames that come late, and behind a disturbance.
        self._once_ns = {link: self._met_ns(link, queue) for link, queue in queues.items()}
        self._lost_ns = {
            link: max(
                self._beside_control_ns(link, disturbance_ns + self._best_effort_ns(link)), once
            )
            for link, once in self._once_ns.items()
        }
        self.late_ns = dict(self._lost_ns)
        self._handed_on: list[tuple[int, int, int]] = []
        self.settles = self._settle()

    def _beside_control_ns(self, link: int, lasts_ns: int) -> int:
        """How long a link takes for it while control goes on at its rate."""
        share, whole = control_share(self._intent, self._links[link])
        return -(-lasts_ns * whole // max(whole - share, 1))

    def _best_effort_ns(self, link: int) -> int:
        """Until when a frame of best effort may keep the link that its gate has let go."""
        margin_ns = self._intent.network.gate_margin_ns
        return margin_ns + longest_frame_ns(self._intent, self._links[link], ClassRole.BEST_EFFORT)

    def _met_ns(self, link: int, queue: Queue) -> int:
        """What late frames may meet in spare room: best effort, and frames that nobody expects, of
        both copies of a stream."""
        frames_ns = max(its.burst_ns for its in queue.coming.values())
        return self._best_effort_ns(link) + self._beside_control_ns(link, frames_ns)

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
        """How much later than planned frames may come: late ones may be behind all of their window,
        whatever their own end."""
        if its.before is None:
            return self.sent_late_ns(its)
        behind_ns = self._windows.ended_ns(its.link) - self._windows.ends_ns[its.link, its.before]
        return self.late_ns[its.link] + behind_ns

    def sent_late_ns(self, its: Coming) -> int:
        """How much later frames may come from a talker: behind some that it sends at any time."""
        beside_ns = late_interference_ns(self._intent, self._links[its.link])
        return self._beside_control_ns(its.link, its.came_burst_ns + beside_ns)

    def _ends(self) -> bool:
        """Whether lateness is not handed on around a ring of links, and talkers have pauses to make
        up for it; `self._handed_on` is then in the order in which that is, with the laps between.
        """
        handing: dict[int, list[tuple[int, int]]] = {link: [] for link in self._queues}
        for link, queue in self._queues.items():
            for its, handed in zip(queue.coming.values(), self._handed(link, queue), strict=True):
                if its.before is None:
                    if self._windows.talker(its.link).pause_ns < self.sent_late_ns(its):
                        return False
                elif handed > 0:
                    handing[link].append((its.link, its.laps))
        settled: set[int] = set()
        left = set(handing)
        while left:
            first = {link for link in left if all(by in settled for by, _ in handing[link])}
            if not first:
                return False
            self._handed_on += [
                (by, link, on) for link in sorted(first) for by, on in handing[link]
            ]
            settled |= first
            left -= first
        return True

    def over_ns(self, bounds_ns: Mapping[int, int]) -> dict[int, int]:
        """For each link how long after a disturbance frames may leave it late in a window that it
        has made late. `bounds_ns` has by link the longest time from a period before a frame is sent
        until it has left: no frame that nobody expects is there for longer."""
        windows = self._windows
        over = {}
        for link, queue in self._queues.items():
            late_ns, ended_ns = self.late_ns[link], windows.ended_ns(link)
            times = [ended_ns - windows.opens_ns[link] + self._lost_ns[link], bounds_ns[link]]
            times += [
                self.talker_over_ns(its) + ended_ns - its.sent_ns
                for its in queue.coming.values()
                if its.before is None
            ]
            over[link] = max(times) + late_ns
        for by, link, laps in self._handed_on:
            left_ns = min(windows.ends_ns[by, wave] for wave in self._queues[by].waves())
            on_ns = windows.ended_ns(link) + laps * self._queues[link].lap_ns - left_ns
            on_ns += self.late_ns[link] - self.late_ns[by]
            over[link] = max(over[link], over[by] + on_ns)
        return over

    def talker_over_ns(self, its: Coming) -> int:
        """How long after a frame that nobody expects its talker may send late."""
        return self._windows.talker(its.link).busy_ns + self.sent_late_ns(its)

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
        comes_ns = its.earliest_ns(link) + self._queues[link].lap_ns - its.ended_ns(link)
        ends = (
            window.open_ns + lasts_ns + at
            for period_ns, window in windows
            for at in range(0, gates.cycle_ns, period_ns)
        )
        number = windows[0][1].traffic_class
        open_ns = min(_open_until(gates, number, end) - end for end in ends)
        return min(comes_ns, open_ns - self._links[link].gate_early_ns)


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
