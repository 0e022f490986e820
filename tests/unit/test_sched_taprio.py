"""The plugin's octets against linux/pkt_sched.h, written out by hand."""

from __future__ import annotations

import struct

from pyroute2.netlink.rtnl.tcmsg import plugins, tcmsg

from agent.kernel import sched_taprio
from agent.root_qdisc import HANDLE

NLA_F_NESTED = 0x8000
TC_HEADER = 16 + 20  # struct nlmsghdr, struct tcmsg
CLOCK_TAI = 11


def attribute(number, payload):
    padding = b"\0" * (-len(payload) % 4)
    return struct.pack("=HH", 4 + len(payload), number) + payload + padding


def nested(number, *attributes):
    return attribute(number | NLA_F_NESTED, b"".join(attributes))


def entry(gate_mask, interval_ns, *, index=None, command=0):
    numbered = [attribute(1, struct.pack("=I", index))] if index is not None else []
    return nested(
        1,
        *numbered,
        attribute(2, bytes([command])),
        attribute(3, struct.pack("=I", gate_mask)),
        attribute(4, struct.pack("=I", interval_ns)),
    )


PRIORITY_MAP = attribute(
    1,
    bytes([2, 0, 1, *[0] * 14, 0])
    + struct.pack("=16H", 1, 3, *[0] * 14)
    + struct.pack("=16H", 0, 1, *[0] * 14),
)
REQUEST = {
    "map": (0, 1, *[0] * 14),
    "queues": [(1, 0), (3, 1)],
    "base_time": -5,
    "cycle_time": 1_000_000,
    "sched_entries": [(0x1, 400_000), (0x80000000, 600_000)],
}


def encoded(options):
    message = tcmsg()
    message["attrs"] = [["TCA_KIND", "taprio"], ["TCA_OPTIONS", options]]
    message.encode()
    kind = attribute(1, b"taprio\0")
    data = bytes(message.data)[TC_HEADER:]
    assert data.startswith(kind)
    return data[len(kind) :]


def decoded(*attributes):
    data = b"\0" * 20 + attribute(1, b"taprio\0") + attribute(2, b"".join(attributes))
    message = tcmsg(struct.pack("=IHHII", 16 + len(data), 36, 0, 0, 0) + data)
    message.decode()
    return message.get("TCA_OPTIONS")


def test_pyroute2_knows_taprio():
    assert plugins["taprio"] is sched_taprio
    assert HANDLE >> 16 == 0x7A0


def test_a_request_is_encoded_as_the_kernel_reads_it():
    request = {**REQUEST, "clockid": CLOCK_TAI, "flags": 1, "txtime_delay": 250_000}
    request["cycle_time_extension"] = 7
    request["tc_entries"] = [{"index": 1, "max_sdu": 500, "fp": 2}]
    assert encoded(sched_taprio.get_parameters(request)) == attribute(
        2,
        PRIORITY_MAP
        + nested(2, entry(0x1, 400_000), entry(0x80000000, 600_000))
        + attribute(3, struct.pack("=q", -5))
        + attribute(8, struct.pack("=q", 1_000_000))
        + attribute(9, struct.pack("=q", 7))
        + attribute(5, struct.pack("=i", CLOCK_TAI))
        + attribute(10, struct.pack("=I", 1))
        + attribute(11, struct.pack("=I", 250_000))
        + nested(12, *(attribute(i, struct.pack("=I", v)) for i, v in ((1, 1), (2, 500), (3, 2)))),
    )


def test_hold_and_release_are_encoded_and_read_as_the_kernel_numbers_them():
    hold, release = sched_taprio.CMD_SET_AND_HOLD, sched_taprio.CMD_SET_AND_RELEASE
    entries = [(0x1, 400_000, hold), (0x3, 600_000, release), (0x2, 800)]
    wire = nested(
        2,
        entry(0x1, 400_000, command=1),
        entry(0x3, 600_000, command=2),
        entry(0x2, 800),
    )
    assert encoded(sched_taprio.get_parameters({"sched_entries": entries})) == attribute(2, wire)
    read = decoded(wire).get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST")
    assert read == ((0x1, 400_000, 1), (0x3, 600_000, 2), (0x2, 800, 0))


