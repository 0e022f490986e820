"""What end stations send, and the program that sends and records it."""

from __future__ import annotations

import csv
import dataclasses
import errno
import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from types import SimpleNamespace

import pytest

from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.model import NS_PER_S, Plan
from cnc.plans import file as planfile
from cnc.testbed.lab.addressing import NodeAddresses
from cnc.testbed.lab.lifecycle import up
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.slower import slower
from cnc.testbed.traffic import endpoint, flowfile, recording
from cnc.testbed.traffic.recording import Flow, Pattern, flows, run, start_grid_ns
from cnc.testbed.traffic.sockets import PROBE

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def changed(plan: Plan, stream: str, **fields) -> Plan:
    streams = {**plan.intent.streams}
    streams[stream] = dataclasses.replace(streams[stream], **fields)
    return dataclasses.replace(plan, intent=dataclasses.replace(plan.intent, streams=streams))


def test_every_stream_is_sent_as_the_plan_says(line3: Plan):
    sent = {flow.name: flow for flow in flows(line3)}
    for name, stream in line3.intent.streams.items():
        assert sent[name].offset_ns == line3.streams[name].hops[0].offset_ns
        assert sent[name].period_ns == stream.period_ns
        assert sent[name].dscp in line3.class_of(name).dscps
        assert sent[name].latency_bound_ns == line3.streams[name].latency_bound_ns


def test_best_effort_joins_each_path_at_its_first_switch(line3: Plan):
    beside = [flow for flow in flows(line3) if flow.latency_bound_ns is None]
    assert {(flow.talker, flow.listener) for flow in beside} == {("s1", "l1"), ("s1", "l2")}
    assert {flow.traffic_class for flow in beside} == {0}


