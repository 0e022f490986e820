"""A control loop that is closed over a lab: both programs, and what they record."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeVar

from cnc.errors import CncError, InputError
from cnc.loops.model import Loop
from cnc.model import NS_PER_S, Plan
from cnc.support import whole_file
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import recording
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS
from cnc.testbed.traffic.flows import AnyFlow, BridgedFlow, Flow, UntaggedFlow, flows
from cnc.testbed.traffic.loop import axes, parts, path_error, program
from cnc.testbed.traffic.loop.stations import stations
from cnc.testbed.traffic.sockets import PROBE
from cnc.testbed.traffic.station import Station

_T = TypeVar("_T")

FILE = "loop.csv"
COLUMNS = (
    *("step", "sampled_ns", "output", "sample_received_ns", "answered"),
    *("command_received_ns", "command", "acting", "acting_sample"),
)


@dataclass(frozen=True, slots=True)
class Period:
    """One period of a loop; times count from the start of the loop, each by the clock of the
    station where it is: `sample_received_ns` by the controller's, the others by the plant's.

    `output` was sampled at `sampled_ns`; the sample came to the controller at `sample_received_ns`,
    which then answered the sample with the number `answered`; that answer came to the plant at
    `command_received_ns`. At the deadline of this period `command` acted, the answer of the period
    `acting`, to the sample `acting_sample`. None: nothing came. `further_outputs` and
    `further_commands` are the numbers behind the first.
    """

    step: int
    sampled_ns: int
    output: float
    sample_received_ns: int | None
    answered: int | None
    command_received_ns: int | None
    command: float
    acting: int | None
    acting_sample: int | None
    further_outputs: Sequence[float] = ()
    further_commands: Sequence[float] = ()

    @property
    def is_in_time(self) -> bool:
        """Whether the command that acted was the answer to this period's sample."""
        return self.acting_sample == self.step

    @property
    def delay_ns(self) -> int | None:
        """From the planned instant of the sample until the answer was at the plant, both by the
        plant's clock; None if it was the answer to another sample, or never came."""
        if self.answered != self.step or self.command_received_ns is None:
            return None
        return self.command_received_ns - self.sampled_ns


@dataclass(frozen=True, slots=True)
class Curve:
    """All periods of a run of a loop."""

    loop: Loop
    periods: Sequence[Period]

    @property
    def outputs(self) -> list[float]:
        """Of the first axis, which is all that most plants have."""
        return [period.output for period in self.periods]

    @property
    def axes(self) -> list[list[float]]:
        """What each output was, period by period."""
        further = zip(*(period.further_outputs for period in self.periods), strict=True)
        return [self.outputs, *map(list, further)]

    @property
    def missed(self) -> int:
        """The periods at whose deadline another command acted than the answer to their sample."""
        return sum(not period.is_in_time for period in self.periods)

    @property
    def lost_samples(self) -> int:
        return sum(period.sample_received_ns is None for period in self.periods)

    @property
    def lost_commands(self) -> int:
        return sum(period.command_received_ns is None for period in self.periods)

    @property
    def delays_ns(self) -> list[int]:
        return [ns for period in self.periods if (ns := period.delay_ns) is not None]


def loop_flows(plan: Plan, loop: Loop) -> tuple[AnyFlow, AnyFlow]:
    """The sensor's and the actuator's stream between plant and controller, as a lab sends them.

    Raises:
        InputError: a lab cannot close the loop, or a stream has no place in the plan.
    """
    if loop.name not in plan.loops:
        raise InputError(
            f"loop {loop.name}: a stream of it has no place in the plan",
            hint="a loop is closed by both: plan without --best-effort",
        )
    ends = {
        loop.sensor: plan.intent.streams[loop.actuator].talker,
        loop.actuator: plan.intent.streams[loop.sensor].talker,
    }
    found = {}
    for flow in flows(plan):
        stream = stream_of(flow)
        if ends.get(stream) == flow.listener:
            values = len(axes.resting(loop)) if stream == loop.sensor else axes.inputs(loop)
            _refuse_unfit(flow, stream, values)
            found[stream] = flow
    return found[loop.sensor], found[loop.actuator]


def stream_of(flow: AnyFlow) -> str:
    """The stream whose frames a flow is."""
    return flow.stream if isinstance(flow, BridgedFlow) else flow.name


