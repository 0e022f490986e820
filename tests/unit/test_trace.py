"""Where a frame's time goes: rows of stamps, the layers that they are divided among, tables."""

from __future__ import annotations

import csv
import io
import struct
from pathlib import Path

import numpy as np
import pandas
import pytest

from cnc.model import GateControlList, GateEntry, Plan, PortRef
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.talker.clock import tai_offset_ns
from cnc.testbed.traffic.probe_filter import ETHERTYPE, Marks, probe_of
from cnc.testbed.traffic.recording import Recording
from cnc.testbed.traffic.sockets import PROBE
from cnc.testbed.traffic.trace import captured, circumstances, table
from cnc.testbed.traffic.trace.account import Account, Layer, layers
from cnc.testbed.traffic.trace.circumstances import CLOCK_READ_NS
from cnc.testbed.traffic.trace.clocks import OneClock, TrueClock
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.join import Kind
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.openings import Openings
from cnc.testbed.traffic.trace.outliers import outliers, threshold_ns
from cnc.testbed.traffic.trace.record import Trace
from cnc.testbed.traffic.trace.summary import summarise
from cnc.testbed.traffic.trace.table import Tables
from tests import pcapng_reader
from tests.bridged_networks import ring, stream
from tests.unit.planner_networks import BLOCKING_NS
from tests.unit.traced_frames import T0, TORQUE_AT_S1, TORQUE_PLANNED, US, Record, part, torque


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def accounted(record: Record, **options: object) -> Account:
    (found,) = record.accounts(**options)
    return found


def test_a_frame_that_waits_for_each_gate_has_the_wait_in_that_layer(line3: Plan):
    record = Record(line3)
    torque(record)
    found = accounted(record)
    shown = {(place, layer): ns for place, layer, ns in found.parts if ns}
    assert shown == {
        ("t1", Layer.WAKE_UP): 300,
        ("t1", Layer.SOCKET): 200,
        ("t1/eth0", Layer.WIRE): 1_140,
        ("s1/s2", Layer.PROCESSING): 1_000,  # that is on the cable
        ("s1/s2", Layer.GATE_CLOSED): 9_829 - 2_640,
        ("s1/s2", Layer.WIRE): 1_140,
        ("s2/s3", Layer.PROCESSING): 1_000,
        ("s2/s3", Layer.GATE_CLOSED): 19_658 - 11_969,
        ("s2/s3", Layer.WIRE): 1_140,
        ("s3/l1", Layer.PROCESSING): 1_000,
        ("s3/l1", Layer.GATE_CLOSED): 29_487 - 21_798,
        ("s3/l1", Layer.WIRE): 1_140,
        ("l1", Layer.LISTENER): 300,
    }
    assert found.total_ns == sum(shown.values()) == 29_487 + 1_440


def test_what_a_switch_needs_beyond_its_gate_is_processing(line3: Plan):
    record = Record(line3)
    stamps = [(">t1/eth0", T0 + 500), ("s1/t1", TORQUE_AT_S1), (">s1/s2", T0 + 9_829 + 700)]
    record.add("torque", 0, (T0, T0 + 300, T0 + 500), [], stamps)
    found = accounted(record)
    assert part(found, "s1/s2", Layer.GATE_CLOSED) == 9_829 - 2_640
    assert part(found, "s1/s2", Layer.PROCESSING) == 1_000 + 700


def background(record: Record, seq: int, sent_ns: int, left_ns: int, reached_ns: int) -> None:
    stamps = [(">s1/s2", left_ns), ("s2/s1", reached_ns)]
    record.add("background s1 to l1", seq, (sent_ns, sent_ns, sent_ns), [], stamps)


OPEN = T0 + 900 * US  # the gate of best effort is open at s1/s2, for long
LONG_NS = 8_240  # 1,000 octets on a cable of 1 Gb/s


