"""Where a frame's time goes in a lab in which each node has a clock of its own."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.captures.pcapng import CaptureFile, Direction
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.plans import file as planfile
from cnc.testbed.lab import inventory, lifecycle
from cnc.testbed.lab.kernels import layout
from cnc.testbed.lab.kernels.layout import CONTROL, HOME, INTENT_FILE
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS
from cnc.testbed.remote.frames import Frame, Kind
from cnc.testbed.traffic.trace import account, circumstances
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.cable_taps import CableTaps
from cnc.testbed.traffic.trace.clocks import OwnClocks
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.correlation import correlations
from cnc.testbed.traffic.trace.join import join
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.outliers import outliers
from cnc.testbed.traffic.trace.segments import Probes
from cnc.testbed.traffic.trace.ways import ways
from tests.unit.traced_frames import T0, Record, part, torque

MS = 1_000_000
PPM = 1_000  # ns in a millisecond are 10^6 of it


def clocks(ahead_ns: Mapping[str, int], of: Plan, drift_ppm: int = 0) -> OwnClocks:
    """Those of a network, all true but for these, from a second before T0 to one behind it."""
    network = of.intent.network
    recorded = [
        Offset(
            T0 + at_ms * MS,
            node,
            ahead_ns.get(node, 0) + (drift_ppm * at_ms if node in ahead_ns else 0),
            37,
        )
        for at_ms in range(-1_000, 1_001, 10)
        for node in (*network.bridges, *network.end_stations)
    ]
    return OwnClocks(TrueOffsets(recorded), 37 * NS_PER_S)


def accounts(record: Record, own: OwnClocks) -> list[Account]:
    under = circumstances.of_own_kernels(record.plan, own)
    routes = {flow.name: ways(record.plan, flow) for flow in record.sent}
    taps = record.taps()
    rows = join(
        record.plan.intent.network,
        routes,
        record.sent,
        own.in_true_time(record.frames, record.sent),
        taps,
        stamps_off_ns=under.stamps_off_ns,
    )
    return list(account.account(under, record.sent, rows, taps))


def as_shown(record: Record, own: OwnClocks) -> None:
    """Have the stamps of talkers and listeners, which are true ones, be those of their clocks."""
    flows = {flow.name: flow for flow in record.sent}
    for number, frame in enumerate(record.frames):
        talker, listener = own.of(flows[frame.flow].talker), own.of(flows[frame.flow].listener)
        record.frames[number] = replace(
            frame,
            planned_ns=talker.shown_ns(frame.planned_ns),
            sent_ns=talker.shown_ns(frame.sent_ns),
            scheduled_ns=talker.shown_ns(frame.scheduled_ns or 0),
            deliveries=tuple(
                each._make(listener.shown_ns(ns) for ns in each) for each in frame.deliveries
            ),
        )


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def test_a_clock_shows_what_its_offset_says_and_an_instant_is_found_again():
    record = [(0, 300 * MS), (10 * MS, 300 * MS + 250), (20 * MS, 300 * MS + 450)]
    offsets = TrueOffsets(Offset(at_ns, "s1", ahead_ns, 37) for at_ns, ahead_ns in record)
    clock = offsets.clock("s1")
    assert clock.shown_ns(5 * MS) == 305 * MS + 125
    assert clock.shown_ns(15 * MS) == 315 * MS + 350
    for true_ns in (-7 * MS, 0, 1, 5 * MS, 10 * MS, 14_999_999, 20 * MS, 90 * MS):
        assert abs(clock.true_ns(clock.shown_ns(true_ns)) - true_ns) <= 1


def test_an_instant_that_a_clock_shows_twice_is_the_last_one():
    """It is set back by a second in between."""
    record = [(0, 0), (10 * MS, 0), (20 * MS, -NS_PER_S), (2 * NS_PER_S, -NS_PER_S)]
    offsets = TrueOffsets(Offset(at_ns, "l1", ahead_ns, 37) for at_ns, ahead_ns in record)
    clock = offsets.clock("l1")
    assert clock.true_ns(5 * MS) == NS_PER_S + 5 * MS
    assert clock.true_ns(-NS_PER_S + 25 * MS) == 25 * MS
    assert clock.true_ns(3 * NS_PER_S) == 4 * NS_PER_S


def test_clocks_that_are_off_change_no_layer_of_a_frame_that_waits_for_no_gate_by_them(
    line3: Plan,
):
    """Stamps of ends are converted, and the passages of ports are true ones."""
    record = Record(line3)
    torque(record)
    (exact,) = record.accounts()
    own = clocks({"t1": 300 * MS, "l1": -7 * MS}, line3, drift_ppm=50)
    as_shown(record, own)
    assert record.frames[0].planned_ns == T0 + 300 * MS
    (found,) = accounts(record, own)
    assert found.row.is_complete
    assert found.total_ns == exact.total_ns == sum(each.duration_ns or 0 for each in found.parts)
    off_ns = [
        abs((one.duration_ns or 0) - (other.duration_ns or 0))
        for one, other in zip(found.parts, exact.parts, strict=True)
    ]
    assert max(off_ns) <= 1
    assert found.row.planned_ns == T0


def test_a_gate_of_a_switch_that_is_a_microsecond_ahead_opens_a_microsecond_sooner(line3: Plan):
    """The frames leave when they would by a right clock: after their gate is open they are late by
    the switch."""
    record = Record(line3)
    torque(record)
    found = [accounts(record, clocks({"s2": ahead_ns}, line3))[0] for ahead_ns in (0, 1_000)]
    closed = [part(each, "s2/s3", Layer.GATE_CLOSED) or 0 for each in found]
    rest = [part(each, "s2/s3", Layer.PROCESSING) or 0 for each in found]
    assert (closed[0], rest[0]) == (19_658 - 11_969, 1_000)  # that is on the cable
    assert (closed[1], rest[1]) == (closed[0] - 1_000, rest[0] + 1_000)
    others = [[each for each in account.parts if each.place != "s2/s3"] for account in found]
    assert others[0] == others[1]


def test_by_a_clock_that_is_behind_a_frame_has_left_before_its_gate_was_open(line3: Plan):
    record = Record(line3)
    torque(record)
    (found,) = accounts(record, clocks({"s2": -1_000}, line3))
    assert part(found, "s2/s3", Layer.GATE_CLOSED) == 19_658 - 11_969
    assert found.total_ns == sum(each.duration_ns or 0 for each in found.parts)


def test_a_stamp_that_is_converted_some_nanoseconds_too_late_makes_no_layer_negative(line3: Plan):
    record = Record(line3)
    torque(record)
    frame = record.frames[0]
    late = tuple(each._make(ns - 3 for ns in each) for each in frame.deliveries)
    record.frames[0] = replace(frame, scheduled_ns=T0 + 503, deliveries=late)
    (found,) = accounts(record, clocks({}, line3))
    assert found.row.is_complete
    assert all((each.duration_ns or 0) >= 0 for each in found.parts)
    assert found.total_ns == sum(each.duration_ns or 0 for each in found.parts)
    assert part(found, "t1/eth0", Layer.QDISC) == 0


def test_a_stamp_of_a_clock_that_was_set_meanwhile_is_none(line3: Plan):
    record = Record(line3)
    torque(record)
    torque(record, 1)
    frame = record.frames[1]
    late = tuple(each._make(ns + MS for ns in each) for each in frame.deliveries)
    record.frames[1] = replace(frame, deliveries=late)
    whole, doubtful = accounts(record, clocks({}, line3))
    assert whole.row.is_complete
    assert (doubtful.total_ns, doubtful.row.is_complete) == (None, False)


def test_clocks_that_differ_use_of_a_margin(line3: Plan):
    record = Record(line3)
    torque(record)
    margins = Margins(line3, clocks({"s1": 700}, line3))
    for each in record.rows():
        margins.add(each)
    used_ns = [each.used_max_ns for each in margins.hops()]
    assert used_ns == [500 + 700, 0, 0]  # it left its talker 500 ns late


def test_what_differs_by_no_more_than_a_conversion_is_no_outlier_and_constant(line3: Plan):
    record = Record(line3)
    for seq in range(20):
        torque(record, seq, late_ns=4 if seq == 7 else 0)
    off_ns = circumstances.of_own_kernels(line3, clocks({}, line3)).durations_off_ns
    exact, converted = (gather(record.accounts(), ns) for ns in (0, off_ns))
    assert [each.seqs for its in (exact, converted) for each in outliers(its)] == [(7,), ()]
    assert [each.is_total_constant for each in correlations(converted)] == [True]
    (found,) = correlations(exact)
    assert [each.layer for each in found.layers if not each.is_constant] == [Layer.LISTENER]
    (found,) = correlations(converted)
    assert all(each.is_constant for each in found.layers)


LINE3 = intents.load(Path(__file__).parents[2] / "schedules" / "line3.yaml")
SENT_NS = VIRTUAL_EPOCH_NS + 5 * NS_PER_S


@contextmanager
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CableTaps]:
    """Taps at the cables of line3, of which s1/s2 has had three frames, the last of which was
    lost."""
    monkeypatch.setattr(lifecycle, "STATE_ROOT", tmp_path)
    directory, home = tmp_path / "line3", tmp_path / "home"
    directory.mkdir()
    (home / "shared").mkdir(parents=True)
    (home / "shared" / INTENT_FILE).write_text(json.dumps(LINE3.document))
    rows = [f"{ms * MS},{n},0,37" for ms in range(4_900, 5_101, 10) for n in ("controller", "s1")]
    text = "\n".join(["time_ns,node,offset_ns,tai_minus_utc_s", *rows, ""])
    (home / "shared" / "offsets.csv").write_text(text)
    (directory / HOME).symlink_to(home)
    inventory.write(directory, inventory.of_intent(LINE3))
    frames = ((60, []), (20, []), (1_000, ["lost"]))
    captured = tmp_path / "captured"

    def serve() -> None:
        stream, _ = listening.accept()
        with stream:
            asked = json.loads(stream.recv(4096)[7:])
            written = io.BytesIO()
            file = CaptureFile(written, application="", system="", comment="")
            for cable in asked:
                for port in (cable, str(LINE3.network.links[PortRef(*cable.split("/"))].target)):
                    file.add_interface(port, "", mac="02:00:00:00:00:01")
            interface = 2 * asked.index("s1/s2")
            for number, (octets, comments) in enumerate(frames):
                at_ns = SENT_NS + number * MS
                file.add_frame(interface, at_ns, bytes(octets), Direction.OUTBOUND, comments)
            captured.write_bytes(written.getvalue())
            stream.sendall(Frame(Kind.OUTPUT, 0, str(captured).encode()).encoded())
            stream.recv(1)  # until the client is gone

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / CONTROL))
        listening.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        with CableTaps("line3") as taps:
            yield taps
        serving.join()


def test_a_frame_leaves_when_its_sending_begins_and_comes_after_what_the_cable_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with carried(tmp_path, monkeypatch) as taps:
        tapped = taps.read(Probes([]).of, keep=False)
        own = taps.clocks(tapped)
    tai_ns = SENT_NS + 37 * NS_PER_S
    left, came = tapped[PortRef("s1", "s2")].left, tapped[PortRef("s2", "s1")].arrived
    assert [each.time_ns - tai_ns for each in left] == [0, MS, 2 * MS]
    # 84 octets at 1 Gb/s, the shortest that there are; 100 ns of cable; 1 µs of the switch.
    assert [each.time_ns - tai_ns for each in came] == [672 + 1_100, MS + 672 + 1_100]
    assert [each.octets for each in left] == [60, 20, 1_000]
    assert own.tai_offset_ns == 37 * NS_PER_S
    assert own.of("s1").true_ns(tai_ns) == tai_ns
    link = LINE3.network.links[PortRef("s1", "s2")]
    assert layout.travel_ns(LINE3.network, link, 1_000) == 8 * 1_024 + 1_100