def _refuse_unfit(flow: AnyFlow, stream: str, values: int) -> None:
    if isinstance(flow, UntaggedFlow):
        raise InputError(
            f"stream {stream}: its talker sends it untagged, and cnc lab loop sends tagged frames "
            "only",
            hint="leave out its key identification",
        )
    headers_octets = IP_AND_UDP_OCTETS[flow.ip_version] if isinstance(flow, Flow) else 0
    least_octets = headers_octets + PROBE.size + program.content_of(values).size
    if flow.payload_octets < least_octets:
        one, the_one = ("a value", "the value") if values == 1 else (f"{values} values",) * 2
        raise InputError(
            f"stream {stream}: a payload of {flow.payload_octets} octets has no room for {one} "
            "of a control loop",
            hint=f"{least_octets} octets or more: headers, two numbers and {the_one}",
        )


def run(
    lab: Lab,
    plan: Plan,
    loop: Loop,
    directory: Path,
    *,
    others: Sequence[AnyFlow] = (),
    modules: Path | None = None,
    lead_ns: int = 0,
    drain_ns: int = recording.DRAIN_NS,
    answers_ns: int | None = None,
) -> Curve:
    """Run a loop through the lab, with other flows beside it; blocks until the end.

    The flows begin `lead_ns`, whole cycles, before the loop. Commands leave `answers_ns` after the
    planned instant of their samples; None: when the plan says. Modules of the operator's are
    looked for in the directory `modules`. Writes `loop.csv` and what `recording.run` writes of the
    flows into `directory`, beside the files of the programs; `offsets.csv` also without flows,
    where nodes have clocks of their own.

    Raises:
        InputError: see `loop_flows`.
        CncError: a program failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if answers_ns is None:
        delay = plan.loops[loop.name]
        answers_ns = delay.total_ns - delay.actuator_ns
    plant_and_controller = stations(
        lab,
        plan,
        loop,
        loop_flows(plan, loop),
        modules=modules or Path.cwd(),
        answers_ns=answers_ns,
    )
    duration_ns = loop.periods * loop.period_ns
    parameters = {"drain_ns": drain_ns}
    try:
        for station in plant_and_controller:
            station.start(directory, parameters)
        for station in plant_and_controller:
            station.await_ready()

        def begin(flows_start_ns: int) -> None:
            for station in plant_and_controller:
                station.send_start(flows_start_ns + lead_ns)

        if others:
            lasting_ns = lead_ns + duration_ns
            sent = recording.run(lab, others, lasting_ns, directory, drain_ns=drain_ns, begun=begin)
            start_ns = sent.start_ns + lead_ns
        else:
            grid_ns = recording.start_grid_ns(lab.intent.hyperperiod_ns())
            start_ns = recording.next_start_ns(grid_ns, plant_and_controller)
            begin(start_ns - lead_ns)
        for station in plant_and_controller:
            station.finish((recording.START_AHEAD_NS * 2 + duration_ns + drain_ns) / NS_PER_S)
    finally:
        for station in plant_and_controller:
            station.end()
    if not others:
        plant, _ = plant_and_controller
        offsets.write_span(directory, lab.nodes, plant.node, start_ns, duration_ns + drain_ns)
    curve = Curve(loop, _joined(plan, loop, plant_and_controller, start_ns))
    write(curve, directory / FILE)
    return curve


def undisturbed(loop: Loop, modules: Path | None = None) -> list[float]:
    """The step responses that a network gives which loses nothing and is in time, to the last
    digit: of the first output.

    Raises:
        InputError: the loop follows a path.
        CncError: see `undisturbed_axes`.
    """
    if loop.path is not None:
        raise InputError(
            f"loop {loop.name} follows a path, and has no step response",
            hint="choose a loop with a `reference`; `cnc lab loop` shows how well a path is "
            "followed",
        )
    return undisturbed_axes(loop, modules)[0]


def undisturbed_axes(loop: Loop, modules: Path | None = None) -> list[list[float]]:
    """As `undisturbed`, of any loop: what each output is.

    A program of its own computes it, which ends when that is done: code of the operator's, in the
    directory `modules`, is run as in the end stations, and nothing of it is left in this process.

    Raises:
        CncError: that code failed.
    """
    own_code = str((modules or Path.cwd()).resolve())
    spec = {
        "controlled": axes.controlled(loop, own_code),
        "answering": axes.answering(loop, own_code),
        "inputs": axes.inputs(loop),
        "period_ns": loop.period_ns,
        "deadline_ns": loop.deadline_ns,
        **axes.references(loop),
    }
    if not loop.has_own_code:
        return _by_output(parts.undisturbed_of(spec))
    with tempfile.TemporaryDirectory() as directory:
        file, output = Path(directory) / "ideal.json", Path(directory) / "ideal.csv"
        file.write_text(json.dumps({**spec, "output": str(output)}))
        words = [sys.executable, "-I", program.__file__, "ideal", str(file)]
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise CncError(
                f"loop {loop.name}: the code of your own failed", hint=done.stderr.strip() or None
            )
        with output.open(newline="") as opened:
            rows = csv.reader(opened)
            next(rows)
            return _by_output([[*map(float, row)] for row in rows])


def _by_output(periods: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[*each] for each in zip(*periods, strict=True)]


def _joined(
    plan: Plan, loop: Loop, programs: tuple[Station, Station], start_ns: int
) -> list[Period]:
    """What both programs recorded, period by period."""
    plant, control = programs
    outputs = len(axes.resting(loop))
    sampled_ns = min(plan.streams[loop.sensor].talker_offsets_ns)
    return [
        Period(
            step=step,
            sampled_ns=sampled_ns + step * loop.period_ns,
            output=float(numbers[0]),
            sample_received_ns=_since(start_ns, sample_received),
            answered=_number(answered),
            command_received_ns=_since(start_ns, command_received),
            command=float(numbers[outputs]),
            acting=_number(acting),
            acting_sample=_number(acting_sample),
            further_outputs=[*map(float, numbers[1:outputs])],
            further_commands=[*map(float, numbers[outputs + 1 :])],
        )
        for step, (
            (_, acting, acting_sample, command_received, *numbers),
            (_, _, answered, sample_received),
        ) in enumerate(zip(plant.rows(), control.rows(), strict=True))
    ]


def _since(start_ns: int, text: str) -> int | None:
    return int(text) - start_ns if text else None


def _number(text: str) -> int | None:
    return int(text) if text else None


def cells(period: Period) -> list[object]:
    """A period as a row under `COLUMNS`; what is None is empty."""
    return [getattr(period, column) for column in COLUMNS]


def period_of(row: Mapping[str, str]) -> Period:
    """Inverse of `cells` and `further_cells`, for a row as text."""
    return Period(
        step=int(row["step"]),
        sampled_ns=int(row["sampled_ns"]),
        output=float(row["output"]),
        sample_received_ns=_number(row["sample_received_ns"]),
        answered=_number(row["answered"]),
        command_received_ns=_number(row["command_received_ns"]),
        command=float(row["command"]),
        acting=_number(row["acting"]),
        acting_sample=_number(row["acting_sample"]),
        further_outputs=_numbered(row, "output_"),
        further_commands=_numbered(row, "command_"),
    )


def _numbered(row: Mapping[str, str], prefix: str) -> list[float]:
    return [float(row[key]) for key in row if key.removeprefix(prefix).isdigit()]


def further_columns(loop: Loop) -> list[str]:
    """Behind `COLUMNS`: the outputs and commands of a loop that has more than one of each."""
    outputs, commands = (
        [f"{what}_{n}" for n in range(2, count + 1)]
        for what, count in (("output", len(axes.resting(loop))), ("command", axes.inputs(loop)))
    )
    return _in_turn(outputs, commands)


def further_cells(period: Period) -> list[float]:
    """A period under `further_columns`."""
    return _in_turn(period.further_outputs, period.further_commands)


def _in_turn(outputs: Sequence[_T], commands: Sequence[_T]) -> list[_T]:
    pairs = chain.from_iterable(zip_longest(outputs, commands))
    return [each for each in pairs if each is not None]


def write(curve: Curve, file: Path) -> None:
    """A row for each period, see `cells`; behind it what only some loops have: output and command
    of each further axis, and of a path where the output was to be, where it was, and how far that
    is."""
    with whole_file.opened_text(file, newline="") as opened:
        writer = csv.writer(opened)
        header, rows = _behind(curve)
        writer.writerow([*COLUMNS, *header])
        writer.writerows(map(chain, map(cells, curve.periods), rows))


def _behind(curve: Curve) -> tuple[list[str], Iterator[Iterator[object]]]:
    loop, outputs = curve.loop, curve.axes
    header = further_columns(loop)
    further: Iterator[Iterator[object]] = (iter(further_cells(each)) for each in curve.periods)
    if loop.path is None:
        return header, further
    names = ("_x", "_y") if len(outputs) > 1 else ("",)
    header += [f"{what}{name}" for what in ("planned", "driven") for name in names]
    followed = zip(
        further,
        axes.planned(loop),
        path_error.driven(loop, outputs),
        ((off,) for off in path_error.distances(loop, outputs)),
        strict=True,
    )
    return [*header, "path_error"], map(chain.from_iterable, followed)
