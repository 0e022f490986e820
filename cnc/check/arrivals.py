"""What comes to a queue whose windows frames share, and how much of it in the time that is left.

Frames that may come at the same times by one link, and are to have left by the same time, are one
batch: those of a period in each of its turns, those of several periods in some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from cnc.account.frames import Transmission
from cnc.model import PortRef

PARTS = 1 << 20  # of a nanosecond, in which what comes in by a link is reckoned
_NEVER_NS = 1 << 62


class Arrival(NamedTuple):
    """Frames that come to a queue in each period by the link `ingress`: from `earliest_ns` on, the
    last by `latest_ns`; they are to leave from `opens_ns` on, and have left by `end_ns`. They keep
    the link that they leave by busy for `work_ns`; the longest of them does for `frame_ns`, the
    shortest for `shortest_ns`, and they come as `flow` parts of that in each nanosecond. Of those
    that share the queue they are these by their `numbers`."""

    earliest_ns: int
    latest_ns: int
    end_ns: int
    opens_ns: int
    ingress: PortRef | None
    period_ns: int
    numbers: list[int]
    work_ns: int
    frame_ns: int
    shortest_ns: int
    frames: int
    flow: int

    def turns(self, within_ns: int) -> range:
        """How much later those come of each period that are to have left from 0 to `within_ns`."""
        since_ns = self.end_ns % self.period_ns - self.end_ns
        return range(since_ns, since_ns + within_ns, self.period_ns)


Turn = tuple[int, int, int, Arrival]
"""The frames of one period: by when they have left, the number of their arrival in the queue, by
how much later than it says they come, in ns, and the arrival."""


def arrivals_of(sharing: Sequence[Transmission], talker_late_ns: int) -> list[Arrival]:
    """Of all that share a queue. A talker may send `talker_late_ns` late."""
    alike: dict[tuple[int, int, int, int, PortRef | None, int], list[int]] = {}
    for n, t in enumerate(sharing):
        latest_ns = t.offset_ns + talker_late_ns if t.ingress is None else t.latest_ns
        # A window before may end too soon for its frames, which is reported there.
        latest_ns = max(t.earliest_ns, latest_ns)
        times = t.earliest_ns, latest_ns, t.busy_until_ns, t.offset_ns
        alike.setdefault((*times, t.ingress, t.period_ns), []).append(n)
    return [
        Arrival(*key, numbers, *_load([sharing[n] for n in numbers]))
        for key, numbers in alike.items()
    ]


def _load(its: Sequence[Transmission]) -> tuple[int, int, int, int, int]:
    """Of these together what an arrival has from its `work_ns` on."""
    if len(its) == 1:  # mostly
        (t,) = its
        return t.work_ns, t.frame_ns, t.frame_ns, t.work_ns // t.frame_ns, _flow(t)
    return (
        sum([t.work_ns for t in its]),
        max([t.frame_ns for t in its]),
        min([t.frame_ns for t in its]),
        sum([t.work_ns // t.frame_ns for t in its]),
        max([_flow(t) for t in its]),
    )


def _flow(t: Transmission) -> int:
    """How many parts of a nanosecond of work come in one by the link before, at most; from its
    talker a stream's frames may come all at once."""
    return -(-t.frame_ns * PARTS // t.ahead_ns) if t.ahead_ns else 0


def batches_of(turns: Iterable[Turn]) -> Collection[list[Turn]]:
    """Those of these that come at once, and are to have left by the same time."""
    found: dict[tuple[int, int, int, int, PortRef | None], list[Turn]] = {}
    for turn in turns:
        end_ns, _, by_ns, its = turn
        times = its.earliest_ns + by_ns, its.latest_ns + by_ns, end_ns, its.opens_ns + by_ns
        found.setdefault((*times, its.ingress), []).append(turn)
    return found.values()


def most_together(link: Sequence[Turn], one: int, flow: int, until_ns: int) -> int:
    """How much of what comes by one link may come until an instant, in parts of a nanosecond: of
    what comes from any time on no more than one frame and what the link sends from then on, and of
    a batch no more than its own of these from its earliest arrival on."""
    come = []
    for batch in batches_of(link):
        _, _, by_ns, first = batch[0]
        earliest_ns = first.earliest_ns + by_ns
        work, frame, its_flow = _sums(batch)
        most = work * PARTS
        if its_flow:
            sent = its_flow * (min(first.latest_ns + by_ns, until_ns) - earliest_ns)
            most = min(most, frame * PARTS + sent)
        come.append((earliest_ns, most))
    come.sort()
    before, found = 0, _NEVER_NS * PARTS
    for earliest_ns, most in come:
        found = min(found, before + one + flow * max(until_ns - earliest_ns, 0))
        before += most
    return max(one, min(found, before))


def _sums(turns: Sequence[Turn]) -> tuple[int, int, int]:
    """The work of all, their longest frame, and how they flow."""
    if len(turns) == 1:  # mostly
        ((_, _, _, its),) = turns
        return its.work_ns, its.frame_ns, its.flow
    return (
        sum([its.work_ns for _, _, _, its in turns]),
        max([its.frame_ns for _, _, _, its in turns]),
        max([its.flow for _, _, _, its in turns]),
    )


def coming(
    turns: Iterable[Turn], since_ns: int, until_ns: int, varies_ns: int
) -> tuple[int, list[tuple[int, int]]]:
    """How much work may come until `until_ns`, and from which of the instants after `since_ns` that
    matter how much. The switch takes up to `varies_ns` longer for one frame than for another.

    By each link it is a sum that some instant ends, after which it lasts no longer than the link
    takes for it: together straight lines, which are greatest where one of them begins or ends.
    """
    by_link: dict[tuple[PortRef | None, int], list[Turn]] = {}
    last_ns = until_ns + varies_ns
    for turn in turns:
        _, _, by_ns, its = turn
        latest_ns = its.latest_ns + by_ns
        key = its.ingress, latest_ns if latest_ns < last_ns else last_ns
        if key in by_link:
            by_link[key].append(turn)
        else:
            by_link[key] = [turn]
    changes: list[tuple[int, int, int, int]] = []  # when, and what all, slope and rest become
    total = 0
    for (_, latest), link in by_link.items():
        work, frame, flow = _sums(link)
        if flow and work > frame:
            one, rest = frame * PARTS, frame * PARTS + flow * latest
            most = most_together(link, one, flow, min(latest, until_ns))
            whole = latest - (most - one) // flow
            total += most
            changes += (latest, 0, flow, rest), (whole, most, -flow, -rest)
        else:
            total += work * PARTS
            changes.append((latest, work * PARTS, 0, 0))
    changes = [change for change in changes if change[0] >= since_ns]
    changes.sort(reverse=True)
    whole = slope = rest = 0
    found = []
    for index, (at_ns, work, its_slope, its_rest) in enumerate(changes):
        if slope and at_ns < until_ns:
            found.append((at_ns + 1, -(-(whole + rest - slope * (at_ns + 1)) // PARTS)))
        whole, slope, rest = whole + work, slope + its_slope, rest + its_rest
        if since_ns < at_ns <= until_ns and (
            index + 1 == len(changes) or changes[index + 1][0] < at_ns
        ):
            found.append((at_ns, -(-(whole + rest - slope * at_ns) // PARTS)))
    return -(-total // PARTS), found
