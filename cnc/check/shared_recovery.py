"""Disturbances end, where all streams share windows: late frames leave behind their window.

Behind a window the gate stays open beside best effort: spare room, until the first frame of a later
window may come, or until it shuts. If late frames are gone by then, they meet none of a later
window: only those of the same window are late with them, and no later one is late for them.

*How late* frames leave a port, after the end of their window:

- Where the disturbance is, or the frame that nobody expects, by all that holds them up: the
  disturbance, a timer, and a frame of best effort; or the unexpected frame. Control goes on at its
  rate meanwhile; its burst is in the window.
- Elsewhere as much later as they come. Take the last moment before a frame starts at which none was
  waiting. If the gate had not opened, the window is long enough for all its frames. Else no more
  work comes from then on than on time comes from as much earlier on, and the window is long enough
  for that. So what comes before the gate has opened, late by the margin, delays nobody. Best effort
  may have taken the link in spare room, and the unexpected frame may be there as well.

There is one disturbance, so of several ways by which lateness comes the greatest counts, not the
sum. Lateness that is handed on in a circle of ports has no bound here.

*How long* frames may be late: a frame that is late has met, on some port, one of its own window
that is late, or the disturbance. Back along this chain no port comes twice, and from port to port
lies the time between the ends of two windows of one stream. It begins in a window that the
disturbance touched, and so has ended after its beginning, less what it holds up. An unexpected
frame stays on each port until it fits into the spare room, or the next window takes it along; and
it is nowhere later than the next frame of its stream may be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from cnc.account.frames import Transmission, from_switches
from cnc.account.openings import GateCycle
from cnc.account.wire import (
    best_effort_ns,
    control_part,
    control_waiting_ns,
    held_up_ns,
    unplanned_best_effort_ns,
    wire_ns,
)
from cnc.check.mechanisms import drops_misfits
from cnc.check.shared import goes_ns, openings_of
from cnc.mechanisms.talker_offsets.judge import Lag, Load, lag
from cnc.model import ClassRole, Intent, Link, PortRef
from cnc.support.format import duration

_NEVER_NS = 1 << 62
CIRCULAR = "frames may hand lateness on around a ring of ports"
BUSY = "the talker sends without a pause in which it makes up for a late frame"
_WINDOWS_MAX = 100_000  # of a port, to be compared with those of the next one by one


def are_all_shared(transmissions: Sequence[Transmission]) -> bool:
    """Whether all streams share windows, on each port of a switch those of one class."""
    classes: dict[PortRef, int] = {}
    return all(
        t.is_shared
        and (t.ingress is None or classes.setdefault(t.egress, t.traffic_class) == t.traffic_class)
        for t in transmissions
    )


class _Port(NamedTuple):
    """A port of a switch. Its windows have ended by `ends_ns`, and late frames of each may leave
    until `until_ns`: those of a cycle, in order; none lasts longer than `lasts_ns`. After a
    disturbance frames leave up to `disturbed_ns` late, after frames that come late by as much as
    those and `meets_ns`. An unexpected frame has left `passes_ns` after it came, if it meets no
    window."""

    cycle_ns: int
    ends_ns: list[int]
    until_ns: list[int]
    lasts_ns: int
    disturbed_ns: int
    meets_ns: int
    passes_ns: int

    @property
    def room_ns(self) -> int:
        """By how much frames may leave late."""
        return min(u - end for u, end in zip(self.until_ns, self.ends_ns, strict=True))

    def stay_ns(self, late_ns: int) -> int:
        """How long an unexpected frame stays that has just missed a window, if frames of the next
        leave late."""
        again = [*self.ends_ns[1:], self.ends_ns[0] + self.cycle_ns]
        gaps = (end - until for end, until in zip(again, self.until_ns, strict=True))
        return max(gaps) + self.passes_ns + late_ns

    def left_by_ns(self, time_ns: int, late_ns: int) -> int:
        """When an unexpected frame has left that comes by a time, if others leave late."""
        last = self.until_ns[-1]
        turn = -((last - time_ns - self.passes_ns) // self.cycle_ns) * self.cycle_ns
        which = bisect_left(self.until_ns, time_ns + self.passes_ns - turn)
        return max(time_ns + self.passes_ns, turn + self.ends_ns[which] + late_ns)


class _Passage(NamedTuple):
    """From a port, or a talker, to a port: frames come late by as much as they left late, and by
    `later_ns` (most often negative) so that it matters. They take up to `takes_ns`, and their
    windows there end up to `on_ns` after those in which they came."""

    later_ns: int
    takes_ns: int
    on_ns: int

    def worst(self, other: _Passage) -> _Passage:
        return _Passage(*map(max, self, other))


class SharedRecovery:
    """The lateness on all ports of one plan. Transmissions are known by their numbers."""

    def __init__(
        self,
        intent: Intent,
        lists: Mapping[PortRef, GateCycle],
        transmissions: Sequence[Transmission],
        disturbance_ns: int,
    ) -> None:
        self._intent = intent
        self._lists = lists
        self._disturbance_ns = disturbance_ns
        self._gated, self._before = from_switches(transmissions)
        self._sent = [t for t in transmissions if t.ingress is None]
        sent = {(t.stream, t.egress, t.offset_ns): t for t in self._sent}
        came = [(t.stream, t.ingress or t.egress, t.ingress_offset_ns) for t in self._gated]
        self._feeding = [
            sent[its] if before is None else self._gated[before]
            for its, before in zip(came, self._before, strict=True)
        ]
        self._starts_ns: dict[str, int] = {}
        for t in self._sent:
            first = self._starts_ns.setdefault(t.stream, t.offset_ns)
            self._starts_ns[t.stream] = min(first, t.offset_ns)
        self._is_dropped = {
            t.stream: drops_misfits(intent, t.stream, t.traffic_class)
            for t, before in zip(self._gated, self._before, strict=True)
            if before is None
        }
        # By transmission: how long before its gate has opened a frame is there at least, and how
        # much later than it has left the last of its window has.
        self._slack_ns = [0] * len(self._gated)
        self._behind_ns = [0] * len(self._gated)
        crossing: defaultdict[PortRef, list[int]] = defaultdict(list)
        for n, t in enumerate(self._gated):
            crossing[t.egress].append(n)
        self._ports = {port: self._port(port, its) for port, its in crossing.items()}
        self._talkers = lags_of(intent, self._sent)
        self._passages: dict[tuple[PortRef, PortRef], _Passage] = {}
        self._from_talkers: dict[tuple[PortRef, PortRef], _Passage] = {}
        self._find_passages()
        self._late_ns = {port: its.disturbed_ns for port, its in self._ports.items()}
        self.endless: dict[PortRef, str] = {}  # why there is no bound, once streams are judged

    def by_stream(self) -> dict[str, int | None]:
        """For how long after a disturbance each stream may be late; None: no bound is found."""
        self._settle()
        over = self._over(self._in_order())
        worst: dict[str, int | None] = {}
        for t in (*self._sent, *self._gated):
            known, lasts = worst.get(t.stream, 0), over.get(t.egress)
            if known is None or lasts is None:
                worst[t.stream] = None
            elif t.ingress is None:
                worst[t.stream] = max(known, lasts)
            else:
                left = t.busy_until_ns + self._late_ns[t.egress] - self._starts_ns[t.stream]
                worst[t.stream] = max(known, lasts - left)
        return worst

    def _port(self, port: PortRef, crossing: Sequence[int]) -> _Port:
        intent, link, gates = self._intent, self._intent.network.links[port], self._lists[port]
        its = [self._gated[n] for n in crossing]
        cycle = lcm(gates.cycle_ns, *{t.period_ns for t in its})
        number = its[0].traffic_class
        openings = openings_of(intent, link, number, gates, cycle)
        begins = [begin for begin, _ in openings]
        held_ns = held_up_ns(intent, link)
        ends = [-_NEVER_NS] * len(openings)  # of the windows in each
        comes = [_NEVER_NS] * len(openings)  # the first frame
        frames = [0] * len(openings)
        places: list[tuple[int, int, int]] = []  # of each frame: number, opening, and its period
        for n, t in zip(crossing, its, strict=True):
            since = t.busy_until_ns % t.period_ns - t.busy_until_ns
            slack = _NEVER_NS
            for at in range(since, since + cycle, t.period_ns):
                which = bisect_left(begins, t.busy_until_ns + at) - 1
                # What is before the first of them has the last one of the cycle before.
                by = at if which >= 0 else at + cycle
                places.append((n, which, by))
                ends[which] = max(ends[which], t.busy_until_ns + by)
                comes[which] = min(comes[which], t.earliest_ns + by)
                frames[which] += t.work_ns // t.frame_ns
                slack = min(slack, begins[which] + held_ns - t.latest_ns - by)
            self._slack_ns[n] = max(0, slack)
        for n, which, by in places:
            behind = ends[which] - self._gated[n].busy_until_ns - by
            self._behind_ns[n] = max(behind, self._behind_ns[n])
        used = [which for which, end in enumerate(ends) if end > -_NEVER_NS]
        # When the first frame comes for a later one, some of the next cycle.
        later = _NEVER_NS
        following = [0] * len(openings)
        for cycles in (1, 0):
            for which in reversed(used):
                following[which] = later
                later = min(later, comes[which] + cycles * cycle)
        shuts = self._shut_after(number, gates, [begins[which] for which in used])
        unplanned = intent.unplanned_classes()
        # A frame that its gate has let go may start as late as any other.
        margin = intent.network.gate_margin_ns
        beside = max((margin + wire_ns(intent, link, c) for c in unplanned), default=0)
        works: defaultdict[str, int] = defaultdict(int)  # both copies of a frame may come here
        most = 0
        for t in its:
            if not self._is_dropped[t.stream]:
                works[t.stream] += t.work_ns
                most = max(most, works[t.stream] // t.frame_ns)
        unasked = max(works.values(), default=0)
        alone = _beside_control(intent, link, unasked + goes_ns(intent, link, max(frames) + most))
        lost = self._disturbance_ns + max(margin, beside)
        ahead = beside + control_waiting_ns(intent, link)
        return _Port(
            cycle_ns=cycle,
            ends_ns=[ends[which] for which in used],
            until_ns=[min(shut, following[w]) for shut, w in zip(shuts, used, strict=True)],
            lasts_ns=max(ends[which] - begins[which] for which in used),
            disturbed_ns=max(_beside_control(intent, link, lost), alone),
            meets_ns=beside + alone,
            passes_ns=_beside_control(intent, link, unasked + ahead),
        )

    def _shut_after(self, number: int, gates: GateCycle, times_ns: Sequence[int]) -> Iterator[int]:
        """Until when the gate of a class is open for sure that is at each of these times, and none
        of best effort goes before it. They are in order, and of one cycle."""
        above = (c for c in self._intent.classes_with(ClassRole.BEST_EFFORT) if c.number > number)
        shut = sum(1 << c.number for c in above)
        stretches = gates.stretches(opened=1 << number, shut=shut, within_ns=gates.cycle_ns)
        starts = [start for start, _ in stretches]
        for time in times_ns:
            turn = time - time % gates.cycle_ns
            which = bisect_right(starts, time - turn) - 1
            start, end = stretches[which]
            if which < 0:  # it began in the cycle before
                turn -= gates.cycle_ns
            yield _NEVER_NS if end - start >= gates.cycle_ns else turn + end - gates.early_ns

    def _find_passages(self) -> None:
        bridges = self._intent.network.bridges
        for n, (t, before) in enumerate(zip(self._gated, self._before, strict=True)):
            later, ends = -self._slack_ns[n], t.busy_until_ns + self._behind_ns[n]
            feeding, found = self._feeding[n], self._passages
            if before is not None:
                later += self._behind_ns[before]
            else:
                found = self._from_talkers
                if self._is_dropped[t.stream]:  # later ones do not pass its filter
                    later += bridges[t.egress.node].processing_max_ns
                else:
                    later += self._talkers[feeding.egress].late_ns[t.traffic_class] or 0
            way = feeding.egress, t.egress
            takes = t.latest_ns - feeding.busy_until_ns
            passage = _Passage(later, takes, ends - feeding.busy_until_ns)
            found[way] = passage.worst(found.get(way, passage))

    def _settle(self) -> None:
        """Hand lateness on until nothing comes later any more: over no more ports than there are,
        unless in a circle."""
        handed: defaultdict[PortRef, int] = defaultdict(int)
        for (_, port), passage in self._from_talkers.items():
            handed[port] = max(handed[port], passage.later_ns)
        for _ in range(len(self._ports) + 1):
            for (feeder, port), passage in self._passages.items():
                handed[port] = max(handed[port], self._late_ns[feeder] + passage.later_ns)
            changed = False
            for port, comes_late in handed.items():
                late = comes_late + self._ports[port].meets_ns
                if comes_late > 0 and late > self._late_ns[port]:
                    self._late_ns[port] = late
                    changed = True
            if not changed:
                return

    def _in_order(self) -> list[PortRef]:
        """Those ports that are back to their plan in some time, each behind all that hand lateness
        on to it."""
        feeders: defaultdict[PortRef, set[PortRef]] = defaultdict(set)
        handing: defaultdict[PortRef, set[PortRef]] = defaultdict(set)
        onward: defaultdict[PortRef, list[PortRef]] = defaultdict(list)
        for (feeder, port), passage in self._passages.items():
            onward[feeder].append(port)
            feeders[port].add(feeder)
            if self._late_ns[feeder] + passage.later_ns > 0:
                handing[port].add(feeder)
        waiting = {port: len(handing[port]) for port in self._ports}
        order = [port for port, count in waiting.items() if not count]
        for port in order:
            for target in onward[port]:
                if port in handing[target]:
                    waiting[target] -= 1
                    if not waiting[target]:
                        order.append(target)
        never = {t for t, its in self._talkers.items() if its.over_ns is None}
        self.endless = {
            port: f"late frames may leave up to {duration(self._late_ns[port])} after their window "
            f"has ended, and {duration(max(its.room_ns, 0))} after that the gate shuts or the next "
            "frames may come"
            for port, its in self._ports.items()
            if self._late_ns[port] > its.room_ns
        }
        self.endless |= dict.fromkeys(self._ports.keys() - set(order), CIRCULAR)
        lost = [*self.endless, *(port for talker, port in self._from_talkers if talker in never)]
        self.endless |= dict.fromkeys(never, BUSY)
        is_lost = set(lost)
        for port in lost:  # what is late for ever makes others so
            more = [target for target in onward[port] if target not in is_lost]
            is_lost |= set(more)
            lost += more
        return [port for port in order if port not in is_lost]

    def _over(self, order: Sequence[PortRef]) -> dict[PortRef, int]:
        """For how long after a disturbance frames may still leave each port in a window that it
        has made late; of a talker's for how long they do."""
        late = self._late_ns
        over = {port: its.over_ns for port, its in self._talkers.items() if its.over_ns is not None}
        ends = dict(over)
        for port in order:
            its = self._ports[port]
            over[port] = its.lasts_ns + late[port] + its.disturbed_ns
        self._add_unexpected(over)
        for (talker, port), passage in self._from_talkers.items():
            if port in over and passage.later_ns > 0:
                over[port] = max(over[port], ends[talker] + passage.on_ns + late[port])
        onward: defaultdict[PortRef, list[tuple[PortRef, _Passage]]] = defaultdict(list)
        for (feeder, port), passage in self._passages.items():
            onward[feeder].append((port, passage))
        for feeder in order:
            for port, passage in onward[feeder]:
                if port in over and late[feeder] + passage.later_ns > 0:
                    on = over[feeder] - late[feeder] + passage.on_ns + late[port]
                    over[port] = max(over[port], on)
        return over

    def _add_unexpected(self, over: dict[PortRef, int]) -> None:
        """How long after it was sent a frame that nobody expects may have been on each port."""
        rides: dict[tuple[PortRef, PortRef], int] = {}
        # By transmission: how long if it has met no window; and if it has, until the end of one.
        passed: list[tuple[int, int] | None] = []
        for n, (t, before) in enumerate(zip(self._gated, self._before, strict=True)):
            talker = over.get(self._feeding[n].egress, 0)
            came = (talker, talker) if before is None else passed[before]
            if came is None or t.egress not in over or self._is_dropped[t.stream]:
                passed.append(None)
                continue
            its, late = self._ports[t.egress], self._late_ns[t.egress]
            takes = t.latest_ns - self._feeding[n].busy_until_ns
            longest = came[0] + takes + its.stay_ns(late)
            if before is not None:
                way = self._feeding[n].egress, t.egress
                if way not in rides:
                    rides[way] = self._rides_ns(*way)
                longest = max(longest, came[1] + rides[way])
            # No later than the next frame of its stream may be.
            sent = self._starts_ns[t.stream] - t.period_ns
            longest = min(longest, t.busy_until_ns + self._behind_ns[n] + late - sent)
            passed.append((came[0] + takes + its.passes_ns, longest))
            over[t.egress] = max(over[t.egress], longest)

    def _rides_ns(self, feeder: PortRef, port: PortRef) -> int:
        """How long after the end of a window of `feeder` an unexpected frame that has left in it
        has left `port`."""
        one, other, late = self._ports[feeder], self._ports[port], self._late_ns[port]
        takes = self._passages[feeder, port].takes_ns
        cycle = lcm(one.cycle_ns, other.cycle_ns)
        if len(one.ends_ns) * (cycle // one.cycle_ns) > _WINDOWS_MAX:
            return takes + other.stay_ns(late)
        longest = 0
        for turn in range(0, cycle, one.cycle_ns):
            for end in one.ends_ns:
                left = turn + end + self._late_ns[feeder]
                longest = max(longest, other.left_by_ns(left + takes, late) - left)
        return longest


def lags_of(intent: Intent, sent: Iterable[Transmission]) -> dict[PortRef, Lag]:
    """What one late frame does on the link of each talker."""
    by_port: defaultdict[PortRef, list[Transmission]] = defaultdict(list)
    for t in sent:
        by_port[t.egress].append(t)
    found = {}
    for port, its in by_port.items():
        link = intent.network.links[port]
        loads = list(_loads(its))
        beside = unplanned_best_effort_ns(intent, link)
        extra = max(t.work_ns for t in its) + beside - best_effort_ns(intent, link)
        if len({t.traffic_class for t in its}) > 1:  # one of a smaller class is under way
            extra += max(t.frame_ns for t in its)
        frames = sum(t.work_ns // t.frame_ns for t in its)
        extra += goes_ns(intent, link, 2 * frames)
        found[port] = lag(loads, _beside_control(intent, link, extra), beside)
    return found


def _beside_control(intent: Intent, link: Link, lasts_ns: int) -> int:
    """How long a link takes for it while control goes on at its rate."""
    part, whole = control_part(intent, link)
    return -(-lasts_ns * whole // (whole - part)) if part < whole else _NEVER_NS


def _loads(sending: Sequence[Transmission]) -> Iterator[Load]:
    """When a talker sends, those windows of a class as one that overlap."""
    cycle = lcm(*{t.period_ns for t in sending})
    windows = sorted(
        (t.traffic_class, t.offset_ns % t.period_ns + at, t.busy_until_ns - t.offset_ns)
        for t in sending
        for at in range(0, cycle, t.period_ns)
    )
    number, begin, end = windows[0][0], windows[0][1], windows[0][1]
    for traffic_class, opens, lasts in windows:
        if traffic_class != number or opens > end:
            yield Load(number, cycle, begin, end - begin)
            number, begin, end = traffic_class, opens, opens
        end = max(end, opens + lasts)
    yield Load(number, cycle, begin, end - begin)
