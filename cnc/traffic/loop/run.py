"""A control loop that is closed over a lab: both programs, and what they record."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cnc.addressing import addresses
from cnc.errors import InputError
from cnc.lab.running import Lab
from cnc.loops import Loop, PythonController
from cnc.model import NS_PER_S, Plan
from cnc.traffic import recording
from cnc.traffic.endpoint import IP_AND_UDP_OCTETS
from cnc.traffic.flows import AnyFlow, BridgedFlow, Flow, UntaggedFlow, flows
from cnc.traffic.loop import parts, program
from cnc.traffic.sockets import PROBE
from cnc.traffic.station import Station

FILE = "loop.csv"
PORT = 5006  # beside that of `cnc.traffic.endpoint`
TURN = 200  # of the rehearsals, behind those of all talkers
COLUMNS = (
    *("step", "sampled_ns", "output", "sample_received_ns", "answered"),
    *("command_received_ns", "command", "acting", "acting_sample"),
)


@dataclass(frozen=True, slots=True)
class Period:
    """One period of a loop; times count from the start of the loop.

    `output` was sampled at `sampled_ns`; the sample came to the controller at `sample_received_ns`,
    which then answered the sample with the number `answered`; that answer came to the plant at
    `command_received_ns`. At the deadline of this period `command` acted, the answer of the period
    `acting`, to the sample `acting_sample`. None: nothing came.
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

    @property
    def is_in_time(self) -> bool:
        """Whether the command that acted was the answer to this period's sample."""
        return self.acting_sample == self.step

    @property
    def delay_ns(self) -> int | None:
        """From the planned instant of the sample until the answer was at the plant; None if it was
        the answer to another sample, or never came."""
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
        return [period.output for period in self.periods]

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
            _refuse_unfit(flow, stream)
            found[stream] = flow
    return found[loop.sensor], found[loop.actuator]


def stream_of(flow: AnyFlow) -> str:
    """The stream whose frames a flow is."""
    return flow.stream if isinstance(flow, BridgedFlow) else flow.name


