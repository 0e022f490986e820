"""The data of the page that `cnc show --html` writes, where it draws nodes, and how it is put
together. What a browser makes of it: tests/stack/test_page.py."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import combinations, pairwise
from math import dist, hypot, isclose
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cnc import intent as intent_room
from cnc import page
from cnc.chart.axis import open_times
from cnc.cli.commands import show
from cnc.errors import InputError
from cnc.model import EndStation, Network, Plan
from cnc.page.data import page_data
from cnc.page.layout import positions
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from tests.unit.planner_networks import intent, network, stream

LINE3 = Path(__file__).parent / "data" / "line3-plan.json"
BRIDGED5 = Path(__file__).parents[2] / "schedules" / "bridged5.yaml"
RING6 = Path(__file__).parents[2] / "schedules" / "ring6.yaml"
HOSTILE = "</script><script>alert(1)</script><!--<script>&\ud800\u2028"


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(LINE3)


@pytest.fixture(scope="module")
def ring6() -> Plan:
    return compute(intent_room.load(RING6))


def stream_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stream for stream in data["streams"] if stream["name"] == name)


def port_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(port for port in data["ports"] if port["name"] == name)


def ways_of(data: dict[str, Any], name: str) -> list[list[str]]:
    nodes = [node["name"] for node in data["nodes"]]
    return [[nodes[number] for number in way] for way in stream_of(data, name)["ways"]]


def data_in(text: str) -> str:
    """What lies in the page's block of data."""
    (found,) = re.findall(r'<script type="application/json" id="plan">(.*)</script>\n', text)
    return found


def test_each_hop_has_the_times_of_the_plan_and_of_the_judge(ring6: Plan) -> None:
    data = page_data(ring6)
    for name, planned in ring6.streams.items():
        shown = stream_of(data, name)
        assert len(shown["hops"]) == len(planned.hops)
        for hop, (port, offset, planned_end, latest_end, *ready, received, _) in zip(
            planned.hops, shown["hops"], strict=True
        ):
            assert data["ports"][port]["name"] == str(hop.egress)
            assert offset == hop.offset_ns
            assert offset < planned_end <= latest_end
            assert ready[0] <= ready[1] <= offset < received
        start = shown["hops"][0][1]
        listeners = set(shown["listeners"])
        ends = [hop[6] for hop in shown["hops"] if data["ports"][hop[0]]["to"] in listeners]
        assert min(ends) - start <= planned.latency_bound_ns


def test_recovery_of_each_stream_and_the_source_of_the_gate_margin_are_there(
    ring6: Plan, line3: Plan
) -> None:
    data = page_data(ring6)
    shown = {stream["name"]: stream["recovery_ns"] for stream in data["streams"]}
    assert shown == ring6.recovery_ns
    assert data["recovery_ns"] == max(shown.values())
    assert data["disturbance_ns"] == ring6.intent.network.disturbance_ns
    assert data["gate_margin"] == "200 ns (as the intent states)"
    without = page_data(line3)
    assert without["recovery_ns"] is without["disturbance_ns"] is None
    assert {stream["recovery_ns"] for stream in without["streams"]} == {None}


def test_a_frame_lasts_as_long_as_its_octets_on_the_link(line3: Plan) -> None:
    data = page_data(line3)
    (_, offset, planned_end, *_), *_ = stream_of(data, "torque")["hops"]
    assert planned_end - offset == (100 + 22 + 20) * 8  # at 1 Gb/s


def test_a_stream_that_is_sent_twice_has_both_ways(ring6: Plan) -> None:
    data = page_data(ring6)
    assert ways_of(data, "axis1-set") == [
        ["plc", "s1", "s2", "axis1"],
        ["plc", "s1", "s6", "s5", "s4", "s3", "s2", "axis1"],
    ]


def test_a_stream_to_two_listeners_has_a_way_to_each(ring6: Plan) -> None:
    ends = sorted(way[-1] for way in ways_of(page_data(ring6), "readings"))
    assert ends == ["ipc", "plc"]
    assert all(way[:2] == ["sensors", "s5"] for way in ways_of(page_data(ring6), "readings"))


def test_the_load_of_a_port_is_what_its_frames_take_of_the_time(line3: Plan) -> None:
    frames_ns = {"torque": (142 * 8, 500_000), "motion": (242 * 8, 1_000_000)}
    only = {name: line3.streams[name] for name in frames_ns}
    data = page_data(replace(line3, streams=only))
    expected = sum(length / period for length, period in frames_ns.values())
    assert isclose(port_of(data, "s1/s2")["load"], expected, abs_tol=1e-6)
    assert port_of(data, "s2/s1")["load"] == 0


