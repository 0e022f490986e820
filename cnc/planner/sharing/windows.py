"""When the windows open and end that hold the frames of all slots.

Each port has one window in each slot, for all waves of frames: it opens `opens_ns` after the slot
begins, and the frames of a wave have left by `ends_ns`. A wave's frames leave all ports of their
way in the windows of one slot; the windows of successive ports overlap, as a gate that has been
open for longer than its margin holds nobody up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from cnc.planner.circle import Circle
from cnc.planner.sharing.queue import SLOTS_MAX, Coming, Queue
from cnc.planner.sharing.taken import Taken
from cnc.planner.sharing.times import Times

_TRIES_MAX = 10  # of finding when early frames come, which depends on what they hold up
_SETTLING = 4  # tries from which on no frame is taken to come later than before, or leave sooner


class Windows:
    """The windows of `queues`, which are in the order in which frames cross them; `talker_ns` is
    the work of each talker's link in its fullest slot, and its shortest frame. `ties` are frames
    that their talker sends at one time."""

    def __init__(
        self,
        times: Times,
        slot_ns: int,
        queues: Mapping[int, Queue],
        talkers: Mapping[int, tuple[int, int]],
        ties: Sequence[Sequence[Coming]],
        *,
        taken: Taken,
        lag_ns: int,
    ) -> None:
        self._times = times
        self._slot_ns = slot_ns
        self._queues = queues
        self._ties = ties
        self._lag_ns = lag_ns
        circles = ((link, taken.circle(link, slot_ns)) for link in (*queues, *talkers))
        self._taken = {link: circle for link, circle in circles if circle}
        self.opens_ns: dict[int, int] = {}
        self.ends_ns: dict[tuple[int, int], int] = {}
        # From when a talker starts to send until all of its frames of a slot have left.
        self.talker_ns = {
            link: times.left_ns(link, self._lateness_ns(link), work, shortest)
            for link, (work, shortest) in talkers.items()
        }
        self._waves = sorted({wave for queue in queues.values() for wave in queue.waves()})
        self._behind: defaultdict[int, list[tuple[Queue, Coming]]] = defaultdict(list)
        for queue in queues.values():
            for its in queue.coming.values():
                self._behind[its.link].append((queue, its))
        self._least_ends_ns: dict[tuple[int, int], int] = {}
        self._is_settling = False

    def find(self) -> bool:
        """Whether windows are found that hold all frames, however long they are."""
        for attempt in range(_TRIES_MAX):
            self._is_settling = attempt >= _SETTLING
            self._sweep()
            self._put_off()
            self._start()
            self._spread()
            if self._is_hopeless():
                return False
            if self._holds():
                return True
        return False

    def _is_hopeless(self) -> bool:
        """Whether frames are early by so many slots that they only come to be more."""
        longest_ns = SLOTS_MAX * self._slot_ns
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

    def ended_ns(self, link: int) -> int:
        """When the frames of all waves have left."""
        return max(self.ends_ns[link, wave] for wave in self._queues[link].waves())

    def length_ns(self, link: int) -> int:
        """How long the window of a link is."""
        return self.closes_ns(link) - self.opens_ns[link]

    def busy_ns(self, link: int) -> int:
        """From when a talker starts to send the first frames of a slot until all have left."""
        sent = self._sent_ns(link)
        return max(sent) - min(sent) + self.talker_ns[link]

    def _sent_ns(self, link: int) -> list[int]:
        return [its.sent_ns for _, its in self._behind[link] if its.before is None]

    def _lateness_ns(self, link: int) -> int:
        its = self._times.of_link(link)
        return its.late_ns - its.ahead_ns

    def _comes_ns(self, queue: Queue, its: Coming, left_ns: int) -> int:
        """When frames are in a queue that have left the link before."""
        apart_ns = self._times.apart_ns(its.link, queue.link)
        arrives_ns = self._times.of_link(its.link).arrives_ns
        return left_ns + arrives_ns + apart_ns - its.slots * self._slot_ns

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
            left_ns = self.ends_ns[its.link, its.before] + self._lag_ns
        elif its.start_ns is not None:
            left_ns = its.start_ns + self.talker_ns[its.link]
        else:
            return None
        return self._comes_ns(queue, its, left_ns)

    def _opening_ns(self, queue: Queue, wave: int, mine: Sequence[Coming]) -> int:
        known = [its.latest_ns for its in mine if its.latest_ns is not None]
        if not known:
            # Nothing says when: as soon as talkers that start with the slot come.
            comes = (
                self._comes_ns(queue, its, self.talker_ns[its.link])
                for its in mine
                if its.before is None
            )
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
        """Move windows to later, from the last to the first, as far as nobody comes after the
        next one has opened for sure: frames wait less, and fewer are early for a slot."""
        for link in reversed(tuple(self._queues)):
            onward = [pair for pair in self._behind[link] if pair[1].before is not None]
            if not onward or link in self._taken:
                continue
            later_ns = min(
                self.opens_ns[queue.link]
                + queue.its.late_ns
                - self._comes_ns(queue, its, self.ends_ns[link, its.before or 0])
                for queue, its in onward
            )
            opens_ns = self._queues[link].clear_of_seam_ns(self.opens_ns[link] + later_ns)
            later_ns = opens_ns - self.opens_ns[link]
            if later_ns <= 0:
                continue
            self.opens_ns[link] = opens_ns
            for wave in self._queues[link].waves():
                self.ends_ns[link, wave] += later_ns
            for its in self._queues[link].coming.values():
                if its.before is None and its.start_ns is None and its.latest_ns is not None:
                    its.latest_ns += later_ns

    def _start(self) -> None:
        """Let talkers start so late that their frames come just in time."""
        for queue in self._queues.values():
            for its in queue.coming.values():
                if its.before is None:
                    self._start_one(queue, its)
        for link, lasts_ns in self.talker_ns.items():
            sent = self._sent_ns(link)
            if max(sent) - min(sent) + lasts_ns > self._slot_ns:
                # Frames of two slots would be in each other's way: all start together.
                for _, its in self._behind[link]:
                    its.sent_ns = min(sent) if its.start_ns is None else its.start_ns
        for tie in self._ties:
            sent_ns = min(its.sent_ns for its in tie)
            for its in tie:
                its.sent_ns = sent_ns

    def _start_one(self, queue: Queue, its: Coming) -> None:
        if its.start_ns is not None:
            its.sent_ns = its.start_ns
            return
        if its.latest_ns is not None:
            its.sent_ns = its.latest_ns - self._comes_ns(queue, its, self.talker_ns[its.link])
        self._send_sooner(its)

    def _send_sooner(self, its: Coming) -> None:
        """Let a talker start before what is taken of its link."""
        circle, lasts_ns = self._taken.get(its.link), self.talker_ns[its.link]
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

    def _spread(self) -> None:
        """From when on frames come, and until when."""
        leaves_ns: dict[tuple[int, int], int] = {}
        for wave in self._waves:
            for link, queue in self._queues.items():
                mine = queue.of_wave(wave)
                for its in mine:
                    earliest_ns = self._earliest_ns(queue, its, leaves_ns)
                    if its.before is None:
                        left_ns = its.sent_ns + self.talker_ns[its.link]
                    else:
                        left_ns = self.ends_ns[its.link, its.before]
                    its.latest_ns = self._comes_ns(queue, its, left_ns)
                    if self._is_settling and its.earliest_ns is not None:
                        earliest_ns = min(earliest_ns, its.earliest_ns)
                    its.earliest_ns = earliest_ns
                if mine:
                    opens_ns = self.opens_ns[link] - queue.its.early_ns
                    # A frame that is early for its slot may leave in the window of the one before.
                    shut_ns = self.closes_ns(link) - self._slot_ns
                    leaves_ns[link, wave] = min(
                        comes if comes < shut_ns else max(comes, opens_ns)
                        for comes in (its.earliest_ns or 0 for its in mine)
                    )

    def _earliest_ns(
        self, queue: Queue, its: Coming, leaves_ns: Mapping[tuple[int, int], int]
    ) -> int:
        if its.before is None:
            left_ns = its.sent_ns
        else:
            opens_ns = self.opens_ns[its.link] - self._times.of_link(its.link).early_ns
            left_ns = leaves_ns.get((its.link, its.before), opens_ns)
        apart_ns = self._times.apart_ns(its.link, queue.link)
        return left_ns + its.flies_min_ns - apart_ns - its.slots * self._slot_ns

    def _holds(self) -> bool:
        """Whether all waves have left by their ends, now that it is known what comes when."""
        holds = True
        for (link, wave), end_ns in self.ends_ns.items():
            queue = self._queues[link]
            latest_ns = max(its.latest_ns or 0 for its in queue.of_wave(wave))
            least_ns, _ = queue.wave_ns(wave, latest_ns, self.opens_ns[link])
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
            and not self._is_free(its.link, its.sent_ns, its.sent_ns + self.talker_ns[its.link])
        ]


def _start_of(circle: Circle, instant_ns: int) -> int:
    """When the time began that is taken at an instant."""
    phase_ns = instant_ns % circle.length_ns
    start_ns = max(start for start in circle.starts if start <= phase_ns)
    return instant_ns - (phase_ns - start_ns)
