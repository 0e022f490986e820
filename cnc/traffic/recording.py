"""Send flows through a lab and record every frame.

Talkers keep to the flows' offsets on CLOCK_TAI, and all start together at an instant that lies on
a grid: a repeated run in virtual time gives the same record, octet for octet.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

from cnc.addressing import addresses
from cnc.errors import CncError, InputError
from cnc.format import duration
from cnc.lab.running import Lab
from cnc.model import NS_PER_S
from cnc.talker import tai_ns
from cnc.traffic import endpoint
from cnc.traffic.flows import Flow, Pattern, flows

__all__ = ["Flow", "Frame", "Pattern", "Recording", "flows", "run"]

START_AHEAD_NS = NS_PER_S
GRID_MAX_NS = 10 * NS_PER_S  # the longest wait for a round start
DRAIN_NS = NS_PER_S  # how long listeners wait after the last planned frame
FINISH_TIMEOUT_S = 60  # for an end station that writes its result on a loaded machine
COLUMNS = (
    *("flow", "seq", "planned_ns", "sent_ns"),
    *("scheduled_ns", "left_ns", "received_ns", "copies"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a recording; times are TAI.

    `sent_ns` is the clock just before the talker's call, `received_ns` the kernel's time stamp of
    the first copy that arrived, None if none did. With stamps, `scheduled_ns` is when the kernel
    enqueued the frame in the talker's queueing discipline, `left_ns` when it passed it to the
    driver.
    """

    flow: str
    seq: int
    planned_ns: int
    sent_ns: int
    received_ns: int | None
    scheduled_ns: int | None = None
    left_ns: int | None = None
    copies: int = 1  # how often it arrived: 0 lost, 2 duplicated


@dataclass(frozen=True, slots=True)
class Recording(Sequence[Frame]):
    """Every frame of a run, by planned instant and flow, and the instant (TAI) the run began."""

    start_ns: int
    frames: tuple[Frame, ...]

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Frame, ...]: ...
    def __getitem__(self, index: int | slice) -> Frame | tuple[Frame, ...]:
        return self.frames[index]

    def __len__(self) -> int:
        return len(self.frames)


