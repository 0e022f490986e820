"""What first switches police of streams that are forwarded once each interval: as much as has room
in one, by the gate that tells intervals apart.

t1, t2 ── s1 ── s2 ── s3 ── l1, l2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from cnc import intent as intents
from cnc.check import judge
from cnc.check.mechanisms import judge_entering
from cnc.data_tree.tree import PSFP_BRIDGE, TSN_LINUX, BridgeReport
from cnc.errors import InputError
from cnc.mechanisms import kept
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.counts import Refused, refused_frames
from cnc.mechanisms.stream_filters.kept import KEPT
from cnc.mechanisms.stream_filters.model import (
    Cause,
    CyclicGate,
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
)
from cnc.model import BridgeForwarding, Plan, StreamAddress
from cnc.page.data import page_data
from cnc.planner import plan
from cnc.plans import file as planfile
from cnc.rollout.compare import difference_of
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.cyclic_networks import document, stream
from tests.unit.lies import invoke
from tests.unit.lying_switches import lying, with_revision
from tests.unit.places import bridge_report, reported_bridge

MS = 1_000_000
EVEN, ODD = 5, 4
STREAMS = {
    # Of 1 ms and a little, bursts of two periods may come in one interval, of 4 ms one.
    "often": stream("t1", period="1ms", payload="100B", frames=3),
    "seldom": stream("t2", period="4ms", payload="200B"),
    "axis": stream("t2", **{"class": "axes", "payload": "100B", "period": "1ms"}),
}
ON_LINK = 42  # octets beside a service data unit, on a cable


def planned(policing: str | None = "drop", **keys: Any) -> Plan:
    streams = {name: {**its, **keys.get(name, {})} for name, its in STREAMS.items()}
    shaping = {"by": "cqf", "cycle": "1ms"}
    stated = document(streams=streams, shaping=shaping, classes=keys.get("classes", {}))
    if policing:
        stated["policing"] = policing
    return plan(intents.from_document(stated, "policed"))


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


FREE = CyclicGate(MS, even=ODD, odd=EVEN)


def limit(octets_max: int) -> CyclicGate:
    return replace(FREE, octets_max=octets_max, overhead_octets=ON_LINK)


# --- what is derived -----------------------------------------------------------------------------


def test_a_stream_has_in_each_interval_what_the_admission_counts_for_it(made: Plan) -> None:
    its = filters(made)
    assert its["often"].gate == limit(2 * 3 * (100 + ON_LINK))
    assert its["seldom"].gate == limit(1 * (200 + ON_LINK))
    assert (its["often"].max_sdu_octets, its["often"].policing) == (100, Policing.DROP)
    assert its["often"].meter is None
    assert judge(made) == []


def test_strangers_are_shut_out_where_stations_send_and_switches_are_trusted(made: Plan) -> None:
    at_first, inside = filters(made), filters(made, "s2")
    for port in ("t1", "t2"):
        assert at_first[port, EVEN].gate == replace(FREE, octets_max=0)
        assert at_first[port, ODD].gate == FixedGate.CLOSED
        assert at_first[port, ODD].policing is Policing.DROP
    assert inside.keys() == {("down", EVEN)}
    assert inside["down", EVEN].gate == FREE
    assert inside["down", EVEN].policing is Policing.OFF
    # Also where no stream of the class comes in.
    assert filters(made, "s3")["l1", EVEN].gate == replace(FREE, octets_max=0)


def test_what_is_only_counted_goes_the_way_of_its_interval() -> None:
    counting = planned(None)
    its = filters(counting)
    assert its["t1", EVEN].policing is its["often"].policing is Policing.COUNT
    assert its["t1", EVEN].gate == replace(FREE, octets_max=0)
    assert judge(counting) == []


def test_the_nearest_of_stream_class_and_network_is_what_holds() -> None:
    one = planned("off", often={"policing": "drop"})
    its = filters(one)
    assert its["often"].policing is Policing.DROP
    assert "seldom" not in its
    assert its["t1", EVEN].gate == FREE  # has what no filter of a stream takes
    other = planned("off", classes={"sensors": {"policing": "count"}}, often={"policing": "off"})
    its = filters(other)
    assert its["often"].gate == FREE
    assert its["seldom"].policing is its["t2", ODD].policing is Policing.COUNT
    assert [judge(each) for each in (one, other)] == [[], []]


def test_policing_changes_no_bound_and_no_admission(made: Plan) -> None:
    assert planned("off").streams == made.streams


def test_the_second_queue_is_policed_as_its_class() -> None:
    with pytest.raises(InputError, match="that of sensors, whose second queue it is"):
        planned("off", classes={"sensors-odd": {"policing": "drop"}})


# --- what the judge says -------------------------------------------------------------------------


def found(of: Plan, key: object = "often", **changes: Any) -> list[str]:
    """What the judge of filters finds at streams that have no instants, and at ports, where the
    filter of `key` at the first switch is changed."""
    right = filters(of)
    its = tuple(replace(each, **changes) if name == key else each for name, each in right.items())
    forwardings = bridge_forwardings(of)
    told = {**forwardings, "s1": forwardings["s1"].having(StreamFilters(its))}
    return [v.text for v in judge_entering(of, told, ()) if "which no talker sends" not in v.text]


def test_the_judge_finds_its_own_figures_in_the_gate(made: Plan) -> None:
    assert found(made) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"octets_max": 6 * 142 - 1}, "in an interval, its gate lets 851 pass"),
        ({"octets_max": 6 * 142 + 1}, "in an interval, its gate lets 853 pass"),
        ({"octets_max": 9 * 142}, "in an interval, its gate lets 1278 pass"),
        ({"overhead_octets": 0}, "its gate adds 0"),
        ({"interval_ns": 2 * MS}, "annex T asks for"),
        ({"even": EVEN, "odd": ODD}, "annex T asks for"),
    ],
)
def test_a_gate_that_lets_less_or_more_pass_is_found(
    made: Plan, changes: Mapping[str, int], text: str
) -> None:
    gate = replace(filters(made)["often"].gate, **changes)
    assert text in " ".join(found(made, gate=gate))


@pytest.mark.parametrize(
    ("key", "changes", "text"),
    [
        ("often", {"gate": FREE}, "has no stream filter of its own with a limit at s1/t1"),
        ("often", {"gate": FixedGate.OPEN}, "has no stream filter of its own with a limit"),
        ("often", {"policing": Policing.COUNT}, "to count frames, drop is asked for"),
        ("often", {"max_sdu_octets": 0}, "octets in a frame, 0 may pass"),
        (("t1", EVEN), {"gate": replace(FREE, octets_max=64)}, "pass by an open gate"),
        (("t1", EVEN), {"gate": FREE}, "has policing off of frames of no stream"),
        (("t1", ODD), {"gate": FixedGate.OPEN}, "pass by an open gate"),
    ],
)
def test_a_stream_or_strangers_without_what_limits_them_is_found(
    made: Plan, key: object, changes: Mapping[str, Any], text: str
) -> None:
    assert text in " ".join(found(made, key, **changes))


# --- the rollout ---------------------------------------------------------------------------------

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
PSFP, TSN = f"{{{PSFP_BRIDGE}}}", f"{{{TSN_LINUX}}}"
CAMERA = StreamAddress("03:54:53:4e:00:00", 10)
LIMITED = StreamFilter(
    FilteredStream(CAMERA.destination_mac, 10, "cam"), EVEN, 100, limit(852), Policing.DROP
)
SHUT = StreamFilter(Strangers("cam"), EVEN, 0, replace(FREE, octets_max=0), Policing.COUNT)
OF_ALL = StreamFilter(Strangers("s2"), EVEN, 0, FREE, Policing.OFF)


def told(*its: StreamFilter) -> BridgeForwarding:
    vlans = {10: ("cam", "s2")}
    names = {CAMERA: "camera"}
    return BridgeForwarding({CAMERA: ("s2",)}, vlans, ("cam", "s2"), names).having(
        StreamFilters(its)
    )


def sent(desired: BridgeForwarding) -> etree._Element:
    return edit_config({"br0": asked(desired)}, 1_800_000_000_000_000_000, {"br0": None}, ID)


def read(config: etree._Element) -> tuple[StreamFilter, ...]:
    """The filters of a kernel that runs what is configured."""
    for gate in config.iter(f"{PSFP}stream-gate-instance-table"):
        for node in gate:
            node.tag = node.tag.replace("}admin-", "}oper-")
    return reported_bridge(config).forwarding[StreamFilters].filters


def test_limits_are_sent_with_the_intervals_and_read_back() -> None:
    config = sent(told(LIMITED, OF_ALL, SHUT))
    entries = [
        [row.findtext(f"{PSFP}interval-octet-max"), row.findtext(f"{TSN}frame-overhead")]
        for row in config.iter(f"{PSFP}gate-control-entry")
    ]
    assert entries == [["852", "42"]] * 2 + [[None, None]] * 2 + [["0", None]] * 2
    assert read(config) == (LIMITED, OF_ALL, SHUT)


@pytest.mark.parametrize("leaf", [f"{PSFP}interval-octet-max", f"{TSN}frame-overhead"])
def test_intervals_with_unlike_limits_are_none_of_a_rollout(leaf: str) -> None:
    config = sent(told(LIMITED))
    next(config.iter(leaf)).text = "7"
    assert read(config) == ()


def test_the_history_has_the_limits_and_intervals_without_one_as_they_were() -> None:
    its = kept.written(KEPT, StreamFilters((LIMITED, OF_ALL, SHUT)))
    assert kept.read(KEPT, its) == StreamFilters((LIMITED, OF_ALL, SHUT))
    for row in its.rows:  # as versions have written them that knew no limit
        row["gate"] = {name: row["gate"][name] for name in ("interval_ns", "even", "odd")}
    former = tuple(replace(each, gate=FREE) for each in (LIMITED, OF_ALL, SHUT))
    assert kept.read(KEPT, its) == StreamFilters(former)


def test_a_kernel_that_drifted_is_described_by_how_much_may_pass() -> None:
    does = bridge_report(BridgeReport(("cam", "s2"), told(replace(LIMITED, gate=limit(284)))))
    by_interval = (
        "with priority 4 inside the switch if they come in an even interval of 1 ms, 5 in an odd "
        "one"
    )
    one = "violations are dropped, at most 100 octets per frame and {} on the wire in an interval"
    assert difference_of(asked(told(LIMITED)), does, None) == (
        f"frames of camera ({CAMERA.destination_mac}, VLAN 10) at cam have another stream filter "
        f"than planned: {one.format(284)}, {by_interval}; planned: {one.format(852)}, {by_interval}"
    )
    without = bridge_report(BridgeReport(("cam", "s2"), told()))
    assert difference_of(asked(told(SHUT)), without, None) == (
        "unidentified frames with priority 5 at cam are not filtered: the kernel has no stream "
        "filter"
    )


# --- what is said --------------------------------------------------------------------------------


def test_frames_beyond_an_interval_are_named_so() -> None:
    counts = {Refused(0, Cause.GATE): 3}
    assert refused_frames(told(LIMITED), counts) == [
        "3 frames of camera arrived at cam beyond what may come in an interval: dropped"
    ]
    assert refused_frames(told(SHUT), counts) == [
        "3 unidentified frames with priority 5 arrived at cam: counted and forwarded"
    ]


def test_the_page_of_a_plan_has_what_may_come_in_an_interval(made: Plan) -> None:
    streams = {each["name"]: each for each in page_data(made)["streams"]}
    (its,) = streams["often"]["filters"]
    assert its == {
        "port": "s1/t1",
        "policing": "drop",
        "max_sdu_octets": 100,
        "interval_ns": MS,
        "octets_max": 852,
    }


@pytest.mark.parametrize(
    ("policing", "revision", "may"),
    [("drop", "2026-12-02", False), ("drop", "2026-12-03", True), ("off", "2026-12-02", True)],
)
def test_an_agent_that_cannot_count_whole_frames_is_named_before_anything_changes(
    policing: str, revision: str, may: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lying(monkeypatch, with_revision(revision), plan=planned("count"))
    planfile.dump(planned(policing), file := tmp_path / "plan.json")
    words = " ".join(invoke(monkeypatch, ["doctor", str(file)], tmp_path).output.split())
    why = "bridge: s1/br0: cannot have stream gates count preamble and gap of each frame, as bounds"
    assert (why in words) is not may
    assert ("frame-overhead of a stream gate came with 2026-12-03" in words) is not may