def test_several_frames_of_a_period_are_counted_and_a_single_one_goes_without_saying() -> None:
    streams = (stream("picture", "t", "l", frames=3), stream("single", "t", "l"))
    data = page_data(compute(intent(network("t-s1", "s1-l"), *streams)))
    assert stream_of(data, "picture")["frames"] == 3
    assert "frames" not in stream_of(data, "single")


def test_a_stream_of_a_bridged_network_has_what_its_frames_are_known_by() -> None:
    plan = compute(intent_room.load(BRIDGED5))
    data = page_data(plan)
    for name, address in plan.addresses.items():
        shown = stream_of(data, name)["address"]
        pcp = plan.class_of(name).priority
        assert shown == {"mac": address.destination_mac, "vlan": address.vlan_id, "pcp": pcp}
    translated = {
        each["name"]: each["translation"] for each in data["streams"] if "translation" in each
    }
    assert translated == {
        "sound": {
            "known_by": "IP to 192.0.2.4, UDP, to port 5004",
            "at": "s1/cam",
            "back_at": "s4/panel",
        }
    }


def test_a_stream_of_a_routed_network_has_no_address(ring6: Plan) -> None:
    assert not any("address" in each for each in page_data(ring6)["streams"])


def test_each_class_of_a_port_has_the_times_its_gate_is_open(line3: Plan) -> None:
    data = page_data(line3)
    for port, gates in line3.gates.items():
        shown = port_of(data, str(port))
        assert (shown["cycle_ns"], shown["entries"]) == (gates.cycle_ns, len(gates.entries))
        for each, times in zip(data["classes"], shown["open"], strict=True):
            pairs = list(zip(times[::2], times[1::2], strict=True))
            assert pairs == list(open_times(gates, each["number"]))
    assert port_of(data, "t1/eth0")["open"] == []


def test_ports_with_gates_come_first_and_unused_ones_last(ring6: Plan) -> None:
    data = page_data(ring6)
    names = [port["name"] for port in data["ports"]]
    gated = [port["name"] for port in data["ports"] if port["cycle_ns"]]
    assert names[: len(gated)] == gated
    talkers = {str(planned.hops[0].egress) for planned in ring6.streams.values()}
    assert set(names[len(gated) : data["rows"]]) == talkers
    assert len(names) == len(ring6.intent.network.links)


def test_names_are_ordered_as_people_count() -> None:
    line = network("e1-s1", "s1-s2", "s2-s10", "s10-e2")
    base = planfile.load(LINE3)
    empty = replace(base, streams={}, gates={}, intent=replace(base.intent, network=line))
    assert [node["name"] for node in page_data(empty)["nodes"]] == ["s1", "s2", "s10", "e1", "e2"]


def test_what_the_judge_finds_is_on_the_page(line3: Plan) -> None:
    assert page_data(line3)["verdict"] == []
    promised = replace(line3.streams["torque"], latency_bound_ns=1)
    broken = replace(line3, streams={**line3.streams, "torque": promised})
    assert any("the plan promises 1 ns" in line for line in page_data(broken)["verdict"])


def test_a_stream_on_a_broken_route_has_no_hops_and_a_verdict(line3: Plan) -> None:
    torque = line3.streams["torque"]
    cut = replace(torque, paths=(torque.paths[0][:-1],))
    data = page_data(replace(line3, streams={**line3.streams, "torque": cut}))
    assert stream_of(data, "torque")["hops"] == []
    assert any("never reaches" in line for line in data["verdict"])


def test_a_stream_without_a_place_is_listed_with_the_reason(line3: Plan) -> None:
    streams = dict(line3.streams)
    del streams["camera"]
    data = page_data(replace(line3, streams=streams, refused={"camera": "no room on s1/s2"}))
    assert [(each["name"], each["why"]) for each in data["refused"]] == [
        ("camera", "no room on s1/s2")
    ]
    assert "camera" not in [stream["name"] for stream in data["streams"]]


def test_a_plan_without_streams_makes_a_page(line3: Plan) -> None:
    empty = replace(line3, streams={}, gates={}, intent=replace(line3.intent, streams={}))
    data = json.loads(data_in(page.html(empty)))
    assert (data["streams"], data["rows"], data["span_ns"]) == ([], 0, 1)


