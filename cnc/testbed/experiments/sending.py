"""Common parts of experiments that push a schedule and send through it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cnc.loops.model import Loop
from cnc.model import NS_PER_S, Network
from cnc.rollout.rollout import Report
from cnc.support.format import duration, rate
from cnc.talker import tai_ns
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.measure import Spread
from cnc.testbed.traffic.recording import AnyFlow, Recording, run

DRAIN_NS = 100_000_000  # many cycles: a frame that missed its window uses a later one


def await_schedule(pushed: Report) -> None:
    """Return when the pushed schedule has begun, at once if nothing was to change."""
    if pushed.base_time_ns is not None:
        time.sleep(max(0, pushed.base_time_ns - tai_ns()) / NS_PER_S)


def unplanned_answers_ns(loop: Loop) -> int:
    """When commands leave where no plan says when samples come: in the middle, so that sample and
    command have as much of the deadline each."""
    return (loop.deadline_ns + loop.compute_ns) // 2


def record(
    running: Lab,
    sent: Sequence[AnyFlow],
    duration_ns: int,
    *,
    stamps: bool = False,
    drain_ns: int = DRAIN_NS,
) -> Recording:
    """Send the flows for a duration, while the switches' programs are still; listen for `drain_ns`
    longer."""
    with tempfile.TemporaryDirectory() as scratch, running.quiet():
        return run(running, sent, duration_ns, Path(scratch), stamps=stamps, drain_ns=drain_ns)


def modelled(network: Network, platform: Platform) -> str | None:
    """The emulated delays of cables and switches, in a few words."""
    if not platform.exact:
        return None
    rates = sorted({link.rate_bps for link in network.links.values()})
    delays = sorted({link.propagation_ns for link in network.links.values()})
    holds = sorted({bridge.processing_min_ns for bridge in network.bridges.values()})
    return (
        f"cables of {_each(rates, rate)} and {_each(delays, duration)}, switches that take "
        f"{_each(holds, duration)}"
    )


def _each(values: Sequence[int], shown: Callable[[int], str]) -> str:
    return " or ".join(map(shown, values))


def not_exact(wake_up: Spread) -> str:
    """What a report says of a clock that goes on while anything computes."""
    return (
        "Cables take no time, and this machine wakes talkers late, by "
        f"{duration(wake_up.p99_ns)} or less in 99 % of all cases and by "
        f"{duration(wake_up.max_ns)} at worst: frames are shown, not judged."
    )
