"""Send flows through a lab and record every frame.

Talkers keep to the flows' offsets on CLOCK_TAI, and all start together at an instant that lies on
a grid: a repeated run in virtual time gives the same record, octet for octet.
"""

from __future__ import annotations

import csv
import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import overload

from cnc.addressing import addresses
from cnc.errors import InputError
from cnc.format import duration
from cnc.lab.kernels import offsets
from cnc.lab.running import Lab
from cnc.model import NS_PER_S
from cnc.talker import tai_ns
from cnc.traffic import endpoint
from cnc.traffic.ethernet import Arrival, Destination
from cnc.traffic.flows import AnyFlow, BridgedFlow, Flow, Pattern, UntaggedFlow, flows
from cnc.traffic.frames import Deliveries, Delivery, Frame, FrameColumns
from cnc.traffic.station import Station
from cnc.traffic.untagged import UdpPackets

__all__ = ["AnyFlow", "BridgedFlow", "Flow", "Frame", "Pattern", "Recording", "flows", "run"]

START_AHEAD_NS = NS_PER_S
GRID_MAX_NS = 10 * NS_PER_S  # the longest wait for a round start
DRAIN_NS = NS_PER_S  # how long listeners wait after the last planned frame
COLUMNS = (
    *("flow", "seq", "planned_ns", "sent_ns"),
    *("scheduled_ns", "left_ns", "received_ns", "copies"),
)


