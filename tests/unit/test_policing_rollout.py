"""Stream filters as a part of rollouts: their entries, and what is said of them.

`test_mechanisms.py` has what holds for all mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from lxml import etree

from cnc.data_tree.tree import NETCONF, PSFP_BRIDGE, STREAM_IDENTIFICATION, BridgeReport, PortReport
from cnc.finding import Verdict
from cnc.mechanisms.composition import parts_while_clock_settles, settings_summary
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.mechanisms.identification.model import Inward, Translation, Translations
from cnc.mechanisms.stream_filters.model import (
    Cause,
    CountedFrames,
    FilterCounts,
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
    normal,
)
from cnc.mechanisms.stream_filters.registration import MODULE as POLICING
from cnc.model import (
    BridgeForwarding,
    NullIdentification,
    Parts,
    PortRef,
    StoredBridge,
    StoredPort,
    StreamAddress,
)
from cnc.rollout.compare import difference_of, needs_change
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.places import bridge_report, reported_bridge, stored_bridge

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
PSFP = f"{{{PSFP_BRIDGE}}}"
SID = f"{{{STREAM_IDENTIFICATION}}}"
OPERATION = f"{{{NETCONF}}}operation"
BASE_NS = 1_800_000_000_000_000_000
MS = 1_000_000
CAMERA = StreamAddress("03:54:53:4e:00:00", 10)
MOTION = StreamAddress("03:54:53:4e:00:01", 10)
WINDOW = WindowGate(MS, 2_000, 9_000, 400)


def of(address: StreamAddress, port: str = "cam") -> FilteredStream:
    return FilteredStream(address.destination_mac, address.vlan_id, port)


def filtered(
    address: StreamAddress = CAMERA,
    gate: WindowGate = WINDOW,
    octets: int = 200,
    policing: Policing = Policing.DROP,
) -> StreamFilter:
    return StreamFilter(of(address), 5, octets, gate, policing)


def strangers(
    priority: int = 5, policing: Policing = Policing.DROP, port: str = "cam"
) -> StreamFilter:
    return StreamFilter(Strangers(port), priority, 0, FixedGate.CLOSED, policing)


def told(*filters: StreamFilter) -> BridgeForwarding:
    """A bridge with streams camera and motion in VLAN 10, and these filters."""
    addresses = {CAMERA: "camera", MOTION: "motion"}
    vlans = {10: ("cam", "panel", "s2")}
    entries = dict.fromkeys(addresses, ("s2",))
    return BridgeForwarding(
        entries, vlans, ("cam",), addresses, parts=Parts.of(StreamFilters(filters))
    )


ALL = told(filtered(), filtered(MOTION), strangers(5), strangers(6))


def read(config: etree._Element) -> StoredPort:
    stored = stored_ports(config, ["br0"])["br0"]
    assert stored
    return stored


def sent(desired: BridgeForwarding, before: StoredPort | None = None) -> etree._Element:
    return edit_config({"br0": asked(desired)}, BASE_NS, {"br0": before}, ID)


def numbers(config: etree._Element, of_what: str = "filter") -> list[tuple[str, int]]:
    """Operation and number of each filter, or each gate, that is edited."""
    instance = f"stream-{of_what}-instance"
    return [
        (row.get(OPERATION), int(row.findtext(f"{PSFP}{instance}-id")))
        for row in config.iter(f"{PSFP}{instance}-table")
    ]


# --- the payload ---------------------------------------------------------------------------------


def as_read(forwarding: BridgeForwarding) -> set[StreamFilter]:
    return {normal(its) for its in forwarding[StreamFilters].filters}


def test_streams_are_asked_for_before_strangers_and_each_filter_has_a_gate() -> None:
    config = sent(ALL)
    assert [number for _, number in numbers(config)] == [1, 2, 1_000_000, 1_000_001]
    assert numbers(config, "gate") == numbers(config)


def test_only_filters_that_change_are_sent() -> None:
    stored = read(sent(ALL))
    assert numbers(sent(ALL, stored)) == []
    later = filtered(gate=replace(WINDOW, start_ns=7_000))
    changed = told(later, filtered(MOTION), strangers(6))
    assert numbers(sent(changed, stored)) == [("replace", 1), ("remove", 1_000_000)]


def test_a_list_begins_with_the_first_window_of_the_plan() -> None:
    for start_ns in (-500, 2_000, MS + 2_000):
        gate = replace(WINDOW, start_ns=start_ns)
        (table,) = sent(told(filtered(gate=gate))).iter(f"{PSFP}admin-base-time")
        seconds, nanoseconds = (int(each.text) for each in table)
        assert seconds * 10**9 + nanoseconds == BASE_NS + start_ns


def test_a_stream_with_a_filter_is_named_where_its_frames_come_in() -> None:
    (entry,) = sent(told(filtered())).iter(f"{SID}stream-identity")
    assert entry.findtext(f"{SID}out-facing/{SID}input-port") == "cam"
    null = entry.find(f"{SID}null-stream-identification")
    assert [each.text for each in null] == ["03-54-53-4E-00-00", "tagged", "10"]
    (row,) = sent(told(filtered())).iter(f"{PSFP}stream-handle")
    assert row.text == entry.findtext(f"{SID}handle")


def test_a_stream_that_its_switch_translates_needs_no_further_name() -> None:
    inward = Inward("cam", NullIdentification("02:00:00:00:00:09"), 5)
    desired = told(filtered()).having(Translations({CAMERA: Translation(inward)}))
    config = sent(desired)
    assert len([*config.iter(f"{SID}stream-identity")]) == 2
    stored = read(config)
    assert stored[StoredBridge].forwarding
    assert {*stored[StoredBridge].forwarding[StreamFilters].filters} == as_read(desired)


# --- what comes back -----------------------------------------------------------------------------


def rows(config: etree._Element, leaf: str) -> Iterator[etree._Element]:
    yield from config.iter(f"{PSFP}{leaf}")


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        ("priority-spec", "wildcard"),
        ("stream-gate-ref", "99"),
        ("stream-handle", "99"),
        ("time-interval-value", "5"),
        ("gate-state-value", "closed"),
    ],
)
def test_a_filter_that_no_rollout_sets_so_is_none_of_its_and_stays(leaf: str, value: str) -> None:
    config = sent(told(filtered()))
    next(rows(config, leaf)).text = value
    stored = read(config)
    assert stored[StoredBridge].forwarding
    assert stored[StoredBridge].forwarding[StreamFilters].filters == ()
    assert numbers(sent(told(filtered(MOTION)), stored)) == [("replace", 2)]


def test_a_gate_is_read_from_the_list_that_runs_and_while_one_is_to_come_from_that() -> None:
    config = sent(told(filtered()))
    (gate,) = rows(config, "stream-gate-instance-table")
    assert reported_bridge(config).forwarding[StreamFilters].filters == ()
    pending = etree.SubElement(gate, f"{PSFP}config-pending")
    pending.text = "true"
    report = reported_bridge(config)
    assert report.forwarding[StreamFilters].filters == (normal(filtered()),)
    assert [each.is_pending for each in report.counts[CountedFrames].by_filter.values()] == [True]
    pending.text = "false"
    for name in ("control-list", "cycle-time", "base-time"):
        (leaf,) = rows(config, f"admin-{name}")
        leaf.tag = f"{PSFP}oper-{name}"
    report = reported_bridge(config)
    assert report.forwarding[StreamFilters].filters == (normal(filtered()),)
    assert [each.is_pending for each in report.counts[CountedFrames].by_filter.values()] == [False]


def test_gates_whose_lists_wait_for_the_clock_are_read_as_open_those_of_strangers_too() -> None:
    """What agents show of a gate that is in the state it has before its list."""
    desired = told(filtered(), strangers())
    config = sent(desired)
    for gate in rows(config, "stream-gate-instance-table"):
        for name in ("control-list", "cycle-time", "base-time"):
            gate.remove(gate.find(f"{PSFP}admin-{name}"))
        etree.SubElement(gate, f"{PSFP}oper-gate-state").text = "open"
    report = reported_bridge(config)
    assert {*report.forwarding[StreamFilters].filters} == as_read(
        parts_while_clock_settles(desired)
    )
    for state in rows(config, "oper-gate-state"):
        state.text = "closed"
    assert reported_bridge(config).forwarding[StreamFilters].filters == ()


def test_counters_are_those_of_their_filter() -> None:
    config = sent(told(filtered()))
    (gate,) = rows(config, "stream-gate-instance-table")
    etree.SubElement(gate, f"{PSFP}config-pending").text = "true"
    (row,) = rows(config, "stream-filter-instance-table")
    for leaf, value in (("matching", 12), ("not-passing", 3)):
        etree.SubElement(row, f"{PSFP}{leaf}-frames-count").text = str(value)
    etree.SubElement(row, f"{PSFP}not-passing-sdu-count").text = "1"
    (counts,) = reported_bridge(config).counts[CountedFrames].by_filter.values()
    assert counts == FilterCounts(12, 3, 1, is_pending=True)
    assert counts.refused == {Cause.GATE: 3, Cause.LENGTH: 1, Cause.RATE: 0}


# --- the comparison ------------------------------------------------------------------------------


def kernel(does: BridgeForwarding, **options: bool) -> PortReport:
    return bridge_report(BridgeReport(("cam", "panel", "s2"), does, **options))


def stored(its: BridgeForwarding) -> StoredPort:
    return stored_bridge(its)


FRAMES = "frames of camera (03:54:53:4e:00:00, VLAN 10) at cam"
DOES = (
    "violations are dropped, the gate opens at 2 µs for 9 µs of each 1 ms; at most 200 octets per "
    "frame, 400 in all"
)
COUNTS = DOES.replace("dropped", "counted")
STRANGE = "unidentified frames with priority 5 at cam"
COUNTED = filtered(policing=Policing.COUNT)


@pytest.mark.parametrize(
    ("running", "desired", "difference"),
    [
        (told(), told(filtered()), f"{FRAMES} are not filtered: the kernel has no stream filter"),
        (told(filtered()), told(), f"{FRAMES} are filtered, which is not planned"),
        (
            told(COUNTED),
            told(filtered()),
            f"{FRAMES} have another stream filter than planned: {COUNTS}; planned: {DOES}",
        ),
        (
            told(),
            told(strangers()),
            f"{STRANGE} are not filtered: the kernel has no stream filter",
        ),
    ],
)
def test_a_kernel_that_drifted_is_described_by_what_becomes_of_frames(
    running: BridgeForwarding, desired: BridgeForwarding, difference: str
) -> None:
    assert difference_of(asked(desired), kernel(running), None) == difference
    reason = needs_change(asked(desired), stored(desired), kernel(running))
    assert reason == f"the kernel drifted: {difference}"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (told(), told(filtered()), f"{FRAMES} are filtered: {DOES}"),
        (told(COUNTED), told(filtered()), f"{FRAMES} have another stream filter: {DOES}"),
        (told(filtered()), told(), f"{FRAMES} are no longer filtered"),
        (
            told(),
            told(strangers()),
            f"{STRANGE} are filtered: all are dropped as violations",
        ),
    ],
)
def test_a_change_says_which_frames_are_filtered_how(
    before: BridgeForwarding, after: BridgeForwarding, change: str
) -> None:
    assert needs_change(asked(after), stored(before), kernel(before)) == change


# --- the checks before a change ------------------------------------------------------------------


def failures(desired: BridgeForwarding, report: PortReport) -> list[str]:
    found = examine_bridge(PortRef("s1", "br0"), desired, report)
    return [each.text for each in found if each.verdict is Verdict.FAILED]


def test_a_switch_without_the_module_prevents_a_change_that_needs_it() -> None:
    report = kernel(told(), lacking_modules=frozenset({POLICING}))
    assert failures(ALL, report) == [
        f"cannot police what end stations send: the YANG module {POLICING} is not installed"
    ]
    assert failures(told(), report) == []


def test_a_port_that_is_policed_belongs_to_the_bridge() -> None:
    lone = replace(told(strangers(port="panel")), entries={}, vlans={}, trusting=())
    report = bridge_report(BridgeReport(("cam", "s2"), told()))
    assert failures(lone, report) == [
        "is not the bridge of panel, where frames of end stations are policed"
    ]


# --- what commands print -------------------------------------------------------------------------


def test_a_bridge_is_summed_up_with_its_filters() -> None:
    assert settings_summary(None, ALL) == "2 filtering entries, 4 stream filters, VLAN 10"
    assert settings_summary(None, told()).endswith("VLAN 10")
