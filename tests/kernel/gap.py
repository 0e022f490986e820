"""What streams feel while plans are pushed to the network that carries them.

    scripts/vm --uml --virtual-time --memory 4G --timeout 7200 -- \\
        python -m tests.kernel.gap --pushes 100

pushes the plan that runs 100 times, then 100 plans that add and take away other streams, then 100
that move a stream whose talker has an agent, and prints what became of every frame of the streams
that were kept, and of the one that moves. Exit code 1 if one was lost or late, or a port was
touched that had nothing to change.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.testbed.lab import Lab, lab
from cnc.testbed.traffic.endpoint import tai_ns
from cnc.testbed.traffic.measure import Spread, is_late, spread
from cnc.testbed.traffic.recording import Flow, Frame, flows, run

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
MS = 1_000_000
STEP_NS = 8 * NS_PER_S  # one push, up to some time after its base time
SAME_STEP_NS = NS_PER_S // 2  # one push that finds nothing to change
QUIET_NS = 20 * MS  # after a base time, longer than any cycle here
START_NS = 2 * NS_PER_S  # until the talkers send, and then some time with nothing but traffic
PUSHES_A_ROUND = 4  # whose frames are held in memory at once


@dataclass(frozen=True)
class Push:
    """One push: from when to when (TAI), and which ports were to change and which did."""

    begun_ns: int
    ended_ns: int
    planned: frozenset[PortRef]
    touched: frozenset[PortRef]


@dataclass(frozen=True)
class Felt:
    """What became of one stream's frames.

    `undisturbed` and `during` are the latencies (ns, from the planned instant) outside of pushes
    and in them.
    """

    stream: str
    sent: int
    lost: int
    late: int
    undisturbed: Spread
    during: Spread


@dataclass(frozen=True)
class Round:
    """Some pushes while traffic was sent."""

    pushes: tuple[Push, ...]
    streams: tuple[Felt, ...]

    @property
    def needless(self) -> list[str]:
        """Ports that were touched though nothing of theirs was to change."""
        return [str(port) for one in self.pushes for port in sorted(one.touched - one.planned)]

    @property
    def sound(self) -> bool:
        return not self.needless and not any(one.lost or one.late for one in self.streams)


def with_others(intent: Intent) -> list[Intent]:
    """The intent with each of some other streams beside its own.

    One crosses all switches but leaves a port alone that others use, one changes a port's cycle
    from 2 ms to 10 ms, and one stays on the first switch, on a port that has no gates yet.
    """
    valves = intent.streams["valves"]
    others = [
        dataclasses.replace(valves, name="second", listeners=("l2",)),
        dataclasses.replace(valves, name="slow", listeners=("l2",), period_ns=5 * MS),
        dataclasses.replace(valves, name="local", listeners=("t1",)),
    ]
    return [
        dataclasses.replace(intent, streams={**intent.streams, other.name: other})
        for other in others
    ]


def changing_plans(kept: Plan) -> Iterator[Plan]:
    """Plans that add a stream and take it away again, for ever; `kept` runs before the first."""
    running = kept
    for grown in itertools.cycle(with_others(kept.intent)):
        for intent in (grown, kept.intent):
            running = compute(intent, keep=running)
            yield running


def with_talkers() -> Intent:
    """line3 with an agent on each end station that sends."""
    document = intents.load(LINE3).document
    stations = {name: {} for name in document["end-stations"]}
    talkers = {"t1": {"management": "10.99.0.11"}, "t2": {"management": "10.99.0.12"}}
    return intents.from_document({**document, "end-stations": stations | talkers}, "line3")


def moved(intent: Intent) -> Intent:
    """The intent, but the set points are ready later in each period."""
    motion = dataclasses.replace(intent.streams["motion"], earliest_ns=300_000)
    return dataclasses.replace(intent, streams={**intent.streams, "motion": motion})


def moving_plans(kept: Plan) -> Iterator[Plan]:
    """Plans that move a stream and move it back, for ever; `kept` runs before the first."""
    running = kept
    for intent in itertools.cycle((moved(kept.intent), kept.intent)):
        running = compute(intent, keep=running)
        yield running


@contextlib.contextmanager
def qdisc_events(running: Lab, directory: Path) -> Iterator[Path]:
    """Where `tc monitor` of every switch writes down what happens to its qdiscs."""
    with contextlib.ExitStack() as stack:
        for name in running.intent.network.bridges:
            log = stack.enter_context((directory / f"{name}.events").open("w"))
            monitor = subprocess.Popen(running.command(name, ["tc", "monitor"]), stdout=log)
            stack.callback(monitor.wait)
            stack.callback(monitor.kill)
        time.sleep(0.1)  # in virtual time: until all of them wait for events
        yield directory


def touched_ports(directory: Path, positions: dict[Path, int]) -> frozenset[PortRef]:
    """The ports with events since the last call, which left `positions` in the logs."""
    time.sleep(0.01)  # in virtual time: until what happened is written down
    found = set()
    for log in directory.glob("*.events"):
        text = log.read_text()
        new = text[positions.get(log, 0) :]
        positions[log] = len(text)
        found |= {PortRef(log.stem, port) for port in re.findall(r" taprio .*?dev (\S+)", new)}
    return frozenset(found)


def bring(running: Lab, plan: Plan) -> frozenset[PortRef]:
    """Push a plan and wait until it runs; returns the ports that change by it."""
    report = push(plan, connect=running.connect)
    start_ns = report.base_time_ns or tai_ns()
    time.sleep(max(0, start_ns + QUIET_NS - tai_ns()) / NS_PER_S)
    return frozenset(change.port for change in report.changes)


def push_in_turn(running: Lab, plans: Sequence[Plan], events: Path) -> list[Push]:
    """Push the plans one after the other, each when the one before runs."""
    positions: dict[Path, int] = {}
    touched_ports(events, positions)
    pushes = []
    for plan in plans:
        begun_ns = tai_ns()
        planned = bring(running, plan)
        touched = touched_ports(events, positions)
        pushes.append(Push(begun_ns, tai_ns(), planned, touched))
    return pushes


def observe(running: Lab, sent: Sequence[Flow], plans: Sequence[Plan], step_ns: int) -> Round:
    """Push the plans while the flows are sent; `step_ns` is what a push may take."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        qdisc_events(running, Path(scratch)) as events,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        duration_ns = 2 * START_NS + len(plans) * step_ns
        cycle_ns = running.intent.hyperperiod_ns()  # sooner than the next whole second
        traffic = pool.submit(run, running, sent, duration_ns, Path(scratch), grid_ns=cycle_ns)
        time.sleep(START_NS / NS_PER_S)
        pushes = push_in_turn(running, plans, events)
        frames = traffic.result()
    first_ns, last_ns = frames[0].planned_ns, frames[-1].planned_ns
    if not first_ns < pushes[0].begun_ns < pushes[-1].ended_ns < last_ns:
        raise RuntimeError(f"{len(plans)} pushes took longer than the traffic: raise STEP_NS")
    return judged(sent, pushes, frames)