def test_attributes_of_a_later_kernel_are_passed_over():
    unknown = nested(1, attribute(9, b"12345"), attribute(3, struct.pack("=I", 7)))
    read = decoded(attribute(2, attribute(99, b"x") + unknown))
    assert read.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST") == ((7, 0, 0),)


def test_a_length_that_cannot_be_does_not_hang_the_reader():
    read = decoded(attribute(2, entry(0x3, 600) + struct.pack("=HH", 0, 1)))
    assert read.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST") == ((0x3, 600, 0),)


def test_a_drivers_counts_are_read_from_the_statistics():
    app = attribute(2, struct.pack("=Q", 3)) + attribute(3, struct.pack("=Q", 2**40))
    data = b"\0" * 20 + attribute(1, b"taprio\0") + attribute(7, nested(4, app))
    message = tcmsg(struct.pack("=IHHII", 16 + len(data), 40, 0, 0, 0) + data)
    message.decode()
    counts = message.get("TCA_STATS2").get("TCA_STATS_APP")
    assert counts.get("TCA_TAPRIO_OFFLOAD_STATS_WINDOW_DROPS") == 3
    assert counts.get("TCA_TAPRIO_OFFLOAD_STATS_TX_OVERRUNS") == 2**40


def test_what_is_not_given_is_not_sent():
    assert encoded(sched_taprio.get_parameters({"base_time": 0})) == attribute(
        2, attribute(3, struct.pack("=q", 0))
    )


def test_a_size_table_is_a_nested_tc_sizespec():
    request = {"stab": sched_taprio.SizeTable(overhead=24)}
    sched_taprio.fix_request(request)
    sizespec = struct.pack("=BBhiIIII", 0, 0, 0, 24, 0, 0, 0, 0)
    assert request["stab"] == attribute(1, sizespec)


def test_a_dump_is_read_with_both_schedules_and_the_class_entries():
    options = decoded(
        PRIORITY_MAP,
        attribute(5, struct.pack("=i", CLOCK_TAI)),
        nested(12, attribute(1, struct.pack("=I", 0)), attribute(2, struct.pack("=I", 1500))),
        nested(12, attribute(1, struct.pack("=I", 1)), attribute(3, struct.pack("=I", 2))),
        attribute(3, struct.pack("=q", 1000)),
        attribute(8, struct.pack("=q", 600)),
        attribute(2, entry(0x3, 600, index=0)),
        attribute(
            7,
            attribute(3, struct.pack("=q", 2000)) + attribute(2, entry(0x1, 700, index=0)),
        ),
    )
    qopt = options.get("TCA_TAPRIO_ATTR_PRIOMAP")
    assert (qopt["num_tc"], qopt["prio_tc_map"][:3]) == (2, (0, 1, 0))
    assert (qopt["count"][:2], qopt["offset"][:2]) == ((1, 3), (0, 1))
    first, second = options.get_attrs("TCA_TAPRIO_ATTR_TC_ENTRY")
    assert first.get("TCA_TAPRIO_TC_ENTRY_MAX_SDU") == 1500
    assert second.get("TCA_TAPRIO_TC_ENTRY_FP") == 2
    admin = options.get("TCA_TAPRIO_ATTR_ADMIN_SCHED")
    assert options.get("TCA_TAPRIO_ATTR_SCHED_BASE_TIME") == 1000
    assert admin.get("TCA_TAPRIO_ATTR_SCHED_BASE_TIME") == 2000
    assert options.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST") == ((0x3, 600, 0),)
    assert admin.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST") == ((0x1, 700, 0),)