@dataclass(frozen=True, slots=True)
class Stray:
    """A frame of a bridged network that arrived at a node that is no listener of its stream, or
    with another address or tag than it was sent with."""

    stream: str
    seq: int
    node: str
    received_ns: int
    destination_mac: str | None
    vlan_id: int | None
    pcp: int | None


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
    stamps: bool = False,
    deliveries: bool = False,
    drain_ns: int = DRAIN_NS,
    grid_ns: int | None = None,
    begun: Callable[[int], None] = lambda _: None,
) -> Recording:
    """Send the flows for a duration, starting with a cycle of the schedule; blocks until the end.

    The start is the first multiple of `grid_ns` at least START_AHEAD_NS ahead; without one, see
    `start_grid_ns`. With `stamps` the talkers' kernels record when each frame entered and left
    the queue, with `deliveries` the listeners' programs when they had each. Listeners wait for
    `drain_ns` beyond the duration. `begun` is called ahead of the start with its instant.

    Writes `frames.csv`, whose instants count from the start, and `frames.json`, the parameters
    of the run, into `directory`, beside the files of each end station; in a bridged network
    `strays.csv`, too, and in a lab whose nodes have clocks of their own `offsets.csv`, their true
    offsets in that time.

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
    parameters["deliveries"] = deliveries
    listeners, talkers = listeners_and_talkers(lab, sent)
    stations = [*listeners, *talkers]  # in this order: listeners must be ready first
    try:
        for station in stations:
            station.start(directory, parameters)
        for station in stations:
            station.await_ready()
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
    joined = _Join(sent, _transmissions(sent), listeners, talkers)
    frames = joined.columns(talkers) if deliveries else joined.frames(talkers)
    recording = Recording(start_ns, frames, tuple(joined.strays))
    is_bridged = any(isinstance(flow, BridgedFlow) for flow in sent)
    _write(recording, directory, is_bridged=is_bridged)
    about = {"start_ns": start_ns, "clock": "CLOCK_TAI", **parameters, "sender": endpoint.program()}
    about["flows"] = [asdict(flow) for flow in sent]
    (directory / "frames.json").write_text(json.dumps(about, indent=2))
    offsets.write_span(directory, lab.nodes, talkers[0].node, start_ns, duration_ns + drain_ns)
    return recording


def listeners_and_talkers(lab: Lab, sent: Sequence[AnyFlow]) -> tuple[list[Station], list[Station]]:
    """The programs of a run, not started."""
    programs = _programs({number: sent[number] for number in _transmissions(sent)})
    talkers = [_talker(lab, sent, numbers, turn) for turn, numbers in enumerate(programs)]
    return _listeners(lab, sent), talkers


def start_grid_ns(hyperperiod_ns: int) -> int:
    """Whole hyperperiods that are whole seconds, if not too long: then a run starts at the same
    phase of everything that is periodic in a second or in the schedule."""
    round_ns = math.lcm(hyperperiod_ns, NS_PER_S)
    return round_ns if round_ns <= GRID_MAX_NS else hyperperiod_ns


def next_start_ns(grid_ns: int, stations: Iterable[Station]) -> int:
    """The first multiple of `grid_ns` that is START_AHEAD_NS ahead, by this machine's clock and by
    those of stations that are ready."""
    ahead_ns = max((0, *(station.ahead_ns for station in stations)))
    return -(-(tai_ns() + ahead_ns + START_AHEAD_NS) // grid_ns) * grid_ns


def _transmissions(sent: Sequence[AnyFlow]) -> dict[int, list[AnyFlow]]:
    """The flows that are the same frames at several listeners, by the number of the first."""
    numbers: dict[str, int] = {}
    result: dict[int, list[AnyFlow]] = defaultdict(list)
    for number, flow in enumerate(sent):
        name = flow.stream if isinstance(flow, BridgedFlow) else flow.name
        result[numbers.setdefault(name, number)].append(flow)
    return result


def _programs(sent: Mapping[int, AnyFlow]) -> list[list[int]]:
    """Which flows, by number, one talker's program sends: all periodic ones of a node together, a
    saturating one alone, since it would delay the others."""
    programs: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for number, flow in sent.items():
        alone = flow.pattern is Pattern.SATURATING
        programs[flow.talker, number if alone else None].append(number)
    return list(programs.values())


def _talker(lab: Lab, sent: Sequence[AnyFlow], numbers: Sequence[int], turn: int) -> Station:
    flow_specs = [
        {**asdict(sent[number]), "id": number, **_ways(lab, sent[number])} for number in numbers
    ]
    return Station(lab, "talk", sent[numbers[0]].talker, turn, {"flows": flow_specs, "turn": turn})


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
        return [_packet_listener(lab, node) for node in sorted({flow.listener for flow in sent})]
    ports: dict[str, list[str]] = defaultdict(list)
    for port in sorted(network.links):
        if port.node in network.end_stations:
            ports[port.node].append(port.port)
    sockets: dict[str, set[tuple[str, str, int]]] = defaultdict(set)
    for flow in sent:
        if isinstance(flow, UntaggedFlow) and isinstance(packets := flow.sending, UdpPackets):
            family = endpoint.FAMILIES[packets.ip_version]
            sockets[flow.listener].add((family, packets.destination, packets.port))
    udp_ports = sorted({port for its in sockets.values() for *_, port in its})
    return [
        Station(
            lab,
            "listen",
            node,
            0,
            {"addresses": sorted(sockets[node]), "interfaces": each, "udp_ports": udp_ports},
        )
        for node, each in ports.items()
    ]


def _packet_listener(lab: Lab, node: str) -> Station:
    own = addresses(lab.intent)[node]
    port = endpoint.PORT
    families = [["AF_INET", str(own.v4), port], ["AF_INET6", str(own.v6), port]]
    return Station(lab, "listen", node, 0, {"addresses": families, "interfaces": []})


class _Join:
    """Pairs what the talkers sent with what the listeners received."""

    def __init__(
        self,
        sent: Sequence[AnyFlow],
        transmissions: Mapping[int, Sequence[AnyFlow]],
        listeners: Sequence[Station],
        talkers: Sequence[Station],
    ) -> None:
        self._sent = sent
        self._transmissions = transmissions
        self._destinations: dict[int, list[tuple[int, Destination]]] = defaultdict(list)
        for talker in talkers:
            for number, first_seq, destination in talker.destinations():
                self._destinations[number].append((first_seq, destination))
        # A measurement has hundreds of thousands: only what is asked for is kept of each.
        self._arrivals: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        self._deliveries: dict[tuple[str, int], Deliveries] = defaultdict(Deliveries)
        self.strays: list[Stray] = []
        for listener in listeners:
            for arrival in listener.arrivals():
                self._take(listener.node, arrival)

    def _take(self, node: str, arrival: Arrival) -> None:
        number, seq, received_ns, *destination, delivered_ns = arrival
        flow = self._sent[number]
        if isinstance(flow, BridgedFlow):
            is_altered = tuple(destination) != self._addressed(flow, number, seq)
            is_packet = isinstance(flow, UntaggedFlow) and isinstance(flow.sending, UdpPackets)
            is_flooded = flow.latency_bound_ns is None
            is_for_node = any(each.listener == node for each in self._transmissions[number])
            if is_packet and arrival.destination_mac is None:
                is_altered = False  # the listener's own socket got it
            if is_altered or not (is_for_node or is_flooded):
                self.strays.append(Stray(flow.stream, seq, node, *arrival[2:-1]))
                return
            if is_packet and arrival.destination_mac is not None:
                return  # it is at its listener, whose own socket counts it
        if delivered_ns is None:
            self._arrivals[node, number, seq].append(received_ns)
        else:
            self._deliveries[node, number].add(seq, Delivery(received_ns, delivered_ns))

    def _addressed(self, flow: BridgedFlow, number: int, seq: int) -> Destination:
        """What a frame is to have where it arrives: what it was sent to, the last destination of
        its flow by then, unless the last switch gives it another."""
        if isinstance(flow, UntaggedFlow):
            return flow.destination_mac, flow.vlan_id, flow.pcp
        its = self._destinations[number]
        return its[bisect_right(its, seq, key=lambda each: each[0]) - 1][1]

    def frames(self, talkers: Sequence[Station]) -> tuple[Frame, ...]:
        """Every frame at each of its listeners, in the order of the plan. To be asked for once."""
        frames = []
        for talker in talkers:
            for number, seq, planned_ns, sent_ns, scheduled_ns, left_ns in talker.sent():
                for flow in self._transmissions[number]:
                    received_ns = self._arrivals.pop((flow.listener, number, seq), [])
                    frames.append(
                        Frame(
                            flow=flow.name,
                            seq=seq,
                            planned_ns=planned_ns,
                            sent_ns=sent_ns,
                            received_ns=min(received_ns, default=None),
                            scheduled_ns=scheduled_ns,
                            left_ns=left_ns,
                            copies=len(received_ns),
                        )
                    )
        return tuple(sorted(frames, key=lambda frame: (frame.planned_ns, frame.flow, frame.seq)))

    def columns(self, talkers: Sequence[Station]) -> FrameColumns:
        """As `frames`, with deliveries."""
        deliveries = {
            flow.name: self._deliveries[flow.listener, number]
            for number, flows_ in self._transmissions.items()
            for flow in flows_
        }
        columns = FrameColumns(deliveries)
        for talker in talkers:
            for number, *row in talker.sent():
                for flow in self._transmissions[number]:
                    columns.append(flow.name, row)
        columns.sort()
        return columns


def _write(recording: Recording, directory: Path, *, is_bridged: bool) -> None:
    """The frames with instants since the start: the same in every run that went the same way."""
    _write_rows(directory / "frames.csv", COLUMNS, recording, recording.start_ns)
    if is_bridged:
        columns = [field.name for field in fields(Stray)]
        _write_rows(directory / "strays.csv", columns, recording.strays, recording.start_ns)


def _write_rows(
    file: Path, columns: Sequence[str], rows: Iterable[Frame | Stray], start_ns: int
) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(columns)
        for row in rows:
            values = {column: getattr(row, column) for column in columns}
            writer.writerow(
                value - start_ns if column.endswith("_ns") and value is not None else value
                for column, value in values.items()
            )