def judged(sent: Sequence[Flow], pushes: Sequence[Push], frames: Sequence[Frame]) -> Round:
    """What the streams with a bound felt; the others are there to get in their way."""
    bounds_ns = {flow.name: flow.latency_bound_ns for flow in sent if flow.latency_bound_ns}
    streams = []
    for name, bound_ns in bounds_ns.items():
        own = [frame for frame in frames if frame.flow == name]
        felt = [
            (frame.received_ns - frame.planned_ns, _is_during(pushes, frame.planned_ns))
            for frame in own
            if frame.received_ns is not None
        ]
        streams.append(
            Felt(
                stream=name,
                sent=len(own),
                lost=len(own) - len(felt),
                late=sum(is_late(frame, bound_ns) for frame in own),
                undisturbed=spread([latency_ns for latency_ns, during in felt if not during]),
                during=spread([latency_ns for latency_ns, during in felt if during]),
            )
        )
    return Round(tuple(pushes), tuple(streams))


def _is_during(pushes: Sequence[Push], instant_ns: int) -> bool:
    return any(one.begun_ns <= instant_ns <= one.ended_ns for one in pushes)


def show(found: Round) -> None:
    ports = sum(len(one.planned) for one in found.pushes)
    print(
        f"{len(found.pushes)} pushes, {ports} ports changed; "
        f"touched without need: {', '.join(found.needless) or 'none'}"
    )
    for one in found.streams:
        print(
            f"  {one.stream:<8} {one.sent:>7} frames, {one.lost} lost, {one.late} late; latency "
            f"{one.undisturbed.min_ns}..{one.undisturbed.max_ns} ns undisturbed, "
            f"{one.during.min_ns}..{one.during.max_ns} ns during pushes",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kernel.gap")
    parser.add_argument("--pushes", type=int, default=100, help="of each kind (default 100)")
    parser.add_argument("--kind", choices=("same", "changing", "moving"), help="only these")
    options = parser.parse_args()
    sound = True
    for kind, intent, plans_after, step_ns in (
        ("same", intents.load(LINE3), itertools.repeat, SAME_STEP_NS),
        ("changing", intents.load(LINE3), changing_plans, STEP_NS),
        ("moving", with_talkers(), moving_plans, STEP_NS),
    ):
        if options.kind in {None, kind}:
            kept = compute(intent)
            with lab(intent, timed_wires=True) as running:
                bring(running, kept)
                sound &= all(rounds(running, kept, plans_after(kept), options.pushes, step_ns))
    return 0 if sound else 1


def rounds(
    running: Lab, kept: Plan, plans: Iterator[Plan], pushes: int, step_ns: int
) -> list[bool]:
    """Push this many of the plans, a few in each round; whether each round was sound."""
    sound = []
    for done in range(0, pushes, PUSHES_A_ROUND):
        count = min(PUSHES_A_ROUND, pushes - done)
        found = observe(running, flows(kept), list(itertools.islice(plans, count)), step_ns)
        show(found)
        sound.append(found.sound)
    return sound


if __name__ == "__main__":
    sys.exit(main())