def test_best_effort_flows_take_turns(line3: Plan):
    first, second = (flow for flow in flows(line3) if flow.latency_bound_ns is None)
    assert (first.offset_ns, second.offset_ns) == (0, second.period_ns // 2)


def test_a_stream_with_two_listeners_is_refused_by_name(line3: Plan):
    with pytest.raises(InputError, match="stream motion has 2 listeners"):
        flows(changed(line3, "motion", listeners=("l1", "l2")))


def test_a_stream_that_is_planned_another_way_than_the_lab_routes_is_refused(line3: Plan):
    motion = line3.streams["motion"]
    (path,) = motion.paths
    astray = dataclasses.replace(path[1], egress=line3.streams["camera"].hops[-1].egress)
    streams = {**line3.streams}
    streams["motion"] = dataclasses.replace(motion, paths=((path[0], astray, *path[2:]),))
    with pytest.raises(InputError, match="motion is planned to leave s3 by l2, the lab's route"):
        flows(dataclasses.replace(line3, streams=streams))


def test_a_stream_with_two_paths_is_refused_by_name(line3: Plan, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)  # should it not be refused, no lab comes up
    twice = changed(line3, "motion", paths=2)
    for refused in (lambda: flows(twice), lambda: up(twice.intent)):
        with pytest.raises(InputError, match=r"motion asks for 2 paths.*does not replicate"):
            refused()


def test_a_stream_without_a_place_is_not_sent(line3: Plan):
    streams = {name: its for name, its in line3.streams.items() if name != "camera"}
    left = dataclasses.replace(line3, streams=streams, refused={"camera": "no room"})
    assert {flow.name for flow in flows(left) if flow.latency_bound_ns} == {*streams}


def test_a_payload_too_small_for_a_probe_is_refused_with_the_least_that_works(line3: Plan):
    least = 40 + 8 + PROBE.size
    flows(changed(line3, "motion", payload_octets=least))
    with pytest.raises(InputError, match=r"motion.*IPv6") as refused:
        flows(changed(line3, "motion", payload_octets=least - 1))
    assert f"{least} octets" in str(refused.value.hint)


# Enough for a process that waits for a busy processor.
READY_WITHIN_NS = 500_000_000


@pytest.fixture
def probe_port() -> Iterator[None]:
    """The port of listeners, which is the same in every run of these tests on this machine.

    The name of a Unix socket belongs to a network namespace, as a port does.
    """
    with socket.socket(socket.AF_UNIX) as held:
        while True:
            try:
                held.bind("\0tsn-probe-port")
                break
            except OSError:
                time.sleep(0.05)
        yield


class Ends:
    """A talker and a listener on the loopback interface, as `run` would start them."""

    def __init__(self, directory: Path, flow: dict, *, stamps: bool = False, ms: int = 20):
        told = {"duration_ns": ms * 1_000_000, "drain_ns": 20_000_000, "stamps": stamps, "turn": 0}
        told["deliveries"] = stamps
        family = {4: "AF_INET", 6: "AF_INET6"}[flow["ip_version"]]
        told |= {"flows": [flow], "interfaces": []}
        told["addresses"] = [[family, flow["destination"], endpoint.PORT]]
        self.outputs = {verb: directory / f"{verb}.csv" for verb in ("listen", "talk")}
        self.programs = {}
        for verb, output in self.outputs.items():
            spec = output.with_suffix(".json")
            spec.write_text(json.dumps({**told, "output": str(output)}))
            program = subprocess.Popen(
                [sys.executable, "-I", endpoint.__file__, verb, str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.programs[verb] = program
            assert program.stdout.readline().startswith("ready ")

    def run(self, start_ns: int) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """What the talker sent and what the listener received."""
        self.programs["talk"].communicate(f"{start_ns}\n", timeout=30)
        self.programs["listen"].communicate(timeout=30)
        assert [program.returncode for program in self.programs.values()] == [0, 0]
        return rows(self.outputs["talk"]), rows(self.outputs["listen"])


def probes(version: int = 4, address: str = "127.0.0.1", **fields) -> dict:
    return {
        "id": 7,
        "name": "probe",
        "ip_version": version,
        "destination": address,
        "dscp": 46,
        "payload_octets": 200,
        "period_ns": 1_000_000,
        "offset_ns": 250_000,
        "pattern": "periodic",
        "frames": 1,
        **fields,
    }


@pytest.mark.parametrize(("version", "address"), [(4, "127.0.0.1"), (6, "::1")])
@pytest.mark.parametrize("stamps", [False, True])
@pytest.mark.usefixtures("probe_port")
def test_what_is_sent_is_recorded_with_both_ends_times(tmp_path, version, address, stamps):
    ends = Ends(tmp_path, probes(version, address), stamps=stamps)
    start_ns = endpoint.tai_ns() + READY_WITHIN_NS
    sent, received = ends.run(start_ns)
    assert [int(row["planned_ns"]) for row in sent] == [
        start_ns + 250_000 + seq * 1_000_000 for seq in range(20)
    ]
    assert all(int(row["sent_ns"]) >= int(row["planned_ns"]) for row in sent)
    arrived = {int(row["seq"]): int(row["received_ns"]) for row in received}
    assert sorted(arrived) == list(range(20))
    for row in received:
        if stamps:
            assert int(row["delivered_ns"]) >= int(row["received_ns"])
        else:
            assert row["delivered_ns"] == ""
    for row in sent:
        times = [row["sent_ns"], row["scheduled_ns"], row["left_ns"], arrived[int(row["seq"])]]
        if stamps:
            assert sorted(map(int, times)) == list(map(int, times))
        else:
            assert times[1:3] == ["", ""]


def test_a_talker_without_a_route_says_what_takes_routes_away(tmp_path, monkeypatch):
    def unreachable(_flow):
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(endpoint, "Outlet", unreachable)
    spec = tmp_path / "talk.json"
    spec.write_text(json.dumps({"flows": [probes()]}))
    with pytest.raises(SystemExit, match=r"^Network is unreachable: .* `cnc lab up`"):
        endpoint.main("talk", str(spec))


@pytest.mark.usefixtures("probe_port")
def test_a_saturating_talker_sends_no_faster_than_its_cable_and_ends_with_the_duration(tmp_path):
    # Beside a busy machine it begins late: for so long that there are frames all the same.
    ends = Ends(tmp_path, probes(pattern="saturating", period_ns=1_000_000), ms=500)
    start_ns = endpoint.tai_ns() + READY_WITHIN_NS
    sent, received = ends.run(start_ns)
    assert 1 < len(sent) <= 500
    for seq, row in enumerate(sent):
        assert start_ns + seq * 1_000_000 <= int(row["sent_ns"]) < start_ns + 500_000_000
        assert row["planned_ns"] == row["sent_ns"]
    assert [row["seq"] for row in received] == [str(seq) for seq in range(len(sent))]


@pytest.mark.usefixtures("probe_port")
def test_a_talker_that_is_done_stays_asleep_until_all_others_are(tmp_path, monkeypatch):
    """Writing down what it sent, at real-time priority, would hold up the others' last frames."""
    waits = []
    flow = probes(payload_octets=64, period_ns=2_500_000, offset_ns=0)
    output = tmp_path / "talk.csv"
    monkeypatch.setattr(endpoint, "be_punctual", lambda *, go_first: None)
    monkeypatch.setattr(endpoint, "wait_for_start", lambda: 1_000_000)
    monkeypatch.setattr(endpoint, "sleep_until", lambda at: waits.append((at, output.exists())))
    told = {"flows": [flow], "duration_ns": 5_000_000, "drain_ns": 7, "stamps": False, "turn": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", endpoint.PORT))
        endpoint.talk({**told, "output": str(output)})
    assert waits[-1] == (1_000_000 + 5_000_000 + 7, False)
    assert len(rows(output)) == 2


def test_a_wait_ends_at_its_instant_and_one_for_an_instant_that_is_over_at_once():
    begun_ns = endpoint.tai_ns()
    endpoint.sleep_until(begun_ns + 20_000_000)
    assert endpoint.tai_ns() >= begun_ns + 20_000_000
    endpoint.sleep_until(begun_ns)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("hyperperiod_ns", "grid_ns"),
    [(2_000_000, 1_000_000_000), (3_000_000, 3_000_000_000), (7_000_001, 7_000_001)],
)
def test_a_run_starts_on_whole_cycles_and_seconds_unless_that_takes_long(hyperperiod_ns, grid_ns):
    assert start_grid_ns(hyperperiod_ns) == grid_ns


def test_a_run_of_streams_that_hardly_ever_repeat_together_is_refused() -> None:
    with pytest.raises(InputError, match="repeat together only every"):
        start_grid_ns(math.lcm(16_666_667, 1_000_000))


@pytest.mark.parametrize(("ahead_ns", "start_s"), [([0, -5, -NS_PER_S], 11), ([0, 3_000], 12)])
def test_a_run_starts_a_second_ahead_by_the_clock_that_is_furthest_ahead(
    monkeypatch: pytest.MonkeyPatch, ahead_ns: list[int], start_s: int
):
    monkeypatch.setattr(recording, "tai_ns", lambda: 10 * NS_PER_S)
    stations = [SimpleNamespace(ahead_ns=each) for each in ahead_ns]
    assert recording.next_start_ns(NS_PER_S, stations) == start_s * NS_PER_S  # type: ignore[arg-type]


class Here(Lab):
    """A lab whose nodes are all this machine."""

    def command(self, node, argv):
        return [*argv]


@pytest.fixture
def here(
    line3: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    probe_port: None,
) -> Lab:
    loopback = NodeAddresses(IPv4Address("127.0.0.1"), IPv6Address("::1"))
    nodes = dict.fromkeys(("t1", "t2", "l1"), loopback)
    monkeypatch.setattr("cnc.testbed.traffic.recording.addresses", lambda _: nodes)
    return Here(line3.intent, tmp_path)


MOTION = Flow("motion", "t1", "l1", 6, 6, 46, 100, 1_000_000, 250_000, 50_000)


def test_a_run_records_every_frame_by_the_time_since_its_start(here: Lab, tmp_path: Path):
    valves = dataclasses.replace(MOTION, name="valves", talker="t2", ip_version=4, offset_ns=0)
    bulk = dataclasses.replace(
        valves, name="bulk", pattern=Pattern.SATURATING, latency_bound_ns=None
    )
    record = run(
        here,
        [MOTION, valves, bulk],
        1_000_000_000,
        tmp_path,
        stamps=True,
        grid_ns=7,
        drain_ns=1_000,
    )
    assert record.start_ns % 7 == 0
    assert [frame.planned_ns - record.start_ns for frame in record if frame.flow == "motion"] == [
        250_000 + seq * 1_000_000 for seq in range(1000)
    ]
    assert {frame.flow for frame in record} == {"motion", "valves", "bulk"}
    written = rows(tmp_path / "frames.csv")
    assert len(written) == len(record) == len(record.frames)
    for row, frame in zip(written, record, strict=True):
        assert (row["flow"], int(row["seq"]), row["copies"]) == (frame.flow, frame.seq, "1")
        for column in ("planned_ns", "sent_ns", "scheduled_ns", "left_ns", "received_ns"):
            assert int(row[column]) == getattr(frame, column) - record.start_ns
    about = json.loads((tmp_path / "frames.json").read_text())
    assert (about["start_ns"], about["clock"], about["stamps"]) == (
        record.start_ns,
        "CLOCK_TAI",
        True,
    )
    assert [flow["name"] for flow in about["flows"]] == ["motion", "valves", "bulk"]


def test_what_an_earlier_run_left_in_the_directory_is_not_counted(here: Lab, tmp_path: Path):
    valves = dataclasses.replace(MOTION, name="valves", talker="t2")
    run(here, [MOTION, valves], 1_000_000, tmp_path, grid_ns=1, drain_ns=1_000)
    again = run(here, [MOTION], 1_000_000, tmp_path, grid_ns=1, drain_ns=1_000)
    assert [frame.flow for frame in again] == ["motion"]


def test_a_flow_that_would_not_send_a_frame_is_refused_before_anything_starts(here: Lab, tmp_path):
    with pytest.raises(InputError, match="motion sends a frame every 1 ms, none within"):
        run(here, [MOTION], 999_999, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_program_that_fails_is_told_with_its_node_and_its_own_words(here: Lab, tmp_path: Path):
    unheard = dataclasses.replace(MOTION, ip_version=4, payload_octets=9_999_999)
    with pytest.raises(CncError, match="end station t1 could not talk") as failed:
        run(here, [unheard], 1_000_000, tmp_path, grid_ns=1, drain_ns=1_000)
    assert "Message too long" in str(failed.value.hint)


FLOWS = """
flows:
  - {name: video, talker: t1, listener: l2, pattern: cbr, rate: 100Mbps, payload: 1250B, ip: 4}
  - {name: plain, talker: s1, listener: l1, period: 500us, payload: 100B, dscp: 46, offset: 20us}
  - {name: bulk, talker: t2, listener: l1, pattern: saturating, payload: 1462B}
"""


def written(directory: Path, text: str) -> Path:
    file = directory / "flows.yaml"
    file.write_text(text)
    return file


def test_flows_of_a_file_are_what_it_says(line3: Plan, tmp_path: Path):
    video, plain, bulk = flowfile.load(written(tmp_path, FLOWS), line3.intent)
    assert video == Flow("video", "t1", "l2", 0, 4, 0, 1250, 100_000, 0, None)
    assert plain == Flow("plain", "s1", "l1", 6, 6, 46, 100, 500_000, 20_000, None)
    # 1462 octets, 18 of MAC header and FCS, 4 of tag, 20 around a frame: 1504 at 1 Gb/s
    assert bulk == Flow(
        "bulk", "t2", "l1", 0, 6, 0, 1462, 12_032, 0, None, pattern=Pattern.SATURATING
    )


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        (4, ("talker: s1", "talker: s9"), "flows[1].talker: found 's9', expected one of l1, l2, s"),
        (4, ("listener: l1", "listener: s1"), "flows[1].listener: found s1, expected another node"),
        (4, ("period: 500us, ", ""), "flows[1]: found no period, expected one, for the pattern is"),
        (4, ("500us", "5ns"), "flows[1].period: found '5ns', expected a duration from 1us to 1s"),
        (4, ("name: plain", "name: video"), "flows[1].name: found video again, expected each name"),
        (4, ("payload: 100B", "payload: 53B"), "flows[1].payload: found 53B, expected 54B or more"),
        (
            4,
            ("payload: 100B", "payload: 1501B"),
            "flows[1].payload: found 1501B, expected 1500B or less, the MTU of the lab's ports",
        ),
        (4, ("dscp: 46", "dscp: 184"), "0xb8 is a TOS byte; its DSCP is 46 (EF)"),
        (
            3,
            ("rate: 100Mbps", "period: 1ms"),
            "flows[0].period: found a period, and the pattern",
        ),
        (
            3,
            ("100Mbps", "100Gbps"),
            "flows[0].rate: found 100Gbps, expected a rate at which",
        ),
        (5, ("payload: 1462B", "paylod: 9B"), "found the unknown key 'paylod', expected one of"),
        (5, ("saturating", "flooding"), "found 'flooding', expected one of periodic, cbr, saturat"),
    ],
)
def test_what_is_wrong_in_a_flow_file_is_told_with_its_line(line3, tmp_path, line, change, message):
    file = written(tmp_path, FLOWS.replace(*change))
    with pytest.raises(InputError) as refused:
        flowfile.load(file, line3.intent)
    (told, *_) = [text for text in str(refused.value).splitlines() if message in text]
    assert told.startswith(f"{file}:{line}: ")


def test_in_a_slower_network_everything_takes_as_much_longer():
    """Every figure that a plan rests on is 10 times as long, so that the plan keeps its shape."""
    document = intents.load(LINE3).document
    defaults = {**document["defaults"], "gate-margin": "300ns"}
    fast = intents.from_document({**document, "defaults": defaults}, "line3")
    slow = slower(fast, 10)
    for figure in ("clock_error_ns", "gate_margin_ns"):
        assert getattr(slow.network, figure) == 10 * getattr(fast.network, figure) > 0
    for name, bridge in fast.network.bridges.items():
        assert slow.network.bridges[name].processing_max_ns == 10 * bridge.processing_max_ns
    for name, stream in fast.streams.items():
        for figure in ("period_ns", "max_latency_ns", "earliest_ns"):
            assert getattr(slow.streams[name], figure) == 10 * getattr(stream, figure)
        for port, link in fast.network.links.items():
            longer = slow.network.occupation_ns(slow.network.links[port], stream.payload_octets)
            assert longer == 10 * fast.network.occupation_ns(link, stream.payload_octets)


def test_a_slower_network_is_for_clocks_whose_timers_are_late():
    assert intents.load(LINE3).network.gate_margin_ns == 0
    assert slower(intents.load(LINE3), 10).network.gate_margin_ns == 10_000
