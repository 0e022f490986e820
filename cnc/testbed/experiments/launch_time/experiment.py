"""How late frames leave whose program wakes late, with a time of transmission and without.

The same network is pushed twice, without the launch time of the station and with it. In virtual
time programs wake when they are to, and as much later as is drawn; on a real clock beside programs
that compute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.model import Intent, Plan
from cnc.planner import plan as compute
from cnc.rollout.goal import Goal
from cnc.rollout.rollout import roll_out
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.description import LaunchTimeDescription
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.experiments.launch_time import program
from cnc.testbed.experiments.launch_time.figures import LAUNCHES, NAMES, SLEEPS, Point
from cnc.testbed.experiments.launch_time.pictures import launch_time_pictures
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab

COLUMNS = ("way", "lateness_ns", "busy", "late_ns")
_NOTHING = "–"  # noqa: RUF001
_COMPUTES = "while True: pass"
# A socket that nobody reads: frames end there, and wake no program.
_LISTENS = f"""import signal, socket
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("", {program.PORT}))
signal.pause()"""


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """The experiment of a file of kind launch-time: a plan for each way."""

    description: LaunchTimeDescription
    plans: dict[str, Plan]
    error_ns: int

    @classmethod
    def of(cls, description: LaunchTimeDescription, file: Path) -> LaunchTimes:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read or emulated, lacks the stream, or a launch time
                of its talker.
            Unschedulable: its network has no plan.
        """
        intent = planned.load(description.network, file)
        name = description.stream
        talker = intent.streams[name].talker if name in intent.streams else None
        keys = intent.document["end-stations"]
        its = keys.get(talker) if isinstance(keys, dict) else None
        if not its or "launch-time" not in its:
            raise InputError(
                f"{file}: stream: {description.network} has no stream {name} whose talker has a "
                "`launch-time`",
                hint="choose a stream of a station with launch-time",
            )
        without = {key: value for key, value in its.items() if not key.startswith("launch-")}
        document = {**intent.document, "end-stations": {**keys, talker: without}}
        both = {
            SLEEPS: intents.from_document(document, description.network),
            LAUNCHES: intent,
        }
        plans = {
            way: compute(replace(its, name=description.name), seed=description.seed)
            for way, its in both.items()
        }
        error_ns = intent.network.lateness_ns(str(talker))
        return cls(description, plans, error_ns)

    @property
    def emulated(self) -> Intent:
        return self.plans[LAUNCHES].intent

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push and send, one way after the other."""
        write_rows(directory, COLUMNS, self._rows(running, progress))

    def _rows(self, running: Lab, progress: Progress) -> Iterator[tuple[object, ...]]:
        beside = [(late_ns, 0) for late_ns in self.description.lateness_ns]
        if not Platform.here().exact:  # time would stand still while a program computes
            beside = [(0, busy) for busy in self.description.busy]
        for way, plan in self.plans.items():
            # As settings, not as a plan: on a real clock gates are later than one allows for, and
            # of what is measured here no frame has come to a gate.
            # What a run before this one has left of launch times goes where a way has none.
            former = self.plans[LAUNCHES]
            goal = replace(Goal.of(plan, "experiment", former=former), plan=None)
            sending.await_schedule(roll_out(goal, connect=running.connect, history=None))
            for late_ns, busy in beside:
                progress(f"{NAMES[way]}, up to {duration(late_ns)} late, beside {busy} busy")
                its = self.emulated.streams[self.description.stream]
                with (
                    beside_it(running, its.listeners[0], _LISTENS, 1),
                    running.quiet(),
                    beside_it(running, its.talker, _COMPUTES, busy),
                ):
                    for left_ns in self._sent(running, way, late_ns):
                        yield way, late_ns, busy, left_ns

    def _sent(self, running: Lab, way: str, late_ns: int) -> list[str]:
        """How late each frame left, "" of one that did not."""
        stream = self.emulated.streams[self.description.stream]
        asked = {
            "offsets": str(running.offsets_file(stream.talker)),
            "stream": stream.name,
            "listener": str(addresses(running.intent)[stream.listeners[0]].v4),
            "frames": self.description.frames,
            "launches": way == LAUNCHES,
            "lead_ns": self.description.lead_ns,
            "late_ns": late_ns,
            "seed": self.description.seed,
        }
        argv = [sys.executable, program.__file__, json.dumps(asked)]
        command = running.command(stream.talker, argv)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise CncError(f"the program of {stream.talker} failed: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        return [*map(str, said["late_ns"]), *[""] * said["did_not_leave"]]

    def report(self, directory: Path, platform: Platform) -> Report:
        points = [*_points(directory)]
        wrong = [why for point in points if (why := point.disagreement(self.error_ns))]
        beside = (
            "The program woke late by what was drawn, evenly up to the figure."
            if platform.exact
            else "The program woke as it did, at ordinary priority, beside programs that compute "
            "without a pause at the same priority on the one processor of this kernel."
        )
        return Report(
            summary={
                "launch_error_ns": self.error_ns,
                "clock": platform.clock,
                "points": [point.document() for point in points],
            },
            sheets=[_table(points)],
            pictures=launch_time_pictures(points, is_drawn=platform.exact),
            disagreements=wrong if platform.exact else [],
            remarks=[
                beside,
                (
                    f"Frames with a time of transmission were handed over "
                    f"{duration(self.description.lead_ns)} before."
                ),
                *not_judged(platform),
            ],
            modelled=sending.modelled(self.emulated.network, platform),
        )


@contextmanager
def beside_it(running: Lab, node: str, code: str, count: int) -> Iterator[None]:
    """So many programs run on a node for the time of a `with` block."""
    argv = running.command(node, [sys.executable, "-c", code])
    programs = [subprocess.Popen(argv) for _ in range(count)]
    try:
        yield
    finally:
        for each in programs:
            each.kill()
            each.wait()


def _points(directory: Path) -> Iterator[Point]:
    rows = read_rows(directory)
    for (way, late, busy), its in groupby(
        rows, key=lambda row: (row["way"], int(row["lateness_ns"]), int(row["busy"]))
    ):
        texts = [row["late_ns"] for row in its]
        late_ns = [int(text) for text in texts if text]
        yield Point(way, late, busy, late_ns, len(texts) - len(late_ns))


def _table(points: Sequence[Point]) -> Sheet:
    def us(time_ns: int | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / 1000:.1f}"

    rows = []
    for point in points:
        its = point.document()
        figures = (us(its[f"{name}_ns"]) for name in ("p50", "p99", "p999", "max"))
        rows.append(
            [
                *(NAMES[point.way], us(point.lateness_ns), str(point.busy)),
                *(str(its["frames"]), str(its["did_not_leave"]), *figures),
            ]
        )
    return Sheet(
        "How much later than its instant the kernel sent a frame",
        [
            *("way", ">drawn, up to µs", ">busy programs", ">frames", ">did not leave"),
            *(">median, µs", ">99 %, µs", ">99.9 %, µs", ">greatest, µs"),
        ],
        rows,
    )
