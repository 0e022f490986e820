"""Networks of experiments whose nodes have clocks of their own, and what happens to these clocks.

The first switch, which all others follow, has true time; each other node has an oscillator that is
off. What `Clocks` does it does from the controller of such a lab.
"""

from __future__ import annotations

import csv
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.model import NS_PER_S, Intent
from cnc.talker import tai_ns
from cnc.testbed.experiments import planned
from cnc.testbed.experiments.description import OwnClocksDescription
from cnc.testbed.experiments.experiment import write_rows
from cnc.testbed.experiments.sending import DRAIN_NS
from cnc.testbed.intent import lab_model
from cnc.testbed.lab.kernels import gptp, offsets, steps
from cnc.testbed.lab.kernels.offsets import Offset
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.recording import AnyFlow, Recording, run

OFFSETS = "offsets.csv"
FRAME_COLUMNS = ("part", *planned.FRAME_COLUMNS)
_PPB_PER_PPM = 1_000


def network_of(description: OwnClocksDescription, file: Path, why: str) -> Intent:
    """The intent that an experiment file names, with its oscillators, as the network of a lab
    called as the experiment. Its gates are to be open for planned frames only: in spare room a
    frame that misses its window leaves at once. `why` says what needs routers.

    Raises:
        InputError: the intent is invalid or has no streams, its switches bridge, or the
            experiment's switch is none that follows another.
    """
    intent = planned.load(description.network, file)
    planned.refuse_bridged(intent, description, file, why)
    _refuse_unless_follower(intent, description.switch, file)
    intent = with_oscillators(intent, description.name, description.oscillators_ppb)
    return replace(intent, network=replace(intent.network, disturbance_ns=None))


def _refuse_unless_follower(intent: Intent, switch: str, file: Path) -> None:
    """Raise InputError, which names the experiment's file, if a switch is none of those that follow
    the first one."""
    if switch not in list(intent.network.bridges)[1:]:
        raise InputError(
            f"{file}: switch: {intent.name} has no switch {switch} that follows another",
            hint=f"its switches are {', '.join(intent.network.bridges)}; all follow the first",
        )


def with_oscillators(intent: Intent, name: str, oscillators_ppb: Sequence[int]) -> Intent:
    """The network under another name, whose nodes but the first switch get these oscillators in
    turn; that of the first switch is right."""
    document: dict[str, Any] = {**intent.document, "name": name}
    rates_ppb = cycle(oscillators_ppb)
    first = next(iter(intent.network.bridges))
    for kind in ("switches", "end-stations"):
        nodes = document[kind]
        if not isinstance(nodes, Mapping):
            nodes = dict.fromkeys(nodes)
        document[kind] = {
            node: {**(keys or {}), "clock": None if node == first else _oscillator(next(rates_ppb))}
            for node, keys in nodes.items()
        }
    return intents.from_document(document, f"the network of {name}")


def about_oscillators(rates_ppb: Sequence[int]) -> str:
    """A remark for the report of a network `with_oscillators`."""
    rates = ", ".join(f"{rate_ppb / _PPB_PER_PPM:+g}" for rate_ppb in rates_ppb)
    return f"Oscillators are off by {rates} ppm in turn, that of the first switch by nothing."


def _oscillator(rate_ppb: int) -> dict[str, str]:
    return {"frequency-offset": f"{rate_ppb}ppb"}


