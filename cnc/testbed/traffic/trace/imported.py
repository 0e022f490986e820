"""Where the time of packets went between two real hosts, which have no clock in common.

After X-LAP (Reif and others, RTN 2017), equations (1), (2) and (4):

    sender    left_ns - app_ns       from the program's reading of the clock until the driver has it
    receiver  got_ns - rx_ns         from the kernel's time stamp to the program's reading
    total     sender + receiver

Each is a difference on one clock. The channel, equation (3), is not: it is unknown, and no part of
the total. As in the paper the receiver's stamps are moved, so that a packet comes when it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cnc.errors import InputError
from cnc.model import PortRef
from cnc.testbed.traffic.column import Column
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.measure import Spread, spread
from cnc.testbed.traffic.trace.account import Account, Layer, Part, between
from cnc.testbed.traffic.trace.host_tables import Clocks, Host, IsochronReport, ProbeTables, Stamps
from cnc.testbed.traffic.trace.join import Crossing, Kind, Row

HOPS = 1
_FILES_MAX = 2


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The hosts of a run, and how late the sender's program was when it read the clock, against the
    instant for which it slept; None: no packet has one.

    `clocks`: how far they were off as it began; None: that was not asked. `channel`: by them, from
    the driver of the sender to the kernel of the receiver."""

    program: str
    sender: Host
    receiver: Host
    wake_up: Spread | None
    clocks: Clocks | None
    channel: Spread | None


class Imported:
    """The packets of a run of tsn-probe (two files) or isochron (its report), as frames of a flow.

    Raises:
        InputError: the files are something else, or a row of them is, or there is none.
    """

    def __init__(self, files: tuple[Path, ...]) -> None:
        if not 0 < len(files) <= _FILES_MAX:
            raise InputError(
                f"--import: found {len(files)} files, expected two tables of tsn-probe, or one "
                "report of isochron"
            )
        self._tables = IsochronReport(*files) if len(files) == 1 else ProbeTables(*files)
        sender, receiver = self._tables.sender.name, self._tables.receiver.name
        self.flow = Flow(
            name=self._tables.program.removeprefix("tsn-"),
            talker=sender,
            listener=receiver,
            traffic_class=0,
            ip_version=0,
            dscp=0,
            payload_octets=0,
            period_ns=0,
            offset_ns=0,
            latency_bound_ns=None,
        )
        packets = self._tables.packets()
        first = next(packets, None)
        if first is None:
            raise InputError(f"{files[0]} has no packet")
        for _ in packets:
            pass  # what is wrong with one is to be said before anything of them is written
        self.start_ns = first.app_ns
        self._wake_up_ns = Column()
        self._channel_ns = Column()

    def accounts(self) -> Iterator[Account]:
        """An account for each packet, in their order, one at a time, once."""
        for packet in self._tables.packets():
            if packet.planned_ns is not None:
                self._wake_up_ns.append(packet.app_ns - packet.planned_ns)
            channel_ns = between(packet.left_ns, packet.rx_ns)
            if self._tables.clocks and channel_ns is not None:
                self._channel_ns.append(channel_ns)
            yield self._account(packet)

    def run(self) -> ImportedRun:
        """What there is to say of the run; complete when all accounts have been taken."""
        return ImportedRun(
            program=self._tables.program,
            sender=self._tables.sender,
            receiver=self._tables.receiver,
            wake_up=spread(self._wake_up_ns) if self._wake_up_ns else None,
            clocks=self._tables.clocks,
            channel=spread(self._channel_ns) if self._channel_ns else None,
        )

    def _account(self, packet: Stamps) -> Account:
        app_ns, sched_ns, left_ns = packet.app_ns, packet.sched_ns, packet.left_ns
        came_ns = left_ns if packet.rx_ns is not None else None
        listener_ns = between(packet.rx_ns, packet.got_ns)
        delivered_ns = None
        if packet.got_ns is not None:
            delivered_ns = (app_ns if left_ns is None else left_ns) + (listener_ns or 0)
        port = PortRef(self.flow.talker, "port")  # no table names it
        row = Row(
            flow=self.flow,
            seq=packet.seq,
            path=0,
            kind=Kind.SINGLE,
            planned_ns=app_ns,
            sent_ns=app_ns,
            scheduled_ns=sched_ns,
            crossings=(Crossing(port, sched_ns, left_ns, None, came_ns),),
            received_ns=came_ns,
            delivered_ns=delivered_ns,
            has_channel=False,
        )
        parts = (
            Part(self.flow.talker, Layer.SOCKET, between(app_ns, sched_ns)),
            Part(str(port), Layer.QDISC, between(sched_ns, left_ns)),
            Part(self.flow.listener, Layer.LISTENER, listener_ns),
        )
        return Account(row, parts)
