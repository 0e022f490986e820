"""What an operator states of classes whose frames are forwarded once each interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cnc.model import CyclicQueuing, Intent, TrafficClass

DEFAULT_SHARE_PPB = 500_000_000


@dataclass(frozen=True, slots=True)
class CyclicClass:
    """The class `name` of streams, and that whose queue has what is sent in odd intervals.

    Both have a window of `share_ppb` parts of 10^9 of an interval, in turn. `interval_ns` None: it
    follows from periods and latencies. The default is no such class.
    """

    name: str = ""
    odd: str = ""
    interval_ns: int | None = None
    share_ppb: int = DEFAULT_SHARE_PPB


class Cyclic(NamedTuple):
    """A class of streams in a network that forwards them so, and the one of odd intervals."""

    even: TrafficClass
    odd: TrafficClass
    queuing: CyclicQueuing

    @property
    def interval_ns(self) -> int:
        """T of 802.1Q annex T."""
        return self.queuing.interval_ns


def cyclic_of(intent: Intent) -> Cyclic | None:
    """The class of an intent that is forwarded so; None: it has none."""
    for its in intent.classes.values():
        if its.cyclic and its.cyclic.odd in intent.classes:
            return Cyclic(its, intent.classes[its.cyclic.odd], its.cyclic)
    return None
