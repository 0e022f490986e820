"""Send flows through a lab and record every frame.

Talkers keep to the flows' offsets on CLOCK_TAI, and all start together at an instant that lies on
a grid: a repeated run in virtual time gives the same record, octet for octet.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import overload

from cnc.errors import InputError
from cnc.model import NS_PER_S
from cnc.support import whole_file
from cnc.support.format import duration
from cnc.talker import tai_ns
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.flows import (
    AnyFlow,
    BridgedFlow,
    Flow,
    Pattern,
    TcpFlow,
    UntaggedFlow,
    flows,
    marks,
)
from cnc.testbed.traffic.frames import Frame
from cnc.testbed.traffic.pairing import Pairing, Stray, transmissions
from cnc.testbed.traffic.replay.flow import ReplayedFlow
from cnc.testbed.traffic.replay.sender import ReplaySender
from cnc.testbed.traffic.station import Station
from cnc.testbed.traffic.untagged import UdpPackets

__all__ = ["AnyFlow", "BridgedFlow", "Flow", "Frame", "Pattern", "Recording", "flows", "run"]

START_AHEAD_NS = NS_PER_S
HYPERPERIOD_MAX_NS = 600 * NS_PER_S  # the longest wait for a start of any phase
GRID_MAX_NS = 10 * NS_PER_S  # the longest wait for a round start
DRAIN_NS = NS_PER_S  # how long listeners wait after the last planned frame
_PARAMETERS = "frames.json"
COLUMNS = (
    *("flow", "seq", "planned_ns", "sent_ns"),
    *("scheduled_ns", "left_ns", "received_ns", "copies"),
)


@dataclass(frozen=True, slots=True)
class Recording(Sequence[Frame]):
    """Every frame of a run, by planned instant and flow, and the instant (TAI) the run began.

    In a bridged network `strays` are those that arrived where, or as, they should not.
    """

    start_ns: int
    frames: Sequence[Frame]
    strays: tuple[Stray, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Frame]: ...
    def __getitem__(self, index: int | slice) -> Frame | Sequence[Frame]:
        return self.frames[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def __len__(self) -> int:
        return len(self.frames)


def run(
    lab: Lab,
    sent: Sequence[AnyFlow],
    duration_ns: int,
    directory: Path,
    *,
    stamps: bool | Collection[str] = False,
    deliveries: bool = False,
    drain_ns: int = DRAIN_NS,
    grid_ns: int | None = None,
    begun: Callable[[int], None] = lambda _: None,
    listening: Callable[[Mapping[str, int]], None] = lambda _: None,
) -> Recording:
    """Send the flows for a duration, starting with a cycle of the schedule; blocks until the end.

    The start is the first multiple of `grid_ns` at least START_AHEAD_NS ahead; without one, see
    `start_grid_ns`. With `stamps` the talkers' kernels record when each frame entered and left
    the queue, of all flows or of those that it names, with `deliveries` the listeners' programs
    when they had each. Listeners wait for `drain_ns` beyond the duration. `begun` is called ahead
    of the start with its instant, and before it `listening`, with the process of each listener's
    program, by node.

    Writes `frames.csv`, whose instants count from the start, and `frames.json`, the parameters
    of the run, into `directory`, beside the files of each end station; in a bridged network
    `strays.csv`, too, and in a lab whose nodes have clocks of their own `offsets.csv`, their true
    offsets in that time.

    Raises:
        InputError: a flow would not send a single frame, or `stamps` names none of them.
        CncError: an end station's program failed.
    """
    for flow in sent:
        if flow.period_ns > duration_ns and not isinstance(flow, ReplayedFlow):
            raise InputError(
                f"flow {flow.name} sends a frame every {duration(flow.period_ns)}, none within "
                f"{duration(duration_ns)}",
                hint="send for longer",
            )
    directory.mkdir(parents=True, exist_ok=True)
    grid_ns = grid_ns or start_grid_ns(lab.intent.hyperperiod_ns())
    parameters: dict[str, object] = {
        "duration_ns": duration_ns,
        "drain_ns": drain_ns,
        "stamps": _stamped(sent, stamps),
        "deliveries": deliveries,
    }
    listeners, talkers = listeners_and_talkers(lab, sent)
    stations = [*listeners, *talkers]  # in this order: listeners must be ready first
    try:
        for station in stations:
            station.start(directory, parameters)
        for station in stations:
            station.await_ready()
        listening({listener.node: listener.pid for listener in listeners})
        start_ns = next_start_ns(grid_ns, stations)
        for talker in talkers:
            talker.send_start(start_ns)
        begun(start_ns)
        ahead_ns = START_AHEAD_NS + grid_ns
        for talker in talkers:
            talker.finish((ahead_ns + duration_ns + drain_ns) / NS_PER_S)
        for listener in listeners:
            listener.finish()
    finally:
        for station in stations:
            station.end()
    recording = _paired(start_ns, sent, listeners, talkers, deliveries=deliveries)
    is_bridged = any(isinstance(flow, BridgedFlow) for flow in sent)
    _write(recording, directory, is_bridged=is_bridged)
    about = {"start_ns": start_ns, "clock": "CLOCK_TAI", **parameters, "sender": endpoint.program()}
    about["flows"] = [_described(flow) for flow in sent]
    (directory / _PARAMETERS).write_text(json.dumps(about, indent=2))
    offsets.write_span(directory, lab.nodes, talkers[0].node, start_ns, duration_ns + drain_ns)
    return recording


def _stamped(sent: Sequence[AnyFlow], stamps: bool | Collection[str]) -> bool | list[int]:
    """Whether all flows have stamps, or the numbers by which talkers know those that do.

    Raises InputError for a name that no flow has.
    """
    if isinstance(stamps, bool):
        return stamps
    names = [flow.name for flow in sent]
    for name in stamps:
        if name not in names:
            raise InputError(f"stamps: found the flow {name!r}, expected one of {', '.join(names)}")
    return [
        number
        for number, its in transmissions(sent).items()
        if any(flow.name in stamps for flow in its)
    ]


def read(lab: Lab, sent: Sequence[AnyFlow], directory: Path) -> Recording:
    """What `run` has recorded, from the files that it has left in a directory.

    Raises OSError as they do.
    """
    about = json.loads((directory / _PARAMETERS).read_text())
    listeners, talkers = listeners_and_talkers(lab, sent)
    for station in (*listeners, *talkers):
        station.result_in(directory)
    return _paired(about["start_ns"], sent, listeners, talkers, deliveries=about["deliveries"])


def _paired(
    start_ns: int,
    sent: Sequence[AnyFlow],
    listeners: Sequence[Station],
    talkers: Sequence[Station],
    *,
    deliveries: bool,
) -> Recording:
    """The frames of programs that have ended."""
    paired = Pairing(sent, transmissions(sent), listeners, talkers)
    frames = paired.columns(talkers) if deliveries else paired.frames(talkers)
    return Recording(start_ns, frames, tuple(paired.strays))


def listeners_and_talkers(lab: Lab, sent: Sequence[AnyFlow]) -> tuple[list[Station], list[Station]]:
    """The programs of a run, not started."""
    programs = _programs({number: sent[number] for number in transmissions(sent)})
    talkers = [_talker(lab, sent, numbers, turn) for turn, numbers in enumerate(programs)]
    return _listeners(lab, sent), talkers


def start_grid_ns(hyperperiod_ns: int) -> int:
    """Whole hyperperiods that are whole seconds, if not too long: then a run starts at the same
    phase of everything that is periodic in a second or in the schedule.

    Raises InputError where the streams repeat together too rarely to wait for that.
    """
    if hyperperiod_ns > HYPERPERIOD_MAX_NS:
        raise InputError(
            f"all streams repeat together only every {duration(hyperperiod_ns)}, and a run starts "
            "at such an instant",
            hint="measure streams whose periods divide one another, in an intent of their own",
        )
    round_ns = math.lcm(hyperperiod_ns, NS_PER_S)
    return round_ns if round_ns <= GRID_MAX_NS else hyperperiod_ns


def next_start_ns(grid_ns: int, stations: Iterable[Station]) -> int:
    """The first multiple of `grid_ns` that is START_AHEAD_NS ahead, by this machine's clock and by
    those of stations that are ready."""
    ahead_ns = max((0, *(station.ahead_ns for station in stations)))
    return -(-(tai_ns() + ahead_ns + START_AHEAD_NS) // grid_ns) * grid_ns


def _programs(sent: Mapping[int, AnyFlow]) -> list[list[int]]:
    """Which flows, by number, one talker's program sends: all periodic ones of a node together, all
    replayed ones, and alone one that may have to wait, since it would delay the others: a
    saturating one, and one over TCP."""
    programs: dict[tuple[str, object], list[int]] = defaultdict(list)
    for number, flow in sent.items():
        alone = flow.pattern is Pattern.SATURATING or isinstance(flow, TcpFlow)
        programs[flow.talker, number if alone else type(flow) is ReplayedFlow].append(number)
    return list(programs.values())


def _talker(lab: Lab, sent: Sequence[AnyFlow], numbers: Sequence[int], turn: int) -> Station:
    node = sent[numbers[0]].talker
    replayed = {n: flow for n in numbers if isinstance(flow := sent[n], ReplayedFlow)}
    if replayed:
        return ReplaySender(lab, node, turn, replayed, addresses(lab.intent))
    flow_specs = [
        {**asdict(sent[number]), "id": number, **_ways(lab, sent[number])} for number in numbers
    ]
    return Station(lab, "talk", node, turn, {"flows": flow_specs, "turn": turn})


def _described(flow: AnyFlow) -> dict[str, object]:
    """A flow in `frames.json`; the timeline of a replayed one is in the file of its talker."""
    return {key: value for key, value in asdict(flow).items() if key != "timeline"}


def _ways(lab: Lab, flow: AnyFlow) -> dict[str, str | None]:
    """What of a flow its talker cannot know: by which name to find its offset, where to send."""
    if isinstance(flow, BridgedFlow):
        return {"name": flow.stream, "offsets": _offsets_file(lab, flow, flow.stream)}
    destination = addresses(lab.intent)[flow.listener].of_version(flow.ip_version)
    return {"offsets": _offsets_file(lab, flow, flow.name), "destination": str(destination)}


def _offsets_file(lab: Lab, flow: AnyFlow, stream: str) -> str | None:
    """Where the talker finds when to send: a stream of a station that has an agent, or None."""
    is_stream = stream in lab.intent.streams and flow.latency_bound_ns is not None
    if not is_stream or flow.talker not in lab.intent.network.managed:
        return None
    return str(lab.offsets_file(flow.talker))


def _listeners(lab: Lab, sent: Sequence[AnyFlow]) -> list[Station]:
    """The nodes that flows are for; of bridged flows all end stations, which see what strays."""
    network = lab.intent.network
    if not any(isinstance(flow, BridgedFlow) for flow in sent):
        return [
            _packet_listener(lab, node, sent) for node in sorted({flow.listener for flow in sent})
        ]
    ports: dict[str, list[str]] = defaultdict(list)
    for port in sorted(network.links):
        if port.node in network.end_stations:
            ports[port.node].append(port.port)
    sockets: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
    for flow in sent:
        if isinstance(flow, Flow):
            sockets[flow.listener].add(_own_socket(lab, flow.listener, flow.ip_version))
        if isinstance(flow, UntaggedFlow) and isinstance(packets := flow.sending, UdpPackets):
            family = endpoint.FAMILIES[packets.ip_version]
            sockets[flow.listener].add((family, packets.destination, packets.port))
    known = marks(sent)._asdict()
    return [
        Station(
            lab,
            "listen",
            node,
            0,
            {"addresses": sorted(sockets[node]), "interfaces": ports[node], **known},
        )
        for node in sorted({*ports, *sockets})
    ]


def _packet_listener(lab: Lab, node: str, sent: Sequence[AnyFlow]) -> Station:
    families = [_own_socket(lab, node, version) for version in endpoint.FAMILIES]
    connections = [
        (*_own_socket(lab, node, flow.ip_version)[:2], flow.tcp_port, number, flow.write_octets)
        for number, flow in enumerate(sent)
        if isinstance(flow, TcpFlow) and flow.listener == node
    ]
    spec = {"addresses": families, "interfaces": [], "connections": connections}
    return Station(lab, "listen", node, 0, spec)


def _own_socket(lab: Lab, node: str, ip_version: int) -> tuple[str, str, int]:
    """Family, address and port at which a node gets the packets of flows."""
    own = addresses(lab.intent)[node].of_version(ip_version)
    return endpoint.FAMILIES[ip_version], str(own), endpoint.PORT


def _write(recording: Recording, directory: Path, *, is_bridged: bool) -> None:
    """The frames with instants since the start: the same in every run that went the same way."""
    _write_rows(directory / "frames.csv", COLUMNS, recording, recording.start_ns)
    if is_bridged:
        columns = [field.name for field in fields(Stray)]
        _write_rows(directory / "strays.csv", columns, recording.strays, recording.start_ns)


def _write_rows(
    file: Path, columns: Sequence[str], rows: Iterable[Frame | Stray], start_ns: int
) -> None:
    with whole_file.opened_text(file, newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(columns)
        for row in rows:
            values = {column: getattr(row, column) for column in columns}
            writer.writerow(
                value - start_ns if column.endswith("_ns") and value is not None else value
                for column, value in values.items()
            )
