"""Windows that frames of many streams share: `share(problem, ...)`.

One timer opens a window, so it needs one gate margin and one control burst, however many frames
leave in it and in whatever order (Reusch, Zhao, Craciunas, Pop: Window-based schedule synthesis for
industrial IEEE 802.1Qbv TSN networks. WFCS 2020). Time is cut into slots, as long as the greatest
common divisor of the periods. Each port has one window in a slot, and a frame leaves all ports of
its way in the windows of one slot, which overlap. Where that has no place for all, classes take
turns, with a slot of each in a lap.

    times     how long frames take         queue     what may be in a queue, and when it has left
    order     in which order frames cross ports      windows   when all windows open and end
    forward   ways that lead forward in it           phases    how far from each other
    ways      in which window of each port           talkers   when talkers start
    placing   which stream begins in which slot      layout    what is planned so
    choice    in which slots, styles and turns of classes that is tried
    spare     how late frames are after a disturbance
    busy      how long queues are busy after one
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, field

from cnc.model import PortRef, StreamPlan
from cnc.planner.floor import us
from cnc.planner.gates import Lists, lists_of, windows_by_port
from cnc.planner.problem import Problem
from cnc.planner.recovery import Recovery
from cnc.planner.route import Placement
from cnc.planner.sharing.busy import ENDLESS, BusyTimes, Crossing
from cnc.planner.sharing.choice import best_sharing
from cnc.planner.sharing.layout import Layout
from cnc.planner.sharing.placing import Sharing
from cnc.planner.sharing.spare import Periodic
from cnc.planner.sharing.taken import Taken

OWN_CLASS = (
    "its class has frames with windows of their own, and windows that frames share need another "
    "class. What would help: `windows` alike for all streams of a class"
)


@dataclass(slots=True)
class Shared:
    """Streams that share windows, `windows` by link, and why others have no place. `own` are the
    windows of frames that have them for themselves."""

    problem: Problem
    own: dict[int, list[Periodic]]
    streams: dict[str, StreamPlan] = field(default_factory=dict)
    windows: dict[int, list[Periodic]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    classes: list[Layout] = field(default_factory=list)

    def lists(self) -> Lists:
        """The gate control lists of their ports, with spare room where the network is to recover.

        Where a list is too long, its windows open in each slot, used or not.
        """
        lists = self._lists()
        crossed = [(its, set(its.links)) for its in self.classes] if lists.too_long else []
        for link in self.windows:
            sharing = [its for its, links in crossed if link in links]
            is_one_layout = len({id(its.windows) for its in sharing}) == 1
            is_too_long = self.problem.links[link].source in lists.too_long
            if is_too_long and is_one_layout and link not in self.own:
                self.windows[link] = [its.in_each_slot(link) for its in sharing]
        return self._lists() if lists.too_long else lists

    def _lists(self) -> Lists:
        stays: dict[int, dict[int, list[tuple[int, int, int]]]] = {}
        if self.problem.intent.network.disturbance_ns is not None:
            for sharing in self.classes:
                for link, its in sharing.stays().items():
                    stays.setdefault(link, {})[sharing.traffic_class] = its
        every = {
            link: [*self.own.get(link, ()), *self.windows.get(link, ())]
            for link in self.own.keys() | self.windows.keys()
        }
        return lists_of(self.problem, every, stays, in_guards=True)

    def recovery(self, lists: Lists) -> Recovery:
        """When streams are in time again after a disturbance, and the ports that find no end of
        it: beside windows of single frames all do.

        Late frames leave before the next window, or where not all do in some later spare room.
        """
        if self.problem.intent.network.disturbance_ns is None or lists.crowded():
            return Recovery({}, {})
        recovery_ns: dict[str, int] = {}
        endless = {
            self.problem.links[link].source: f"{ENDLESS} beside windows of single frames"
            for link in self.own
        }
        is_alone = not self.own
        for sharing in self.classes if self.streams else ():
            mine = {link: self.windows[link] for link in sharing.links}
            lateness = sharing.lateness()
            ports = {self.problem.links[link].source for link in mine}
            if not lateness.settles:
                endless |= dict.fromkeys(ports, _CIRCULAR)
                continue
            endless |= {
                port: f"{ENDLESS}: {why}. {_WHAT_HELPS}"
                for port, why in lateness.too_late(lists.lists, mine).items()
            }
            others = (w.traffic_class for its in mine.values() for _, w in its)
            if any(number != sharing.traffic_class for number in others):
                endless |= dict.fromkeys(ports, f"{ENDLESS} where classes share a port")
                is_alone = False
            recovery_ns |= sharing.recovery_ns(lateness)
        late = self._reached(endless)
        in_time = {
            name: ns
            for name, ns in recovery_ns.items()
            if is_alone and late.isdisjoint(hop.egress for hop in self.streams[name].hops)
        }
        if not endless:
            return Recovery(in_time, {})
        if self.own:
            return Recovery({}, endless)
        busy = self._busy_times(lists)
        endless = {port: f"{why}. {_WHAT_HELPS}" for port, why in busy.endless.items()}
        return Recovery(in_time | busy.recovery_ns(), endless)

    def _busy_times(self, lists: Lists) -> BusyTimes:
        crossings: list[Crossing] = []
        sent: defaultdict[int, list[Periodic]] = defaultdict(list)
        for sharing in self.classes:
            crossings += sharing.crossings(len(crossings))
            for link, windows in sharing.sent_in().items():
                sent[link] += windows
        return BusyTimes(self.problem, crossings, sent, lists.lists)

    def _reached(self, ports: Iterable[PortRef]) -> set[PortRef]:
        """These ports, and all to which frames go on from them."""
        onward: defaultdict[PortRef, set[PortRef]] = defaultdict(set)
        links = self.problem.intent.network.links
        for path in (path for planned in self.streams.values() for path in planned.paths):
            inbound = {links[hop.egress].target.node: hop.egress for hop in path}
            for hop in path:
                if before := inbound.get(hop.egress.node):
                    onward[before].add(hop.egress)
        found = set(ports)
        waiting = list(found)
        for port in waiting:
            waiting += onward[port] - found
            found |= onward[port]
        return found


_WHAT_HELPS = (
    "Fewer streams, longer periods, a smaller max-frame of best effort or a shorter `recovery` "
    "would help; `recovery: none` under `defaults` plans without a bound"
)
_CIRCULAR = f"{ENDLESS}: they may make each other late around a ring of ports. {_WHAT_HELPS}"


def share(problem: Problem, names: Collection[str], beside: Iterable[Placement] = ()) -> Shared:
    """Places in shared windows for as many of the streams as have one, beside frames that have
    windows of their own."""
    beside = tuple(beside)
    found = Shared(problem, windows_by_port(problem, beside))
    taken = Taken(problem, beside)
    by_class: defaultdict[int, list[str]] = defaultdict(list)
    for name in (name for name in problem.intent.streams if name in names):
        numbers = problem.class_numbers(name)
        free = [number for number in numbers if number not in taken.classes]
        if free:
            by_class[free[0]].append(name)
        else:
            found.refused[name] = OWN_CLASS
    for number in sorted(by_class, reverse=True):
        others = by_class.keys() - {number}
        classes = _common_classes(problem, by_class[number], number, others)
        best = best_sharing(problem, by_class[number], classes, taken)
        found.refused |= best.refused()
        left_out = (name for name in by_class[number] if name not in best.names)
        found.refused |= {name: _off_slots(problem, name, best) for name in left_out}
        for layout in best.layout.by_class():
            found.classes.append(layout)
            found.streams |= layout.stream_plans()
            gated = layout.gate_windows()
            for link, windows in gated.items():
                found.windows.setdefault(link, []).extend(windows)
            for link, windows in (gated | layout.sent_in()).items():
                taken.add(link, windows)
    return found


def _common_classes(
    problem: Problem, names: Iterable[str], first: int, others: Set[int]
) -> tuple[int, ...]:
    """The classes that all of some streams may have and no others do, the first one first."""
    common = set.intersection(*(set(problem.class_numbers(name)) for name in names)) - others
    return first, *sorted(common - {first}, reverse=True)


def _off_slots(problem: Problem, name: str, best: Sharing) -> str:
    """Why a stream has no place beside others that have longer slots without it."""
    period_ns = problem.intent.streams[name].period_ns
    return (
        f"windows that frames share open once in each slot of {us(best.slot_ns)}, of which its "
        f"period of {us(period_ns)} is no multiple; slots that suit it would be so short that "
        "fewer streams had room. What would help: a period that is a multiple of these slots, or a "
        "smaller gate-margin"
    )
