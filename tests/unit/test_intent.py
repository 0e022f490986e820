"""What a good intent file means."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cnc import intent
from cnc.check import judge
from cnc.errors import InputError
from cnc.intent.cuts import Cuts
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateMode,
    Link,
    Management,
    Network,
    PortRef,
)
from cnc.planner import plan as compute
from cnc.plans import file as planfile

SCHEDULES = Path(__file__).parents[2] / "schedules"
LINE3 = SCHEDULES / "line3.yaml"


@pytest.fixture
def line3() -> dict[str, Any]:
    """The document of line3, free to be changed."""
    return json.loads(json.dumps(intent.load(LINE3).document))


def refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InputError) as refused:
        intent.from_document(document, "plan.json")
    return str(refused.value)


def test_line3_is_three_switches_between_two_talkers_and_two_listeners() -> None:
    line3 = intent.load(LINE3)
    assert line3.name == "line3"
    assert set(line3.network.bridges) == {"s1", "s2", "s3"}
    assert set(line3.network.end_stations) == {"t1", "t2", "l1", "l2"}
    assert line3.network.bridges["s2"].management == Management("10.99.0.2", 830, "tsn")
    assert line3.network.clock_error_ns == 1_000
    assert [c.role for c in line3.classes.values()] == [
        ClassRole.CONTROL,
        ClassRole.SCHEDULED,
        ClassRole.BEST_EFFORT,
    ]
    assert {s.ip_version for s in line3.streams.values()} == {4, 6}
    assert line3.hyperperiod_ns() == 2_000_000


def test_every_bound_of_line3_leaves_room_for_frames_that_never_wait() -> None:
    line3 = intent.load(LINE3)
    network = line3.network
    octets = max(c.max_frame_octets for c in line3.classes_with(ClassRole.CONTROL))
    for stream in line3.streams.values():
        bound_ns = 0
        for node, port in (("t1", "eth0"), ("s1", "s2"), ("s2", "s3"), ("s3", "l1")):
            link = network.links[PortRef(node, port)]
            blocking_ns = (octets + network.overhead.physical_octets) * 8
            bound_ns += blocking_ns + network.reception_ns(link, stream.payload_octets)
            bound_ns += link.propagation_ns + network.clock_error_ns
            if onward := network.bridges.get(link.target.node):
                bound_ns += onward.processing_max_ns
        assert bound_ns <= stream.max_latency_ns < 2 * bound_ns, stream.name


def test_a_cable_is_two_links_with_the_same_rate_and_propagation() -> None:
    links = intent.load(LINE3).network.links
    there, back = links[PortRef("s1", "s2")], links[PortRef("s2", "s1")]
    assert (there.source, there.target) == (back.target, back.source)
    assert (there.rate_bps, there.propagation_ns) == (1_000_000_000, 100)
    assert (back.rate_bps, back.propagation_ns) == (1_000_000_000, 100)


def test_the_document_is_kept_verbatim_and_describes_the_same_intent(line3: dict[str, Any]) -> None:
    loaded = intent.load(LINE3)
    assert loaded.document["streams"]["torque"]["period"] == "500us"
    assert intent.from_document(line3, "plan.json") == loaded


def test_without_a_file_problems_have_a_path_but_no_line(line3: dict[str, Any]) -> None:
    line3["streams"]["motion"]["period"] = "1 fortnight"
    assert refusal(line3) == (
        "plan.json: streams.motion.period: found '1 fortnight', "
        "expected a duration such as 250us, 1ms"
    )


@pytest.mark.parametrize(
    "lengthen",
    [
        lambda d: d.update({"end-stations": {n: {"ports": ["eth0"]} for n in d["end-stations"]}}),
        lambda d: d.update({"end-stations": dict.fromkeys(d["end-stations"])}),
        lambda d: d.update(links=[{"ends": ends} for ends in d["links"]]),
        lambda d: d["switches"]["s1"].update(management={"address": "10.99.0.1"}),
        lambda d: d["switches"]["s1"].update(ports={"t1": {}, "t2": None, "s2": {}}),
        lambda d: d["classes"]["cyclic"].update(dscp=[46]),
        lambda d: d["streams"]["torque"].update(window={"earliest": "0ns"}),
        lambda d: d["streams"]["torque"].update({"class": ["cyclic"], "paths": 1}),
        lambda d: d["streams"]["torque"].pop("class"),
        lambda d: d["defaults"].update({"gate-margin": "0ns"}),
        lambda d: d.update(frame={"link-layer": "22B"}),
    ],
)
def test_short_and_long_forms_mean_the_same(
    line3: dict[str, Any], lengthen: Callable[[dict[str, Any]], None]
) -> None:
    lengthen(line3)
    assert intent.from_document(line3, "long") == intent.load(LINE3)


def test_what_a_switch_port_link_or_frame_says_itself_wins_over_the_defaults(
    line3: dict[str, Any],
) -> None:
    line3["switches"]["s1"] |= {
        "management": {"address": "sw1.example", "port": 8300, "user": "ops"},
        "processing": {"min": "2us", "max": "3us"},
        "gates": "full-offload",
        "ports": {
            "t1": {},
            "t2": {},
            "s2": {"gate-entries-max": 64, "gate-interval-min": "1us", "preemption": False},
        },
    }
    line3["defaults"]["gate-margin"] = "500ns"
    line3["links"][2] = {"ends": ["s1/s2", "s2/s1"], "rate": "2.5Gbps", "propagation": "0ns"}
    line3["frame"] = {"link-layer": "18B", "min-payload": "46B"}
    network = intent.from_document(line3, "changed").network
    switch, link = network.bridges["s1"], network.links[PortRef("s1", "s2")]
    assert switch.management == Management("sw1.example", 8300, "ops")
    assert (switch.processing_min_ns, switch.processing_max_ns) == (2_000, 3_000)
    assert (switch.gate_mode, network.bridges["s2"].gate_mode) == (
        GateMode.FULL_OFFLOAD,
        GateMode.SOFTWARE,
    )
    assert (link.rate_bps, link.propagation_ns) == (2_500_000_000, 0)
    assert (link.gate_entries_max, link.gate_interval_min_ns) == (64, 1_000)
    back = network.links[PortRef("s2", "s1")]
    assert back.gate_entries_max == 0
    assert network.gate_margin_ns == 500
    assert network.overhead.link_layer_octets == 18


def test_a_switch_without_management_is_planned_but_not_configured(line3: dict[str, Any]) -> None:
    del line3["switches"]["s2"]["management"]
    assert intent.from_document(line3, "x").network.bridges["s2"].management is None


def test_every_problem_is_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    text = LINE3.read_text().replace("payload: 200B", "payload: 200").replace("role: con", "role: ")
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        intent.load(file)
    lines = [int(problem.split(":")[1]) for problem in str(refused.value).splitlines()]
    wanted = [n for n, line in enumerate(text.splitlines(), 1) if "role: trol" in line]
    wanted += [n for n, line in enumerate(text.splitlines(), 1) if "payload: 200" in line]
    assert lines == wanted


def test_anchors_and_aliases_spare_repetition(tmp_path: Path) -> None:
    file = tmp_path / "aliased.yaml"
    text = LINE3.read_text()
    assert text.count("period: 1ms") == 2
    text = text.replace("period: 1ms", "period: &cycle 1ms", 1)
    file.write_text(text.replace("period: 1ms", "period: *cycle"))
    assert intent.load(file) == intent.load(LINE3)


def test_words_that_yaml_1_1_takes_for_truth_values_are_names(tmp_path: Path) -> None:
    file = tmp_path / "words.yaml"
    file.write_text(LINE3.read_text().replace("t2", "no").replace("l2", "on"))
    assert set(intent.load(file).network.end_stations) == {"t1", "no", "l1", "on"}


def test_the_fastest_path_decides_what_latency_is_possible(line3: dict[str, Any]) -> None:
    # The short cut past s2 is slow: four links of 1.94 us and three switches of 1 us are faster.
    line3["switches"]["s1"]["ports"].append("slow")
    line3["switches"]["s3"]["ports"].append("slow")
    line3["links"].append({"ends": ["s1/slow", "s3/slow"], "rate": "1Mbps"})
    line3["streams"]["motion"]["max-latency"] = "10760ns"
    assert intent.from_document(line3, "x").streams["motion"].max_latency_ns == 10_760
    line3["streams"]["motion"]["max-latency"] = "10759ns"
    assert "expected at least 10.76us" in refusal(line3)


def test_a_long_frame_may_have_another_fastest_path_than_a_short_one(line3: dict[str, Any]) -> None:
    # 200 B are faster past the slow switch s2, on a slow cable; 1400 B take 114 us on that.
    line3["switches"]["s2"]["processing"] = {"min": "20us", "max": "25us"}
    line3["switches"]["s1"]["ports"].append("slow")
    line3["switches"]["s3"]["ports"].append("slow")
    line3["links"].append({"ends": ["s1/slow", "s3/slow"], "rate": "100Mbps"})
    line3["streams"]["motion"]["max-latency"] = "25us"
    line3["streams"]["torque"] |= {"payload": "1400B", "max-latency": "69us"}
    assert set(intent.from_document(line3, "x").streams) >= {"motion", "torque"}


def test_of_two_equal_paths_either_will_do(line3: dict[str, Any]) -> None:
    for end in ("s1", "s3"):
        line3["switches"][end]["ports"].append("s4")
    line3["switches"]["s4"] = {"management": "10.99.0.4", "ports": ["s1", "s3"]}
    line3["links"] += [["s1/s4", "s4/s1"], ["s4/s3", "s3/s4"]]
    assert set(intent.from_document(line3, "ring").network.bridges) == {"s1", "s2", "s3", "s4"}


def ring(line3: dict[str, Any]) -> None:
    """Close the line to a ring, with a fourth switch at which the listener l1 is."""
    for end in ("s1", "s3"):
        line3["switches"][end]["ports"].append("s4")
    line3["switches"]["s4"] = {"management": "10.99.0.4", "ports": ["s1", "s3", "l1"]}
    line3["links"] += [["s1/s4", "s4/s1"], ["s4/s3", "s3/s4"]]
    line3["links"][line3["links"].index(["s3/l1", "l1/eth0"])] = ["s4/l1", "l1/eth0"]


def test_a_stream_without_a_class_may_use_any_scheduled_one_in_the_order_of_the_file(
    line3: dict[str, Any],
) -> None:
    scheduled = {"role": "scheduled"}
    line3["classes"] = {
        "fast": {"traffic-class": 5, "priority": 5, "dscp": 40} | scheduled,
        **line3["classes"],
        "bulk": {"traffic-class": 4, "priority": 4, "dscp": 32} | scheduled,
    }
    del line3["streams"]["motion"]["class"]
    line3["streams"]["torque"]["class"] = ["cyclic", "fast"]
    streams = intent.from_document(line3, "x").streams
    assert streams["motion"].traffic_classes == ("fast", "cyclic", "bulk")
    assert streams["torque"].traffic_classes == ("cyclic", "fast")
    assert streams["camera"].traffic_classes == ("cyclic",)


def test_a_ring_has_two_paths_and_a_line_has_one(line3: dict[str, Any]) -> None:
    line3["streams"]["motion"]["paths"] = 2
    assert "the cable s1/s2 - s2/s1, which all paths from t1 to l1 cross" in refusal(line3)
    ring(line3)
    assert intent.from_document(line3, "x").streams["motion"].paths == 2


def test_a_cable_that_leads_off_a_ring_is_the_only_way_to_what_lies_behind(
    line3: dict[str, Any],
) -> None:
    ring(line3)
    line3["switches"]["s3"]["ports"].append("s5")
    line3["switches"]["s5"] = {"management": "10.99.0.5", "ports": ["s3", "l2"]}
    line3["links"].append(["s3/s5", "s5/s3"])
    line3["links"][line3["links"].index(["s3/l2", "l2/eth0"])] = ["s5/l2", "l2/eth0"]
    line3["streams"]["motion"] |= {"paths": 2, "listeners": ["l1", "l2"], "max-latency": "1ms"}
    assert refusal(line3) == (
        "plan.json: streams.motion.paths: found 2, expected 1, or a way around the cable "
        "s3/s5 - s5/s3, which all paths from t1 to l2 cross"
    )


def test_two_cables_between_two_switches_are_two_paths(line3: dict[str, Any]) -> None:
    for one, other in (("s1", "s2"), ("s2", "s3")):
        for switch, port in ((one, f"{other}b"), (other, f"{one}b")):
            line3["switches"][switch]["ports"].append(port)
        line3["links"].append([f"{one}/{other}b", f"{other}/{one}b"])
    line3["streams"]["motion"]["paths"] = 2
    assert intent.from_document(line3, "x").streams["motion"].paths == 2


def test_two_paths_may_begin_at_two_ports_of_the_talker(line3: dict[str, Any]) -> None:
    # The line has no ring, but t1 is at both of its ends: no one cable is on all ways to s2.
    line3["switches"]["s3"]["ports"].append("t1")
    line3["end-stations"] = dict.fromkeys(line3["end-stations"])
    line3["end-stations"]["t1"] = {"ports": ["eth0", "eth1"]}
    line3["links"].append(["t1/eth1", "s3/t1"])
    line3["switches"]["s2"]["ports"].append("l1")
    line3["links"][line3["links"].index(["s3/l1", "l1/eth0"])] = ["s2/l1", "l1/eth0"]
    line3["streams"]["motion"]["paths"] = 2
    assert intent.from_document(line3, "x").streams["motion"].paths == 2
    line3["streams"]["valves"]["paths"] = 2
    assert refusal(line3).startswith("plan.json: streams.valves.paths: found 2")


def test_stations_of_one_switch_need_no_second_cable(line3: dict[str, Any]) -> None:
    line3["streams"]["motion"] |= {"listeners": ["t2"], "paths": 2}
    assert intent.from_document(line3, "x").streams["motion"].paths == 2


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda c: c[0] != c[1])),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_a_cut_is_a_cable_without_which_there_is_no_way(
    joins: list[tuple[int, int]], start: int, end: int
) -> None:
    network = switches_joined_by(joins, {"t": start, "l": end})
    assume(reaches(network, None))
    found = Cuts(network).between("t", "l")
    inner = [link for link in network.links.values() if {"t", "l"}.isdisjoint(nodes_of(link))]
    cuts = [link for link in inner if not reaches(network, link)]
    assert found in cuts if cuts else found is None


def switches_joined_by(joins: list[tuple[int, int]], stations: dict[str, int]) -> Network:
    cables = [(str(one), str(other)) for one, other in joins]
    cables += [(station, str(switch)) for station, switch in stations.items()]
    links = {}
    for number, (one, other) in enumerate(cables):
        for source, target in ((one, other), (other, one)):
            egress = PortRef(source, str(number))
            links[egress] = Link(egress, PortRef(target, str(number)), 10**9, 100)
    bridges = {str(n): Bridge(str(n), 1_000, 2_000) for n in range(6)}
    return Network(bridges, {name: EndStation(name) for name in stations}, links, 0)


def nodes_of(link: Link) -> set[str]:
    return {link.source.node, link.target.node}


def reaches(network: Network, without: Link | None) -> bool:
    """Is there a way from t to l without that cable?"""
    gone = {without.source, without.target} if without else set()
    reached = ["t"]
    for node in reached:
        for port, link in network.links.items():
            if port.node == node and port not in gone and link.target.node not in reached:
                reached.append(link.target.node)
    return "l" in reached


def test_end_stations_do_not_forward(line3: dict[str, Any]) -> None:
    del line3["links"][3]
    line3["end-stations"] = dict.fromkeys(line3["end-stations"]) | {
        "relay": {"ports": ["eth0", "eth1"]}
    }
    line3["links"] += [["relay/eth0", "s2/s3"], ["relay/eth1", "s3/s2"]]
    assert "expected an end station that links and switches connect to t1" in refusal(line3)


def test_no_one_period_is_blamed_when_no_one_is_to_blame(line3: dict[str, Any]) -> None:
    for stream, period in zip(
        line3["streams"].values(), ("1000003ns", "1000033ns", "1000037ns", "1000039ns"), strict=True
    ):
        stream |= {"period": period, "listeners": ["l1"]}
    line3["streams"]["motion"].pop("window")
    assert len(refusal(line3).splitlines()) == 4


def test_periods_that_meet_at_no_port_need_no_common_cycle(line3: dict[str, Any]) -> None:
    """A camera of 60 Hz recorded at its own switch, beside a loop of 1 ms at another."""
    line3["streams"] = {
        "camera": stream("t1", "t2", period="16666667ns", **{"max-latency": "10ms"}),
        "loop": stream("l1", "l2", period="1ms", **{"max-latency": "500us"}),
    }
    plan = compute(intent.from_document(line3, "line3"))
    assert judge(plan) == []
    cycles = {str(port): gates.cycle_ns for port, gates in plan.gates.items()}
    assert cycles == {"s1/t2": 16_666_667, "s3/l2": 1_000_000}


def test_what_the_network_cannot_carry_is_left_out_of_a_plan_that_may_leave_streams_out(
    line3: dict[str, Any],
) -> None:
    line3["streams"] |= {
        "late": stream("t1", "l1", period="1ms", **{"max-latency": "5us"}),
        "odd": stream("t1", "l1", period="999983ns", **{"max-latency": "500us"}),
    }
    with pytest.raises(InputError, match=r"late.max-latency(.|\n)*odd.period"):
        intent.from_document(line3, "line3")
    plan = compute(intent.from_document(line3, "line3", best_effort=True), best_effort=True)
    assert judge(plan) == []
    assert plan.refused.keys() == {"late", "odd"}
    assert "needs at least" in plan.refused["late"]
    assert planfile.parse(planfile.dump(plan), "plan").refused == plan.refused


def test_an_overloaded_link_names_a_few_of_its_streams(line3: dict[str, Any]) -> None:
    line3["streams"] = {
        f"f{number}": stream("t1", "l1", period="1ms", payload="1400B", **{"max-latency": "1ms"})
        for number in range(100)
    }
    message = refusal(line3)
    assert "taken by 100 streams (f0, f1, f2, f3, f4, f5, f6, f7 and 92 more)" in message
    assert len(message.splitlines()) == 2  # the talker's link, and the listener's


def stream(talker: str, listener: str, payload: str = "100B", **keys: str) -> dict[str, Any]:
    return {"talker": talker, "listeners": [listener], "payload": payload, **keys}


def test_only_a_file_that_is_no_intent_is_answered_with_how_to_get_one(
    line3: dict[str, Any],
) -> None:
    with pytest.raises(InputError) as refused:
        intent.from_document({"topology": {}}, "lab.yaml")
    assert refused.value.hint == "`cnc init` writes an example that explains every key"
    line3["streams"]["torque"]["class"] = "cylic"
    with pytest.raises(InputError, match="expected cyclic") as refused:
        intent.from_document(line3, "line3.yaml")
    assert refused.value.hint is None
    line3["streams"]["torque"]["period"] = 500
    with pytest.raises(InputError, match="a duration such as") as refused:
        intent.from_document(line3, "line3.yaml")
    assert refused.value.hint is None


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot read it: No such file or directory"):
        intent.load(tmp_path / "none.yaml")


def test_text_that_is_not_utf_8_is_placed_on_its_line(tmp_path: Path) -> None:
    file = tmp_path / "latin1.yaml"
    file.write_bytes(b"name: line3\n# \xb5s\n")
    with pytest.raises(InputError, match=r"latin1\.yaml:2: found octet 0xb5, expected UTF-8 text"):
        intent.load(file)


def test_a_file_too_large_to_be_an_intent_is_not_parsed(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"#" * (5 << 20))
    with pytest.raises(InputError, match="found over 4194304 octets"):
        intent.load(file)


def test_the_published_schema_is_the_one_the_code_checks_by() -> None:
    """`REGENERATE=1 pytest` writes it anew."""
    published = SCHEDULES / "intent.schema.json"
    text = json.dumps(intent.json_schema(), indent=2) + "\n"
    if os.environ.get("REGENERATE"):
        published.write_text(text)
    assert published.read_text() == text


def test_every_key_of_the_schema_tells_the_editor_what_it_is() -> None:
    schema = intent.json_schema()
    for shape in (schema, *schema["$defs"].values()):
        assert shape["description"]
        for key, its in shape["properties"].items():
            assert its.get("description"), key
