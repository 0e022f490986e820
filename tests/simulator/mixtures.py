"""Networks caught in the middle of a change: some nodes by the plan before, the rest by the next.

    python -m tests.simulator.mixtures --changes 1000

For each change of a random walk the judge of mixtures says whether any nodes may go by the next
plan. Where they may, for some subsets of nodes the network is put together as it is then, and
judged whole. A line names each change in which a mixture is refused that was to be
sound; the last line counts all. Exit code: 0 there is none, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from cnc.check import Violation, judge
from cnc.check.change import Judged
from cnc.check.change.mixture import place
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import Plan
from tests.simulator.changes import WALKS
from tests.unit.planner_networks import seeded

_SUBSETS = 8


def mixed(before: Plan, after: Plan, nodes: Collection[str], silent: Collection[str] = ()) -> Plan:
    """The network while `nodes` go by `after`. Streams that come are not sent yet, nor are those
    that are `silent`; those that go are. How soon it recovers is not promised meanwhile."""
    gates = {}
    for port in before.gates.keys() | after.gates.keys():
        if its := (after if port.node in nodes else before).gates.get(port):
            gates[port] = its
    by: dict[str, Plan] = {}
    for name in before.streams.keys() - set(silent):
        moves = name in after.streams and place(before, name) != place(after, name)
        is_next = moves and before.intent.streams[name].talker in nodes
        by[name] = after if is_next else before
    wanted = {name: its.intent.streams[name] for name, its in by.items()}
    # The cycles of lists go with those of all streams.
    every = {**before.intent.streams, **after.intent.streams}
    others = {name: its for name, its in every.items() if name not in by}
    network = replace(before.intent.network, disturbance_ns=None)
    sent = {
        (hop.egress, hop.traffic_class)
        for name, its in by.items()
        for hop in its.streams[name].hops
    }
    slopes = {}
    for port in before[IdleSlopes].by_port.keys() | after[IdleSlopes].by_port.keys():
        here = (after if port.node in nodes else before)[IdleSlopes].by_port.get(port, {})
        slopes[port] = {number: bps for number, bps in here.items() if (port, number) in sent}
    stated: dict[str, Any] = {
        key: {n: getattr(its, key)[n] for n, its in by.items() if n in getattr(its, key)}
        for key in ("streams", "addresses", "jitter_ns")
    }
    return replace(
        before,
        intent=replace(before.intent, network=network, streams={**wanted, **others}),
        gates=gates,
        refused=dict.fromkeys(others, "is not sent"),
        recovery_ns={},
        loops={},
        parts=before.parts.having(IdleSlopes({port: its for port, its in slopes.items() if its})),
        **stated,
    )


def refused_mixture(
    before: Plan, after: Plan, silent: Collection[str], random: Random
) -> list[Violation]:
    """What the judge finds in the first of some mixtures in which it finds anything."""
    network = before.intent.network
    nodes = [*sorted(network.bridges), *sorted(network.end_stations)]
    for _ in range(_SUBSETS):
        some = {node for node in nodes if random.random() < 0.5}
        if found := judge(mixed(before, after, some, silent)):
            return found
    return []


def outcomes(kind: str, seed: int) -> Iterator[str]:
    """What becomes of each change of a walk: "at once", "with a lead", or what is wrong."""
    random, before = seeded(seed), None
    for after in WALKS[kind](seed):
        if judge(after):
            return
        if before is not None:
            yield _outcome(before, after, random)
        before = after


def _outcome(before: Plan, after: Plan, random: Random) -> str:
    silent = before.streams.keys() - after.streams.keys()  # their talkers have stopped
    if Judged(before).compatible(after, silent=silent):
        return "with a lead"
    if found := refused_mixture(before, after, silent, random):
        return f"WRONG: {found[:2]}"
    return "at once"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first walks")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    seed = options.seed
    while counts.total() < options.changes:
        for kind in sorted(WALKS):
            for outcome in outcomes(kind, seed):
                counts[outcome.split(":")[0]] += 1
                if outcome.startswith("WRONG"):
                    print(f"walk {kind} {seed}: {outcome}", flush=True)
        seed += 1
    print(f"{counts.total()} changes: {dict(sorted(counts.items()))}")
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