def at_their_slowest(intent: Intent) -> Intent:
    """The same network of switches that all take as long as the slowest may to hand a frame on."""
    longest_ns = max(bridge.processing_max_ns for bridge in intent.network.bridges.values())
    always = {"min": f"{longest_ns}ns", "max": f"{longest_ns}ns"}
    document: dict[str, Any] = {**intent.document}
    document["defaults"] = {**document.get("defaults", {}), "processing": always}
    document["switches"] = {
        name: {key: value for key, value in keys.items() if key != "processing"}
        for name, keys in document["switches"].items()
    }
    return intents.from_document(document, f"the network of {intent.name}")


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the switches in a lab, as faults befall them."""

    lab: Lab

    def stop_following(self, switch: str) -> None:
        """Kill its ptp4l, and keep what would start it again from doing so."""
        self._run(switch, ["pkill", "-STOP", "-f", "/tsn-clock "])
        self._run(switch, ["pkill", "-KILL", "-x", "ptp4l"])

    def follow_again(self, switch: str) -> None:
        """Undo `stop_following`: its ptp4l starts within a second or two."""
        self._run(switch, ["pkill", "-CONT", "-f", "/tsn-clock "])

    def run_off(self, switch: str, drift_ppb: int) -> None:
        """Have a clock that nothing steers run faster than true time by so much."""
        stated = self.lab.intent[lab_model.Clocks].by_node[switch]
        correction_ppb = drift_ppb - stated.frequency_offset_ppb
        self._phc_ctl(switch, "freq", str(correction_ppb))

    def step(self, switch: str, by_ns: int) -> None:
        """Set a clock ahead, below 0 back, all at once."""
        self._run(switch, steps.command([lab_model.ClockStep(at_ns=0, by_ns=by_ns)]))

    def _phc_ctl(self, switch: str, *words: str) -> None:
        self._run(switch, ["phc_ctl", "-q", "CLOCK_REALTIME", "--", *words])

    def _run(self, switch: str, argv: Sequence[str]) -> None:
        command = self.lab.command(switch, argv)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CncError(
                f"switch {switch}: {' '.join(argv)}: {done.stderr or done.stdout}",
                hint="the machine needs the packages linuxptp and procps",
            )


@dataclass(frozen=True, slots=True)
class Act:
    """What happens so long after the start of sending."""

    after_ns: int
    do: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The frames of a run, and the true offsets meanwhile, whose instants count from its start."""

    frames: Recording
    offsets: Sequence[Offset]


def record(
    running: Lab, sent: Sequence[AnyFlow], duration_ns: int, acts: Sequence[Act]
) -> Recorded:
    """Send the flows for a duration while the acts happen, one after the other.

    Raises:
        CncError: an end station's program failed, or an act did.
    """
    failures: list[CncError] = []

    def perform(start_ns: int) -> None:
        for act in acts:
            time.sleep(max(0, start_ns + act.after_ns - tai_ns()) / NS_PER_S)
            try:
                act.do()
            except CncError as error:
                failures.append(error)

    performers = []

    def begin(start_ns: int) -> None:
        performers.append(Thread(target=perform, args=(start_ns,)))
        performers[0].start()

    with TemporaryDirectory() as scratch:
        frames = run(running, sent, duration_ns, Path(scratch), drain_ns=DRAIN_NS, begun=begin)
    for performer in performers:
        performer.join()
    for failure in failures:
        raise failure
    recorded = running.nodes.clock_offsets()
    if recorded is None:
        raise CncError("the lab has one clock", hint="`--kernels own` gives each node its own")
    return Recorded(frames, offsets.span(recorded, frames.start_ns, duration_ns))


class Parts:
    """What is recorded of the flows `sent` in the parts of an experiment, one after the other."""

    def __init__(self, running: Lab, sent: Sequence[AnyFlow]) -> None:
        self._running = running
        self._sent = sent
        self._frames: list[tuple[object, ...]] = []
        self._offsets: dict[str, Sequence[Offset]] = {}

    def record(self, part: str, duration_ns: int, acts: Sequence[Act]) -> int:
        """Send for a duration while the acts happen, and wait until all clocks have settled again;
        when sending began.

        Raises:
            CncError: an end station's program failed, an act did, or a clock does not settle.
        """
        found = record(self._running, self._sent, duration_ns, acts)
        self._frames += [(part, *row) for row in planned.frame_rows(found.frames)]
        self._offsets[part] = found.offsets
        if unsettled := gptp.await_settled(self._running):
            raise CncError(
                f"after {part} clocks did not settle: {unsettled}",
                hint="oscillators that are less far off settle sooner",
            )
        return found.frames.start_ns

    def write(self, directory: Path) -> None:
        """Write `rows.csv`, under FRAME_COLUMNS, and `offsets.csv`; instants count from the start
        of sending in each part."""
        write_rows(directory, FRAME_COLUMNS, self._frames)
        write_offsets(directory, self._offsets)


def write_offsets(directory: Path, recorded: Mapping[str, Iterable[Offset]]) -> None:
    """Write the true offsets of each part of an experiment."""
    with (directory / OFFSETS).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("part", *offsets.COLUMNS))
        for part, its in recorded.items():
            writer.writerows((part, *astuple(each)) for each in its)


def read_offsets(directory: Path) -> dict[str, list[Offset]]:
    """Inverse of `write_offsets`."""
    found: dict[str, list[Offset]] = defaultdict(list)
    with (directory / OFFSETS).open(newline="") as file:
        for row in csv.DictReader(file):
            numbers = (int(row[column]) for column in ("offset_ns", "tai_minus_utc_s"))
            found[row["part"]].append(Offset(int(row["time_ns"]), row["node"], *numbers))
    return found
