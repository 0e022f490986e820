"""Stamps of frames of line3 as a trace would have recorded them, made by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from cnc.model import Plan, PortRef
from cnc.testbed.traffic.flows import AnyFlow, flows
from cnc.testbed.traffic.frames import Delivery, Frame
from cnc.testbed.traffic.trace import account, circumstances
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.join import Row, join
from cnc.testbed.traffic.trace.passages import Passage, Passages
from cnc.testbed.traffic.trace.taps import TappedPort
from cnc.testbed.traffic.trace.ways import ways

Stamps = Mapping[str, int]
"""When a frame left each port, `>s1/s2`, and arrived there, `s2/s1`."""
HEADER_OCTETS = 14
T0 = 1_000_000_000_000  # a cycle of line3 begins then
US = 1_000
TORQUE_AT_S1 = T0 + 2_640  # sent at 500 ns; 1,040 of reception, 100 of cable, 1,000 of processing
TORQUE_PLANNED = 9_829, 19_658, 29_487  # when the gates of s1, s2 and s3 open for it


class Record:
    """What was recorded of frames through the network of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sent: list[AnyFlow] = flows(plan)
        self.frames: list[Frame] = []
        self._left: dict[PortRef, list[Passage]] = defaultdict(list)
        self._arrived: dict[PortRef, list[Passage]] = defaultdict(list)

    def add(
        self,
        name: str,
        seq: int,
        ends: tuple[int, int, int],
        deliveries: Iterable[tuple[int, int]],
        stamps: Iterable[tuple[str, int]],
    ) -> None:
        """A frame: planned, sent and scheduled; each arrival at the listener, and when its program
        had it; and the ports that it passed."""
        flow = next(each for each in self.sent if each.name == name)
        number = self.sent.index(flow)
        copies = tuple(Delivery(*each) for each in deliveries)
        planned_ns, sent_ns, scheduled_ns = ends
        received_ns = copies[0].received_ns if copies else None
        self.frames.append(
            Frame(
                *(name, seq, planned_ns, sent_ns, received_ns, scheduled_ns, None, len(copies)),
                copies,
            )
        )
        for port, time_ns in stamps:
            where = PortRef(*port.removeprefix(">").split("/"))
            octets = flow.payload_octets + HEADER_OCTETS
            passage = Passage(time_ns, octets, (number, seq), bytes(HEADER_OCTETS))
            (self._left if port[0] == ">" else self._arrived)[where].append(passage)

    def stranger(self, port: str, time_ns: int, octets: int) -> None:
        """A frame that leaves a port and is no probe."""
        self._left[PortRef(*port.split("/"))].append(Passage(time_ns, octets, None))

    def taps(self, without: str = "") -> dict[PortRef, TappedPort]:
        return {
            port: TappedPort(*(Passages(sorted(its[port])) for its in (self._left, self._arrived)))
            for port in self.plan.intent.network.links
            if str(port) != without
        }

    def rows(self, without: str = "") -> list[Row]:
        routes = {flow.name: ways(self.plan, flow) for flow in self.sent}
        network = self.plan.intent.network
        return list(join(network, routes, self.sent, self.frames, self.taps(without)))

    def accounts(self, *, without: str = "", timed_wires: bool = True) -> list[Account]:
        under = circumstances.of_one_kernel(self.plan, timed_wires=timed_wires)
        taps = self.taps(without)
        return list(account.account(under, self.sent, self.rows(without), taps))


def part(account: Account, place: str, layer: Layer) -> int | None:
    (found,) = (its.duration_ns for its in account.parts if its[:2] == (place, layer))
    return found


def torque(record: Record, seq: int = 0, *, late_ns: int = 0, up_to: int = 8) -> None:
    """A frame of torque by the plan, delivered 300 ns after it came; `late_ns` in the listener, and
    lost after so many stamps."""
    begin_ns = T0 + seq * 500 * US
    s1, s2, s3 = (begin_ns + offset_ns for offset_ns in TORQUE_PLANNED)
    stamps = [
        *((">t1/eth0", begin_ns + 500), ("s1/t1", begin_ns + 2_640)),
        *((">s1/s2", s1), ("s2/s1", s1 + 2_140), (">s2/s3", s2), ("s3/s2", s2 + 2_140)),
        *((">s3/l1", s3), ("l1/eth0", s3 + 1_140)),
    ]
    came = [(s3 + 1_140, s3 + 1_440 + late_ns)] if up_to == len(stamps) else []
    record.add("torque", seq, (begin_ns, begin_ns + 300, begin_ns + 500), came, stamps[:up_to])
