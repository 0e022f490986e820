"""A network that an intent file describes and the planner plans: what some experiments measure."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cnc import intent as intents
from cnc.errors import InputError
from cnc.format import duration
from cnc.lab.endpoint import tai_ns
from cnc.lab.measure import Spread
from cnc.lab.running import Lab
from cnc.lab.traffic import Flow, Frame, Recording, run
from cnc.model import NS_PER_S, Plan
from cnc.netconf.rollout import Report
from cnc.planner import plan as compute

FRAME_COLUMNS = ("flow", "seq", "planned_ns", "sent_ns", "received_ns")
DRAIN_NS = 100_000_000  # many cycles: a frame that missed its window takes another


def plan(network: str, file: Path, name: str, seed: int) -> Plan:
    """The plan of the intent that an experiment file names, as the network of a lab called `name`.

    Raises:
        InputError: the intent is not what it must be, or has no streams.
        Unschedulable: it has no plan.
    """
    intent = intents.load(file.parent / network)
    if not intent.streams:
        raise InputError(
            f"{file}: network: {network} has no streams", hint="streams are what is measured"
        )
    return compute(replace(intent, name=name), seed=seed)


def await_schedule(pushed: Report) -> None:
    """Return when the pushed schedule has begun, at once if nothing was to change."""
    if pushed.base_time_ns is not None:
        time.sleep(max(0, pushed.base_time_ns - tai_ns()) / NS_PER_S)


def record(running: Lab, sent: Sequence[Flow], duration_ns: int) -> Recording:
    """Send the flows for a duration, while the switches' programs are still."""
    with tempfile.TemporaryDirectory() as scratch, running.quiet():
        return run(running, sent, duration_ns, Path(scratch), drain_ns=DRAIN_NS)


def not_exact(wake_up: Spread) -> str:
    """What a report says of a clock that goes on while anything computes."""
    return (
        "Cables take no time, and this machine wakes talkers late, by "
        f"{duration(wake_up.p99_ns)} or less in 99 % of all cases and by "
        f"{duration(wake_up.max_ns)} at worst: frames are shown, not judged."
    )


def frame_rows(recording: Recording) -> Iterator[tuple[object, ...]]:
    """Each frame under FRAME_COLUMNS; instants count from the start of the recording."""
    start_ns = recording.start_ns
    for frame in recording:
        received_ns = None if frame.received_ns is None else frame.received_ns - start_ns
        planned_ns, sent_ns = frame.planned_ns - start_ns, frame.sent_ns - start_ns
        yield frame.flow, frame.seq, planned_ns, sent_ns, received_ns


def frames(rows: Iterable[Mapping[str, str]]) -> Iterator[Frame]:
    """Inverse of `frame_rows`, for rows as text."""
    for row in rows:
        yield Frame(
            flow=row["flow"],
            seq=int(row["seq"]),
            planned_ns=int(row["planned_ns"]),
            sent_ns=int(row["sent_ns"]),
            received_ns=int(row["received_ns"]) if row["received_ns"] else None,
        )