def test_frames_that_follow_one_another_on_a_cable_wait_for_their_own_class(line3: Plan):
    record = Record(line3)
    for seq in range(3):
        background(record, seq, OPEN, OPEN, OPEN + (seq + 1) * LONG_NS + 1_100)
    waited = [part(each, "s1/s2", Layer.OWN_CLASS) for each in record.accounts()]
    assert waited == [0, LONG_NS, 2 * LONG_NS]
    assert {part(each, "s1/s2", Layer.WIRE) for each in record.accounts()} == {LONG_NS + 100}


def test_behind_a_frame_of_another_class_the_wait_is_for_that(line3: Plan):
    record = Record(line3)
    record.stranger("s1/s2", OPEN - 1, 1_014)
    background(record, 0, OPEN, OPEN, OPEN - 1 + 2 * LONG_NS + 1_100)
    found = accounted(record)
    assert part(found, "s1/s2", Layer.OTHER_CLASS) == LONG_NS - 1
    assert part(found, "s1/s2", Layer.OWN_CLASS) == 0
    assert part(found, "s1/s2", Layer.WIRE) == LONG_NS + 100


def test_a_window_that_those_ahead_have_filled_is_not_the_gates_fault(line3: Plan):
    """The second of two frames that are there when the gate opens goes a cycle later."""
    record = Record(line3)
    opens = TORQUE_PLANNED[0]
    stamps = [(">t1/eth0", T0 + 500), ("s1/t1", TORQUE_AT_S1)]
    late = 2_000_000  # a cycle
    for seq, left_ns in ((0, T0 + opens), (1, T0 + opens + late)):
        left = [*stamps, (">s1/s2", left_ns), ("s2/s1", left_ns + 2_140)]
        record.add("torque", seq, (T0, T0 + 300, T0 + 500), [], left)
    first, second = record.accounts()
    assert part(first, "s1/s2", Layer.OWN_CLASS) == 0
    assert part(second, "s1/s2", Layer.GATE_CLOSED) == opens - 2_640
    assert part(second, "s1/s2", Layer.OWN_CLASS) == pytest.approx(late, abs=50 * US)
    assert part(second, "s1/s2", Layer.PROCESSING) < 50 * US


def test_a_window_that_a_switch_has_missed_is_its_processing(line3: Plan):
    record = Record(line3)
    late = 2_000_000
    left = (">s1/s2", T0 + TORQUE_PLANNED[0] + late)
    stamps = [(">t1/eth0", T0 + 500), ("s1/t1", TORQUE_AT_S1), left]
    record.add("torque", 0, (T0, T0 + 300, T0 + 500), [], stamps)
    found = accounted(record)
    assert part(found, "s1/s2", Layer.GATE_CLOSED) == TORQUE_PLANNED[0] - 2_640
    assert part(found, "s1/s2", Layer.PROCESSING) == 1_000 + late


def test_cables_without_delays_have_no_processing_and_hold_nobody_up(line3: Plan):
    record = Record(line3)
    for seq in range(2):
        background(record, seq, OPEN, OPEN, OPEN + 40)
    found = record.accounts(timed_wires=False)
    assert {part(each, "s1/s2", Layer.WIRE) for each in found} == {40}
    assert {part(each, "s1/s2", Layer.OWN_CLASS) for each in found} == {0}


def test_of_a_lost_frame_what_it_did_not_reach_is_absent(line3: Plan):
    record = Record(line3)
    torque(record, up_to=4)
    found = accounted(record)
    assert found.total_ns is None
    assert part(found, "s1/s2", Layer.WIRE) == 1_140
    absent = {place for place, layer, ns in found.parts if ns is None}
    assert absent == {"s2/s3", "s3/l1", "l1"}
    (flow,) = summarise(gather([found]))
    assert (flow.frames, flow.lost, flow.incomplete, flow.total) == (1, 1, 0, None)


@pytest.mark.parametrize("missing", ["t1/eth0", "s1/t1", "s1/s2", "s2/s1", "s3/l1", "l1/eth0"])
def test_without_a_tap_rows_are_incomplete_and_none_is_missing(line3: Plan, missing: str):
    record = Record(line3)
    for seq in range(3):
        torque(record, seq)
    found = record.accounts(without=missing)
    assert len(found) == 3
    assert {each.total_ns for each in found} == {None}
    (flow,) = summarise(gather(found))
    assert (flow.frames, flow.lost, flow.incomplete) == (3, 0, 3)


