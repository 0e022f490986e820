"""When the windows open and end that hold the frames of all slots.

Each port has one window in each slot, for all waves of frames: it opens `opens_ns` after the slot
begins, and the frames of a wave have left by `ends_ns`. A wave's frames leave all ports of their
way in the windows of one slot; the windows of successive ports overlap, as a gate that has been
open for longer than its margin holds nobody up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cnc.planner.circle import Circle
from cnc.planner.sharing.phases import Apart, apart
from cnc.planner.sharing.queue import SLOTS_MAX, Coming, Queue
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.talkers import Talker
from cnc.planner.sharing.times import Times

_TRIES_MAX = 10  # of finding when early frames come, which depends on what they hold up
_TURNS_MAX = 8  # around rings, of early frames
_HOLDING_NS = 1_000  # to which it is found how much later talkers may start
_SETTLING = 4  # tries from which on no frame is taken to come later than before, or leave sooner


class Windows:
    """The windows of `queues`, which are in the order in which frames cross them. `talkers` are by
    link the work of a talker in its fullest slot, and its shortest frame. `ties` are frames that
    their talkers send at one time."""

    def __init__(
        self,
        times: Times,
        slot_ns: int,
        queues: Mapping[int, Queue],
        talkers: Mapping[int, tuple[int, int]],
        ties: Sequence[Sequence[Coming]],
        *,
        lap_ns: int,
        taken: Taken,
    ) -> None:
        self._times = times
        self._slot_ns = slot_ns
        self._lap_ns = lap_ns
        self._queues = queues
        circles = ((link, taken.circle(link, slot_ns)) for link in (*queues, *talkers))
        self._taken = {link: circle for link, circle in circles if circle}
        self.opens_ns: dict[int, int] = {}
        self.ends_ns: dict[tuple[int, int], int] = {}
        self._waves = sorted({wave for queue in queues.values() for wave in queue.waves()})
        self._behind: defaultdict[int, list[tuple[Queue, Coming]]] = defaultdict(list)
        for queue in queues.values():
            for its in queue.coming.values():
                self._behind[its.link].append((queue, its))
        self._talkers = {
            link: Talker(
                times,
                link,
                slot_ns,
                self._together(link, ties),
                work,
                takes_turns=lap_ns > slot_ns,
            )
            for link, work in talkers.items()
        }
        self._least_ends_ns: dict[tuple[int, int], int] = {}
        self._is_settling = False
        # By how much frames come, by link, before the window of the slot before has shut.
        self.early_ns: dict[int, int] = {}

    def find(self, early_max: int | None = None) -> bool:
        """Whether windows are found that hold all frames, however long they are; without a search
        where those of more links than `early_max` come early."""
        for attempt in range(_TRIES_MAX):
            self._is_settling = attempt >= _SETTLING
            self._sweep()
            self._put_off()
            self._start()
            settled = self._spread()
            if not attempt:
                self.early_ns = self._early()
                if early_max is not None and len(self.early_ns) > early_max:
                    return False
            if self._is_hopeless():
                return False
            if settled and self._holds():
                return True
        return False

    def _early(self) -> dict[int, int]:
        """By how much frames come before the window of the slot before shuts, by link: from
        talkers, and from links that let them go in the window of their own slot."""
        found: defaultdict[int, int] = defaultdict(int)
        for link, queue in self._queues.items():
            shut_ns = self.closes_ns(link) - self._lap_ns
            for its in queue.coming.values():
                left_ns = its.sent_ns
                if its.before is not None:
                    left_ns = self._lets_go_ns(its.link)
                early_ns = shut_ns - self._first_ns(queue, its, left_ns)
                found[link] = max(found[link], early_ns)
        return {link: ns for link, ns in found.items() if ns > 0}

    def _is_hopeless(self) -> bool:
        """Whether frames are early by so many slots that they only come to be more."""
        longest_ns = SLOTS_MAX * self._lap_ns
        coming = [its for queue in self._queues.values() for its in queue.coming.values()]
        stays = [(its.latest_ns or 0) - (its.earliest_ns or 0) for its in coming]
        stays += [self.ended_ns(link) - self.earliest_ns(link) for link in self.opens_ns]
        return max(stays, default=0) > longest_ns

    def closes_ns(self, link: int) -> int:
        """When the gate shuts: after the last wave, and where an entry would be too short for the
        port, a little later."""
        queue = self._queues[link]
        least_ns = self.opens_ns[link] + queue.its.shortest_ns
        return queue.clear_to_shut_ns(max(self.ended_ns(link), least_ns))

    def _lets_go_ns(self, link: int) -> int:
        """When a gate may open at the earliest."""
        return self.opens_ns[link] - self._times.of_link(link).early_ns

    def ended_ns(self, link: int) -> int:
        """When the frames of all waves have left."""
        return max(self.ends_ns[link, wave] for wave in self._queues[link].waves())

    def length_ns(self, link: int) -> int:
        """How long the window of a link is."""
        return self.closes_ns(link) - self.opens_ns[link]

    def talker(self, link: int) -> Talker:
        return self._talkers[link]

    def _together(self, link: int, ties: Iterable[Sequence[Coming]]) -> list[list[Coming]]:
        """What a talker sends by a link, those together that it sends at one time."""
        groups = {id(its): [its] for _, its in self._behind[link] if its.before is None}
        for tie in ties:
            for its in tie[1:] if tie[0].link == link else ():
                one, other = groups[id(tie[0])], groups[id(its)]
                if one is not other:
                    one += other
                    groups |= {id(each): one for each in other}
        return list({id(group): group for group in groups.values()}.values())

    def _comes_ns(self, queue: Queue, its: Coming, left_ns: int) -> int:
        """When frames are in a queue that have left the link before."""
        apart_ns = self._times.apart_ns(its.link, queue.link)
        arrives_ns = self._times.of_link(its.link).arrives_ns
        return left_ns + arrives_ns + apart_ns - its.laps * self._lap_ns

    def _sweep(self) -> None:
        """Let each window open so late that its end is not put off, and end as soon as it can."""
        self.opens_ns.clear()
        self.ends_ns.clear()
        ended: dict[int, int] = {}  # of a link the waves so far
        for wave in self._waves:
            for link, queue in self._queues.items():
                mine = queue.of_wave(wave)
                if not mine:
                    continue
                free = [its for its in mine if its.before is None and its.start_ns is None]
                for its in mine:
                    its.latest_ns = self._known_latest_ns(queue, its)
                if link not in self.opens_ns:
                    opens_ns = self._opening_ns(queue, wave, mine)
                    opens_ns = queue.clear_of_seam_ns(self._free_ns(queue, wave, opens_ns))
                    self.opens_ns[link] = opens_ns
                opened_ns = self.opens_ns[link] + queue.its.late_ns
                for its in free:
                    its.latest_ns = max(opened_ns, ended.get(link, opened_ns))
                latest_ns = max(its.latest_ns or opened_ns for its in mine)
                end_ns, _ = queue.wave_ns(wave, latest_ns, self.opens_ns[link])
                if self._is_settling:
                    end_ns = max(end_ns, self._least_ends_ns.get((link, wave), end_ns))
                self.ends_ns[link, wave] = end_ns
                ended[link] = max(end_ns, ended.get(link, end_ns))

    def _known_latest_ns(self, queue: Queue, its: Coming) -> int | None:
        """When the last of them comes, if that does not depend on the window itself."""
        if its.before is not None:
            if (its.link, its.before) not in self.ends_ns:
                return None  # around a ring: in time for the slot after
            left_ns = self.ends_ns[its.link, its.before]
        elif its.start_ns is not None:
            left_ns = its.start_ns + its.lasts_ns
        else:
            return None
        return self._comes_ns(queue, its, left_ns)

    def _opening_ns(self, queue: Queue, wave: int, mine: Sequence[Coming]) -> int:
        known = [its.latest_ns for its in mine if its.latest_ns is not None]
        if not known:
            # Nothing says when: as soon as talkers that start with the slot come.
            comes = (self._comes_ns(queue, its, its.lasts_ns) for its in mine if its.before is None)
            return max(comes, default=0) - queue.its.late_ns
        end_ns, work_ns = queue.wave_ns(wave, max(known), None)
        return end_ns - queue.left_ns(queue.its.late_ns, work_ns)

    def _free_ns(self, queue: Queue, wave: int, opens_ns: int) -> int:
        """When a window may open that is to open then, beside what is taken of its link."""
        circle = self._taken.get(queue.link)
        if circle is None:
            return opens_ns
        end_ns, _ = queue.wave_ns(wave, opens_ns + queue.its.late_ns, opens_ns)
        lasts_ns = end_ns - opens_ns + 2 * queue.its.shortest_ns
        return opens_ns + (circle.delay(opens_ns, lasts_ns) or 0)

    def _is_free(self, link: int, start_ns: int, end_ns: int) -> bool:
        circle = self._taken.get(link)
        return circle is None or circle.delay(start_ns, end_ns - start_ns) == 0

    def _put_off(self) -> None:
        """Move windows to later such that few frames are early for a slot, and wait little."""
        later_ns = apart(self._queues, list(self._bounds()), self._pinned())
        for link, by_ns in later_ns.items():
            queue = self._queues[link]
            opens_ns = queue.clear_of_seam_ns(self.opens_ns[link] + by_ns)
            moved_ns = opens_ns - self.opens_ns[link]
            if moved_ns <= 0:
                continue
            self.opens_ns[link] = opens_ns
            for wave in queue.waves():
                self.ends_ns[link, wave] += moved_ns
            for its in queue.coming.values():
                if its.before is None and its.start_ns is None and its.latest_ns is not None:
                    its.latest_ns += moved_ns

    def _bounds(self) -> Iterator[Apart]:
        """By how much windows of successive links may be moved against each other."""
        for link, queue in self._queues.items():
            opened_ns = self.opens_ns[link] + queue.its.late_ns
            for its in queue.coming.values():
                if its.before is None:
                    continue
                comes_ns = self._comes_ns(queue, its, self.ends_ns[its.link, its.before])
                first_ns = self._first_ns(queue, its, self._lets_go_ns(its.link)) + self._lap_ns
                slack_ns = opened_ns - comes_ns
                if its.laps:
                    # Nothing says yet that they come before the gate opens, if they leave in time.
                    behind_ns = its.frame_ns + queue.left_ns(0, its.work_ns) - its.work_ns
                    slack_ns = max(slack_ns, self.ended_ns(link) - comes_ns - behind_ns)
                yield Apart(
                    its.link,
                    link,
                    max(0, slack_ns),
                    first_ns - self.closes_ns(link),
                    its.work_ns,
                )

    def _pinned(self) -> dict[int, int]:
        """By how much windows may be moved whose frames come when their talkers want."""
        found = dict.fromkeys(self._taken.keys() & self._queues.keys(), 0)
        for link, queue in self._queues.items():
            for its in queue.coming.values():
                if its.start_ns is not None:
                    first_ns = self._first_ns(queue, its, its.start_ns) + self._lap_ns
                    room_ns = max(0, first_ns - self.closes_ns(link))
                    found[link] = min(room_ns, found.get(link, room_ns))
        return found

    def _start(self) -> None:
        """Let talkers start so late that their frames come just in time."""
        for queue in self._queues.values():
            for its in queue.coming.values():
                if its.before is None:
                    self._start_one(queue, its)
            self._hold_back(queue)
        for talker in self._talkers.values():
            talker.agree()

    def _start_one(self, queue: Queue, its: Coming) -> None:
        if its.start_ns is not None:
            its.sent_ns = its.start_ns
            return
        if its.latest_ns is not None:
            its.sent_ns = its.latest_ns - self._comes_ns(queue, its, its.lasts_ns)
        self._send_sooner(its)

    def _hold_back(self, queue: Queue) -> None:
        """Let talkers start later whose frames may come before the window of the slot before has
        shut, as far as all frames leave in time; the others have room to start sooner."""
        shut_ns = self.closes_ns(queue.link) - self._lap_ns
        early = [
            (its, its.latest_ns, shut_ns - self._first_ns(queue, its, its.sent_ns))
            for its in queue.coming.values()
            if its.before is None and its.start_ns is None and its.latest_ns is not None
        ]
        early = [each for each in early if each[2] > 0]
        low, high = 0, max((by_ns for *_, by_ns in early), default=0)
        later_ns = high
        while high - low > _HOLDING_NS:
            for its, latest_ns, by_ns in early:
                its.latest_ns = latest_ns + min(later_ns, by_ns)
            low, high = (later_ns, high) if self._is_in_time(queue) else (low, later_ns)
            later_ns = (low + high) // 2
        for its, latest_ns, by_ns in early:
            its.latest_ns = latest_ns + min(low, by_ns)
            its.sent_ns += min(low, by_ns)
        for its in queue.coming.values():
            if its.before is None:
                its.room_ns = self._first_ns(queue, its, its.sent_ns) - shut_ns

    def _is_in_time(self, queue: Queue) -> bool:
        return all(
            self._ends_by_ns(queue, wave) <= self.ends_ns[queue.link, wave]
            for wave in queue.waves()
        )

    def _ends_by_ns(self, queue: Queue, wave: int) -> int:
        latest_ns = max(its.latest_ns or 0 for its in queue.of_wave(wave))
        return queue.wave_ns(wave, latest_ns, self.opens_ns[queue.link])[0]

    def _send_sooner(self, its: Coming) -> None:
        """Let a talker start before what is taken of its link."""
        circle, lasts_ns = self._taken.get(its.link), its.lasts_ns
        if circle is None or its.start_ns is not None:
            return
        for _ in range(len(circle.starts) + 1):
            if circle.delay(its.sent_ns, lasts_ns) == 0:
                return
            busy_ns, following_ns, _ = circle.gap(its.sent_ns)
            until_ns = _start_of(circle, its.sent_ns) if busy_ns else its.sent_ns + following_ns
            its.sent_ns = until_ns - lasts_ns

    def earliest_ns(self, link: int) -> int:
        """When the first frame of a slot may come to a queue."""
        return min(its.earliest_ns or 0 for its in self._queues[link].coming.values())

    def _spread(self) -> bool:
        """Note from when on frames come, and until when; whether that is known for all."""
        leaves_ns: dict[tuple[int, int], Mapping[int, int]] = {}
        for _ in range(_TURNS_MAX):
            before, leaves_ns = leaves_ns, self._spread_once(leaves_ns)
            if before == leaves_ns:
                return True
        return False

    def _spread_once(
        self, around_ns: Mapping[tuple[int, int], Mapping[int, int]]
    ) -> dict[tuple[int, int], Mapping[int, int]]:
        """The earliest times at which frames leave links, by origin, if they come around rings as
        early as these."""
        leaves_ns = dict(around_ns)
        for wave in self._waves:
            for link, queue in self._queues.items():
                mine = queue.of_wave(wave)
                if not mine:
                    continue
                opens_ns = self._lets_go_ns(link)
                # A frame that is early for its slot may leave in the window of the one before.
                shut_ns = self.closes_ns(link) - self._lap_ns
                leave: dict[int, int] = {}
                for its in mine:
                    self._comes_between(queue, its, leaves_ns)
                    for key, origin in its.origins.items():
                        comes = origin.earliest_ns or 0
                        left_ns = comes if comes < shut_ns else max(comes, opens_ns)
                        leave[key] = min(left_ns, leave.get(key, left_ns))
                leaves_ns[link, wave] = leave
        return leaves_ns

    def _comes_between(
        self,
        queue: Queue,
        its: Coming,
        leaves_ns: Mapping[tuple[int, int], Mapping[int, int]],
    ) -> None:
        """Note when frames come that leave the links before no earlier than then."""
        leave: Mapping[int, int] = {}
        if its.before is None:
            first_ns = its.sent_ns
            last_ns = its.sent_ns + its.lasts_ns
        else:
            first_ns = self._lets_go_ns(its.link)
            last_ns = self.ends_ns[its.link, its.before]
            leave = leaves_ns.get((its.link, its.before), {})
        for key, origin in its.origins.items():
            earliest_ns = self._first_ns(queue, its, leave.get(key, first_ns))
            if self._is_settling and origin.earliest_ns is not None:
                earliest_ns = min(earliest_ns, origin.earliest_ns)
            origin.earliest_ns = earliest_ns
        its.earliest_ns = min(origin.earliest_ns or 0 for origin in its.origins.values())
        its.latest_ns = self._comes_ns(queue, its, last_ns)

    def _first_ns(self, queue: Queue, its: Coming, left_ns: int) -> int:
        """When the first of some may be in a queue, if it starts then on the link before."""
        apart_ns = self._times.apart_ns(its.link, queue.link)
        return left_ns + its.flies_min_ns - apart_ns - its.laps * self._lap_ns

    def _holds(self) -> bool:
        """Whether all waves have left by their ends, now that it is known what comes when."""
        holds = True
        for (link, wave), end_ns in self.ends_ns.items():
            queue = self._queues[link]
            least_ns = self._ends_by_ns(queue, wave)
            if least_ns > end_ns:
                holds = False
                known_ns = self._least_ends_ns.get((link, wave), least_ns)
                self._least_ends_ns[link, wave] = max(least_ns, known_ns)
        free = all(self._is_free(at, self.opens_ns[at], self.closes_ns(at)) for at in self.opens_ns)
        return holds and free and not self.in_the_way()

    def in_the_way(self) -> list[Coming]:
        """What talkers send while their links are taken."""
        return [
            its
            for queue in self._queues.values()
            for its in queue.coming.values()
            if its.before is None
            and not self._is_free(its.link, its.sent_ns, its.sent_ns + its.lasts_ns)
        ]


def _start_of(circle: Circle, instant_ns: int) -> int:
    """When the time began that is taken at an instant."""
    phase_ns = instant_ns % circle.length_ns
    start_ns = max(start for start in circle.starts if start <= phase_ns)
    return instant_ns - (phase_ns - start_ns)