def test_no_text_of_a_plan_can_leave_its_place(line3: Plan) -> None:
    hostile = replace(
        line3, algorithm=HOSTILE, intent=replace(line3.intent, name=HOSTILE.replace("\ud800", ""))
    )
    text = page.html(hostile)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    assert json.loads(data_in(text))["algorithm"] == HOSTILE
    text.encode()  # even half a surrogate pair can be written


def test_the_policy_lets_run_what_is_ours_and_nothing_else(line3: Plan) -> None:
    text = page.html(line3)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (source,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_the_page_names_no_other_place(line3: Plan) -> None:
    text = page.html(line3)
    assert set(re.findall(r"\w+://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"\b(?:src|href|url)\s*[=(]", text)


def test_the_command_writes_the_page_and_a_picture_beside_it(line3: Plan, tmp_path: Path) -> None:
    file, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    done = CliRunner().invoke(show, [str(LINE3), "--html", str(file), "--svg", str(picture)])
    assert done.exit_code == 0
    assert set(done.output.splitlines()) == {f"wrote {file}", f"wrote {picture}"}
    assert file.read_text(encoding="utf-8") == page.html(line3)
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_a_page_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(show, [str(LINE3), "--html", str(tmp_path / "none" / "page.html")])
    assert isinstance(done.exception, InputError)
    assert "cannot be written" in str(done.exception)


def test_the_same_plan_makes_the_same_page(ring6: Plan) -> None:
    assert page.html(ring6) == page.html(ring6)


def places(net: Network) -> dict[str, tuple[float, float]]:
    return {name: (place.x, place.y) for name, place in positions(net).items()}


def test_a_line_of_switches_is_drawn_as_one_from_left_to_right() -> None:
    at = places(network("e0-s0", *(f"s{n}-s{n + 1}" for n in range(8)), "s8-e1"))
    switches = [at[f"s{n}"] for n in range(9)]
    assert all(isclose(dist(a, b), 100, rel_tol=0.02) for a, b in pairwise(switches))
    assert all(a[0] < b[0] for a, b in pairwise(switches))
    assert max(abs(y) for _, y in switches) < 1


def test_a_ring_is_drawn_round() -> None:
    at = places(network(*(f"s{n}-s{(n + 1) % 12}" for n in range(12))))
    radii = [dist(place, (0, 0)) for place in at.values()]
    assert max(radii) < 1.02 * min(radii)


@pytest.mark.parametrize(
    "cables",
    [
        ["e1-s1", "e2-s1", "e3-s1", "e4-s1"],
        ["e1-e2"],
        [f"s0-s{n}" for n in range(1, 9)] + [f"e{n}-s{n}" for n in range(1, 9)],
        ["e1-s1", "s1-s2", "s2-e2", "e3-s3", "s3-s4", "s4-e4"],
        ["e1-s1", "e1-s2", "s1-s2", "s2-e2"],
    ],
    ids=["one switch", "no switch", "star", "two islands", "a station on two switches"],
)
def test_no_two_nodes_are_drawn_upon_each_other(cables: list[str]) -> None:
    at = places(network(*cables))
    assert min(dist(a, b) for a, b in combinations(at.values(), 2)) > 30


def test_stations_hang_where_there_is_room() -> None:
    at = places(network("e1-s1", "s1-s2", "s2-s3", "s3-e2", "e3-s2", "e4-s2"))
    assert at["e3"][1] * at["e4"][1] < 0  # one above the line of switches, one below


def test_stations_of_a_ring_hang_outside_of_it_as_long_as_there_is_room() -> None:
    ring = ["s1-s2", "s2-s3", "s3-s4", "s4-s1"]
    at = places(network(*ring, *(f"s{n}-e{n}{m}" for n in range(1, 5) for m in range(4))))
    radius = max(hypot(*at[f"s{n}"]) for n in range(1, 5))
    assert all(hypot(*place) > radius * 0.9 for name, place in at.items() if name[0] == "e")


def test_a_network_of_one_node_and_of_none_can_be_drawn() -> None:
    nothing = Network({}, {}, {}, 0)
    assert positions(nothing) == {}
    assert places(replace(nothing, end_stations={"e": EndStation("e")})) == {"e": (0, 0)}


def test_a_label_stands_away_from_the_cables() -> None:
    place = positions(network("e1-s1", "s1-s2", "s2-s3", "s3-e2"))["e1"]
    other = positions(network("e1-s1", "s1-s2", "s2-s3", "s3-e2"))["s1"]
    assert (place.x - other.x) * place.label_x + (place.y - other.y) * place.label_y > 0
