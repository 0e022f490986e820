"""What a sound plan warns of: streams without a bound on how long a disturbance makes them late."""

from __future__ import annotations

from cnc.check.whole import Judgement
from cnc.model import Elimination, Plan
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


def warning(judged: Judgement) -> str | None:
    """What to say of such streams of a sound plan; None if there is none, or it is not sound.

    It names the ports that they cross, or that frames cross which they meet later, with the reason
    of each.
    """
    plan = judged.plan
    names, network = unbounded(plan), plan.intent.network
    if not names or judged.violations:
        return None
    ports = [f"{port}: {why}" for port, why in sorted(judged.endless.items())]
    its = [name for name in names if plan.intent.streams[name].elimination is Elimination.SWITCH]
    copies = (
        f". Switches eliminate duplicates of {_some(its)} that come up to "
        f"{duration(network.disturbance_ns or 0)} late, and may pass later ones"
        if its
        else ""
    )
    return (
        f"no bound is found on how long after a disturbance {len(names)} of "
        f"{counted(len(plan.streams), 'stream')} ({_some(names)}) may be late, which is no proof "
        f"that they stay late: {_some(ports, '; ') or 'the plan states none'}{copies}"
    )


def _some(texts: list[str], between: str = ", ") -> str:
    more = [f"{len(texts) - _NAMED_MAX} more"] if len(texts) > _NAMED_MAX else []
    return between.join(texts[:_NAMED_MAX] + more)
