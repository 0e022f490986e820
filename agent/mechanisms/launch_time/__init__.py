"""Launch time: frames of streams leave at the time that their program states (ETF, SO_TXTIME)."""

from __future__ import annotations

from agent.mechanism import ByClock, Mechanism, MemoryAdapter
from agent.mechanisms.launch_time import desired, diff, memory
from agent.mechanisms.launch_time.kernel import LaunchTimeAdapter
from agent.mechanisms.launch_time.model import NAME, LaunchTime

LAUNCH_TIME = Mechanism(
    name=NAME,
    subtrees=(desired.LAUNCH_TIME,),
    configured=desired.configured,
    as_is=lambda state: state[LaunchTime],
    contributions=lambda state: diff.contributions(state, state[LaunchTime]),
    diff=diff.diff,
    problems=diff.problems,
    operational=desired.operational,
    memory=MemoryAdapter(memory.applied, memory.at),
    kernel=LaunchTimeAdapter,
    # Talkers wait for the clock, and the root changes once, with the gates.
    by_clock=ByClock(
        asked=lambda config: config[LaunchTime].queues,
        is_in_force=lambda state: bool(state[LaunchTime].queues),
        without=lambda _config: LaunchTime(),
    ),
)