def run(
    lab: Lab,
    sent: Sequence[Flow],
    duration_ns: int,
    directory: Path,
    *,
    stamps: bool = False,
    drain_ns: int = DRAIN_NS,
    grid_ns: int | None = None,
) -> Recording:
    """Send the flows for a duration, starting with a cycle of the schedule; blocks until the end.

    The start is the first multiple of `grid_ns` at least START_AHEAD_NS ahead; without one, see
    `start_grid_ns`. With `stamps` the talkers' kernels record when each frame entered and left
    the queue. Listeners wait for `drain_ns` beyond the duration.

    Writes `frames.csv`, whose instants count from the start, and `frames.json`, the parameters
    of the run, into `directory`, beside the files of each end station.

    Raises:
        InputError: a flow would not send a single frame.
        CncError: an end station's program failed.
    """
    for flow in sent:
        if flow.period_ns > duration_ns:
            raise InputError(
                f"flow {flow.name} sends a frame every {duration(flow.period_ns)}, none within "
                f"{duration(duration_ns)}",
                hint="send for longer",
            )
    directory.mkdir(parents=True, exist_ok=True)
    grid_ns = grid_ns or start_grid_ns(lab.intent.hyperperiod_ns())
    parameters = {"duration_ns": duration_ns, "drain_ns": drain_ns, "stamps": stamps}
    listeners = [_listener(lab, node) for node in sorted({flow.listener for flow in sent})]
    talkers = [_talker(lab, sent, numbers, turn) for turn, numbers in enumerate(_programs(sent))]
    stations = [*listeners, *talkers]  # in this order: listeners must be ready first
    try:
        for station in stations:
            station.start(directory, parameters)
        for station in stations:
            station.await_ready()
        start_ns = -(-(tai_ns() + START_AHEAD_NS) // grid_ns) * grid_ns
        for talker in talkers:
            talker.send_start(start_ns)
        ahead_ns = START_AHEAD_NS + grid_ns
        for talker in talkers:
            talker.finish((ahead_ns + duration_ns + drain_ns) / NS_PER_S)
        for listener in listeners:
            listener.finish()
    finally:
        for station in stations:
            station.end()
    recording = Recording(start_ns, _join(sent, listeners, talkers))
    _write(recording, directory)
    about = {"start_ns": start_ns, "clock": "CLOCK_TAI", **parameters, "sender": endpoint.program()}
    about["flows"] = [asdict(flow) for flow in sent]
    (directory / "frames.json").write_text(json.dumps(about, indent=2))
    return recording


def start_grid_ns(hyperperiod_ns: int) -> int:
    """Whole hyperperiods that are whole seconds, if not too long: then a run starts at the same
    phase of everything that is periodic in a second or in the schedule."""
    round_ns = math.lcm(hyperperiod_ns, NS_PER_S)
    return round_ns if round_ns <= GRID_MAX_NS else hyperperiod_ns


def _programs(sent: Sequence[Flow]) -> list[list[int]]:
    """Which flows, by number, one talker's program sends: all periodic ones of a node together, a
    saturating one alone, since it would delay the others."""
    programs: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for number, flow in enumerate(sent):
        alone = flow.pattern is Pattern.SATURATING
        programs[flow.talker, number if alone else None].append(number)
    return list(programs.values())


def _talker(lab: Lab, sent: Sequence[Flow], numbers: Sequence[int], turn: int) -> _Station:
    nodes = addresses(lab.intent)
    flow_specs = [
        {
            **asdict(sent[number]),
            "id": number,
            "offsets": _offsets_file(lab, sent[number]),
            "destination": str(nodes[sent[number].listener].of_version(sent[number].ip_version)),
        }
        for number in numbers
    ]
    return _Station(lab, "talk", sent[numbers[0]].talker, turn, {"flows": flow_specs, "turn": turn})


def _offsets_file(lab: Lab, flow: Flow) -> str | None:
    """Where the talker finds when to send: a stream of a station that has an agent, or None."""
    is_stream = flow.name in lab.intent.streams and flow.latency_bound_ns is not None
    if not is_stream or flow.talker not in lab.intent.network.managed:
        return None
    return str(lab.offsets_file(flow.talker))


def _listener(lab: Lab, node: str) -> _Station:
    own = addresses(lab.intent)[node]
    families = [["AF_INET", str(own.v4)], ["AF_INET6", str(own.v6)]]
    return _Station(lab, "listen", node, 0, {"addresses": families})


class _Station:
    """One end station's program, from its start to its result."""

    def __init__(
        self, lab: Lab, verb: str, node: str, number: int, spec: Mapping[str, Any]
    ) -> None:
        self._lab = lab
        self._verb = verb
        self._node = node
        self._name = f"{verb}-{node}-{number}"
        self._spec = spec
        self._log = Path()
        self._output = Path()
        self._program: subprocess.Popen[str] | None = None

    def start(self, directory: Path, parameters: Mapping[str, Any]) -> None:
        file = directory / f"{self._name}.json"
        self._output = file.with_suffix(".csv")
        self._log = file.with_suffix(".log")
        file.write_text(json.dumps({**self._spec, **parameters, "output": str(self._output)}))
        program = [sys.executable, "-I", endpoint.__file__, self._verb, str(file)]
        with self._log.open("w") as log:
            self._program = subprocess.Popen(
                self._lab.command(self._node, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def await_ready(self) -> None:
        if self._running.stdout is None or self._running.stdout.readline() != "ready\n":
            raise self._failure("ended before it was ready")

    def send_start(self, start_ns: int) -> None:
        if self._running.stdin is not None:
            self._running.stdin.write(f"{start_ns}\n")
            self._running.stdin.flush()

    def finish(self, expected_s: float = 0.0) -> None:
        """Close the program's standard input, and wait for its result."""
        try:
            self._running.communicate(timeout=expected_s + FINISH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {FINISH_TIMEOUT_S} s of its time") from None
        if self._running.returncode != 0:
            raise self._failure(f"ended with {self._running.returncode}")

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.communicate()

    def rows(self) -> Iterator[list[Any]]:
        """The recorded rows, integers or None; see `endpoint`."""
        with self._output.open(newline="") as file:
            rows = csv.reader(file)
            next(rows)
            for row in rows:
                yield [int(value) if value else None for value in row]

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._program is None:
            raise RuntimeError("start() comes first")
        return self._program

    def _failure(self, how: str) -> CncError:
        return CncError(
            f"end station {self._node} could not {self._verb}: its program {how}",
            hint=self._log.read_text().strip() or None,
        )


def _join(
    sent: Sequence[Flow], listeners: Sequence[_Station], talkers: Sequence[_Station]
) -> tuple[Frame, ...]:
    """Pair what the talkers sent with what the listeners received, in the order of the plan."""
    arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for listener in listeners:
        for number, seq, received_ns in listener.rows():
            arrivals[number, seq].append(received_ns)
    frames = []
    for talker in talkers:
        for number, seq, planned_ns, sent_ns, scheduled_ns, left_ns in talker.rows():
            copies = arrivals.get((number, seq), ())
            frames.append(
                Frame(
                    flow=sent[number].name,
                    seq=seq,
                    planned_ns=planned_ns,
                    sent_ns=sent_ns,
                    received_ns=min(copies, default=None),
                    scheduled_ns=scheduled_ns,
                    left_ns=left_ns,
                    copies=len(copies),
                )
            )
    return tuple(sorted(frames, key=lambda frame: (frame.planned_ns, frame.flow, frame.seq)))


def _write(recording: Recording, directory: Path) -> None:
    """The frames with instants since the start: the same in every run that went the same way."""
    with (directory / "frames.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for frame in recording:
            values = {column: getattr(frame, column) for column in COLUMNS}
            writer.writerow(
                value - recording.start_ns
                if column.endswith("_ns") and value is not None
                else value
                for column, value in values.items()
            )
