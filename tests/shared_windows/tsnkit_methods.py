"""How many streams of a row methods of tsnkit find a place for, where that package is installed.

tsnkit (Xue and others, RTAS 2024) implements methods of the literature that give each frame a
window of its own. It knows no gate margin and no control, so each frame is stated to be as long as
it keeps a link from others behind such gates. That is less than this planner asks of windows of
single frames: nothing is left for best effort and clocks, and frames that come by different ports
may share a queue although late gates could change their order. Times are rounded to its units in
its favour. A method places all streams or none: what is told is the greatest number of streams, in
the order of the intent, that it places.
"""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cnc.model import Intent, Link, Stream
from cnc.planner.problem import Problem

# Two heuristics (list scheduling, divisibility of periods) and an SMT model (z3). Their other
# methods need solvers that are not free, or take minutes for ten streams.
METHODS = ("ls", "dt", "smt_wa")
LIMIT_S = 20  # for each number of streams
_UNIT_NS = 100  # of its times; its frames have lengths in units of 100 octets
_UNIT_OCTETS = 100
_OCTETS_NS = 800  # 100 octets at 1 Gb/s, which each link is stated to have
_QUEUES = 8


@dataclass(frozen=True, slots=True)
class Placed:
    """So many streams have a place; with one more the method fails, or runs out of its time."""

    method: str
    streams: int
    is_out_of_time: bool

    def __str__(self) -> str:
        return f"{self.method} {'≥' if self.is_out_of_time else ''}{self.streams}"


def is_installed() -> bool:
    """Whether Python finds the package."""
    return importlib.util.find_spec("tsnkit") is not None


def can_express(intent: Intent) -> bool:
    """Whether tsnkit has terms for what is asked: single frames with a latency within their period,
    each to one listener at any time of that; stations with one cable and switches with more, whose
    lists have any length; no recovery."""
    network = intent.network
    cables = [link.source.node for link in network.links.values()]
    return (
        not network.disturbance_ns
        and all(cables.count(node) == 1 for node in network.end_stations)
        and all(cables.count(node) > 1 for node in network.bridges)
        and not any(link.gate_entries_max for link in network.links.values())
        and all(_is_plain(stream) for stream in intent.streams.values())
    )


def _is_plain(stream: Stream) -> bool:
    is_single = len(stream.listeners) == stream.paths == stream.frames == 1
    is_any_time = stream.earliest_ns == 0 and stream.latest_ns is None
    is_bound_alone = stream.max_jitter_ns is None and stream.max_latency_ns <= stream.period_ns
    return is_single and is_any_time and is_bound_alone


def all_placed(intent: Intent) -> list[Placed]:
    """What each method places; none where tsnkit has no terms for what is asked."""
    return [placed(intent, method) for method in METHODS] if can_express(intent) else []


def placed(intent: Intent, method: str, limit_s: float = LIMIT_S) -> Placed:
    """The streams that a method has a place for: twice as many each time until it fails, then by
    halves of what is between."""
    found, failing, timed_out = 0, len(intent.streams) + 1, False
    with TemporaryDirectory() as directory:
        while failing - found > 1:
            tried = min(2 * found or 1, (found + failing) // 2)
            first = dict(islice(intent.streams.items(), tried))
            schedulable = _solved(method, replace(intent, streams=first), Path(directory), limit_s)
            if schedulable:
                found = tried
            else:
                failing, timed_out = tried, schedulable is None
    return Placed(method, found, timed_out)


def _solved(method: str, intent: Intent, directory: Path, limit_s: float) -> bool | None:
    """Whether the method has a place for all streams; None: not within the time.

    Raises RuntimeError where it neither has nor has not.
    """
    streams, network = directory / "streams.csv", directory / "network.csv"
    _write(streams, _streams(intent))
    _write(network, _links(intent))
    program = (sys.executable, "-m", f"tsnkit.algorithms.{method}")
    try:
        done = subprocess.run(
            [*program, str(streams), str(network), f"{directory}/"],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    said = done.stdout.splitlines()[-1:]
    flag = said[0].split("|")[3].strip() if said and said[0].startswith("|") else ""
    if flag not in {"succ", "fail"}:
        raise RuntimeError(f"tsnkit's {method}: {flag or 'no result'}\n{done.stdout}{done.stderr}")
    return flag == "succ"


def _numbers(intent: Intent) -> dict[str, int]:
    """Those of nodes, without a gap. It takes minutes with hundreds of stations, so those without a
    stream have none."""
    streams = intent.streams.values()
    ends = dict.fromkeys(end for its in streams for end in (its.talker, *its.listeners))
    return {node: number for number, node in enumerate((*intent.network.bridges, *ends))}


def _links(intent: Intent) -> list[dict[str, Any]]:
    """Each link with the time from its last bit to the next queue."""
    number = _numbers(intent)
    return [
        {
            "link": (number[link.source.node], number[link.target.node]),
            "q_num": _QUEUES,
            "rate": 1,
            "t_proc": _on_way_ns(intent, link) // _UNIT_NS * _UNIT_NS,
            "t_prop": 0,
        }
        for link in intent.network.links.values()
        if {link.source.node, link.target.node} <= number.keys()
    ]


def _on_way_ns(intent: Intent, link: Link) -> int:
    bridge = intent.network.bridges.get(link.target.node)
    return link.propagation_ns + (bridge.processing_max_ns if bridge else 0)


def _streams(intent: Intent) -> list[dict[str, Any]]:
    number, problem = _numbers(intent), Problem(intent, {})
    return [
        {
            "stream": index,
            "src": number[stream.talker],
            "dst": [number[stream.listeners[0]]],
            "size": max(1, _busy_ns(problem, name) // _OCTETS_NS) * _UNIT_OCTETS,
            "period": stream.period_ns,
            "deadline": stream.max_latency_ns,
            "jitter": stream.period_ns,
        }
        for index, (name, stream) in enumerate(intent.streams.items())
    ]


def _busy_ns(problem: Problem, stream: str) -> int:
    """How long a frame keeps the link that it keeps for the least time."""
    return min(problem.busy_ns(stream, link) for link in range(len(problem.links)))


def _write(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)
