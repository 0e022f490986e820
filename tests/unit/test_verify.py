"""`cnc verify`: frames of captures beside a plan, from files that a test writes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cnc import app
from cnc.captures.capture_file import records
from cnc.captures.gate import Gate
from cnc.captures.pcapng import CaptureFile, Direction
from cnc.captures.planned import Due, Planned
from cnc.chart.axis import open_times
from cnc.cli import cnc
from cnc.model import NS_PER_S, GateControlList, GateEntry, Plan, PortRef

SCHEDULES = Path(__file__).parents[2] / "schedules"
PORT = PortRef("s1", "s2")
STREAM = "set-point-1"
PERIODS = range(5_000, 5_020)
TAI_AHEAD_S = 37


@pytest.fixture(scope="module")
def plan() -> Plan:
    return app.plan_of(app.load(SCHEDULES / "bridged5.yaml"))


@pytest.fixture(scope="module")
def plan_file(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    app.dump_plan(plan, file)
    return file


@pytest.fixture(scope="module")
def due(plan: Plan) -> Due:
    planned = Planned(plan, app.judgement(plan).transmissions)
    found = planned.due(STREAM, PORT, is_leaving=True)
    assert found is not None
    return found


Frame = tuple[int, bytes]
"""When it leaves (TAI), and its octets."""


def octets_of(plan: Plan, stream: str, payload: int = 80) -> bytes:
    address, priority = plan.addresses[stream], plan.class_of(stream).priority
    macs = bytes.fromhex(address.destination_mac.replace(":", "")) + bytes(6)
    return (
        macs
        + struct.pack("!HHH", 0x8100, priority << 13 | address.vlan_id, 0x88B5)
        + bytes(payload)
    )


@pytest.fixture
def as_planned(plan: Plan, due: Due) -> list[Frame]:
    """A frame of the stream in each period, and a frame of best effort before and behind."""
    best_effort = b"\xff" * 6 + bytes(6) + struct.pack("!H", 0x0800) + bytes(60)
    begin_ns, end_ns = PERIODS[0] * due.period_ns, (PERIODS[-1] + 1) * due.period_ns
    its = [
        (number * due.period_ns + due.earliest_ns + 2_000, octets_of(plan, STREAM))
        for number in PERIODS
    ]
    return [(begin_ns, best_effort), *its, (end_ns, best_effort)]


def pcapng(file: Path, frames: Iterable[Frame], port: str = str(PORT)) -> Path:
    with file.open("wb") as opened:
        written = CaptureFile(opened, application="test", system="test", comment="a capture")
        number = written.add_interface(port, "a port", mac="02:00:00:00:00:01")
        for at_ns, octets in frames:
            utc_ns = at_ns - TAI_AHEAD_S * NS_PER_S
            written.add_frame(number, utc_ns + 100 * NS_PER_S, octets, Direction.OUTBOUND)
    return file


@pytest.fixture
def verify(plan_file: Path, tmp_path: Path) -> Callable[..., Result]:
    def run(frames: Iterable[Frame], *options: str) -> Result:
        file = pcapng(tmp_path / "s1.pcapng", frames)
        words = ["verify", str(plan_file), str(file), "--state-dir", str(tmp_path), *options]
        return CliRunner().invoke(cnc, words)

    return run


def row(result: Result) -> dict[str, Any]:
    document = json.loads(result.stdout)
    (found,) = (its for its in document["streams"] if its["stream"] == STREAM)
    return found


def test_a_capture_of_what_was_planned_has_nothing_wrong(
    verify: Callable[..., Result], as_planned: list[Frame], plan: Plan
):
    # The other streams of the port are missing in this capture.
    result = verify(as_planned, "--json")
    found = row(result)
    assert found["frames"] == len(PERIODS)
    faults = ("early", "late", "gate_closed", "missing", "extra")
    assert [found[key] for key in faults] == [0] * len(faults)


@pytest.mark.parametrize(("moved_ns", "key"), [(400_000, "late"), (-40_000, "early")])
def test_a_frame_at_another_time_is_named_with_its_packet(
    verify: Callable[..., Result], as_planned: list[Frame], moved_ns: int, key: str
):
    at_ns, octets = as_planned[3]
    as_planned[3] = at_ns + moved_ns, octets
    result = verify(sorted(as_planned), "--json")
    assert result.exit_code == 1
    assert row(result)[key] == 1
    (fault, *_) = json.loads(result.stdout)["faults"]
    assert (fault["packet"], fault["stream"], fault["port"]) == (4, STREAM, "s1/s2")


def test_a_frame_that_leaves_while_its_gate_is_closed_is_named(
    verify: Callable[..., Result], as_planned: list[Frame], plan: Plan
):
    (gate,) = Planned(plan, ()).gates(PORT, plan.class_of(STREAM))
    at_ns, octets = as_planned[3]
    shut_ns = next(its for its in range(at_ns, at_ns + 10**6, 1_000) if gate.shut_ns(its, 1_000))
    as_planned[3] = shut_ns, octets
    found = verify(sorted(as_planned))
    assert found.exit_code == 1
    assert "gate closed, " in found.output
    assert row(verify(sorted(as_planned), "--json"))["gate_closed"] == 1


def test_periods_without_a_frame_and_with_two_are_counted(
    verify: Callable[..., Result], as_planned: list[Frame]
):
    missing, doubled = as_planned.pop(5), as_planned[8]
    assert missing
    as_planned.insert(8, (doubled[0] - 500, doubled[1]))
    found = row(verify(as_planned, "--json"))
    assert (found["missing"], found["extra"]) == (1, 1)


def test_periods_that_a_capture_has_in_part_are_not_missing(
    verify: Callable[..., Result], as_planned: list[Frame]
):
    assert row(verify(as_planned[4:9], "--json"))["missing"] == 0


def test_a_tolerance_excuses_what_is_within_it(
    verify: Callable[..., Result], as_planned: list[Frame], due: Due
):
    at_ns, octets = as_planned[3]
    late_ns = due.latest_ns - due.earliest_ns - 2_000 + 700
    as_planned[3] = at_ns + late_ns, octets
    assert row(verify(as_planned, "--json"))["late_max_ns"] == 700
    assert row(verify(as_planned, "--json", "--tolerance", "1us"))["late"] == 0


def test_frames_of_no_stream_in_a_scheduled_class_are_unknown(
    verify: Callable[..., Result], as_planned: list[Frame]
):
    at_ns, octets = as_planned[3]
    as_planned.insert(4, (at_ns + 100, b"\x02" + octets[1:]))
    result = verify(as_planned, "--json")
    (port,) = json.loads(result.stdout)["ports"]
    assert (result.exit_code, port["unknown"], port["others"]) == (1, 1, 2)


def test_a_frame_of_a_stream_that_does_not_come_by_the_port_is_astray(
    verify: Callable[..., Result], as_planned: list[Frame], plan: Plan
):
    elsewhere = next(
        name
        for name, its in plan.streams.items()
        if name in plan.addresses and PORT not in {hop.egress for hop in its.hops}
    )
    as_planned.insert(4, (as_planned[3][0] + 100, octets_of(plan, elsewhere)))
    (port,) = json.loads(verify(as_planned, "--json").stdout)["ports"]
    assert port["astray"] == 1


def test_frames_are_written_with_the_verdict_as_a_comment(
    verify: Callable[..., Result], as_planned: list[Frame], tmp_path: Path
):
    at_ns, octets = as_planned[3]
    as_planned[3] = at_ns + 40_000, octets
    verify(as_planned, "-o", str(tmp_path / "said.pcapng"))
    written = (tmp_path / "said.pcapng").read_bytes()
    assert b"set-point-1, period" in written
    assert b"as planned" in written
    assert b"\xc2\xb5s late" in written
    assert [its.octets for its in records(tmp_path / "said.pcapng")] == [
        its for _, its in as_planned
    ]


def pcap(file: Path, frames: Iterable[Frame], link_type: int = 1) -> Path:
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, link_type)

    def packets() -> Iterator[bytes]:
        for at_ns, octets in frames:
            seconds, parts = divmod(at_ns, NS_PER_S)
            yield struct.pack("<IIII", seconds, parts, len(octets), len(octets)) + octets

    file.write_bytes(head + b"".join(packets()))
    return file


def test_a_capture_without_names_is_of_the_port_that_is_named_with_it(
    plan_file: Path, as_planned: list[Frame], tmp_path: Path
):
    file = pcap(tmp_path / "tap.pcap", as_planned)
    words = ["verify", str(plan_file), f"s1/s2={file}", "--tai-offset", "0", "--json"]
    result = CliRunner().invoke(cnc, [*words, "--state-dir", str(tmp_path)])
    assert row(result)["frames"] == len(PERIODS)


@pytest.mark.parametrize(
    ("name", "link_type", "said"),
    [
        ("", 1, "found no name of an interface, expected a port of the network as NODE/PORT"),
        ("s1/p99=", 1, "found interface s1/p99, expected a port of the network"),
        ("s1/s2=", 101, "packet 1: found link type 101, expected 1, Ethernet"),
    ],
)
def test_what_is_no_capture_of_a_port_is_refused(
    plan_file: Path, tmp_path: Path, name: str, link_type: int, said: str
):
    as_planned = [(NS_PER_S, bytes(64))]
    file = pcap(tmp_path / "tap.pcap", as_planned, link_type)
    words = ["verify", str(plan_file), f"{name}{file}", "--state-dir", str(tmp_path)]
    result = CliRunner().invoke(cnc, words, standalone_mode=False)
    assert said in str(result.exception)


def test_a_capture_without_a_frame_is_refused(plan_file: Path, tmp_path: Path):
    file = pcap(tmp_path / "tap.pcap", [])
    words = ["verify", str(plan_file), f"s1/s2={file}", "--state-dir", str(tmp_path)]
    assert "no frame" in str(CliRunner().invoke(cnc, words, standalone_mode=False).exception)


OVER_THE_END = Gate(
    GateControlList(1_000, (GateEntry(1, 200), GateEntry(2, 700), GateEntry(1, 100))), 0
)


@pytest.mark.parametrize(
    ("phase_ns", "shut_ns"),
    [(0, 0), (99, 0), (100, 0), (101, 1), (150, 50), (899, 1), (900, 0), (1_050, 0)],
)
def test_a_gate_lets_a_frame_start_that_ends_before_it_closes(phase_ns: int, shut_ns: int):
    # Open from 900 over the end of the cycle until 200 of the next; the frame takes 100.
    assert OVER_THE_END.shut_ns(phase_ns, 100) == shut_ns


@pytest.mark.parametrize("duration_ns", [1, 99, 290, 300])
def test_the_nearest_instant_at_which_a_frame_may_start_is_that_of_a_search(duration_ns: int):
    may = [
        900 + turn_ns + its for turn_ns in (-1_000, 0, 1_000) for its in range(301 - duration_ns)
    ]
    for phase_ns in range(0, 1_000, 7):
        nearest_ns = min(abs(phase_ns - its) for its in may)
        assert OVER_THE_END.shut_ns(5_000 + phase_ns, duration_ns) == nearest_ns


def test_a_frame_that_fits_in_no_window_never_may_start():
    assert OVER_THE_END.shut_ns(950, 301) == 1_000


def test_frames_that_are_forwarded_once_each_interval_leave_by_two_queues_in_turn():
    plan = app.plan_of(app.load(SCHEDULES / "cqf4.yaml"))
    classes, bridges = plan.intent.classes, plan.intent.network.bridges
    even = next(its for its in classes.values() if its.cyclic)
    assert even.cyclic
    port, lists = next((port, its) for port, its in plan.gates.items() if port.node in bridges)
    planned = Planned(plan, ())
    for each in (even, classes[even.cyclic.odd]):
        opens_ns, shuts_ns = next(iter(open_times(lists, each.number)))
        assert planned.shut_ns(port, even, (opens_ns + shuts_ns) // 2, 60) == 0
