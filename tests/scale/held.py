"""What a change costs in a plan that is held in memory, as a service holds it, and what is left of
the room after thousands of them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from cnc.check import judge
from cnc.check.change import Judged, Named
from cnc.errors import CncError
from cnc.planner import Live, plan
from cnc.planner.live import Changes
from tests.scale.events import come_and_go
from tests.scale.mesh import mesh
from tests.scale.yardstick import timed

_SINGLE_MAX = 1000  # events at all streams, each judged
_MOVING_MAX = 3
_WHOLE = 3  # times that the whole judge is asked, of which the least counts


@dataclass(frozen=True)
class Held:
    """CPU seconds of each event in a plan with all streams, of the judge of each change and of the
    whole judge; and after `events` more at four fifths of the streams how many of those that are
    asked for have a place, and how many in a plan made anew."""

    event_s: list[float]
    change_s: list[float]
    whole_s: float
    events: int
    placed: int
    anew: int

    @property
    def share(self) -> float:
        return self.placed / self.anew


def measure(streams: int, switches: int, events: int) -> Held:
    """Raises CncError where the judge finds anything wrong."""
    numbers = Random(streams)  # noqa: S311  not for secrets
    wanted = mesh(streams, switches)
    like = list(wanted.streams.values())
    planned = plan(wanted)
    live, judged, change_s = Live(planned), Judged(planned), list[float]()
    live.prepare()  # as a service does some seconds after its start

    def happened(name: str, changes: Changes) -> None:
        following, named = live.plan, Named({name}, changes.gates.keys())
        cost_s, found = timed(lambda: judged.after(following, named))
        if found:
            raise CncError(f"the judge refuses a change: {found[0]}")
        change_s.append(cost_s)

    single = come_and_go(live, min(events, _SINGLE_MAX), numbers, like=like, happened=happened)
    whole_s = min(timed(lambda: judge(live.plan))[0] for _ in range(_WHOLE))
    live.remove(numbers.sample(sorted(live.plan.streams), streams // 5))
    many = come_and_go(live, events, numbers, like=like, moving_at_most=_MOVING_MAX)
    if found := judge(live.plan):
        raise CncError(f"the judge refuses the plan after {events} events: {found[0]}")
    placed, anew = many.share_placed(live)
    return Held(single.all_s, change_s, whole_s, events, placed, anew)
