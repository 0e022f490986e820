"""Many random networks: plans, plans around kept streams, live plans on ports with short lists,
plans on ports that count in ticks, plans where the operator states what most leave unsaid, and
plans by hand whose frames share windows.

    python -m tests.simulator.long --networks 1000 --mutations 10
    python -m tests.simulator.long --networks 10000 --check keep --without-exact

Each plan is judged and simulated; so are as many mutations of it as `--mutations` says, and, where
frames share windows, the plan with the shortest ones that the judge allows. A line
names each network on which the judge refuses a plan, the planner crashes or
refuses what it should not, or the simulator shows a miss that the judge allowed; the last line
counts all. Exit code: 0 there is none, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from unittest import mock

from cnc.model import Plan
from cnc.planner import exact
from tests.simulator.campaign import verdict, verdict_of_mutation, with_shortest_windows
from tests.simulator.mutations import has_shared_windows
from tests.unit.planner_fuzz import (
    SHORT_LISTS,
    kept_plan,
    live_plans,
    moving_plans,
    promising_plans,
    sharing_live_plans,
    sharing_plan,
    single_plan,
    stated_plan,
    steady_plan,
    ticked_plan,
    turning_plan,
)
from tests.unit.window_plans import random_windows

CHECKS: dict[str, Callable[[int, tuple[int, ...]], Iterator[Plan]]] = {
    "plan": single_plan,
    "keep": kept_plan,
    "jitter": steady_plan,
    "live": live_plans,
    "promising": promising_plans,
    "moving": moving_plans,
    "sharing-live": sharing_live_plans,
    "ticks": ticked_plan,
    "stated": stated_plan,
    "sharing": sharing_plan,
    "turning": turning_plan,
    "shared": lambda seed, _lists: random_windows(seed),
}
# Which limits the lists of ports have; 0: none.
_LISTS = {
    "plan": (0, 0, *SHORT_LISTS, 64),
    "keep": SHORT_LISTS,
    "jitter": (0, 0, *SHORT_LISTS),
    "live": SHORT_LISTS,
    "promising": (0, 0, *SHORT_LISTS, 64),
    "moving": (0, 0, *SHORT_LISTS, 64),
    "sharing-live": (0, 0, *SHORT_LISTS, 64),
    "ticks": (0, 0, 16, 64),
    "stated": (0, 0, 16, 64),
    "sharing": (0, 0, *SHORT_LISTS, 64),
    "turning": (0, 0, 64),
    "shared": (),
}


def outcomes(check: str, seed: int, mutations: int) -> Iterator[str]:
    """What becomes of the plans of one network, and of their mutations."""
    for number, plan in enumerate(CHECKS[check](seed, _LISTS[check])):
        became = verdict(plan, seed)
        yield f"plan {became}" if became == "kept" else f"plan {number} WRONG: {became}"
        if mutations and has_shared_windows(plan):
            became = verdict(with_shortest_windows(plan), seed)
            wrong = "" if became == "kept" else " WRONG: with the shortest windows"
            yield f"shortest {became}{wrong}"
        for change in range(mutations if plan.gates else 0):
            kind, became = verdict_of_mutation(plan, seed * mutations + change)
            wrong = f" WRONG: {kind} {change}" if became == "missed" else ""
            yield f"mutation {became}{wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", choices=CHECKS, default="plan")
    parser.add_argument("--seed", type=int, default=1, help="of the first network")
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--mutations", type=int, default=0, help="of each plan")
    parser.add_argument("--without-exact", action="store_true", help="as without OR-Tools")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    available = mock.patch.object(exact, "is_available", return_value=False)
    if options.without_exact:
        available.start()
    for seed in range(options.seed, options.seed + options.networks):
        try:
            for outcome in outcomes(options.check, seed, options.mutations):
                counts[outcome.split(" WRONG")[0]] += 1
                if "WRONG" in outcome:
                    counts["wrong"] += 1
                    print(f"network {seed}: {outcome}", flush=True)
        except Exception as error:  # noqa: BLE001  a crash is one of the outcomes to count
            print(f"network {seed}: {type(error).__name__}: {error}", flush=True)
            counts["crashed"] += 1
    print(f"{options.networks} networks: {dict(sorted(counts.items()))}")
    return 1 if counts["wrong"] or counts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
