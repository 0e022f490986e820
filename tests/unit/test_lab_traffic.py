"""What end stations send, and the program that sends and records it."""

from __future__ import annotations

import csv
import dataclasses
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc import planfile
from cnc.errors import InputError
from cnc.lab import endpoint
from cnc.lab.lifecycle import up
from cnc.lab.slower import slower
from cnc.lab.traffic import flows
from cnc.model import Plan

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
    least = 40 + 8 + endpoint.PROBE.size
    flows(changed(line3, "motion", payload_octets=least))
    with pytest.raises(InputError, match=r"motion.*IPv6") as refused:
        flows(changed(line3, "motion", payload_octets=least - 1))
    assert f"{least} octets" in str(refused.value.hint)


@pytest.mark.parametrize(("version", "address"), [(4, "127.0.0.1"), (6, "::1")])
def test_what_is_sent_is_recorded_with_both_ends_times(tmp_path: Path, version: int, address: str):
    flow = {
        "id": 7,
        "name": "probe",
        "ip_version": version,
        "destination": address,
        "dscp": 46,
        "payload_octets": 200,
        "period_ns": 1_000_000,
        "offset_ns": 250_000,
        "frames": 20,
    }
    family = {4: "AF_INET", 6: "AF_INET6"}[version]
    programs = []
    for verb in ("listen", "talk"):
        spec = tmp_path / f"{verb}.json"
        output = str(tmp_path / f"{verb}.csv")
        told = {"flows": [flow], "duration_ns": 20_000_000, "addresses": [[family, address]]}
        spec.write_text(json.dumps({**told, "output": output}))
        program = subprocess.Popen(
            [sys.executable, "-I", endpoint.__file__, verb, str(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout.readline() == "ready\n"
        programs.append(program)
    start_ns = endpoint.tai_ns() + 50_000_000
    for program in programs:
        program.stdin.write(f"{start_ns}\n")
        program.stdin.flush()
    assert [program.wait(30) for program in programs] == [0, 0]
    for program in programs:
        program.communicate()
    sent = rows(tmp_path / "talk.csv")
    received = rows(tmp_path / "listen.csv")
    assert [int(row["planned_ns"]) for row in sent] == [
        start_ns + 250_000 + seq * 1_000_000 for seq in range(20)
    ]
    assert all(int(row["sent_ns"]) >= int(row["planned_ns"]) for row in sent)
    arrived = {int(row["seq"]): int(row["received_ns"]) for row in received}
    assert sorted(arrived) == list(range(20))
    assert all(arrived[int(row["seq"])] >= int(row["sent_ns"]) for row in sent)


def test_a_talker_that_is_done_stays_asleep_until_all_others_are(tmp_path, monkeypatch):
    """Writing down what it sent, at real-time priority, would hold up the others' last frames."""
    waits = []
    flow = {"id": 1, "name": "probe", "ip_version": 4, "destination": "127.0.0.1", "dscp": 0}
    flow |= {"payload_octets": 64, "period_ns": 1_000, "offset_ns": 0, "frames": 2}
    output = tmp_path / "talk.csv"
    monkeypatch.setattr(endpoint, "be_punctual", lambda: None)
    monkeypatch.setattr(endpoint, "wait_for_start", lambda: 1_000_000)
    monkeypatch.setattr(endpoint, "sleep_until", lambda at: waits.append((at, output.exists())))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", endpoint.PORT))
        endpoint.talk({"flows": [flow], "duration_ns": 5_000_000, "output": str(output)})
    assert waits[-1] == (1_000_000 + 5_000_000 + endpoint.DRAIN_NS, False)
    assert len(rows(output)) == 2


def test_a_wait_ends_at_its_instant_and_one_for_an_instant_that_is_over_at_once():
    begun_ns = endpoint.tai_ns()
    endpoint.sleep_until(begun_ns + 20_000_000)
    assert endpoint.tai_ns() >= begun_ns + 20_000_000
    endpoint.sleep_until(begun_ns)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_in_a_slower_network_everything_takes_as_much_longer():
    """Every figure that a plan rests on is 10 times as long, so that the plan keeps its shape."""
    fast = intents.load(LINE3)
    network = dataclasses.replace(fast.network, gate_margin_ns=300)
    fast = dataclasses.replace(fast, network=network)
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
