"""Numbered and recovered streams as a part of rollouts: their entries, what is said of them, from
one plan to the next, and followed by `cnc path`.

`test_mechanisms.py` has what holds for all mechanisms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lxml import etree

from cnc.check.transition import judge_transition
from cnc.cli import render
from cnc.data_tree.tree import (
    FRER,
    INTERFACES,
    NETCONF,
    STREAM_IDENTIFICATION,
    TSN_LINUX,
    BridgeReport,
    PortReport,
)
from cnc.mechanisms.composition import bridge_forwardings, settings_summary
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.mechanisms.frer.model import (
    FoundErrors,
    Generation,
    LatentErrorDetection,
    LatentErrors,
    Recovery,
    SequenceFunction,
    SequenceFunctions,
    StoredSequencing,
)
from cnc.mechanisms.frer.registration import MODULE as SEQUENCING
from cnc.mechanisms.handles import StoredIdentities
from cnc.mechanisms.identification.registration import MODULE as IDENTIFICATION
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    StreamFilter,
    StreamFilters,
)
from cnc.model import (
    BridgeForwarding,
    Elimination,
    EndStation,
    Intent,
    Management,
    Parts,
    Plan,
    PortRef,
    StoredBridge,
    StoredPort,
    StreamAddress,
)
from cnc.page.data import page_data
from cnc.planner import plan
from cnc.plans.transition import joined, on_ports, transition
from cnc.rollout.compare import difference_of, needs_change
from cnc.rollout.path import Seen, StreamPath, walk
from cnc.rollout.preflight import Verdict
from cnc.switch.counters import port_counters
from cnc.switch.device import DeviceError
from cnc.switch.filters import counter_filter, watch_filter
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from cnc.watch.metrics import Network
from tests.json_documents import documented
from tests.unit.asked import asked, bridge_forwarding
from tests.unit.bridged_networks import bridged
from tests.unit.places import bridge_report, reported_bridge, stored_bridge
from tests.unit.planner_networks import RING, stream
from tests.unit.stored_edits import applied

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
SID, F, IF = (f"{{{each}}}" for each in (STREAM_IDENTIFICATION, FRER, INTERFACES))
OPERATION = f"{{{NETCONF}}}operation"
AXIS, VALVE = (StreamAddress(f"03:54:53:4e:00:0{n}", 10) for n in range(2))
FIRST = Generation("t")
WATCHED = LatentErrorDetection(4, 2)
LAST = Recovery(("s2", "s4"), history_length=4, reset_timeout_ms=3, latent_errors=WATCHED)
FRAMES = "frames of axis (03:54:53:4e:00:00, VLAN 10) are"
PASSED = (
    "passed once from s2, s4 (history 4, reset after 3 ms, 2 ways compared each 2000 ms, at most 4 "
    "copies apart in 30000 ms)"
)


def told(**sequencing: SequenceFunction) -> BridgeForwarding:
    """A bridge with streams axis and valve in VLAN 10, of which some are numbered or recovered."""
    addresses = {"axis": AXIS, "valve": VALVE}
    return BridgeForwarding(
        dict.fromkeys(addresses.values(), ("l",)),
        {10: ("l", "s2", "s4", "t")},
        ("s2", "s4", "t"),
        {address: name for name, address in addresses.items()},
        parts=Parts.of(
            SequenceFunctions({addresses[name]: its for name, its in sequencing.items()})
        ),
    )


def sent(desired: BridgeForwarding, before: StoredPort | None = None) -> etree._Element:
    return edit_config({"br0": asked(desired)}, 0, {"br0": before}, ID)


def read(config: etree._Element) -> StoredPort:
    return stored_ports(config, ["br0"])["br0"]


# --- the tree ------------------------------------------------------------------------------------


def text(element: etree._Element) -> str:
    """An element in one line, without namespaces."""
    tag, operation = etree.QName(element).localname, element.get(OPERATION)
    inner = ",".join(map(text, element)) or (element.text or "")
    mark = f"!{operation}" if operation else ""
    return f"{tag}{mark}({inner})"


def identified(port: str, out_facing: str, stream: int) -> str:
    """An entry of sequence-identification as it is sent."""
    return (
        f"sequence-identification!replace(port({port}),direction-out-facing({out_facing}),"
        f"stream({stream}),active(true),encapsulation(r-tag()))"
    )


def frer(config: etree._Element) -> list[str]:
    """The entries of all tables for numbered frames."""
    return [text(each) for tables in config.iter(f"{F}frer") for each in tables]


def test_the_first_switch_names_the_stream_at_its_port_and_numbers_it_there() -> None:
    config = sent(told(axis=FIRST))
    (identity,) = config.iter(f"{SID}stream-identity")
    known_by = "destination-mac(03-54-53-4E-00-00),tagged(tagged),vlan(10)"
    assert text(identity) == (
        "stream-identity!replace(index(1),handle(1),out-facing(input-port(t)),"
        f"null-stream-identification({known_by}))"
    )
    assert frer(config) == [
        "sequence-generation!replace(index(1),stream(1),direction-out-facing(false))",
        identified("t", "false", 1),
    ]


def test_the_last_switch_recovers_what_comes_by_both_ports() -> None:
    config = sent(told(axis=LAST))
    (identity,) = config.iter(f"{SID}stream-identity")
    assert [each.text for each in identity.iter(f"{SID}input-port")] == ["s2", "s4"]
    first, *others = frer(config)
    assert first == (
        "sequence-recovery!replace(index(1),stream(1),port(s2),port(s4),"
        "direction-out-facing(true),algorithm(vector()),history-length(4),reset-timeout(3),"
        "take-no-sequence(true),latent-error-detection(true),latent-error-detection-parameters("
        "difference(4),period(2000),paths(2),reset-period(30000)))"
    )
    assert others == [identified("s2", "true", 1), identified("s4", "true", 1)]


@pytest.mark.parametrize("function", [FIRST, LAST])
def test_a_stream_that_is_still_policed_loses_its_function(function: SequenceFunction) -> None:
    of = FilteredStream(AXIS.destination_mac, AXIS.vlan_id, "t")
    policed = StreamFilter(of, 6, 0, FixedGate.OPEN, Policing.OFF)
    before, after = (its.having(StreamFilters((policed,))) for its in (told(axis=function), told()))
    stored = read(applied(sent(before), sent(after, read(sent(before)))))
    assert len(stored[StoredBridge].tables[StoredIdentities].entries) == 1
    assert stored[StoredBridge].tables[StoredSequencing] == StoredSequencing()


@pytest.mark.parametrize(
    ("of", "leaf", "value"),
    [
        (FIRST, "active", "false"),
        (FIRST, "direction-out-facing", "true"),
        (LAST, "take-no-sequence", "false"),
        (LAST, "direction-out-facing", "false"),
        (LAST, "port", "t"),
    ],
)
def test_a_function_that_no_rollout_sets_so_is_none_and_is_set_anew(
    of: SequenceFunction, leaf: str, value: str
) -> None:
    config = sent(told(axis=of))
    next(config.iter(f"{F}{leaf}")).text = value
    stored = read(config)
    assert stored[StoredBridge].forwarding
    assert stored[StoredBridge].forwarding[SequenceFunctions].by_stream == {}
    assert read(sent(told(axis=of), stored))[StoredBridge].forwarding == told(axis=of)


@pytest.mark.parametrize(
    ("leaf", "value"), [("latent-error-detection", "false"), ("paths", None), ("period", None)]
)
def test_a_function_that_is_not_watched_as_a_rollout_sets_it_is_set_again(
    leaf: str, value: str | None
) -> None:
    config = sent(told(axis=LAST))
    found = next(config.iter(f"{F}{leaf}"))
    if value is None:
        parameters = found.getparent()
        assert parameters is not None
        parameters.remove(found)
    else:
        found.text = value
    stored = read(config)
    assert stored[StoredBridge].forwarding
    assert stored[StoredBridge].forwarding[SequenceFunctions].by_stream == {
        AXIS: replace(LAST, latent_errors=None)
    }
    assert needs_change(asked(told(axis=LAST)), stored, kernel(told(axis=LAST)))


def latent(data: etree._Element, **leaves: str) -> etree._Element:
    """What a switch says that has looked for latent errors."""
    recovery = next(data.iter(f"{F}sequence-recovery"))
    state = etree.SubElement(recovery, f"{{{TSN_LINUX}}}latent-errors")
    for name, value in leaves.items():
        etree.SubElement(state, f"{{{TSN_LINUX}}}{name}").text = value
    return data


def test_what_a_switch_has_found_is_read_by_the_address_of_the_stream() -> None:
    def found(**leaves: str) -> object:
        data = latent(sent(told(axis=LAST)), **leaves)
        return reported_bridge(data).counts[FoundErrors].by_stream

    assert found(detected="true", difference="12", errors="3") == {AXIS: LatentErrors(True, 12, 3)}
    assert found() == {AXIS: LatentErrors(False, 0, 0)}
    assert reported_bridge(sent(told(axis=LAST))).counts[FoundErrors].by_stream == {}


def test_individual_recovery_and_another_algorithm_are_none_of_a_rollout() -> None:
    for change in ("individual-recovery", "match"):
        config = sent(told(axis=LAST))
        recovery = next(config.iter(f"{F}sequence-recovery"))
        if change == "match":
            next(config.iter(f"{F}vector")).tag = f"{F}match"
        else:
            etree.SubElement(recovery, f"{F}individual-recovery").text = "true"
        assert reported_bridge(config).forwarding[SequenceFunctions].by_stream == {}


def test_a_stream_that_is_not_named_where_it_enters_is_not_recovered() -> None:
    config = sent(told(axis=LAST))
    facing = next(config.iter(f"{SID}out-facing"))
    facing.remove(facing[1])
    assert reported_bridge(config).forwarding[SequenceFunctions].by_stream == {}


# --- the comparison ------------------------------------------------------------------------------


def kernel(does: BridgeForwarding, **options: bool) -> PortReport:
    return bridge_report(BridgeReport(("l", "s2", "s4", "t"), does, **options))


def stored(its: BridgeForwarding) -> StoredPort:
    return stored_bridge(its)


SHORTER = replace(LAST, history_length=2)


@pytest.mark.parametrize(
    ("running", "desired", "difference"),
    [
        (told(), told(axis=FIRST), "not numbered at t: the kernel has no such function"),
        (told(), told(axis=LAST), f"not {PASSED}: the kernel has no such function"),
        (
            told(axis=SHORTER),
            told(axis=LAST),
            f"{PASSED.replace('history 4', 'history 2')}; planned: {PASSED}",
        ),
        (told(axis=LAST), told(), f"{PASSED}, which is not planned"),
    ],
)
def test_a_kernel_that_drifted_is_described_by_what_becomes_of_copies(
    running: BridgeForwarding, desired: BridgeForwarding, difference: str
) -> None:
    assert difference_of(asked(desired), kernel(running), None) == f"{FRAMES} {difference}"
    reason = needs_change(asked(desired), stored(desired), kernel(running))
    assert reason == f"the kernel drifted: {FRAMES} {difference}"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (told(), told(axis=FIRST), "numbered at t"),
        (told(axis=SHORTER), told(axis=LAST), f"{PASSED} otherwise than before"),
        (told(axis=FIRST), told(), "no longer numbered at t"),
    ],
)
def test_a_change_says_which_frames_are_numbered_or_recovered(
    before: BridgeForwarding, after: BridgeForwarding, change: str
) -> None:
    assert needs_change(asked(after), stored(before), kernel(before)) == f"{FRAMES} {change}"


# --- the checks before a change ------------------------------------------------------------------


@pytest.mark.parametrize("module", [SEQUENCING, IDENTIFICATION])
def test_a_switch_without_a_module_prevents_a_change_that_needs_it(module: str) -> None:
    def failures(desired: BridgeForwarding) -> list[tuple[str, str | None]]:
        its = kernel(told(), lacking_modules=frozenset({module}))
        found = examine_bridge(PortRef("s1", "br0"), desired, its)
        return [(each.text, each.hint) for each in found if each.verdict is Verdict.FAILED]

    assert failures(told(axis=FIRST)) == [
        (
            f"cannot eliminate duplicates of axis: the YANG module {module} is not installed",
            "update the switch's agent and its YANG modules, or state `elimination: listener`",
        )
    ]
    assert failures(told()) == []


# --- from one plan to the next -------------------------------------------------------------------


def ring(elimination: Elimination, *managed: str, **facts: object) -> Intent:
    wanted = bridged(RING, stream("axis", "t", "l", paths=2, elimination=elimination, **facts))
    stations = {
        **wanted.network.end_stations,
        **{name: EndStation(name, Management("10.99.3.1")) for name in managed},
    }
    return replace(wanted, network=replace(wanted.network, end_stations=stations))


def test_a_stream_that_switches_begin_to_number_gets_another_address() -> None:
    former = plan(ring(Elimination.LISTENER, "t"))
    changed = plan(ring(Elimination.SWITCH, "t"), addressed=former)
    assert changed.addresses["axis"] != former.addresses["axis"]
    between = transition(former, changed)
    assert (between.moved, between.exposed) == (("axis",), {})
    assert judge_transition(changed, former, between) == []


def test_the_functions_of_a_former_way_stay_until_its_last_frame_has_come() -> None:
    former = plan(ring(Elimination.SWITCH, "t"))
    changed = plan(ring(Elimination.LISTENER, "t"), addressed=former)
    between = transition(former, changed)
    both = joined(bridge_forwarding(changed, "s3"), between.former["s3"])
    assert (
        both[SequenceFunctions].by_stream
        == bridge_forwarding(former, "s3")[SequenceFunctions].by_stream
    )
    assert judge_transition(changed, former, between) == []
    without = {
        switch: its.having(SequenceFunctions({})) if switch == "s3" else its
        for switch, its in between.former.items()
    }
    codes = {
        each.code for each in judge_transition(changed, former, replace(between, former=without))
    }
    assert codes == {"sequence", "sequence-tag"}


def test_a_stream_that_keeps_its_address_is_exposed_while_switches_commit() -> None:
    former = plan(ring(Elimination.LISTENER))
    changed = plan(ring(Elimination.SWITCH), addressed=former)
    assert changed.addresses == former.addresses
    assert transition(former, changed).exposed == {
        "axis": "switches number its frames, or cease to, as they commit, one after the other; no "
        "push reaches its talker t, which has no `management`: the stream keeps its address"
    }


def test_of_ports_that_are_gone_a_bridge_is_told_nothing() -> None:
    left = on_ports(told(axis=FIRST, valve=LAST), frozenset({"s2", "l"}))
    assert left[SequenceFunctions].by_stream == {
        VALVE: replace(LAST, ports=("s2",), latent_errors=None)
    }


# --- what commands print -------------------------------------------------------------------------


def test_a_bridge_is_summed_up_with_its_functions() -> None:
    summary = settings_summary(None, told(axis=FIRST, valve=LAST))
    assert summary == "2 filtering entries, 1 sequence generation, 1 sequence recovery, VLAN 10"


def followed(does: Mapping[str, BridgeForwarding], planned: Plan) -> StreamPath:
    def ask(names: Sequence[str]) -> Mapping[str, Seen | DeviceError]:
        return {name: Seen(BridgeReport((), does[name])) for name in names}

    return walk(planned, "axis", ask)


def test_path_shows_where_frames_are_numbered_and_which_copies_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = plan(ring(Elimination.SWITCH))
    found = followed(bridge_forwardings(planned), planned)
    assert found.deviations == ()
    assert {(hop.switch, hop.ingress): hop.done.get("sequencing") for hop in found.hops} == {
        ("s1", "t"): "numbered at t",
        ("s2", "s1"): None,
        ("s4", "s1"): None,
        ("s3", "s2"): PASSED,
        ("s3", "s4"): PASSED,
    }
    render.path(found, as_json=True)
    hops = documented("path", capsys.readouterr().out)["hops"]
    assert sum("sequencing" in hop for hop in hops) == 3
    render.path(found, as_json=False)
    assert "copies" in capsys.readouterr().out


def test_path_says_where_copies_are_not_taken_out() -> None:
    planned = plan(ring(Elimination.SWITCH))
    does = bridge_forwardings(planned)
    does["s3"] = does["s3"].having(SequenceFunctions({}))
    lacking = f"s3: frames are neither numbered nor recovered; planned: {PASSED}"
    assert followed(does, planned).deviations == (lacking, lacking)


def test_the_table_of_a_plan_says_where_frames_are_numbered_and_passed_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    render.plan(plan(ring(Elimination.SWITCH)), None)
    shown = capsys.readouterr().out.partition("duplicates eliminated by switches")[2]
    (row,) = (line.split() for line in shown.splitlines() if " axis " in line)
    assert row == ["axis", "s1/t", "s3", "4", "3", "ms"]
    render.plan(plan(ring(Elimination.LISTENER)), None)
    assert "duplicates eliminated" not in capsys.readouterr().out


def test_the_page_of_a_plan_has_who_numbers_frames_and_takes_copies_out() -> None:
    (once,) = page_data(plan(ring(Elimination.SWITCH)))["streams"]
    assert once["numbered"] == ["s1/t"]
    (recovered,) = once["recovered"]
    assert (recovered["switch"], recovered["ports"]) == ("s3", ["s2", "s4"])
    (twice,) = page_data(plan(ring(Elimination.LISTENER)))["streams"]
    assert not twice.keys() & {"numbered", "recovered"}


# --- counters ------------------------------------------------------------------------------------


def counted(*rows: tuple[str, int, int]) -> etree._Element:
    """What a last switch reports: whether out-facing, the handle, and how many frames passed."""
    data = sent(told(axis=LAST))
    interfaces = etree.SubElement(data, f"{IF}interfaces")
    interface = etree.SubElement(interfaces, f"{IF}interface")
    etree.SubElement(interface, f"{IF}name").text = "s2"
    statistics = etree.SubElement(etree.SubElement(interface, f"{IF}statistics"), f"{F}frer")
    for out_facing, handle, passed in rows:
        row = etree.SubElement(statistics, f"{F}per-port-per-stream-counters")
        for leaf, value in (
            ("direction-out-facing", out_facing),
            ("handle", handle),
            ("rx-passed-pkts", passed),
            ("rx-lost-pkts", 3),
            ("rx-resets", 1),
        ):
            etree.SubElement(row, f"{F}{leaf}").text = str(value)
    return data


def test_copies_are_counted_by_the_address_of_their_stream() -> None:
    data = counted(("true", 1, 40), ("false", 1, 50), ("true", 9, 60))
    assert port_counters(data)["s2"].recovery == {AXIS: {"passed": 40, "lost": 3, "resets": 1}}


def test_counters_of_copies_are_asked_for_where_bridges_forward() -> None:
    for of in (watch_filter, counter_filter):
        asked = [b"".join(map(etree.tostring, of(["s2"], bridges=its))) for its in ([], ["br0"])]
        assert [b"<frer" in each for each in asked] == [False, True]
        assert [b"<stream-identity" in each for each in asked] == [False, True]


def test_metrics_have_what_a_switch_has_found_of_the_copies_of_streams() -> None:
    data = latent(sent(told(axis=LAST)), detected="true", errors="3")
    report = bridge_report(reported_bridge(data))
    poll = SimpleNamespace(counters={}, state=SimpleNamespace(ports={"br0": report}, agent=None))
    now = SimpleNamespace(polls={"s3": poll}, clocks={}, drifted={}, unresolved=0, conditions=())
    families = {each.name: each for each in Network(lambda: now).collect()}
    for name, value in (("tsn_stream_latent_error", 1), ("tsn_stream_latent_error_tests", 3)):
        (sample,) = families[name].samples
        assert tuple(sample.labels.values()) == ("s3", "br0", AXIS.destination_mac, "10")
        assert sample.value == value


def test_metrics_have_what_became_of_copies() -> None:
    poll = SimpleNamespace(
        counters=port_counters(counted(("true", 1, 40))),
        state=SimpleNamespace(ports={}, agent=None),
    )
    now = SimpleNamespace(polls={"s3": poll}, clocks={}, drifted={}, unresolved=0, conditions=())
    families = {each.name: each for each in Network(lambda: now).collect()}
    found = {
        tuple(sample.labels.values()): sample.value
        for sample in families["tsn_stream_recovery"].samples
    }
    of_stream = ("s3", "s2", "03:54:53:4e:00:00", "10")
    assert found == {(*of_stream, "passed"): 40, (*of_stream, "lost"): 3, (*of_stream, "resets"): 1}
    poll.counters = {}
    assert "tsn_stream_recovery" not in {each.name for each in Network(lambda: now).collect()}
