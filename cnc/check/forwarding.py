"""What bridges are told: do frames come where they are to, and as they are to?"""

from __future__ import annotations

from collections.abc import Iterator

from cnc.account.judge import Told
from cnc.account.violation import Violation
from cnc.check import mechanisms
from cnc.mechanisms.forwarding.judge import judge_addresses, judge_ways
from cnc.model import Forwarding, Plan


def judge_forwarding(plan: Plan, told: Told) -> Iterator[Violation]:
    """What is wrong with the addresses of a plan, and with what becomes of its frames if the
    bridges are `told` this."""
    yield from judge_addresses(plan, told)
    if plan.intent.network.forwarding is Forwarding.BRIDGED:
        yield from mechanisms.judge_ways(plan, told)
        yield from judge_ways(plan, told, mechanisms.address_given(told))