def _refuse_unfit(flow: AnyFlow, stream: str) -> None:
    if isinstance(flow, UntaggedFlow):
        raise InputError(
            f"stream {stream}: its talker sends it untagged, and cnc lab loop sends tagged frames "
            "only",
            hint="leave out its key identification",
        )
    headers_octets = IP_AND_UDP_OCTETS[flow.ip_version] if isinstance(flow, Flow) else 0
    least_octets = headers_octets + PROBE.size + program.CONTENT.size
    if flow.payload_octets < least_octets:
        raise InputError(
            f"stream {stream}: a payload of {flow.payload_octets} octets has no room for a value "
            "of a control loop",
            hint=f"{least_octets} octets or more: headers, two numbers and the value",
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
    planned instant of their samples; None: when the plan says. A controller of the operator is
    looked for in `modules`. Writes `loop.csv` and what `recording.run` writes of the flows into
    `directory`, beside the files of the programs.

    Raises:
        InputError: see `loop_flows`.
        CncError: a program failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if answers_ns is None:
        delay = plan.loops[loop.name]
        answers_ns = delay.total_ns - delay.actuator_ns
    stations = _stations(lab, plan, loop, modules or Path.cwd(), answers_ns)
    duration_ns = loop.periods * loop.period_ns
    parameters = {"drain_ns": drain_ns}
    try:
        for station in stations:
            station.start(directory, parameters)
        for station in stations:
            station.await_ready()

        def begin(flows_start_ns: int) -> None:
            for station in stations:
                station.send_start(flows_start_ns + lead_ns)

        if others:
            lasting_ns = lead_ns + duration_ns
            sent = recording.run(lab, others, lasting_ns, directory, drain_ns=drain_ns, begun=begin)
            start_ns = sent.start_ns + lead_ns
        else:
            grid_ns = recording.start_grid_ns(lab.intent.hyperperiod_ns())
            start_ns = recording.next_start_ns(grid_ns)
            begin(start_ns - lead_ns)
        for station in stations:
            station.finish((recording.START_AHEAD_NS * 2 + duration_ns + drain_ns) / NS_PER_S)
    finally:
        for station in stations:
            station.end()
    curve = Curve(loop, _joined(plan, loop, stations, start_ns))
    write(curve, directory / FILE)
    return curve


def _stations(
    lab: Lab, plan: Plan, loop: Loop, modules: Path, answers_ns: int
) -> tuple[Station, Station]:
    """The plant's and the controller's program, not started."""
    sensor, actuator = loop_flows(plan, loop)
    sampled_ns = min(plan.streams[loop.sensor].talker_offsets_ns)
    common = {"period_ns": loop.period_ns, "periods": loop.periods}
    plant = {
        **common,
        "flow": _sent(lab, sensor),
        "listener": _heard(lab, plan, actuator),
        "plant": _numbers(loop.plant),
        "sampled_ns": sampled_ns,
        "deadline_ns": loop.deadline_ns,
        "turn": TURN,
    }
    controller = {
        **common,
        "flow": _sent(lab, actuator),
        "listener": _heard(lab, plan, sensor),
        "controller": _numbers(loop.controller),
        "modules": str(modules.resolve()),
        **_references(loop),
        "leaves_ns": sampled_ns + answers_ns,
        "compute_ns": loop.compute_ns,
        "turn": TURN + 1,
    }
    return (
        Station(lab, "plant", sensor.talker, 0, plant, file=program.__file__),
        Station(lab, "control", actuator.talker, 0, controller, file=program.__file__),
    )


def undisturbed(loop: Loop) -> list[float] | None:
    """The outputs that a network gives which loses nothing and is in time, to the last digit.

    None: the controller is the operator's, whose code nothing but the controller's station runs.
    """
    if isinstance(loop.controller, PythonController):
        return None
    plant = parts.plant_of(_numbers(loop.plant))
    controller = parts.controller_of(_numbers(loop.controller), loop.period_ns, "")
    reference = _references(loop)
    references = [parts.reference_at(n, reference) for n in range(loop.periods)]
    return parts.undisturbed(plant, controller, references, loop.period_ns, loop.deadline_ns)


def _references(loop: Loop) -> dict[str, Any]:
    """What `parts.reference_at` needs."""
    return {"reference": str(loop.reference), "periods_a_step": loop.periods // loop.steps}


def _numbers(its: Any) -> dict[str, Any]:
    """The fields of a plant or a controller, decimal numbers as text."""
    return {
        key: str(value) if isinstance(value, Decimal) else value
        for key, value in asdict(its).items()
    }


def _sent(lab: Lab, flow: AnyFlow) -> dict[str, Any]:
    if isinstance(flow, BridgedFlow):
        return asdict(flow)
    destination = addresses(lab.intent)[flow.listener].of_version(flow.ip_version)
    way = {"destination": str(destination), "port": PORT, "source": None, "source_port": None}
    return {**asdict(flow), **way}


def _heard(lab: Lab, plan: Plan, flow: AnyFlow) -> Mapping[str, Any]:
    """Where a flow's frames arrive."""
    if isinstance(flow, Flow):
        own = addresses(lab.intent)[flow.listener].of_version(flow.ip_version)
        family = {4: "AF_INET", 6: "AF_INET6"}[flow.ip_version]
        return {"family": family, "address": str(own), "port": PORT}
    links = plan.intent.network.links
    targets = (links[hop.egress].target for hop in plan.streams[flow.stream].hops)
    ports = sorted({target.port for target in targets if target.node == flow.listener})
    if len(ports) > 1:
        raise InputError(
            f"stream {flow.stream} comes to {flow.listener} by {' and '.join(ports)}, and "
            "cnc lab loop listens at one port",
            hint="close the loop by streams with one path, or at a station with one link",
        )
    return {"interface": ports[0]}


def _joined(
    plan: Plan, loop: Loop, stations: tuple[Station, Station], start_ns: int
) -> list[Period]:
    """What both programs recorded, period by period."""
    plant, control = stations
    sampled_ns = min(plan.streams[loop.sensor].talker_offsets_ns)
    return [
        Period(
            step=step,
            sampled_ns=sampled_ns + step * loop.period_ns,
            output=float(output),
            sample_received_ns=_since(start_ns, sample_received),
            answered=_number(answered),
            command_received_ns=_since(start_ns, command_received),
            command=float(command),
            acting=_number(acting),
            acting_sample=_number(acting_sample),
        )
        for step, (
            (_, output, command, acting, acting_sample, command_received),
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
    """Inverse of `cells`, for a row as text."""
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
    )


def write(curve: Curve, file: Path) -> None:
    """A row for each period, see `cells`."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        writer.writerows(map(cells, curve.periods))
