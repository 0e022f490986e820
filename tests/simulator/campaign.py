"""What the judge says of plans, and what the simulator shows: by the number of a random network."""

from __future__ import annotations

from cnc.check import judge
from cnc.model import Plan, PortRef
from tests.simulator.adversary import Slow
from tests.simulator.mutations import has_shared_windows, mutated, with_shorter_windows
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


def with_shortest_windows(plan: Plan) -> Plan:
    """The plan with each window that frames share, of one port after the other in the order in
    which they open, as short as the judge allows."""
    windows: dict[tuple[PortRef, int], tuple[int, int]] = {}
    for its in plan.streams.values():
        for hop in its.hops:
            if hop.is_shared and hop.egress in plan.gates:
                key = hop.egress, hop.traffic_class
                windows.setdefault(key, (hop.offset_ns, hop.window_ns))
    for (port, number), (_, lasts) in sorted(windows.items(), key=lambda its: (its[1], its[0])):
        # By so much it may be shorter, by so much not, or it would be nothing.
        least, most = 0, lasts
        while most - least > 1:
            by = (least + most) // 2
            if judge(with_shorter_windows(plan, port, number, by)):
                most = by
            else:
                least = by
        plan = with_shorter_windows(plan, port, number, least)
    return plan