def test_a_copy_that_came_once_more_is_a_row_of_its_own(line3: Plan):
    record = Record(line3)
    arrived = T0 + 26_112
    record.add("torque", 0, (T0, T0, T0), [(arrived, arrived), (arrived + 9, arrived + 9)], [])
    first, again = record.rows()
    assert (first.kind, again.kind) == (Kind.SINGLE, Kind.REPEATED)
    assert (again.path, again.received_ns) == (None, arrived + 9)


def test_a_passage_before_a_frame_came_to_the_node_is_none_of_it(line3: Plan):
    """One of a run before has the same numbers."""
    record = Record(line3)
    torque(record)
    record.add("torque", 1, (T0, T0, T0), [], [(">s1/s2", T0 + 9), ("s1/t1", T0 + 10)])
    record.add("torque", 1, (T0, T0, T0), [], [(">s1/s2", T0 + 11), (">t1/eth0", T0 + 1)])
    crossing = record.rows()[1].crossings[1]
    assert (crossing.entered_ns, crossing.left_ns) == (T0 + 10, T0 + 11)


def test_copies_by_two_paths_are_told_apart_where_they_meet():
    """Both leave the last switch by one port, in the order in which they came to it."""
    plan = compute(ring(both=stream("t1", "l3", paths=2)))
    record = Record(plan)
    (flow, *_) = record.sent
    assert flow.copies == 2
    stamps: list[tuple[str, int]] = []
    links = plan.intent.network.links
    for number, path in enumerate(plan.streams["both"].paths):
        now_ns = T0
        for hop in path:
            now_ns += 10 * US + number  # the second is the later one, wherever they meet
            if number and hop.egress == path[0].egress:
                continue  # sent once
            stamps += [(f">{hop.egress}", now_ns), (str(links[hop.egress].target), now_ns + US)]
    came = sorted(ns for port, ns in stamps if port == "l3/eth0")
    record.add(flow.name, 0, (T0, T0, T0), [(ns, ns + 5) for ns in came], stamps)
    rows = record.rows()
    assert {row.path: row.kind for row in rows} == {0: Kind.FIRST, 1: Kind.SECOND}
    for row in rows:
        assert row.is_complete
        assert row.received_ns == row.crossings[-1].reached_ns
        times = [ns for each in row.crossings for ns in (each.entered_ns, each.left_ns)]
        assert times == sorted(times)


GATES = GateControlList(
    1_000, (GateEntry(0x81, 200), GateEntry(0x80, 500), GateEntry(0x81, 100), GateEntry(0x81, 200))
)


def test_a_gate_that_is_open_over_the_end_of_a_cycle_is_open_once():
    openings = Openings(GATES, 0, 150, TrueClock())
    # Open from 700 to 1,200; the last start of a frame of 150 is before 1,050.
    assert openings.first_ns(5_100) == 5_700
    assert openings.first_ns(5_049) == 5_049
    assert openings.first_ns(5_990) == 5_990
    assert openings.shut_ns(5_000, 7_000) == 2 * 650
    assert openings.shut_ns(5_100, 5_200) == 100


def test_a_gate_that_is_always_open_or_never_for_so_long():
    assert Openings(GATES, 7, 5_000, TrueClock()).first_ns(5_300) == 5_300
    assert Openings(GATES, 7, 5_000, TrueClock()).shut_ns(0, 9_000) == 0
    for never in (Openings(GATES, 3, 1, TrueClock()), Openings(GATES, 0, 500, TrueClock())):
        assert never.first_ns(5_300) is None
        assert never.shut_ns(100, 9_000) == 8_900


