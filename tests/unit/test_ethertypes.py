"""Streams whose frames carry no IP packets: AVTP, PROFINET and others, by their EtherType."""

from __future__ import annotations

import json

import pytest

from cnc import check, planner
from cnc import intent as intents
from cnc.cli.render.talkers import talkers
from cnc.errors import InputError
from cnc.intent.source import parse
from cnc.keys.written import keys_of
from cnc.model import Intent, Plan
from cnc.model.transmissions import transmissions
from cnc.testbed.traffic.flows import flows, marks
from cnc.testbed.traffic.loop.stations import sending
from cnc.testbed.traffic.probe_filter import Marks, probe_of
from cnc.testbed.traffic.sockets import PROBE

AVTP, PROFINET = 0x22F0, 0x8892
DOCUMENT = """
name: line
forwarding: bridged
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 5us}, clock-error: 1us,
           gate-margin: 1us}
classes:
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches: {s1: {ports: [t, l]}}
end-stations: {t: {}, l: {mac: "02:00:00:00:00:02"}}
links: [[t/eth0, s1/t], [l/eth0, s1/l]]
streams:
  a: {talker: t, listeners: [l], period: 1ms, max-latency: 1ms, KEYS}
  b: {talker: t, listeners: [l], period: 1ms, max-latency: 1ms, payload: 100B, ip: 4}
"""


def read(keys: str, text: str = DOCUMENT) -> Intent:
    return intents.intent_of(parse(text.replace("KEYS", keys).encode(), "line.yaml"))


def planned(keys: str) -> Plan:
    plan = planner.plan(read(keys))
    assert not check.judge(plan)
    return plan


def test_a_payload_without_ip_may_be_shorter_than_its_headers() -> None:
    plan = planned("ethertype: 0x8892, payload: 4B")
    assert plan.streams.keys() == {"a", "b"}
    with pytest.raises(InputError, match=r"streams\.a\.payload: found 4B, expected at least 48B"):
        read("payload: 4B")


def test_talkers_are_told_what_frames_carry(capsys: pytest.CaptureFixture[str]) -> None:
    found = transmissions(planned("ethertype: 0x22f0, payload: 20B"))
    talkers(found, as_csv=False, as_json=True)
    rows = {row["stream"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["a"]["ethertype"], rows["a"]["ip_version"], rows["a"]["dscps"]) == (AVTP, None, [])
    assert (rows["b"]["ethertype"], rows["b"]["ip_version"], rows["b"]["dscps"]) == (None, 4, [46])
    talkers(found, as_csv=False, as_json=False)
    table = capsys.readouterr().out
    assert "EtherType" in table
    assert "0x22f0" in table
    assert "IPv4" in table


def test_where_all_carry_ip_no_ethertype_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    talkers(transmissions(planned("payload: 100B")), as_csv=True, as_json=False)
    assert "ethertype" not in capsys.readouterr().out


def test_the_lab_sends_and_hears_frames_of_their_ethertype() -> None:
    sent = flows(planned("ethertype: 0x22f0, payload: 20B"))
    assert marks(sent) == Marks((), (AVTP,))
    its = sending(None, next(flow for flow in sent if flow.name == "a"))  # type: ignore[arg-type]
    assert its["ethertype"] == AVTP
    frame = bytes(12) + AVTP.to_bytes(2) + PROBE.pack(3, 4) + bytes(46)
    tagged = bytes(12) + b"\x81\x00\xc0\x0a" + frame[12:]
    assert [probe_of(each, marks(sent)) for each in (frame, tagged)] == [(3, 4)] * 2
    assert probe_of(frame, Marks()) is None


def test_the_first_switch_knows_untagged_frames_without_ip_by_their_addresses() -> None:
    keys = "ethertype: 0x8892, payload: 20B, identification: {source-mac: '02:00:00:00:00:01'}"
    plan = planned(keys)
    (sent, _) = sorted(transmissions(plan), key=lambda each: each.stream)
    assert sent.is_untagged
    assert sent.ethertype == PROFINET


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("ethertype: 0x800", "ethertype: found 0x0800, which is of IP packets"),
        ("ethertype: 0x86dd", "ethertype: found 0x86dd, which is of IP packets"),
        ("ethertype: 0x8100", "ethertype: found 0x8100, which is of a tag before the EtherType"),
        ("ethertype: 0xf1c1", "ethertype: found 0xf1c1, which is of a tag before the EtherType"),
        ("ethertype: 0x5ff", "ethertype: found 1535, expected an EtherType from 0x600 to 0xffff"),
        (
            "ethertype: 0x10000",
            "ethertype: found 65536, expected an EtherType from 0x600 to 0xffff, such as 0x22f0",
        ),
        ("ethertype: avtp", "ethertype: found 'avtp', expected an EtherType"),
        ("ethertype: 0x22f0, ip: 6", "ip: found 6, and the ethertype 0x22f0, expected one of"),
        (
            "ethertype: 0x22f0, identification: {ip: {destination: '2001:db8::1'}}",
            "identification: found IP headers, and the ethertype 0x22f0, expected source-mac or",
        ),
    ],
)
def test_an_ethertype_that_says_nothing_of_the_payload_is_refused(keys: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read(f"payload: 100B, {keys}")
    assert f"streams.a.{problem}" in str(caught.value)


def test_switches_that_route_forward_ip_packets_alone() -> None:
    text = DOCUMENT.replace("forwarding: bridged\n", "").replace('{mac: "02:00:00:00:00:02"}', "{}")
    with pytest.raises(InputError, match="ethertype: found 0x22f0 in a routed network"):
        read("ethertype: 0x22f0, payload: 100B", text)


def test_an_ethertype_is_written_as_it_is_read() -> None:
    its = read("ethertype: 0x22f0, payload: 20B")
    keys = keys_of(its.streams["a"], its.document)
    assert keys["ethertype"] == AVTP
    assert "ip" not in keys
    assert keys_of(its.streams["b"], its.document)["ip"] == 4
