"""Slots for streams, such that windows hold their frames and these come in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence, Set
from functools import cached_property

from cnc.mechanisms.terms import added_octets, longest_frame_ns
from cnc.model import ClassRole, Stream
from cnc.planner.floor import us
from cnc.planner.sharing.layout import Asked, Layout
from cnc.planner.sharing.ways import Step

_REPAIRS_MIN, _REPAIRS_MAX = 8, 16
_REPAIRED_STREAMS = 8_000  # in all repairs but the first
_LATE_PART = 4  # of the late streams, which go without a place at once
_EARLY_LINKS_MAX = 3  # of which windows are settled without repairs
_REPAIRED_LINKS_MIN = 3  # of which windows may be too long for a repair
_REPAIRED_PART = 8  # of all links, likewise
_FULL = 1 << 10  # parts of what a window can hold
FILLINGS = 8  # that are tried, at most
MANY = 1_000  # streams, for which windows are not searched that a repair could hardly mend
_WHOLE_PPB = 10**9


class Sharing:
    """Some streams of a problem in windows of one class."""

    def __init__(self, asked: Asked, *, is_roomy: bool) -> None:
        """Where it is roomy, late frames leave behind each window before the next one."""
        self._asked = asked
        self._problem = asked.problem
        self._streams = asked.streams
        self._times = asked.times
        self._slot_ns = asked.slot_ns
        self._ways = asked.ways
        self._is_roomy = is_roomy
        self._holds: dict[int, int] = {}
        self._full, self._filled, self._less = _FULL, _FULL, dict[int, int]()
        self.layout = Layout(asked, {})
        self.early_links = 0  # of which frames come early, in windows as full as they can be

    @property
    def count(self) -> int:
        """How many streams have a place."""
        return self.layout.count

    @property
    def names(self) -> Set[str]:
        """The streams that are to share windows."""
        return self._streams.keys()

    @property
    def slot_ns(self) -> int:
        return self._slot_ns

    @property
    def has_rings(self) -> bool:
        """Whether frames of some streams go around rings of links."""
        return self._ways.has_rings

    @property
    def is_complete(self) -> bool:
        return self.count == len(self._streams)

    def count_in_slots(self) -> int:
        """For how many streams slots have room, whether they are in time or not."""
        return len(self._at_fullest)

    @cached_property
    def _at_fullest(self) -> dict[str, int]:
        """Slots for streams in windows that are as full as they can be; asked for before others."""
        return self._given(sorted(self._streams, key=self._demand))

    def place_once(self) -> None:
        """Find places in windows that are as full as they can be, if they hold all frames then."""
        self._full, self._less = _FULL, {}
        layout = Layout(self._asked, self._at_fullest)
        holds = layout.windows.find(early_max=_EARLY_LINKS_MAX)
        self.early_links = len(layout.windows.early_ns)
        if holds and not layout.windows.in_the_way() and not self._too_long(layout):
            layout.late = self._late(layout)
            self.layout = layout

    def place(self, beyond: int = 0, fillings: int = FILLINGS) -> None:
        """Find places for as many streams as have one, if these are more than are placed elsewhere.

        The fuller windows are, the more frames of the next slot come early for them, and the more
        streams are late. So it is tried how full they may be at most: as full as they can be, and
        so many `fillings` in all.
        """
        names = sorted(self._streams, key=self._demand)
        self._filled = _FULL
        for self._full in range(_FULL, 0, -_FULL // FILLINGS):
            if self._full > self._filled:
                continue  # which none would be
            self._less = {}
            placed, found = self._repaired(names)
            if found is not None and found.count > self.count:
                self.layout = found
            fillings -= found is not None
            if placed <= max(self.count, beyond) or not fillings:
                break
            names = [name for name in names if name not in self._slow]

    def _repaired(self, names: Sequence[str]) -> tuple[int, Layout | None]:
        """How many streams are given a slot at first, and windows of which none is too long: some
        hold less than they might, and streams that are late in them go without a place."""
        found: Layout | None = None
        placed = 0
        tries = max(_REPAIRED_STREAMS // max(len(names), 1), _REPAIRS_MIN)
        for attempt in range(min(tries, _REPAIRS_MAX)):
            names = [name for name in names if not attempt or name not in self._slow]
            is_first = not attempt and self._full == _FULL
            layout = Layout(self._asked, self._at_fullest if is_first else self._given(names))
            if not attempt:
                placed = len(layout.slots)
                filled = (self._filled_parts(layout, link) for link in layout.queues)
                self._filled = min(self._full, max(filled, default=0))
            repaired_max = max(_REPAIRED_LINKS_MIN, len(layout.queues) // _REPAIRED_PART)
            is_many = len(self._streams) >= MANY
            holds = layout.windows.find(early_max=repaired_max if is_many else None)
            if barred := {(its.link, its.start_ns) for its in layout.windows.in_the_way()}:
                names = [name for name in names if not self._sends(name, barred)]
                continue
            # Where frames come early for a slot, all others behind them may do so, too.
            long = self._too_long(layout) if holds else layout.windows.early_ns
            if len(long) > repaired_max or not (long or holds):
                break
            if not long:
                layout.late = self._late(layout)
                if found is None or layout.count > found.count:
                    found = layout
                if not layout.late:
                    break
                gone = set(layout.late[: max(1, len(layout.late) // _LATE_PART)])
                names = [name for name in names if name not in gone]
            for link, over_ns in long.items():
                # What is taken out makes others earlier, too: not all of it at once.
                most_ns = min(self._most_ns(link), layout.work_ns(link))
                less_ns = self._most_ns(link) - most_ns + over_ns // 2 + 1
                self._less[link] = self._less.get(link, 0) + less_ns
        return placed, found

    @cached_property
    def _slow(self) -> dict[str, str]:
        """Why streams would be late even if no others were there."""
        found = {}
        for name, stream in self._streams.items():
            if self._alone_ns(name) <= stream.max_latency_ns:
                continue
            fixed_ns = self._asked.fixed_ns(stream)
            slot = 0 if fixed_ns is None else self._asked.slot_at(fixed_ns)
            alone = Layout(self._asked, {name: slot})
            if alone.windows.find() and self._late(alone):
                found[name] = self._too_late(alone, name)
        return found

    def _alone_ns(self, name: str) -> int:
        """No less than a stream takes where no others are: as if the gate of each port held it up,
        and let go nothing before the whole burst is there."""
        total_ns = 0
        for way in self._ways.of(name):
            for step in way:
                its = self._times.of_link(step.link)
                busy_ns = self._times.of_frame(step.link, self._streams[name]).busy_ns
                burst_ns = self._streams[name].frames * busy_ns
                left_ns = self._times.left_ns(step.link, its.late_ns, burst_ns, busy_ns)
                total_ns += left_ns + its.arrives_ns + its.early_ns + its.shortest_ns + its.tick_ns
            total_ns += way[-1].laps * self._asked.lap_ns
        return total_ns

    def _sends(self, name: str, barred: Set[tuple[int, int | None]]) -> bool:
        """Whether a stream is sent by one of these links from one of these phases on."""
        asked, stream = self._asked, self._streams[name]
        return any(
            (link, asked.phase_ns(stream, link)) in barred for link, _ in asked.sent_by(name)
        )

    def _late(self, layout: Layout) -> list[str]:
        """The streams whose bound is beyond what they allow, the worst first."""
        over = {
            name: layout.bound_ns(name) - self._streams[name].max_latency_ns
            for name in layout.slots
        }
        over |= {name: self._slot_ns for name in over if layout.impossible(name)}
        return sorted((name for name, ns in over.items() if ns > 0), key=lambda n: (-over[n], n))

    def _demand(self, name: str) -> tuple[int, int, str]:
        stream = self._streams[name]
        return stream.period_ns, -stream.frames * stream.payload_octets, name

    def _most_ns(self, link: int) -> int:
        """The most work that a window is to hold in this attempt."""
        return self._holds_ns(link) * self._full // _FULL - self._less.get(link, 0)

    def _holds_ns(self, link: int) -> int:
        """The most work that a window can hold beside best effort's turn."""
        if link not in self._holds:
            its, room = self._times.of_link(link), self._room_ns(link)
            if self._is_roomy and not its.is_talkers:
                room = min(room, self._slot_ns - self._disturbed_ns(link))
            shortest = min(self._times.of_frame(link, s).busy_ns for s in self._of_each_length)
            reserve = 0 if its.is_talkers else self._asked.reserve_ns
            low, high = 0, self._slot_ns
            while low < high:
                work = (low + high + 1) // 2
                lasts = self._times.left_ns(link, its.late_ns, work + reserve, min(work, shortest))
                low, high = (work, high) if lasts <= room else (low, work - 1)
            self._holds[link] = low
        return self._holds[link]

    def _filled_parts(self, layout: Layout, link: int) -> int:
        """How full the windows of a link are in the fullest slot."""
        return layout.work_ns(link) * _FULL // max(self._holds_ns(link), 1)

    @cached_property
    def _of_each_length(self) -> Collection[Stream]:
        """One stream of all those whose frames have one length."""
        streams = self._streams.values()
        return {(its.payload_octets, added_octets(its)): its for its in streams}.values()

    def _room_ns(self, link: int) -> int:
        """The longest window of a link."""
        its = self._times.of_link(link)
        if its.is_talkers:
            return self._slot_ns
        room = self._slot_ns - 2 * its.early_ns - its.shortest_ns
        if self._asked.turns == 1:
            room -= its.beside_ns  # else it is behind the last turn of a lap
        return room * (_WHOLE_PPB - self._problem.shares_ppb.get(link, 0)) // _WHOLE_PPB

    def _disturbed_ns(self, link: int) -> int:
        """How much later frames of this problem may be there after a disturbance, about."""
        intent, its = self._problem.intent, self._problem.links[link]
        frame_ns = longest_frame_ns(intent, its, ClassRole.BEST_EFFORT)
        lost_ns = intent.network.disturbance_ns or 0
        return self._times.left_ns(
            link, intent.network.gate_margin_ns, lost_ns + frame_ns, frame_ns or 1
        )

    def _too_long(self, layout: Layout) -> dict[int, int]:
        windows = layout.windows
        over = {link: windows.length_ns(link) - self._room_ns(link) for link in layout.queues}
        over |= {link: windows.talker(link).busy_ns - self._slot_ns for link in layout.talkers}
        if self._is_roomy:
            late_ns = layout.lateness().late_ns
            for link in layout.queues:
                # Late frames have to have left before the first of the next slot may come.
                lasts_ns = windows.ended_ns(link) - windows.earliest_ns(link)
                over[link] = max(over[link], lasts_ns + late_ns[link] - self._slot_ns)
        return {link: ns for link, ns in over.items() if ns > 0}

    @cached_property
    def _works(self) -> dict[str, list[tuple[Step, int]]]:
        """The steps of each stream, and for how long its frames take their links."""
        return {
            name: [
                (step, stream.frames * self._times.of_frame(step.link, stream).busy_ns)
                for way in self._ways.of(name)
                for step in way
            ]
            for name, stream in self._streams.items()
        }

    def _given(self, names: Sequence[str]) -> dict[str, int]:
        """Slots for streams, the greatest first, which packs best; or where not all have one so,
        those that take least first, if more have one then."""
        found = self._assign(names)
        if len(found) == len(names):
            return found
        return max(found, self._assign(sorted(names, key=self._takes)), key=len)

    def _takes(self, name: str) -> tuple[float, str]:
        """How much of its time a stream takes of all its links."""
        return sum(work for _, work in self._works[name]) / self._streams[name].period_ns, name

    def _assign(self, names: Sequence[str]) -> dict[str, int]:
        """The slot of each stream: that in which the fullest port of its way is least full."""
        taken: defaultdict[int, list[int]] = defaultdict(lambda: [0] * self._asked.cycle_slots)
        found: dict[str, int] = {}
        for name in names:
            every = self._asked.slots_in(self._streams[name])
            works = self._works[name]
            fixed_ns = self._asked.fixed_ns(self._streams[name])
            choices = range(every) if fixed_ns is None else (self._asked.slot_at(fixed_ns),)
            least, chosen = 1.0, None
            for slot in choices:
                fullest = 0.0
                for step, work in works:
                    first = self._asked.left_in(slot, step) % every
                    there = taken[step.link][first::every]
                    most = max(self._most_ns(step.link), 1)
                    fullest = max(fullest, (max(there) + work) / most)
                    if fullest > least:
                        break
                if fullest < least or (chosen is None and fullest <= least):
                    least, chosen = fullest, slot
            if chosen is None:
                continue
            found[name] = chosen
            for step, work in works:
                its = self._asked.left_in(chosen, step)
                self._asked.fill(taken[step.link], its, every, work)
        return found

    def refused(self) -> dict[str, str]:
        """Why streams have no place."""
        placed = set(self.layout.placed())
        return {name: self._why(name) for name in self._streams if name not in placed}

    def _why(self, name: str) -> str:
        if name in self.layout.slots:
            return self._too_late(self.layout, name)
        return self._slow.get(name) or self._too_full(name)

    def _too_late(self, layout: Layout, name: str) -> str:
        if reason := layout.impossible(name):
            return reason
        helps = "fewer streams on its way, " if len(layout.slots) > 1 else ""
        return (
            f"no window that frames share brings it in time: it would take up to "
            f"{us(layout.bound_ns(name))}{'' if helps else ' even alone'}, its max-latency is "
            f"{us(self._streams[name].max_latency_ns)}. What would help: {helps}a smaller "
            "gate-margin or a longer max-latency"
        )

    def _too_full(self, name: str) -> str:
        links = (step.link for step, _ in self._works[name])
        fullest = max(links, key=lambda link: self._filled_parts(self.layout, link))
        work_ns = self.layout.work_ns(fullest)
        its = self._times.of_link(fullest)
        return (
            f"the windows that frames share are full: at {self._problem.links[fullest].source} "
            f"those of one slot of {us(self._slot_ns)} take {us(work_ns)} of up to "
            f"{us(self._holds_ns(fullest))}, beside a gate margin of {us(its.late_ns)}, control, "
            f"and best effort's turn and guard band of {us(its.beside_ns)}. What would help: "
            "longer periods, smaller payloads, a smaller gate-margin or a faster link"
        )
