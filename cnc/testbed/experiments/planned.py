"""The network of an experiment, described by an intent file and planned by the planner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cnc import intent as intents
from cnc.errors import InputError
from cnc.keys.problems import one_of
from cnc.loops.model import Loop, Loops
from cnc.model import Forwarding, Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.support.format import duration
from cnc.testbed.experiments import sending
from cnc.testbed.experiments.experiment import Progress, write_rows
from cnc.testbed.experiments.keys import NetworkDescription
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.recording import AnyFlow, Frame, Recording

FRAME_COLUMNS = ("flow", "seq", "planned_ns", "sent_ns", "received_ns")


def load(network: str, file: Path) -> Intent:
    """The intent that an experiment file names.

    Raises:
        InputError: it is invalid, or has no streams.
    """
    intent = intents.load(file.parent / network)
    if not intent.streams:
        raise InputError(
            f"{file}: network: {network} has no streams", hint="streams are what is measured"
        )
    return intent


def plan(network: str, file: Path, name: str, seed: int, *, recovers: bool = True) -> Plan:
    """The plan of the intent that an experiment file names, as the network of a lab called `name`.

    Unless it `recovers`, its gates are open for planned frames only, whatever the intent states.

    Raises:
        InputError: the intent is invalid, or has no streams.
        Unschedulable: it has no plan.
    """
    intent = load(network, file)
    planned_for = intent.network if recovers else replace(intent.network, disturbance_ns=None)
    return compute(replace(intent, name=name, network=planned_for), seed=seed)


def routed(description: NetworkDescription, file: Path, why: str) -> Intent:
    """The intent that an experiment file names, as the network of a lab called as the experiment;
    `why` says what needs routers.

    Raises:
        InputError: it is invalid, or its switches bridge.
    """
    intent = intents.load(file.parent / description.network)
    refuse_bridged(intent, description, file, why)
    return replace(intent, name=description.name)


def refuse_bridged(intent: Intent, description: NetworkDescription, file: Path, why: str) -> None:
    """Refuse the intent that an experiment file names if its switches bridge; `why` says what needs
    routers.

    Raises:
        InputError: they do.
    """
    if intent.network.forwarding is not Forwarding.ROUTED:
        raise InputError(
            f"{file}: network: {description.network} is bridged, and {why}",
            hint="choose a network with `forwarding: routed`",
        )


def refuse_unknown_stations(intent: Intent, file: Path, named: Iterable[tuple[str, str]]) -> None:
    """Refuse names of an experiment file, each behind its key, that are no end stations.

    Raises:
        InputError: one is none.
    """
    stations = intent.network.end_stations
    for key, name in named:
        if name not in stations:
            expected = one_of(stations, name)
            raise InputError(f"{file}: {key}: found {name!r}, expected {expected}")


def stepped_loop(plan: Plan, name: str, file: Path) -> Loop:
    """The control loop that an experiment file names, whose step response is measured.

    Raises:
        InputError: the plan has no such loop, or it follows a path.
    """
    loops = plan.intent[Loops].by_name
    if name not in loops:
        expected = one_of(loops, name)
        raise InputError(f"{file}: loop: found {name!r}, expected {expected}")
    loop = loops[name]
    if loop.path is not None:
        raise InputError(
            f"{file}: loop: {name} follows a path, and has no step response",
            hint="choose a loop with a `reference`",
        )
    return loop


def run(
    plan: Plan,
    running: Lab,
    sent: Sequence[AnyFlow],
    *,
    duration_ns: int,
    directory: Path,
    progress: Progress,
) -> None:
    """Push a plan, send for so long once it runs, and write the frames into `rows.csv`."""
    sending.await_schedule(
        push(plan, connect=running.connect, listener=lambda event: progress(str(event)))
    )
    progress(f"sending for {duration(duration_ns)}")
    recording = sending.record(running, sent, duration_ns)
    write_rows(directory, FRAME_COLUMNS, frame_rows(recording))


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