def test_a_stamp_that_is_one_reading_early_blames_no_switch(line3: Plan):
    """The clock says when it was last read: the frame came after its last chance to start."""
    record = Record(line3)
    gates = Openings(line3.gates[PortRef("s1", "s2")], 6, (114 + 24) * 8, TrueClock())
    opens = gates.first_ns(T0) or 0
    last = opens + 2_320 - (114 + 24) * 8 - 1  # its window is that long
    assert gates.first_ns(last) == last
    following = gates.first_ns(last + 1)
    assert following is not None
    stamps = [(">t1/eth0", T0), ("s1/t1", last), (">s1/s2", following)]
    record.add("torque", 0, (T0, T0, T0), [], stamps)
    found = accounted(record)
    assert part(found, "s1/s2", Layer.PROCESSING) <= 1_000 + CLOCK_READ_NS


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_of_outliers_is_that_of_numpy(seed: int):
    values = [int(each) for each in np.random.default_rng(seed).integers(0, 10**6, 11 + seed)]
    first, third = np.quantile(values, [0.25, 0.75])
    assert threshold_ns(values) == pytest.approx(third + 1.5 * (third - first))


def test_the_part_that_was_late_is_the_cause_of_an_outlier(line3: Plan):
    record = Record(line3)
    for seq in range(20):
        torque(record, seq, late_ns=9_000 if seq == 7 else seq % 3)
    (found,) = outliers(gather(record.accounts()))
    assert found.seqs == (7,)
    assert found.causes == (("l1", Layer.LISTENER, 1),)


def test_the_margin_of_a_hop_is_the_sum_of_its_parts_beside_what_was_used(line3: Plan):
    record = Record(line3)
    torque(record)
    margins = Margins(line3, OneClock())
    for row in record.rows():
        margins.add(row)
    found = margins.hops()
    assert [str(each.port) for each in found] == ["s1/s2", "s2/s3", "s3/l1"]
    for each in found:
        parts = each.processing_ns + each.clock_ns + each.start_ns + each.turn_ns
        assert each.margin_ns == parts
        assert (each.processing_ns, each.clock_ns, each.start_ns) == (4_000, 1_000, BLOCKING_NS)
    # It left its talker 500 ns late, and everything after that as soon as it could.
    assert [each.used_max_ns for each in found] == [500, 0, 0]


def test_of_a_margin_as_much_is_used_as_the_latest_frame_needs(line3: Plan):
    record = Record(line3)
    torque(record)
    begin_ns = T0 + 500 * US
    late = [(">t1/eth0", begin_ns + 500), ("s1/t1", begin_ns + 2_640 + 1_000)]
    record.add("torque", 1, (begin_ns, begin_ns + 300, begin_ns + 500), [], late)
    torque(record, 2)
    margins = Margins(line3, OneClock())
    for row in record.rows():
        margins.add(row)
    assert [each.used_max_ns for each in margins.hops()] == [1_500, 0, 0]


def test_in_a_table_what_is_absent_is_empty(line3: Plan, tmp_path: Path):
    record = Record(line3)
    torque(record)
    torque(record, 1, up_to=4)
    with Tables(tmp_path, T0, 4, layers()) as tables:
        for each in record.accounts():
            tables.add(each)
    with (tmp_path / table.FRAMES).open(newline="") as file:
        whole, lost = csv.DictReader(file)
    assert (whole["gate_closed_ns"], whole["total_ns"]) == ("22567", "30927")
    assert (whole["port_2"], whole["left_2_ns"], whole["reached_2_ns"]) == (
        *("s1/s2", "9829", "11969"),
    )
    assert (lost["wake_up_ns"], lost["gate_closed_ns"], lost["total_ns"]) == ("300", "", "")
    with (tmp_path / table.PARTS).open(newline="") as file:
        parts = [each for each in csv.DictReader(file) if each["seq"] == "0"]
    assert sum(int(each["duration_ns"]) for each in parts) == 30_927


def test_an_interrupted_table_leaves_the_one_before(line3: Plan, tmp_path: Path):
    record = Record(line3)
    torque(record)
    (tmp_path / table.FRAMES).write_text("of another run\n")

    def write() -> None:
        with Tables(tmp_path, T0, 4, layers()) as tables:
            for each in record.accounts():
                tables.add(each)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert [*tmp_path.iterdir()] == [tmp_path / table.FRAMES]
    assert (tmp_path / table.FRAMES).read_text() == "of another run\n"


