"""`cnc dds`: TSN deployments of DDS systems, before a real worker and read by CycloneDDS."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from cyclonedds.__library__ import library_path
from lxml import etree

from cnc.adapters.dds import System
from cnc.cli import cnc, controller
from cnc.errors import CncError, InputError
from cnc.model import ClassRole
from cnc.service import uni
from tests.unit.dds_peer import OCTETS
from tests.unit.dds_systems import ETHERNET, UDP, system
from tests.unit.service_network import CUC
from tests.unit.uni_bodies import network, planned, with_stream
from tests.unit.web_worker import Worker, planning, worker

ALL_LIBRARIES = ctypes.c_uint32(0x7F)
SPACE = {"d": "http://www.omg.org/spec/DDS-XML"}
CHECKOUT = Path(__file__).parents[2]
Read = Callable[[str], System]
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    directory = tmp_path_factory.mktemp("core")
    file = directory / "line3.yaml"
    file.write_text(yaml.safe_dump(dict(network("line3.yaml").document)))
    with worker(directory, planning(directory, file)) as its:
        yield its


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def its(text: str) -> System:
        file = tmp_path / "robot.xml"
        file.write_text(text)
        return System.read(file)

    return its


@pytest.fixture
def run(web: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def asked(text: str, *words: str, by: str = CUC) -> Result:
        Path("robot.xml").write_text(text)
        its = ["--controller", web.url, "--controller-certificate", str(web.trusted)]
        command = [*its, "dds", "robot.xml", *words]
        return CliRunner().invoke(cnc, command, env={controller.TOKEN: by})

    return asked


def body_of(its: System) -> Any:
    (stream,) = its.streams
    return stream.body


def is_read_by_cyclonedds(text: str) -> bool:
    """By the parser that the library of the package has for such files."""
    function = ctypes.CDLL(str(library_path)).dds_sysdef_init_sysdef_str
    return bool(function(text.encode(), ctypes.byref(ctypes.c_void_p()), ALL_LIBRARIES) == 0)


def texts(text: str, path: str) -> list[str]:
    found = etree.fromstring(text).xpath(f"//{path}", namespaces=SPACE)
    return [each.text for each in found]


def test_a_talker_asks_for_its_period_its_packets_and_its_latency(read: Read) -> None:
    body = body_of(read(system()))

    assert body["stream-id"].startswith("02-00-00-00-01-01:")
    assert body["talker"]["traffic-specification"] == {
        "interval": {"numerator": 1, "denominator": 1000},
        "max-frames-per-interval": 1,
        "max-frame-size": 64 + 72 + 8 + 20,
        "transmission-selection": 0,
        "time-aware": {"jitter": 0},
    }
    assert body["talker"]["user-to-network-requirements"] == {
        "num-seamless-trees": 1,
        "max-latency": 100_000,
    }
    its = {"destination-ip-address": "192.0.2.4", "dscp": 46, "protocol": 17}
    assert body["talker"]["data-frame-specification"] == [
        {"index": 0, "ipv4-tuple": {**its, "destination-port": 7410}}
    ]
    (listener,) = body["listener"]
    assert listener["end-station-interfaces"][0]["mac-address"] == "02-00-00-00-01-03"


def test_a_packet_of_cyclonedds_is_no_longer_than_what_is_asked_for(
    read: Read, tmp_path: Path
) -> None:
    """Serialized, the sample has the 64 octets that the file states."""
    capture = tmp_path / "loopback.pcap"
    command = [sys.executable, "-m", "tests.unit.dds_peer", str(capture)]
    subprocess.run(command, cwd=CHECKOUT, check=True)

    captured = capture.read_bytes()
    start = captured.index(b"E\x00", captured.rindex(b"RTPS", 0, captured.index(OCTETS)) - 28)
    packet_octets = int.from_bytes(captured[start + 2 : start + 4], "big")
    asked = body_of(read(system()))["talker"]["traffic-specification"]["max-frame-size"]
    assert packet_octets <= asked <= packet_octets + 16  # INFO_DST is not in every message


def test_the_answers_are_written_where_cyclonedds_reads_them(run: Run) -> None:
    result = run(system(), "-o", "placed.xml")

    assert result.exit_code == 0
    assert "pose (02-00-00-00-01-01:" in result.output
    placed = Path("placed.xml").read_text()
    (earliest,) = texts(placed, "d:earliest_transmit_offset")
    assert texts(placed, "d:latest_transmit_offset") == [earliest]
    assert 0 <= int(earliest) < 1_000_000
    assert texts(placed, "d:ipv4_tuple/d:dscp") == ["46"]
    assert is_read_by_cyclonedds(placed)
    assert not is_read_by_cyclonedds(placed.replace("N::t1", "N::t9"))


def test_what_was_placed_stays_when_the_file_is_asked_for_again(run: Run) -> None:
    run(system(), "-o", "first.xml")
    run(system(), "-o", "second.xml")
    assert Path("first.xml").read_text() == Path("second.xml").read_text()


def test_without_a_place_nothing_is_written_and_the_reason_is_shown(run: Run) -> None:
    result = run(system(latency_ns=1_000), "-o", "placed.xml")
    assert isinstance(result.exception, CncError)
    assert result.exception.exit_code == 1
    assert "refused: " in result.output
    assert not Path("placed.xml").exists()


def test_a_stream_that_waits_to_be_computed_has_no_place(run: Run, web: Worker) -> None:
    module = "ieee802-dot1q-cnc-config"
    path = f"/restconf/data/{module}:cnc-config/domain=line3"
    web.ask("DELETE", f"{path}/cuc={CUC}")
    for computes in (False, True):
        entry = {"domain-id": "line3", "tsn-cnc:auto-compute": computes}
        body = {f"{module}:domain": [entry]}
        reply = web.ask("PATCH", path, body, content_type="application/yang-data+json")
        assert reply.status == HTTPStatus.NO_CONTENT
        if not computes:
            result = run(system(), "-o", "placed.xml")
    assert "waits to be computed" in result.output
    assert isinstance(result.exception, CncError)
    assert not Path("placed.xml").exists()


def test_a_token_for_every_cuc_needs_the_name_of_one(run: Run) -> None:
    result = run(system(), by="operator")
    assert isinstance(result.exception, InputError)
    assert result.exception.hint == "say which one: --cuc"
    assert run(system(), "--cuc", CUC, by="operator").exit_code == 0


def test_a_talker_over_ethernet_takes_address_vlan_and_priority_from_the_plan(read: Read) -> None:
    """As the Ethernet PSM of DDS-TSN (annex A) sends: RTPS is what the frame has."""
    its = read(system(ETHERNET))
    body = body_of(its)
    assert body["talker"]["traffic-specification"]["max-frame-size"] == 64 + 72
    intent = network("bridged5.yaml")
    pcp = intent.classes_with(ClassRole.SCHEDULED)[0].priority
    text = system(f"<vlan_tag><priority_code_point>{pcp}</priority_code_point></vlan_tag>")
    its = read(text)
    body = body_of(its)
    plan = planned(intent)
    plan = with_stream(plan, "plc__1", uni.wanted(body, "plc__1", plan.intent))

    its.fill(its.streams[0], uni.answer(plan, "plc__1", body))

    placed = its.text()
    address = plan.addresses["plc__1"]
    assert texts(placed, "d:vlan_tag/d:vlan_id") == [str(address.vlan_id)]
    assert texts(placed, "d:mac_addresses/d:destination_mac_address") == [address.destination_mac]
    offset_ns = plan.streams["plc__1"].talker_offsets_ns[0]
    assert texts(placed, "d:earliest_transmit_offset") == [str(offset_ns)]
    assert is_read_by_cyclonedds(placed)


def test_a_streams_id_does_not_change_when_another_stream_comes(read: Read) -> None:
    alone = body_of(read(system()))["stream-id"]
    talker = system().split("<tsn>")[1].split("</tsn>")[0]
    listener = '<tsn_listener name="x" stream_name="x"/>'
    more = talker.replace('"pose"', '"x"').replace("<tsn_talker", f"{listener}<tsn_talker")
    both = read(system().replace("<tsn>", f"<tsn>{more}", 1)).streams
    assert len({each.stream_id for each in both}) == 2
    assert alone in {each.stream_id for each in both}


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ("<nanosec>1000000", "<nanosec>-1", "nanosec: found '-1', expected a number up to"),
        ("<nanosec>1000000", "<nanosec>9" + "9" * 5000, "expected a number up to"),
        ("N::t1", "N::t2", "there is no node N::t2"),
        ("<mac_address>02:00:00:00:01:01</mac_address>", "", "found no mac_address"),
        ("tsn_listener name", "tsn_nobody name", "no tsn_listener has the stream pose"),
        (
            '<tsn_listener name="pose" stream_name="pose"',
            '<tsn_listener stream_name="x"',
            "the stream x",
        ),
        ("data_frame_specification", "other", "no data_frame_specification"),
        ("<samples_per_period>1</samples_per_period>", "", "found no samples_per_period"),
        ("<time_aware>", "<transmission_selection>X</transmission_selection><time_aware>", "'X'"),
        ("</dds>", "", "robot.xml"),
        ("<dds ", "<!DOCTYPE dds [<!ENTITY x SYSTEM '/etc/passwd'>]><dds ", "document type"),
    ],
)
def test_what_cannot_be_asked_for_is_named_with_its_line(
    read: Read, found: str, instead: str, said: str
) -> None:
    assert found in system()
    with pytest.raises(InputError) as refusal:
        read(system().replace(found, instead))
    assert said in str(refusal.value)
    assert "robot.xml" in str(refusal.value)


def test_a_file_without_a_namespace_is_the_same(read: Read) -> None:
    plain = system().replace(' xmlns="http://www.omg.org/spec/DDS-XML"', "")
    assert body_of(read(plain)) == body_of(read(system(UDP)))
