"""Send a plan's streams through a lab and record every frame.

Talkers keep to the plan's offsets on CLOCK_TAI. Beside the streams, best-effort frames wander
through all phases of the cycle: they show what the gates keep out. The first switch of a path sends
them, for a talker's own port has no gates: a long frame there would hold up the talker's streams.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

from cnc.errors import CncError, InputError
from cnc.lab import endpoint
from cnc.lab.addressing import addresses, next_hops
from cnc.lab.lifecycle import check_streams
from cnc.lab.running import Lab
from cnc.model import NS_PER_S, ClassRole, Plan, Stream

START_AHEAD_NS = NS_PER_S
FINISH_TIMEOUT_S = 60  # an end station that writes its result on a loaded machine
BACKGROUND_SHARE = (331, 2_000)  # of the hyperperiod: 331 is prime, so all phases are visited
BACKGROUND_OCTETS = 1_000


@dataclass(frozen=True, slots=True)
class Flow:
    """Periodic frames from one node to another; `payload_octets` is a whole IP packet."""

    name: str
    talker: str
    listener: str
    traffic_class: int
    ip_version: int
    dscp: int
    payload_octets: int
    period_ns: int
    offset_ns: int
    latency_bound_ns: int | None  # None: none promised


@dataclass(frozen=True, slots=True)
class Frame:
    """What became of one frame; times are TAI. `received_ns` is None if it never arrived."""

    flow: str
    seq: int
    planned_ns: int
    sent_ns: int
    received_ns: int | None


def flows(plan: Plan) -> list[Flow]:
    """The planned streams, and a best-effort flow from the first switch of each path to its end.

    Raises:
        InputError: a stream the lab cannot send.
    """
    intent = plan.intent
    check_streams(intent)
    planned = [stream for name, stream in intent.streams.items() if name in plan.streams]
    result = [_stream_flow(plan, stream) for stream in planned]
    background = intent.classes_with(ClassRole.BEST_EFFORT)[0]
    paths = {
        (next_hops(intent.network, flow.listener)[flow.talker].target.node, flow.listener)
        for flow in result
    }
    for switch, listener in sorted(paths):
        if switch == listener:
            continue  # a cable without a switch has no gates
        result.append(
            Flow(
                name=f"background {switch} to {listener}",
                talker=switch,
                listener=listener,
                traffic_class=background.number,
                ip_version=6,
                dscp=min(background.dscps, default=0),
                payload_octets=BACKGROUND_OCTETS,
                period_ns=intent.hyperperiod_ns() * BACKGROUND_SHARE[0] // BACKGROUND_SHARE[1],
                offset_ns=0,
                latency_bound_ns=None,
            )
        )
    return result


def _stream_flow(plan: Plan, stream: Stream) -> Flow:
    if len(stream.listeners) != 1:
        raise InputError(
            f"stream {stream.name} has {len(stream.listeners)} listeners",
            hint="the lab routes unicast only: give every stream one listener to measure it",
        )
    least = endpoint.IP_AND_UDP_OCTETS[stream.ip_version] + endpoint.PROBE.size
    if stream.payload_octets < least:
        raise InputError(
            f"stream {stream.name}: a payload of {stream.payload_octets} octets cannot hold a "
            f"probe over IPv{stream.ip_version}",
            hint=f"{least} octets or more: headers and a sequence number",
        )
    _check_route(plan, stream)
    chosen = plan.class_of(stream.name)
    return Flow(
        name=stream.name,
        talker=stream.talker,
        listener=stream.listeners[0],
        traffic_class=chosen.number,
        ip_version=stream.ip_version,
        dscp=min(chosen.dscps),
        payload_octets=stream.payload_octets,
        period_ns=stream.period_ns,
        offset_ns=plan.streams[stream.name].hops[0].offset_ns,
        latency_bound_ns=plan.streams[stream.name].latency_bound_ns,
    )


def _check_route(plan: Plan, stream: Stream) -> None:
    """The lab routes by destination address, along shortest paths. A plan may lead a stream another
    way, and frames that do not go where their windows are would be measured for nothing."""
    first = next_hops(plan.intent.network, stream.listeners[0])
    for hop in plan.streams[stream.name].hops:
        if first[hop.egress.node].source != hop.egress:
            raise InputError(
                f"stream {stream.name} is planned to leave {hop.egress.node} by "
                f"{hop.egress.port}, the lab's route to {stream.listeners[0]} goes by "
                f"{first[hop.egress.node].source.port}",
                hint="cnc lab routes along shortest paths only: emulate a network without "
                "equally long ways and with room on its links",
            )


def run(lab: Lab, sent: Sequence[Flow], duration_ns: int, directory: Path) -> list[Frame]:
    """Send the flows for a duration, starting with a cycle of the schedule; blocks until the end.

    Writes `frames.csv` into `directory`, beside what each end station recorded.

    Raises:
        CncError: an end station's program failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stations = [
        # Listeners first: they must be there before the first frame.
        *(_Station(lab, "listen", node) for node in sorted({flow.listener for flow in sent})),
        *(_Station(lab, "talk", node) for node in sorted({flow.talker for flow in sent})),
    ]
    try:
        for station in stations:
            station.start(sent, duration_ns, directory)
        for station in stations:
            station.await_ready()
        cycle_ns = lab.intent.hyperperiod_ns()
        start_ns = -(-(endpoint.tai_ns() + START_AHEAD_NS) // cycle_ns) * cycle_ns
        for station in stations:
            station.go(start_ns)
        for station in stations:
            station.finish(duration_ns)
    finally:
        for station in stations:
            station.end()
    frames = _join(directory)
    with (directory / "frames.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Frame))
        writer.writerows(astuple(frame) for frame in frames)
    return frames


class _Station:
    """One end station's program, from its start to its result."""

    def __init__(self, lab: Lab, verb: str, node: str) -> None:
        self._lab = lab
        self._verb = verb
        self._node = node
        self._log = Path()
        self._program: subprocess.Popen[str] | None = None

    def start(self, sent: Sequence[Flow], duration_ns: int, directory: Path) -> None:
        spec = directory / f"{self._verb}-{self._node}.json"
        spec.write_text(json.dumps(self._spec(sent, duration_ns, spec.with_suffix(".csv"))))
        self._log = spec.with_suffix(".log")
        program = [sys.executable, "-I", endpoint.__file__, self._verb, str(spec)]
        with self._log.open("w") as log:
            self._program = subprocess.Popen(
                self._lab.command(self._node, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _spec(self, sent: Sequence[Flow], duration_ns: int, output: Path) -> dict[str, Any]:
        reached = addresses(self._lab.intent)
        own = reached[self._node]
        mine = [
            {
                **asdict(flow),
                "id": number,
                "frames": duration_ns // flow.period_ns,
                "destination": str(reached[flow.listener].of_version(flow.ip_version)),
            }
            for number, flow in enumerate(sent)
            if self._node == (flow.listener if self._verb == "listen" else flow.talker)
        ]
        families = [["AF_INET", str(own.v4)], ["AF_INET6", str(own.v6)]]
        return {
            "flows": mine,
            "duration_ns": duration_ns,
            "addresses": families,
            "output": str(output),
        }

    def await_ready(self) -> None:
        if self._running.stdout is None or self._running.stdout.readline() != "ready\n":
            raise self._failure()

    def go(self, start_ns: int) -> None:
        if self._running.stdin is not None:
            self._running.stdin.write(f"{start_ns}\n")
            self._running.stdin.flush()

    def finish(self, duration_ns: int) -> None:
        if self._running.wait(duration_ns / NS_PER_S + FINISH_TIMEOUT_S) != 0:
            raise self._failure()

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.communicate()

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._program is None:
            raise RuntimeError("start() comes first")
        return self._program

    def _failure(self) -> CncError:
        return CncError(
            f"end station {self._node} could not {self._verb}:\n{self._log.read_text().strip()}"
        )


def _join(directory: Path) -> list[Frame]:
    """Pair what the talkers sent with what the listeners received, in the order of the plan."""
    received = {
        (row["flow"], int(row["seq"])): int(row["received_ns"])
        for path in sorted(directory.glob("listen-*.csv"))
        for row in _rows(path)
    }
    return sorted(
        (
            Frame(
                flow=row["flow"],
                seq=int(row["seq"]),
                planned_ns=int(row["planned_ns"]),
                sent_ns=int(row["sent_ns"]),
                received_ns=received.get((row["flow"], int(row["seq"]))),
            )
            for path in sorted(directory.glob("talk-*.csv"))
            for row in _rows(path)
        ),
        key=lambda frame: (frame.planned_ns, frame.flow),
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
