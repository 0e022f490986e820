"""What is made of the kernel's dump of one port, written out by hand."""

from __future__ import annotations

import struct

import pytest
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from agent.mechanisms.gates import taprio_dump
from agent.mechanisms.gates.model import ClassCounters, GateEntry, GateOperation, TaprioMode
from agent.root_qdisc import HANDLE
from tests.unit.test_sched_taprio import CLOCK_TAI, PRIORITY_MAP, attribute, entry, nested

RTM_NEWQDISC, RTM_NEWTCLASS = 36, 40
TC_H_ROOT = 0xFFFF_FFFF
PORT = 7
GIGABIT = 10**9
NOW_NS = 10**12

OPEN_BRIEFLY = 10_000  # ns at 1 Gb/s: 1250 octets, of which 1212 can be service data


def message(kind, handle, parent, *attributes, number=RTM_NEWQDISC):
    header = struct.pack("=BBHiIII", 0, 0, 0, PORT, handle, parent, 0)
    data = header + attribute(1, kind.encode() + b"\0") + b"".join(attributes)
    read = tcmsg(struct.pack("=IHHII", 16 + len(data), number, 0, 0, 0) + data)
    read.decode()
    return read


def statistics(*, frames=0, octets=0, drops=0, backlog=0, window_drops=None, tx_overruns=None):
    counts = ((2, window_drops), (3, tx_overruns))
    app = b"".join(attribute(i, struct.pack("=Q", n)) for i, n in counts if n is not None)
    return nested(
        7,
        *([nested(4, app)] if app else []),
        attribute(1, struct.pack("=QI", octets, frames)),
        attribute(3, struct.pack("=IIIII", backlog, 0, drops, 0, 0)),
    )


def limit(traffic_class, octets):
    values = ((1, traffic_class), (2, octets))
    return nested(12, *(attribute(i, struct.pack("=I", value)) for i, value in values))


def root(*attributes, flags=0, base_time_ns=0, **counted):
    options = nested(
        2,
        PRIORITY_MAP,
        attribute(10, struct.pack("=I", flags))
        if flags
        else attribute(5, struct.pack("=i", CLOCK_TAI)),
        *attributes,
        attribute(3, struct.pack("=q", base_time_ns)),
        attribute(8, struct.pack("=q", 1_000_000)),
        nested(
            2,
            entry(0x1, 1_000_000 - OPEN_BRIEFLY, index=0),
            entry(0x3, OPEN_BRIEFLY, index=1, command=1),
        ),
    )
    return message("taprio", HANDLE, TC_H_ROOT, options, statistics(**counted))


def queue(number, **counted):
    return message("pfifo", 0, HANDLE | number + 1, statistics(**counted))


def queue_class(number, **counted):
    handle = HANDLE | number + 1
    return message("taprio", handle, TC_H_ROOT, statistics(**counted), number=RTM_NEWTCLASS)


class Dump:
    """Answers as IPRoute does."""

    def __init__(self, *qdiscs, classes=()):
        self._qdiscs, self._classes = qdiscs, classes

    def get_qdiscs(self):
        return self._qdiscs

    def get_classes(self, ifindex):
        assert ifindex == PORT
        return self._classes


def read(dump):
    return taprio_dump.read(dump, lambda _: NOW_NS, {PORT: taprio_dump.LinkSpeed(GIGABIT)})[PORT]


def test_the_counters_of_a_class_are_the_sums_of_its_queues_without_what_the_wire_adds():
    """The class map of this port: class 0 is queue 0, class 1 is queues 1 to 3."""
    qdisc = read(
        Dump(
            root(drops=5),
            queue(0, frames=1, octets=124, drops=1),
            queue(1, frames=2, octets=248),
            queue(3, frames=4, octets=496, drops=2),
            queue(4, frames=100, octets=100, drops=100),
        )
    )
    assert qdisc.counters == (ClassCounters(1, 100, 1), ClassCounters(6, 600, 2))
    assert qdisc.drops == 5 + 1 + 2


def test_the_backlog_of_a_class_is_what_waits_in_all_its_queues():
    qdisc = read(Dump(root(), queue(0), queue(1, backlog=2), queue(3, backlog=1000), queue(4)))
    assert [counted.backlog_frames for counted in qdisc.counters] == [0, 1002]


def test_overruns_and_window_drops_come_from_hardware_where_it_counts_them():
    classes = [
        queue_class(1, window_drops=2, tx_overruns=3),
        queue_class(2, window_drops=5),
        queue_class(0),
    ]
    qdisc = read(Dump(root(flags=2), queue(1, frames=1, octets=100), classes=classes))
    assert qdisc.taprio.mode is TaprioMode.FULL_OFFLOAD
    assert qdisc.counters == (
        ClassCounters(0, 0, 0),
        ClassCounters(1, 100, 0, tx_overruns=3, window_drops=7),
    )


def test_an_offloaded_list_whose_base_time_is_ahead_waits():
    ahead = read(Dump(root(flags=2, base_time_ns=NOW_NS + 1)))
    assert (ahead.running, ahead.pending) == (None, ahead.taprio.schedule)
    begun = read(Dump(root(flags=2, base_time_ns=NOW_NS)))
    assert (begun.running, begun.pending) == (begun.taprio.schedule, None)


@pytest.mark.parametrize(("shown", "limits"), [(0, ()), (1212, ()), (1211, (0, 1211)), (9000, ())])
def test_a_shown_limit_that_the_window_implies_was_set_by_nobody(shown, limits):
    """The kernel before 6.3 shows what was asked for, a later one the stricter of both."""
    assert read(Dump(root(limit(0, 0), limit(1, shown)))).taprio.max_sdu_octets == limits


def test_operations_are_read():
    entries = read(Dump(root())).taprio.schedule.entries
    assert entries == (
        GateEntry(0x1, 1_000_000 - OPEN_BRIEFLY),
        GateEntry(0x3, OPEN_BRIEFLY, GateOperation.HOLD),
    )


def test_a_qdisc_of_another_handle_is_foreign_and_its_queues_are_not_ours():
    other = message("taprio", 0x10000, TC_H_ROOT, statistics())
    child = message("pfifo", 0, 0x10001, statistics(frames=9))
    assert read(Dump(other, child)) == taprio_dump.DumpedQdisc("taprio", "taprio 1:")