def test_pandas_reads_a_table_and_finds_the_same_outliers(line3: Plan, tmp_path: Path):
    record = Record(line3)
    for seq in range(40):
        torque(record, seq, late_ns=9_000 if seq % 19 == 7 else seq % 5, up_to=4 if seq == 3 else 8)
    with Tables(tmp_path, T0, 4, layers()) as tables:
        for each in record.accounts():
            tables.add(each)
    trace = pandas.read_csv(tmp_path / table.FRAMES, dtype_backend="numpy_nullable")
    assert len(trace) == 40
    assert set(trace.filter(regex="_ns$").dtypes.astype(str)) == {"Int64"}
    stages = trace.sender_ns + trace.channel_ns + trace.receiver_ns
    in_layers = trace.loc[:, "wake_up_ns":"listener_ns"].sum(axis=1, skipna=False)
    whole = trace.total_ns.notna()
    assert (stages == trace.total_ns)[whole].all()
    assert (in_layers == trace.total_ns)[whole].all()
    assert trace[trace.total_ns.isna()].seq.tolist() == [3]
    first, third = trace.total_ns.quantile(0.25), trace.total_ns.quantile(0.75)
    late = trace[trace.total_ns > third + 1.5 * (third - first)]
    (found,) = outliers(gather(record.accounts()))
    assert tuple(late.seq) == found.seqs == (7, 26)


MACS = bytes(12)
PROBED = PROBE.pack(7, 99)
UDP = struct.pack("!HHHH", 5005, 5005, 14, 0)


@pytest.mark.parametrize("tag", [b"", struct.pack("!HH", 0x8100, 6 << 13 | 10)])
def test_a_probe_is_found_with_and_without_a_tag(tag: bytes):
    v4 = struct.pack("!BBHHHBBH8x", 0x45, 0, 34, 0, 0, 64, 17, 0)
    v6 = struct.pack("!IHBB32x", 6 << 28, 14, 17, 64)
    plain = MACS + tag + struct.pack("!H", ETHERTYPE) + PROBED
    over_v4 = MACS + tag + b"\x08\x00" + v4 + UDP + PROBED
    over_v6 = MACS + tag + b"\x86\xdd" + v6 + UDP + PROBED
    assert [probe_of(each, Marks((5005,))) for each in (plain, over_v4, over_v6)] == [(7, 99)] * 3
    assert [probe_of(each, Marks((5006,))) for each in (over_v4, over_v6)] == [None] * 2
    tcp = over_v4.replace(v4, v4[:9] + b"\x06" + v4[10:])
    arp = MACS + tag + b"\x08\x06" + bytes(40)
    assert [probe_of(each, Marks((5005,))) for each in (tcp, arp)] == [None] * 2


def test_as_a_capture_it_says_what_each_frame_is_and_when_it_was_to_leave(line3: Plan):
    record = Record(line3)
    torque(record)
    recording = Recording(T0, tuple(record.frames))
    file = io.BytesIO()
    under = circumstances.of_one_kernel(line3, timed_wires=True)
    trace = Trace(line3, record.sent, recording, record.taps(), under)
    captured.write(trace, file, system="Linux")
    found = pcapng_reader.read(file.getvalue())
    assert [frame.port for frame in found.frames] == [
        *("t1/eth0", "s1/t1", "s1/s2", "s2/s1", "s2/s3", "s3/s2", "s3/l1", "l1/eth0"),
    ]
    talker, arrives, leaves, *_ = found.frames
    late = "planned 0 µs after the start, left 0.5 µs later"
    assert (talker.is_leaving, talker.comments) == (True, ["torque/0", late])
    assert (arrives.is_leaving, arrives.comments) == (False, ["torque/0"])
    assert leaves.comments == ["torque/0", "planned 9.829 µs after the start, left 0 µs later"]
    assert (len(leaves.octets), leaves.length) == (14, 114)
    assert leaves.time_ns == T0 + 9_829 - tai_offset_ns()
    assert "t1" in found.names.values()
