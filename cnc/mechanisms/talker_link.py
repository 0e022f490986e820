"""How long the bursts of a talker's streams may wait for each other on its link.

A talker with streams of a cyclic class keeps to no offset there: in each period of a stream it has
one burst to send, the next one a period later. In the worst case all its streams have one at once,
and the link is busy with them from then on (busy period, Lehoczky 1990): each has left by the end
of that, in whatever order they go. Lateness of the talker counts before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from cnc.mechanisms.terms import client_octets, control_ahead, interference_ns
from cnc.model import Intent, Link, Stream

_ROUNDS_MAX = 1_000


def burst_ns(intent: Intent, stream: Stream, link: Link) -> int:
    """How long the frames of one period keep a link busy."""
    octets = client_octets(intent.network, stream, link)
    return stream.frames * intent.network.occupation_max_ns(link, octets)


class TalkerLink:
    """The link of a talker, with the streams that leave by it."""

    def __init__(self, intent: Intent, link: Link) -> None:
        self._control = control_ahead(intent, link)
        self.lateness_ns = intent.network.lateness_ns(link.source.node)
        self._held_up_ns = self.lateness_ns + interference_ns(intent, link)
        self._work_ns: Counter[int] = Counter()  # by period

    def add(self, period_ns: int, work_ns: int) -> None:
        """Count the bursts of a stream; of one that is gone with negative work."""
        self._work_ns[period_ns] += work_ns

    def access_ns(self, reserve_ns: int = 0) -> int | None:
        """By when a burst has left, from the instant at which its talker is to have it, if so much
        more is sent meanwhile; None: there may be more and more of them."""
        return _busy_ns(self._work_ns, self._held_up_ns + reserve_ns, self._control.ns)


def _busy_ns(
    work_ns: Mapping[int, int], held_up_ns: int, control_ns: Callable[[int], int]
) -> int | None:
    found_ns = 1
    for _ in range(_ROUNDS_MAX):
        work = sum(-(-found_ns // period) * each for period, each in work_ns.items())
        needed_ns = held_up_ns + control_ns(held_up_ns + work) + work
        if needed_ns <= found_ns:
            return found_ns
        found_ns = needed_ns
    return None
