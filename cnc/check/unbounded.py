"""What a sound plan warns of: streams without a bound on how long a disturbance makes them late."""

from __future__ import annotations

from cnc.check import judge
from cnc.check.lists import readable_lists
from cnc.check.recovery import account_of
from cnc.check.streams import judge_streams
from cnc.model import Elimination, Plan, PortRef
from cnc.support.format import counted, duration

HINT = (
    "fewer streams, longer periods, a smaller max-frame of best effort or a shorter `recovery` "
    "would help; `recovery: required` refuses a plan without a bound for all streams, and "
    "`recovery: none` asks for no bound"
)
_NAMED_MAX = 5


def unbounded(plan: Plan) -> list[str]:
    """The streams that are to come back within their bounds, and of which the plan does not say
    when."""
    if plan.intent.network.disturbance_ns is None:
        return []
    return [name for name in plan.streams if name not in plan.recovery_ns]


def warning(plan: Plan) -> str | None:
    """What to say of such streams of a sound plan; None if there is none, or it is not sound.

    It names the ports that they cross, or that frames cross which they meet later, with the reason
    of each. For that the plan is judged.
    """
    names, network = unbounded(plan), plan.intent.network
    if not names or judge(plan):
        return None
    ports = [f"{port}: {why}" for port, why in sorted(_ports(plan).items())]
    its = [name for name in names if plan.intent.streams[name].elimination is Elimination.SWITCH]
    copies = (
        f". Switches take out second copies of {_some(its)} that come up to "
        f"{duration(network.disturbance_ns or 0)} late, and may pass later ones"
        if its
        else ""
    )
    return (
        f"no bound is found on how long after a disturbance {len(names)} of "
        f"{counted(len(plan.streams), 'stream')} ({_some(names)}) may be late, which is no proof "
        f"that they stay late: {_some(ports, '; ') or 'the plan states none'}{copies}"
    )


def _ports(plan: Plan) -> dict[PortRef, str]:
    """The ports that keep streams from a bound: those that cross one, and those that meet such
    streams later. To each port why."""
    lists = readable_lists(plan)
    transmissions, _ = judge_streams(plan, lists)
    disturbance_ns = plan.intent.network.disturbance_ns or 0
    account = account_of(plan.intent, lists, transmissions, disturbance_ns)
    account.by_stream()
    return account.endless


def _some(texts: list[str], between: str = ", ") -> str:
    more = [f"{len(texts) - _NAMED_MAX} more"] if len(texts) > _NAMED_MAX else []
    return between.join(texts[:_NAMED_MAX] + more)
