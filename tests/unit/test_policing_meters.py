"""What first switches police of streams that may send at any time: how much, by a flow meter.

t1, t2 ── s1 ── s2 ── s3 ── l1, l2        video by credit, events by strict priority
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from cnc import intent as intents
from cnc.check import judge
from cnc.check.mechanisms import judge_entering
from cnc.data_tree.tree import NETCONF, PSFP_BRIDGE, TSN_LINUX, BridgeReport
from cnc.errors import InputError
from cnc.mechanisms import kept
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.counts import Refused, refused_frames
from cnc.mechanisms.stream_filters.kept import KEPT
from cnc.mechanisms.stream_filters.model import (
    Cause,
    CountedFrames,
    FilterCounts,
    FilteredStream,
    FixedGate,
    FlowMeter,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
)
from cnc.model import BridgeForwarding, Parts, Plan, PortRef, StreamAddress
from cnc.page.data import page_data
from cnc.planner import plan
from cnc.plans import file as planfile
from cnc.plans.transition import transition
from cnc.rollout.compare import difference_of
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.lies import invoke
from tests.unit.lying_switches import lying, with_revision
from tests.unit.places import bridge_report, reported_bridge
from tests.unit.shaped_networks import document, stream

MS = 1_000_000
VIDEO, EVENTS = 5, 3
STREAMS = {
    "picture": stream("t1", frames=3),
    "alarm": stream("t2", period="5ms", payload="60B", **{"class": "events"}),
    "axis": stream("t2", **{"class": "axes", "payload": "100B", "period": "1ms"}),
}
PICTURE_BITS = 8 * (1_200 + 22 + 20)  # on the wire, with a tag


def planned(policing: str | None = "drop", **keys: Any) -> Plan:
    streams = {name: {**its, **keys.get(name, {})} for name, its in STREAMS.items()}
    stated = document(streams=streams, classes=keys.get("classes", {}))
    if policing:
        stated["policing"] = policing
    return plan(intents.from_document(stated, "metered"))


def filters(of: Plan, switch: str = "s1") -> dict[object, StreamFilter]:
    """By the name of the stream, or by the port and priority of strangers."""
    names = {(a.destination_mac, a.vlan_id): name for name, a in of.addresses.items()}
    return {
        (its.of.port, its.priority)
        if isinstance(its.of, Strangers)
        else names[its.of.destination_mac, its.of.vlan_id]: its
        for its in bridge_forwardings(of)[switch][StreamFilters].filters
    }


@pytest.fixture(scope="module")
def made() -> Plan:
    return planned()


def meter(its: StreamFilter) -> FlowMeter:
    assert its.meter is not None
    return its.meter


# --- what is derived -----------------------------------------------------------------------------


def test_a_stream_with_a_shaper_has_a_meter_of_its_rate_and_burst_on_the_wire(made: Plan) -> None:
    assert judge(made) == []
    its = filters(made)["picture"]
    assert (its.gate, its.policing, its.max_sdu_octets) == (FixedGate.OPEN, Policing.DROP, 1_200)
    found = meter(its)
    assert found.overhead_octets == 20
    assert found.rate_bps == 3 * PICTURE_BITS * 250
    burst_bits = 3 * PICTURE_BITS
    assert burst_bits < found.burst_octets * 8 < burst_bits + found.rate_bps * MS // 1_000_000_000


def test_strangers_with_the_priority_of_a_class_with_a_shaper_are_shut_out(made: Plan) -> None:
    shut = {key: its for key, its in filters(made).items() if isinstance(key, tuple)}
    assert {("t1", VIDEO), ("t2", VIDEO), ("t1", EVENTS), ("t2", EVENTS)} < shut.keys()
    assert {(its.gate, its.policing) for its in shut.values()} == {
        (FixedGate.CLOSED, Policing.DROP)
    }


def test_a_planned_stream_beside_them_has_its_window_and_no_meter(made: Plan) -> None:
    assert filters(made)["axis"].meter is None


def test_a_burst_grows_by_what_a_talker_may_be_held_up(made: Plan) -> None:
    alone, beside = made, planned(alarm={"talker": "t1"})
    assert (
        meter(filters(beside)["picture"]).burst_octets
        > meter(filters(alone)["picture"]).burst_octets
    )


def test_policing_changes_no_bound(made: Plan) -> None:
    assert {name: its.latency_bound_ns for name, its in planned("off").streams.items()} == {
        name: its.latency_bound_ns for name, its in made.streams.items()
    }
    assert filters(planned("off")) == {}


def test_the_nearest_of_stream_class_and_network_is_what_holds() -> None:
    found = filters(planned("drop", alarm={"policing": "count"}))
    assert found["alarm"].policing is Policing.COUNT
    found = filters(planned("off", picture={"policing": "drop"}))
    assert found.keys() == {"picture"}
    let_pass = filters(planned("drop", picture={"policing": "off"}))["picture"]
    assert (let_pass.meter, let_pass.max_sdu_octets) == (None, 0)
    of_class = planned("off", classes={"video": {"policing": "drop"}})
    assert judge(of_class) == []
    assert filters(of_class).keys() == {"picture", *(("t1", 5), ("t2", 5))}


def test_a_class_without_streams_is_not_policed() -> None:
    with pytest.raises(InputError, match="nothing is planned of others that frames could miss"):
        planned(classes={"best-effort": {"policing": "drop"}})


# --- the judge -----------------------------------------------------------------------------------


def found(made: Plan, **changes: Any) -> list[str]:
    """What the judge finds where the filter of the picture is another."""
    forwardings = bridge_forwardings(made)
    its = tuple(
        replace(each, **changes) if each.meter and each.priority == VIDEO else each
        for each in forwardings["s1"][StreamFilters].filters
    )
    told: Mapping[str, BridgeForwarding] = {
        **forwardings,
        "s1": forwardings["s1"].having(StreamFilters(its)),
    }
    return [f"{v.code} {v.where}: {v.text}" for v in judge_entering(made, told, ())]


def wrong(made: Plan, **changes: int) -> list[str]:
    right = meter(filters(made)["picture"])
    return found(made, meter=replace(right, **changes))


def about_picture(texts: list[str]) -> list[str]:
    return [text for text in texts if text.startswith("policing picture: ")]


def test_the_judge_finds_its_own_figures_in_the_meter(made: Plan) -> None:
    assert about_picture(found(made)) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rate_bps": -1}, "its flow meter lets"),
        ({"rate_bps": 1}, "its flow meter lets"),
        ({"burst_octets": -1}, "octets at once, its flow meter lets"),
        ({"burst_octets": 10}, "octets at once, its flow meter lets"),
        ({"overhead_octets": -20}, "its flow meter adds 0"),
    ],
)
def test_a_meter_that_lets_less_or_more_pass_is_found(
    made: Plan, changes: dict[str, int], text: str
) -> None:
    right = meter(filters(made)["picture"])
    its = {key: getattr(right, key) + change for key, change in changes.items()}
    (violation,) = about_picture(wrong(made, **its))
    assert text in violation


def test_a_stream_without_its_meter_or_with_a_gate_that_shuts_is_found(made: Plan) -> None:
    (text,) = about_picture(found(made, meter=None))
    assert text.endswith("has no stream filter of its own with a flow meter at s1/t1")
    (text,) = about_picture(found(made, gate=FixedGate.CLOSED))
    assert text.endswith("may come at any time, and its gate shuts at s1/t1")
    (text,) = about_picture(found(made, policing=Policing.COUNT))
    assert "to count frames, drop is asked for" in text


# --- the rollout ---------------------------------------------------------------------------------

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
PSFP, TSN = f"{{{PSFP_BRIDGE}}}", f"{{{TSN_LINUX}}}"
OPERATION = f"{{{NETCONF}}}operation"
CAMERA = StreamAddress("03:54:53:4e:00:00", 10)
METER = FlowMeter(7_000_000, 4_000, 20)
METERED = StreamFilter(
    FilteredStream(CAMERA.destination_mac, 10, "cam"),
    5,
    1_200,
    FixedGate.OPEN,
    Policing.DROP,
    METER,
)


def told(*its: StreamFilter) -> BridgeForwarding:
    vlans = {10: ("cam", "s2")}
    parts = Parts.of(StreamFilters(its))
    return BridgeForwarding({CAMERA: ("s2",)}, vlans, ("cam",), {CAMERA: "camera"}, parts=parts)


def sent(desired: BridgeForwarding, before: etree._Element | None = None) -> etree._Element:
    stored = stored_ports(before, ["br0"])["br0"] if before is not None else None
    return edit_config({"br0": asked(desired)}, 1_800_000_000_000_000_000, {"br0": stored}, ID)


def meters(config: etree._Element) -> list[tuple[str | None, str | None]]:
    return [
        (row.get(OPERATION), row.findtext(f"{PSFP}flow-meter-instance-id"))
        for row in config.iter(f"{PSFP}flow-meter-instance-table")
    ]


def test_a_meter_is_sent_with_its_filter_and_read_back() -> None:
    config = sent(told(METERED))
    (row,) = config.iter(f"{PSFP}flow-meter-instance-table")
    assert row.findtext(f"{PSFP}committed-information-rate") == "7000000"
    assert row.findtext(f"{PSFP}committed-burst-size") == "4000"
    assert row.findtext(f"{TSN}frame-overhead") == "20"
    (its,) = config.iter(f"{PSFP}stream-filter-instance-table")
    assert its.findtext(f"{PSFP}flow-meter-ref") == row.findtext(f"{PSFP}flow-meter-instance-id")
    assert reported_bridge(config).forwarding[StreamFilters].filters == (METERED,)
    assert meters(sent(told(METERED), config)) == []


def test_another_rate_is_another_meter_with_the_same_number() -> None:
    faster = replace(METERED, meter=replace(METER, rate_bps=8_000_000))
    assert meters(sent(told(faster), sent(told(METERED)))) == [("replace", "1")]


def test_a_meter_goes_with_its_filter_or_where_that_does_without() -> None:
    before = sent(told(METERED))
    assert meters(sent(told(), before)) == [("remove", "1")]
    without = replace(METERED, meter=None)
    assert meters(sent(told(without), before)) == [("remove", "1")]


def test_a_meter_of_two_rates_is_none_of_a_rollout() -> None:
    config = sent(told(METERED))
    (row,) = config.iter(f"{PSFP}excess-information-rate")
    row.text = "1000"
    assert reported_bridge(config).forwarding[StreamFilters].filters == ()


def test_the_history_has_a_meter_and_filters_without_one_as_they_were() -> None:
    without = replace(METERED, meter=None)
    its = kept.written(KEPT, StreamFilters((METERED, without)))
    assert [row.get("meter") for row in its.rows] == [asdict(METER), None]
    assert its.rows[1].keys() == {*its.rows[0]} - {"meter"}
    assert kept.read(KEPT, its) == StreamFilters((METERED, without))


def test_a_kernel_that_drifted_is_described_by_how_much_may_pass() -> None:
    does = bridge_report(BridgeReport(("cam", "s2"), told(replace(METERED, meter=None))))
    assert difference_of(asked(told(METERED)), does, None) == (
        f"frames of camera ({CAMERA.destination_mac}, VLAN 10) at cam have another stream filter "
        "than planned: violations are dropped, the gate is always open; planned: violations are "
        "dropped, at most 1200 octets per frame, 7 Mb/s and 4000 octets at once on the wire"
    )


# --- before a push -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["push", "doctor"])
@pytest.mark.parametrize(
    ("policing", "revision", "may"),
    [
        ("drop", "2026-12-01", False),
        ("drop", "2026-12-02", True),
        ("drop", "", True),  # a server that names none
        ("off", "2026-12-01", True),
    ],
)
def test_an_agent_that_cannot_count_whole_frames_is_named_before_anything_changes(  # noqa: PLR0917
    command: str,
    policing: str,
    revision: str,
    may: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    both = {"alarm": {"listeners": ["l1", "l2"]}}  # so that no port is left out of a bridge
    switches = lying(monkeypatch, with_revision(revision), plan=planned("count", **both))
    planfile.dump(planned(policing, **both), file := tmp_path / "plan.json")
    of_push = ["--take-over", "--state-dir", str(tmp_path / "state")] if command == "push" else []
    found = invoke(monkeypatch, [command, str(file), *of_push], tmp_path)
    why = "s1/br0: cannot have flow meters count preamble and gap of each frame, as bounds do"
    error = found.exception
    words = " ".join(f"{found.output} {error} {getattr(error, 'hint', '')}".split())
    assert (why in words) is not may
    assert ("frame-overhead of a flow meter came with 2026-12-02" in words) is not may
    assert ("policing: off" in words) is not may
    if command == "push":
        assert ("edit-config" in switches.asked) is may


# --- what is said --------------------------------------------------------------------------------


def test_frames_beyond_the_rate_are_counted_by_themselves() -> None:
    config = sent(told(METERED))
    (row,) = config.iter(f"{PSFP}stream-filter-instance-table")
    for leaf, value in (("matching", 12), ("red", 5)):
        etree.SubElement(row, f"{PSFP}{leaf}-frames-count").text = str(value)
    (counts,) = reported_bridge(config).counts[CountedFrames].by_filter.values()
    assert counts == FilterCounts(12, 0, 0, red=5)
    assert counts.refused[Cause.RATE] == 5
    assert refused_frames(told(METERED), {Refused(0, Cause.RATE): 5}) == [
        "5 frames of camera arrived at cam beyond their rate and burst: dropped"
    ]


@pytest.mark.parametrize(
    ("keys", "exposed"),
    [
        ({"period": "8ms"}, "beyond its new rate and burst"),
        ({"period": "8ms", "frames": 2}, "beyond its new rate and burst"),
        ({"payload": "1100B"}, "as long as they were"),
        ({"frames": 4}, None),
    ],
)
def test_frames_that_a_new_meter_drops_before_the_base_time_are_told_beforehand(
    made: Plan, keys: dict[str, Any], exposed: str | None
) -> None:
    texts = transition(made, planned(picture=keys)).exposed
    assert (exposed or "") in texts.get("picture", "")
    assert ("picture" in texts) is (exposed is not None)


def test_the_page_of_a_plan_has_the_rate_and_burst_of_each_stream(made: Plan) -> None:
    streams = {each["name"]: each for each in page_data(made)["streams"]}
    its = meter(filters(made)["picture"])
    assert streams["picture"]["filters"] == [
        {
            "port": str(PortRef("s1", "t1")),
            "policing": "drop",
            "max_sdu_octets": 1_200,
            "rate_bps": its.rate_bps,
            "burst_octets": its.burst_octets,
        }
    ]
