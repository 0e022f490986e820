"""Several frames in a period, from the plan to a talker's program and back in the figures."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import pytest
from lxml import etree

from agent.mechanisms.talker_offsets.file import decode, encode
from agent.mechanisms.talker_offsets.model import OffsetState, OffsetTable, Transmission
from agent.mechanisms.talker_offsets.tables import stream_node, transmission
from cnc.cli.render import planning, talkers
from cnc.data_tree.reply import Reply
from cnc.data_tree.tree import INTERFACES
from cnc.mechanisms.talker_offsets.tree import derive, stored_tables, talker_element
from cnc.model import Plan, TalkerStreams, TalkerTable
from cnc.model.transmissions import transmissions
from cnc.planner import plan
from cnc.switch.payload import named_interface
from cnc.talker.offsets import parse
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.flows import Flow, flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import Frame
from tests.unit.planner_networks import BEST_EFFORT, CYCLIC, MS, intent, network, stream

NET = network("t-s1", "s1-l")
PICTURE = Transmission("picture", 1, MS, 12_000, 1_500, 5, 46, ("l",), frames=27)
SINGLE = dataclasses.replace(PICTURE, name="single", frames=1)


def planned(**frames: int) -> Plan:
    return plan(intent(NET, *(stream(name, "t", "l", frames=n) for name, n in frames.items())))


def test_a_talker_is_told_how_many_frames_it_sends(capsys: pytest.CaptureFixture[str]) -> None:
    assert [each.frames for each in transmissions(planned(a=3, b=1))] == [3, 1]
    as_csv, as_json, table = shown(planned(a=3, b=1), capsys)
    assert [row["frames"] for row in csv.DictReader(as_csv.splitlines())] == ["3", "1"]
    assert [each["frames"] for each in json.loads(as_json)] == [3, 1]
    assert "frames" in table


def test_where_all_send_one_nothing_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [text for text in shown(planned(a=1, b=1), capsys) if "frames" in text]


def shown(found: Plan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `cnc talkers` prints: with --csv, with --json, and as a table."""
    texts = []
    for options in ((True, False), (False, True), (False, False)):
        talkers(transmissions(found), as_csv=options[0], as_json=options[1])
        texts.append(capsys.readouterr().out)
    return texts


def test_a_plan_says_how_many_frames_and_what_mtu_ports_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planning.plan(planned(a=3, b=1), None)
    assert [line for line in lines(capsys) if re.search(r"^ *a .* 1 ms +3 ", line)]
    planning.plan(planned(b=1), None)
    assert not [line for line in lines(capsys) if "frames" in line or "MTU" in line]

    jumbo = dataclasses.replace(CYCLIC, max_frame_octets=9_022)
    wanted = intent(NET, stream("b", "t", "l", payload_octets=9_000), classes=(jumbo, BEST_EFFORT))
    planning.plan(plan(wanted), None)
    told = "ports that need an MTU of 9000 octets: l/s1, s1/l, s1/t, t/s1"
    assert told in lines(capsys)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_push_tells_it_and_reads_it_back() -> None:
    (configuration,) = derive(planned(a=27, b=1), ["t"]).values()
    assert {each.name: each.frames for each in configuration.streams} == {"a": 27, "b": 1}
    assert read_back(configuration) == TalkerTable(5, configuration)


def test_for_one_frame_the_message_is_what_it_was() -> None:
    (configuration,) = derive(planned(b=1), ["t"]).values()
    message = etree.tostring(talker_element(configuration, 5))
    assert b"frames-per-period" not in message


def read_back(configuration: TalkerStreams) -> TalkerTable | None:
    interface = named_interface("eth0")
    interface.append(talker_element(configuration, 5))
    interfaces = etree.Element(f"{{{INTERFACES}}}interfaces")
    interfaces.append(interface)
    data = etree.Element("data")
    data.append(interfaces)
    return stored_tables(Reply(data))["eth0"]


def test_the_agent_publishes_it_and_a_program_reads_it() -> None:
    for sent in (PICTURE, SINGLE):
        assert transmission(stream_node(sent, str)) == sent
    state = OffsetState(OffsetTable(0, (PICTURE, SINGLE)))
    content = encode({"eth0": state})
    assert decode(content) == {"eth0": state}
    streams = parse(content).interfaces["eth0"].running.streams
    assert {name: each.frames for (name, _), each in streams.items()} == {
        "picture": 27,
        "single": 1,
    }


def test_a_talker_of_the_lab_sends_all_frames_of_a_period_at_its_instant() -> None:
    flow = {"period_ns": MS, "offset_ns": 7, "frames": 3}
    sent = [each[:3] for each in endpoint.timeline(4, flow, 10 * MS, 12 * MS + 1)]
    first, second = 10 * MS + 7, 11 * MS + 7
    assert sent == [(first, 4, seq) for seq in (0, 1, 2)] + [(second, 4, seq) for seq in (3, 4, 5)]


def test_a_talker_of_the_lab_follows_what_the_agent_says(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_bytes(encode({"eth0": OffsetState(OffsetTable(0, (PICTURE,)))}))
    flow = {"name": "picture", "offsets": str(file)}
    sent = list(endpoint.timeline(4, flow, 10 * MS, 12 * MS))
    assert [seq for _, _, seq, _ in sent] == list(range(54))
    assert {instant for instant, *_ in sent} == {10 * MS + 12_000, 11 * MS + 12_000}


def test_each_frame_is_measured_and_jitter_compares_those_in_the_same_place() -> None:
    many = planned(a=3)
    (flow,) = (each for each in flows(many) if each.name == "a")
    assert isinstance(flow, Flow)
    assert flow.frames == 3
    latencies = (10, 20, 30, 11, 20, None)
    frames = [
        Frame(
            flow="a",
            seq=seq,
            planned_ns=(instant := seq // 3 * MS),
            sent_ns=instant,
            received_ns=None if latency is None else instant + latency,
            scheduled_ns=None,
            left_ns=None,
        )
        for seq, latency in enumerate(latencies)
    ]

    (summary,) = summarise(many, [flow], frames)

    assert (summary.sent, summary.received, summary.lost) == (6, 5, 1)
    assert summary.jitter is not None
    assert (summary.jitter.min_ns, summary.jitter.max_ns) == (0, 1)
    (late,) = summarise(many, [dataclasses.replace(flow, latency_bound_ns=29)], frames)
    assert late.late == 1
