"""Streams that talkers send untagged: what the intent says of them, what switches are told, and
what the judge finds wrong with that.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘         and m at s2
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cnc import cli
from cnc import intent as intents
from cnc.check import judge
from cnc.check.forwarding import judge_forwarding
from cnc.check.streams import judge_streams
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations
from cnc.model import (
    BridgeForwarding,
    EndStation,
    Identification,
    Intent,
    IpIdentification,
    Network,
    NextProtocol,
    NullIdentification,
    Plan,
    PortRef,
    SourceMacIdentification,
    StreamAddress,
)
from cnc.model.transmissions import transmissions
from cnc.planner import plan
from cnc.planner.route import Member
from cnc.plans import file as planfile
from tests import bridged_networks as documents
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import LINE, MS, RING, network, problem, stream, with_links

VIDEO = IpIdentification("2001:db8::1", protocol=NextProtocol.UDP, destination_port=5004)
AUDIO = IpIdentification("2001:db8::1", protocol=NextProtocol.UDP, destination_port=5006)
MAC_OF_L = "02:00:00:00:00:0c"


def with_mac_of_l(network: Network) -> Network:
    stations = {**network.end_stations, "l": EndStation("l", mac=MAC_OF_L)}
    return replace(network, end_stations=stations)


PLANNED = plan(
    bridged(
        with_mac_of_l(RING),
        stream("video", "t", "l", identification=VIDEO),
        stream("audio", "t", "l", identification=AUDIO),
        stream("tagged", "t", "l"),
    )
)
VIDEO_ADDRESS, AUDIO_ADDRESS = PLANNED.addresses["video"], PLANNED.addresses["audio"]
TOLD = bridge_forwardings(PLANNED)


def line(**streams: Mapping[str, Any]) -> Intent:
    """A line of three switches whose stations have addresses 02:00:00:00:01:00 and so on."""
    document = documents.line().document
    names = document["end-stations"]
    stations = {name: {"mac": f"02:00:00:00:01:{n:02x}"} for n, name in enumerate(names)}
    whole = {**document, "end-stations": stations, "streams": streams}
    return intents.from_document(whole, "line")


def found(plan: Plan = PLANNED, told: Mapping[str, BridgeForwarding] = TOLD) -> list[str]:
    return [f"{each.code} {each.where}: {each.text}" for each in judge_forwarding(plan, told)]


def told_with(switch: str, address: StreamAddress, its: Translation | None) -> dict[str, Any]:
    """What switches are told, one of them something else of the frames of a stream."""
    translations = {**TOLD[switch][Translations].by_stream, address: its or Translation()}
    return {**TOLD, switch: TOLD[switch].having(Translations(translations))}


# --- what switches are told ----------------------------------------------------------------------


def test_the_first_switch_knows_the_frames_and_the_last_gives_them_back() -> None:
    assert found() == []
    assert TOLD["s1"][Translations].by_stream == {
        VIDEO_ADDRESS: Translation(inward=Inward("t", VIDEO, pcp=6)),
        AUDIO_ADDRESS: Translation(inward=Inward("t", AUDIO, pcp=6)),
    }
    assert TOLD["s3"][Translations].by_stream == {
        VIDEO_ADDRESS: Translation(outward=Outward("l", MAC_OF_L)),
        AUDIO_ADDRESS: Translation(outward=Outward("l", MAC_OF_L)),
    }
    assert {*TOLD["s2"][Translations].by_stream, *TOLD["s4"][Translations].by_stream} == set()


def test_one_switch_may_be_the_first_and_the_last() -> None:
    known_by = {"source-mac": "02:00:00:00:00:01"}
    planned = plan(line(video=documents.stream("t1", "t2", identification=known_by)))
    (its,) = bridge_forwardings(planned)["s1"][Translations].by_stream.values()
    inward = Inward("t1", SourceMacIdentification("02:00:00:00:00:01"), 6)
    assert its == Translation(inward, Outward("t2", "02:00:00:00:01:01"))


def test_a_port_need_not_trust_the_tag_of_frames_that_have_none() -> None:
    untagged = plan(bridged(with_mac_of_l(LINE), stream("video", "t", "l", identification=VIDEO)))
    told = bridge_forwardings(untagged)
    assert told["s1"].trusting == ()
    assert told["s1"].vlans == {10: ("s2", "t")}
    assert told["s2"].trusting == ("s1",)
    assert TOLD["s1"].trusting == ("t",)  # by which tagged frames come, too


def test_a_stream_that_is_sent_untagged_gets_an_address_of_one_station() -> None:
    assert str(VIDEO_ADDRESS) == "02:54:53:4e:00:00 in VLAN 10"
    assert str(PLANNED.addresses["tagged"]) == "03:54:53:4e:00:00 in VLAN 10"


def test_a_running_stream_that_is_sent_untagged_from_now_on_gets_another_address() -> None:
    wanted = replace(
        PLANNED.intent,
        streams={
            **PLANNED.intent.streams,
            "tagged": stream("tagged", "t", "l", identification=replace(VIDEO, source="2001::2")),
        },
    )
    kept = plan(wanted, keep=PLANNED)
    assert kept.addresses["video"] == VIDEO_ADDRESS
    assert str(kept.addresses["tagged"]) == "02:54:53:4e:00:02 in VLAN 10"


# --- when frames without a tag come --------------------------------------------------------------


def test_a_frame_without_a_tag_may_come_sooner_by_the_time_of_its_tag() -> None:
    """Four octets at 1 Gb/s: 32 ns. Behind its first switch it has a tag, and gains no more."""
    found, _ = judge_streams(PLANNED, {})
    earliest_ns = {
        name: [
            t.earliest_ns - PLANNED.streams[name].hops[0].offset_ns
            for t in found
            if t.stream == name and t.ingress
        ]
        for name in ("video", "tagged")
    }
    leads_ns = (
        tagged - untagged
        for untagged, tagged in zip(earliest_ns["video"], earliest_ns["tagged"], strict=True)
    )
    assert [*leads_ns] == [32, 32, 32]


def test_what_the_planner_places_of_untagged_streams_the_judge_finds_sound() -> None:
    """At 10 Mb/s four octets take 3.2 us, longer than a frame at the 1 Gb/s of the other links."""
    net = network(*("t-s1", "u-s1", "s1-s2", "s2-l"), clock_error_ns=0, processing_ns=(1000, 1000))
    marks = [replace(VIDEO, destination_port=port) for port in range(5000, 5002)]
    streams = [
        stream(f"{talker}{n}", talker, "l", identification=its, max_latency_ns=MS)
        for n, its in enumerate(marks)
        for talker in "tu"
    ]
    wanted = bridged(with_mac_of_l(net), *streams)
    slow = with_links(wanted, PortRef("u", "s1"), PortRef("s1", "u"), rate_bps=10_000_000)
    assert judge(plan(slow)) == []


def test_the_planner_reckons_with_frames_that_come_without_a_tag() -> None:
    wanted = bridged(
        with_mac_of_l(LINE),
        stream("tagged", "t", "l"),
        stream("video", "t", "l", identification=VIDEO),
    )
    placing = problem(wanted)
    tagged, video = (
        placing.route(Member(name, 0), placing.trees[name][0]).legs for name in wanted.streams
    )
    leads_ns = [one.min_ns - other.min_ns for one, other in zip(tagged, video, strict=True)]
    assert leads_ns[:2] == [0, 32]


# --- what the judge finds ------------------------------------------------------------------------


def test_frames_that_the_first_switch_does_not_know_are_nobodys() -> None:
    assert found(told=told_with("s1", VIDEO_ADDRESS, None)) == [
        "identification video: comes untagged to s1/t, and has no address from there on"
    ]


def test_frames_that_the_first_switch_takes_for_another_stream_are_told() -> None:
    its = Translation(inward=Inward("t", VIDEO, 6))
    told = told_with("s1", AUDIO_ADDRESS, its)
    told["s1"] = told["s1"].having(Translations({AUDIO_ADDRESS: its}))
    assert found(told=told) == [
        "identification audio: is given to IP to 2001:db8::1, UDP, to port 5004, which it is not",
        f"identification video: comes untagged to s1/t, and has {AUDIO_ADDRESS} from there on",
        "identification audio: comes untagged to s1/t, and has no address from there on",
    ]


def test_frames_that_come_by_another_port_than_they_are_known_at_are_nobodys() -> None:
    told = told_with("s1", VIDEO_ADDRESS, Translation(inward=Inward("s2", VIDEO, 6)))
    assert [each for each in found(told=told) if "has no address" in each]


def test_frames_get_the_priority_of_their_class() -> None:
    assert found(told=told_with("s1", VIDEO_ADDRESS, Translation(Inward("t", VIDEO, 5)))) == [
        "identification video: gets PCP 5 from its first switch, its class has 6"
    ]


@pytest.mark.parametrize(
    ("outward", "text"),
    [
        (None, "leaves s3/l for l tagged, with the address of the stream"),
        (
            Outward("l", "02:00:00:00:00:0d"),
            f"leaves s3/l with another address than {MAC_OF_L}, that of l",
        ),
    ],
)
def test_frames_come_to_their_listener_as_they_were_sent(
    outward: Outward | None, text: str
) -> None:
    assert found(told=told_with("s3", VIDEO_ADDRESS, Translation(outward=outward))) == [
        f"identification video: {text}"
    ]


def test_frames_keep_their_address_until_the_last_switch() -> None:
    told = told_with(
        "s1", VIDEO_ADDRESS, Translation(Inward("t", VIDEO, 6), Outward("s2", MAC_OF_L))
    )
    assert found(told=told) == [
        "identification video: loses its address and tag at s1/s2, which is not before its listener"
    ]


def test_frames_of_a_talker_that_tags_them_are_not_translated() -> None:
    tagged = PLANNED.addresses["tagged"]
    assert found(told=told_with("s3", tagged, Translation(outward=Outward("l", MAC_OF_L)))) == [
        "identification tagged: is translated at s3/l, and its talker tags its frames"
    ]


@pytest.mark.parametrize(
    "other",
    [
        IpIdentification("2001:db8::1"),
        replace(VIDEO, source="2001:db8::9", source_port=7),
        replace(VIDEO, destination_port=None, dscp=46),
        SourceMacIdentification("02:00:00:00:00:01"),
        NullIdentification("02:00:00:00:00:02"),
    ],
)
def test_no_frame_is_known_as_two_streams(other: Identification) -> None:
    told = told_with("s1", AUDIO_ADDRESS, Translation(Inward("t", other, 6)))
    assert f"identification s1/t, audio: {other} may be {VIDEO}, too" in found(told=told)


@pytest.mark.parametrize(
    "other",
    [
        replace(VIDEO, destination="2001:db8::2"),
        replace(VIDEO, protocol=NextProtocol.TCP),
        IpIdentification("192.0.2.1"),
    ],
)
def test_frames_with_another_mark_are_of_another_stream(other: Identification) -> None:
    told = told_with("s1", AUDIO_ADDRESS, Translation(Inward("t", other, 6)))
    assert not [each for each in found(told=told) if "too" in each]


def test_a_group_address_is_none_for_ip_packets() -> None:
    address = StreamAddress("03:54:53:4e:00:09", 10)
    changed = replace(PLANNED, addresses={**PLANNED.addresses, "video": address})
    (text,) = found(changed, bridge_forwardings(changed))
    assert text.startswith("address video: has 03:54:53:4e:00:09, by which no bridge forwards IP")


# --- what commands print -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    known_by = {"ip": {"destination": "2001:db8::1", "protocol": "udp", "dscp": 10}}
    wanted = line(
        tagged=documents.stream("t1", "l1"),
        video=documents.stream("t1", "l1", identification=known_by),
    )
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    planfile.dump(plan(wanted), path)
    return path


def cnc(*words: object) -> str:
    done = CliRunner().invoke(cli.cnc, [*map(str, words)], env={"COLUMNS": "220"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_plan_file_keeps_by_what_streams_are_known(file: Path) -> None:
    (video,) = (
        its.inward
        for its in bridge_forwardings(planfile.load(file))["s1"][Translations].by_stream.values()
        if its.inward
    )
    assert str(video.identification) == "IP to 2001:db8::1, UDP, DSCP 10"


def test_the_table_of_a_plan_says_where_untagged_frames_are_translated(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "line.yaml").write_text(json.dumps(json.loads(file.read_text())["intent"]))
    (shown,) = (each for each in cnc("plan", tmp_path / "line.yaml").splitlines() if "DSCP" in each)
    assert shown.split()[0] == "video"
    assert shown.split()[-2:] == ["s1/t1", "s3/l1"]


def test_a_talker_is_told_to_send_untagged_as_before(file: Path) -> None:
    (shown,) = (each for each in cnc("talkers", file).splitlines() if " video " in each)
    assert "untagged, as before" in shown
    told = {each["stream"]: each for each in json.loads(cnc("talkers", "--json", file))}
    assert told["video"]["is_untagged"] is True
    assert told["video"]["destination_mac"] is None
    assert told["tagged"]["is_untagged"] is False
    assert cnc("talkers", "--csv", file).splitlines()[0].endswith(",pcp,is_untagged")


def test_a_talker_sends_the_code_point_that_its_stream_is_known_by(file: Path) -> None:
    told = {each.stream: each for each in transmissions(planfile.load(file))}
    assert told["video"].dscps == (10,)
    assert told["tagged"].dscps == ()
