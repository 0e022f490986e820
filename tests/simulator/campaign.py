"""What the judge says of plans, and what the simulator shows: by the number of a random network."""

from __future__ import annotations

from cnc.check import judge
from cnc.model import Plan
from tests.simulator.adversary import Slow
from tests.simulator.mutations import has_shared_windows, mutated
from tests.simulator.outcome import is_kept, misses, starved

_RUNS = 3
_HYPERPERIODS = 3
_DURATION_MAX_NS = 12_000_000  # of the periods in which a network sends


def verdict(plan: Plan, seed: int) -> str:
    """`noticed` is wrong by the judge; of the rest, `missed` is wrong by the simulator.

    What the judge refuses need not go wrong here: it holds for every network, chance for a few.
    """
    if judge(plan):
        return "noticed"
    return "kept" if is_kept_by_chance(plan, seed) else "missed"


def is_kept_by_chance(plan: Plan, seed: int) -> bool:
    """Whether a plan keeps its promises in a few runs against chance, and starves nobody."""
    seeds = range(_RUNS * seed, _RUNS * (seed + 1))
    duration = min(_HYPERPERIODS * plan.intent.hyperperiod_ns(), _DURATION_MAX_NS)
    # Where frames wait for each other, all must be late at once, which is rare.
    if has_shared_windows(plan) and misses(plan, Slow(), duration_ns=duration):
        return False
    return is_kept(plan, seeds, duration_ns=duration) and not starved(plan)


def verdict_of_mutation(plan: Plan, seed: int) -> tuple[str, str]:
    """What kind of change the seed makes to a plan, and what becomes of it."""
    kind, changed = mutated(plan, seed)
    return kind, verdict(changed, seed)
