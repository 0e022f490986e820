"""What became of frames of streams: each in time at its listeners, and nowhere else?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cnc.model import Network
from cnc.testbed.traffic.ethernet import Arrival

INTERFACE = "eth0"


@dataclass(frozen=True, slots=True)
class Sent:
    """A stream as its talker is told of it, and until when its frames may be at each listener: the
    first bit, from the start of the interval. Without listeners nothing is promised to anybody."""

    number: int
    name: str
    talker: str
    latencies_ns: Mapping[str, int]
    destination_mac: str
    vlan_id: int | None
    pcp: int | None
    payload_octets: int
    period_ns: int
    offset_ns: int
    interface: str = INTERFACE

    def has_marks_of(self, arrival: Arrival) -> bool:
        marks = arrival.destination_mac, arrival.vlan_id, arrival.pcp
        return marks == (self.destination_mac, self.vlan_id, self.pcp)


@dataclass(frozen=True, slots=True)
class Judged:
    """`frames` at listeners, the longest latency as a share of what was stated, and a line for each
    frame with a fault."""

    frames: int
    worst: float
    faults: Sequence[str]


class Judge:
    """Takes all arrivals, then what talkers have sent."""

    def __init__(self, network: Network, streams: Mapping[int, Sent]) -> None:
        self._streams = streams
        self._links = {link.target.node: link for link in network.links.values()}
        self._network = network
        self._arrived: defaultdict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
        self._faults: list[str] = []
        self._frames, self._worst = 0, 0.0

    def take_arrivals(self, node: str, arrivals: Iterable[Arrival]) -> None:
        for each in arrivals:
            its = self._streams[each.number]
            if not its.latencies_ns:
                continue
            if not its.has_marks_of(each):
                self._faults.append(f"{its.name}, frame {each.seq}: other marks at {node}")
            # The stamp is that of the last bit.
            frame_ns = self._network.reception_ns(self._links[node], its.payload_octets)
            first_bit_ns = each.received_ns - frame_ns
            self._arrived[each.number, each.seq].append((node, first_bit_ns))

    def take_sent(self, frames: Iterable[Iterable[int]]) -> None:
        """Of each frame number, seq, planned_ns, sent_ns."""
        for number, seq, planned_ns, sent_ns in frames:
            its = self._streams[number]
            seen = self._arrived.pop((number, seq), [])
            self._frames += len(its.latencies_ns)
            about = f"{its.name}, frame {seq}, sent {sent_ns - planned_ns} ns late"
            found = self._of_frame(its, planned_ns - its.offset_ns, seen)
            self._faults += (f"{about}: {fault}" for fault in found)

    def _of_frame(self, its: Sent, begin_ns: int, seen: list[tuple[str, int]]) -> Iterator[str]:
        for node, bound_ns in its.latencies_ns.items():
            stamps_ns = [at_ns for where, at_ns in seen if where == node]
            if len(stamps_ns) != 1:
                yield f"{len(stamps_ns)} times at {node}"
                continue
            took_ns = stamps_ns[0] - begin_ns
            self._worst = max(self._worst, took_ns / bound_ns)
            if took_ns > bound_ns:
                yield f"at {node} after {took_ns} ns, stated were {bound_ns}"
        for node in {where for where, _ in seen} - its.latencies_ns.keys():
            yield f"astray at {node}"

    def judged(self) -> Judged:
        """Raises AssertionError for a frame that arrived and was not sent."""
        assert not self._arrived, [*self._arrived][:9]
        return Judged(self._frames, self._worst, self._faults)
