"""End stations as members of a rollout: what they are sent, and how they are compared."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree
from lxml.builder import ElementMaker

from cnc import intent as intents
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import (
    CLOCK,
    END_STATION,
    INTERFACES,
    AgentReport,
    KernelSchedule,
    PortReport,
    TalkerReport,
)
from cnc.errors import InputError
from cnc.mechanisms.talker_offsets.tree import talker_report
from cnc.model import (
    GateMode,
    Management,
    Plan,
    PortRef,
    PortSettings,
    StoredGates,
    StoredPort,
    StreamAddress,
    TalkerStreams,
    TalkerTable,
    WakeUps,
    gated_port,
)
from cnc.planner import plan as compute
from cnc.rollout.compare import difference_between, difference_of, needs_change
from cnc.rollout.goal import Goal
from cnc.rollout.history import encoding
from cnc.rollout.history.record import SwitchChange
from cnc.switch.device import StoredSwitch
from cnc.switch.filters import state_filter
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from cnc.watch.observation import Poll
from cnc.watch.observer import Observer
from tests import bridged_networks
from tests.unit.asked import asked, desired_ports
from tests.unit.places import changed, port_report

LINE3 = (Path(__file__).parents[2] / "schedules" / "line3.yaml").read_text()
MANAGED = LINE3.replace(
    "end-stations: [t1, t2, l1, l2] ", "end-stations: {t1: {management: 10.99.0.11}, t2, l1, l2}"
)
BASE_NS = 1_795_520_000_000_000_000
ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")


def load(tmp_path: Path, text: str) -> intents.Intent:
    file = tmp_path / "line3.yaml"
    file.write_text(text)
    return intents.load(file)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return compute(load(tmp_path, MANAGED))


@pytest.fixture
def told(plan: Plan) -> TalkerStreams:
    return desired_ports(plan, "t1")["eth0"][TalkerStreams]


def moved(told: TalkerStreams, by_ns: int = 40_000) -> TalkerStreams:
    first, *others = told.streams
    return TalkerStreams((replace(first, offset_ns=first.offset_ns + by_ns), *others))


def report(talker: TalkerReport) -> PortReport:
    return port_report(talker)


def stored(told: TalkerStreams, base_time_ns: int = BASE_NS) -> StoredPort:
    return StoredPort.of(TalkerTable(base_time_ns, told))


# --- the intent ----------------------------------------------------------------------------------


def test_an_end_station_has_an_address_with_the_defaults_of_switches(tmp_path: Path) -> None:
    network = load(tmp_path, MANAGED).network
    assert network.end_stations["t1"].management == Management("10.99.0.11", 830, "tsn")


def test_only_end_stations_with_an_address_are_managed(tmp_path: Path) -> None:
    assert list(load(tmp_path, MANAGED).network.managed) == ["s1", "s2", "s3", "t1"]
    assert list(load(tmp_path, LINE3).network.managed) == ["s1", "s2", "s3"]


def test_an_end_station_and_a_switch_cannot_share_an_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"10\.99\.0\.2 port 830, which is switch s2"):
        load(tmp_path, MANAGED.replace("10.99.0.11", "10.99.0.2"))


def test_the_address_of_an_end_station_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"end-stations\.t1\.management: found"):
        load(tmp_path, MANAGED.replace("10.99.0.11", "10.99.0.256"))


# --- the payload ---------------------------------------------------------------------------------


def test_a_station_is_told_what_its_talkers_send(plan: Plan, told: TalkerStreams) -> None:
    motion, torque = told.streams
    assert (motion.name, torque.name) == ("motion", "torque")
    assert motion.offset_ns == plan.streams["motion"].talker_offsets_ns[0]
    assert (motion.period_ns, motion.payload_octets) == (1_000_000, 200)
    assert (motion.priority, motion.dscp, motion.listeners) == (6, 46, ("l1",))


def test_a_station_that_only_listens_is_told_of_no_stream(plan: Plan) -> None:
    assert desired_ports(plan, "l1") == {"eth0": asked(TalkerStreams())}


def test_what_is_sent_is_what_is_read_back(told: TalkerStreams) -> None:
    config = edit_config({"eth0": asked(told)}, BASE_NS, {"eth0": None}, ID)
    assert stored_ports(config) == {"eth0": stored(told)}


def test_a_talker_of_a_bridged_network_is_told_what_to_send_to() -> None:
    intent = bridged_networks.line(motion=bridged_networks.stream("t1", "l1"))
    document = {**intent.document, "end-stations": {"t1": {"management": "10.99.1.11"}}}
    document["end-stations"] |= {name: {} for name in ("t2", "l1", "l2", "l3")}
    bridged = compute(intents.from_document(document, "bridged"))
    told = desired_ports(bridged, "t1")["eth0"][TalkerStreams]
    assert [each.address for each in told.streams] == [bridged.addresses["motion"]]
    config = edit_config({"eth0": asked(told)}, BASE_NS, {"eth0": None}, ID)
    assert stored_ports(config) == {"eth0": stored(told)}


def test_a_stream_with_a_new_address_is_named_with_it(told: TalkerStreams) -> None:
    first, *others = told.streams
    address = StreamAddress("03:54:53:4e:00:01", 10)
    readdressed = TalkerStreams((replace(first, address=address), *others))
    running = report(TalkerReport(running=TalkerTable(BASE_NS, told)))
    assert needs_change(asked(readdressed), stored(told), running) == (
        "its talkers: motion is sent to 03:54:53:4e:00:01 in VLAN 10"
    )


def test_no_gates_are_configured_on_a_station(told: TalkerStreams) -> None:
    config = edit_config({"eth0": asked(told)}, BASE_NS, {"eth0": stored(TalkerStreams())}, ID)
    assert b"bridge-port" not in etree.tostring(config)


def test_only_stations_are_asked_for_their_talkers() -> None:
    """Servers of other switches may not know the module: it is not named to them."""
    asked = [
        b"".join(map(etree.tostring, state_filter(["p1"], talker=each))) for each in (False, True)
    ]
    assert [END_STATION.encode() in each for each in asked] == [False, True]


def published(*states: tuple[str, TalkerStreams, int]) -> etree._Element:
    """An interface whose station publishes this; from what it would be sent."""
    interface = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})("interface")
    talker = etree.SubElement(interface, f"{{{END_STATION}}}talker")
    for state, told, base_time_ns in states:
        config = edit_config({"eth0": asked(told)}, base_time_ns, {}, ID)
        (sent,) = config.iter(f"{{{END_STATION}}}talker")
        sent.tag = f"{{{END_STATION}}}published"
        etree.SubElement(sent, f"{{{END_STATION}}}state").text = state
        talker.append(sent)
    return interface


def test_both_published_tables_are_read(told: TalkerStreams) -> None:
    interface = published(("running", told, 7), ("pending", moved(told), BASE_NS))
    assert talker_report(interface) == TalkerReport(
        TalkerTable(7, told), TalkerTable(BASE_NS, moved(told))
    )


def said(interface: etree._Element, **leaves: int) -> None:
    """Let the talker of the first stream say this of itself."""
    stream = next(interface.iter(f"{{{END_STATION}}}stream"))
    lateness = etree.SubElement(stream, f"{{{END_STATION}}}lateness")
    for name, value in leaves.items():
        leaf = etree.SubElement(lateness, f"{{{END_STATION}}}{name.replace('_', '-')}")
        leaf.text = str(value)


def test_what_the_talkers_say_of_themselves_is_read(told: TalkerStreams) -> None:
    interface = published(("running", told, 7))
    said(interface, count=9, maximum_ns=1_000)
    assert talker_report(interface).lateness == {("motion", 1): WakeUps(9, 1_000)}


def test_a_lateness_that_is_none_is_refused(told: TalkerStreams) -> None:
    interface = published(("running", told, 7))
    said(interface, count=9, maximum_ns=-1)
    with pytest.raises(ValueError, match="maximum-ns of lateness is -1"):
        talker_report(interface)


@pytest.mark.parametrize("leaf", ["name", "path", "period-ns", "offset-ns", "priority"])
def test_a_stream_without_a_mandatory_leaf_is_refused(told: TalkerStreams, leaf: str) -> None:
    interface = published(("running", told, 7))
    stream = next(interface.iter(f"{{{END_STATION}}}stream"))
    stream.remove(next(stream.iter(f"{{{END_STATION}}}{leaf}")))
    with pytest.raises(ValueError, match=leaf):
        talker_report(interface)


# --- the comparison ------------------------------------------------------------------------------


def test_a_station_that_publishes_the_plan_is_not_changed(told: TalkerStreams) -> None:
    running = report(TalkerReport(running=TalkerTable(BASE_NS, told)))
    assert needs_change(asked(told), stored(told), running) is None


def test_a_stream_that_moves_is_named_with_both_offsets(told: TalkerStreams) -> None:
    running = report(TalkerReport(running=TalkerTable(BASE_NS, told)))
    reason = needs_change(asked(moved(told)), stored(told), running)
    assert reason
    assert "motion moves from" in reason
    assert "torque" not in reason


def test_streams_that_come_and_go_are_named(told: TalkerStreams) -> None:
    only = TalkerStreams(told.streams[:1])
    running = report(TalkerReport(running=TalkerTable(BASE_NS, only)))
    assert needs_change(asked(told), stored(only), running) == "its talkers: torque is new"
    assert needs_change(asked(only), stored(told), running) == "its talkers: torque ends"


def test_a_station_without_talkers_needs_nothing(told: TalkerStreams) -> None:
    assert needs_change(asked(TalkerStreams()), None, report(TalkerReport())) is None


def test_a_station_that_publishes_nothing_has_drifted(told: TalkerStreams) -> None:
    reason = needs_change(asked(told), stored(told), report(TalkerReport()))
    assert reason == "the station drifted: no offsets are published"


def test_a_station_that_publishes_other_offsets_has_drifted(told: TalkerStreams) -> None:
    other = report(TalkerReport(running=TalkerTable(BASE_NS, moved(told))))
    reason = needs_change(asked(told), stored(told), other)
    assert reason == "the station drifted: other offsets are published: motion"


def test_a_new_table_has_to_begin_with_the_gates(told: TalkerStreams) -> None:
    late = report(TalkerReport(pending=TalkerTable(BASE_NS + 1_000_000, told)))
    assert difference_of(asked(told), late, BASE_NS) == (
        f"base time is {BASE_NS + 1_000_000} ns, expected {BASE_NS} ns"
    )
    assert difference_of(asked(told), late, None) is None


def test_a_rollback_is_compared_with_what_was_published(told: TalkerStreams) -> None:
    before, after = (
        report(TalkerReport(running=TalkerTable(BASE_NS, each))) for each in (told, moved(told))
    )
    assert difference_between(before, before) is None
    assert difference_between(before, after)


def test_periods_count_among_the_cycles_that_share_the_base_time(plan: Plan) -> None:
    alone = replace(Goal.of(plan), ports={"t1": desired_ports(plan, "t1")})
    assert alone.cycles_ns() == {1_000_000, 500_000}


def test_a_change_knows_what_a_station_had_before(told: TalkerStreams) -> None:
    change = SwitchChange(
        Management("10.99.0.11"),
        before={"eth0": stored(moved(told)), "eth1": None},
        after={"eth0": asked(told), "eth1": asked(told)},
    )
    assert change.is_end_station
    assert change.previous("eth0") == asked(moved(told))
    assert change.previous("eth1") == asked(TalkerStreams())


# --- the watch -----------------------------------------------------------------------------------


def seen(configured: TalkerStreams, talkers: TalkerStreams) -> Poll:
    """t1 as a watch sees it that has this configured, and tells its talkers that."""
    port = report(TalkerReport(running=TalkerTable(BASE_NS, talkers)))
    return Poll(
        switch="t1",
        at=datetime(2026, 11, 23, tzinfo=UTC),
        state=SwitchState(AgentReport(37, 100), {"eth0": port}, 0, 0),
        stored=StoredSwitch({"eth0": stored(configured)}, None),
        counters={},
    )


def test_a_watch_says_nothing_of_a_station_that_follows_the_plan(
    plan: Plan, told: TalkerStreams
) -> None:
    assert Observer(plan, lambda _id: True).take(seen(told, told)) == []


def test_a_watch_reports_a_station_that_publishes_other_offsets(
    plan: Plan, told: TalkerStreams
) -> None:
    observer = Observer(plan, lambda _id: True)
    (event,) = observer.take(seen(told, moved(told)))
    assert (event.what, event.kind, event.switch, event.port) == ("began", "drift", "t1", "eth0")
    assert "other offsets are published: motion" in event.text
    (event,) = observer.take(seen(told, told))
    assert (event.what, event.kind) == ("ended", "drift")


def test_a_watch_reports_a_station_that_is_configured_with_other_offsets(
    plan: Plan, told: TalkerStreams
) -> None:
    other = moved(told)
    events = Observer(plan, lambda _id: True).take(seen(other, told))
    assert [(event.kind, event.port) for event in events] == [("configuration", "eth0")]
    assert "motion moves from" in events[0].text


# --- gates of a talker's own port ----------------------------------------------------------------


@pytest.fixture
def gated_plan(tmp_path: Path) -> Plan:
    text = MANAGED.replace(
        "t1: {management: 10.99.0.11}", "t1: {management: 10.99.0.11, gates: software}"
    )
    return compute(load(tmp_path, text))


@pytest.fixture
def gated(gated_plan: Plan) -> PortSettings:
    return desired_ports(gated_plan, "t1")["eth0"]


def running_gates(told: PortSettings, base_time_ns: int = BASE_NS) -> PortReport:
    gates = gated_port(told)
    assert gates
    return changed(
        report(TalkerReport(running=TalkerTable(base_time_ns, told[TalkerStreams]))),
        root_qdisc="taprio",
        mode=gates.mode,
        clock=CLOCK,
        running=KernelSchedule(base_time_ns, gates.gates),
        priority_map=gates.priority_map,
        number_of_classes=gates.number_of_classes,
        dscp_priorities=gates.dscp_priorities,
    )


def with_gates(told: PortSettings) -> StoredPort:
    (found,) = stored_ports(edit_config({"eth0": told}, BASE_NS, {"eth0": None}, ID)).values()
    return found


def test_a_station_with_gates_gets_its_list_beside_the_offsets(
    gated_plan: Plan, gated: PortSettings
) -> None:
    gates = gated_port(gated)
    assert gates
    assert gates.gates == gated_plan.gates[PortRef("t1", "eth0")]
    assert gates.mode is GateMode.SOFTWARE
    assert gates.dscp_priorities[46] == 6
    found = with_gates(gated)
    assert found[StoredGates].configuration == gates
    assert found.get(TalkerTable) == TalkerTable(BASE_NS, gated[TalkerStreams])


def test_a_station_that_stores_and_runs_its_list_needs_no_change(
    gated: PortSettings,
) -> None:
    assert needs_change(gated, with_gates(gated), running_gates(gated)) is None
    assert difference_of(gated, running_gates(gated), BASE_NS) is None


def test_another_list_in_the_kernel_of_a_station_is_named(gated: PortSettings) -> None:
    gone = changed(running_gates(gated), running=None, root_qdisc="noqueue")
    assert difference_of(gated, gone, None) == "no gate control list (root qdisc noqueue)"
    assert needs_change(gated, with_gates(gated), gone) == (
        "the kernel drifted: no gate control list (root qdisc noqueue)"
    )


def test_gates_that_a_station_is_to_have_no_more_are_removed(
    plan: Plan, gated_plan: Plan, gated: PortSettings
) -> None:
    goal = Goal.of(plan, former=gated_plan)
    after = goal.ports["t1"]["eth0"]
    assert needs_change(after, with_gates(gated), running_gates(gated)) == (
        "the gate control list is removed: none is planned or given for this port"
    )
    config = etree.tostring(
        edit_config({"eth0": after}, BASE_NS, {"eth0": with_gates(gated)}, ID)
    ).decode()
    assert re.search(r'<gate-parameter-table [^>]*operation="remove"/>', config)
    assert re.search(r'<taprio [^>]*operation="remove"/>', config)


def test_gates_that_another_client_has_set_at_a_station_stay(
    plan: Plan, told: TalkerStreams, gated: PortSettings
) -> None:
    foreign = with_gates(gated).having(TalkerTable(BASE_NS, told))
    assert needs_change(asked(told), foreign, running_gates(gated)) is None
    assert (
        "bridge-port"
        not in etree.tostring(
            edit_config({"eth0": asked(told)}, BASE_NS, {"eth0": foreign}, ID)
        ).decode()
    )
    assert Goal.of(plan, former=plan).ports["t1"]["eth0"] == asked(told)


def test_a_rollback_brings_back_what_the_port_had_gates_or_none(
    told: TalkerStreams, gated: PortSettings
) -> None:
    management = Management("10.99.0.11")
    first = SwitchChange(management, {"eth0": stored(told)}, {"eth0": gated})
    assert first.previous("eth0") == asked(told, None)
    second = SwitchChange(management, {"eth0": with_gates(gated)}, {"eth0": gated})
    assert second.previous("eth0") == gated


def test_a_record_of_a_station_with_gates_is_read_as_it_was_written(
    gated: PortSettings,
) -> None:
    change = SwitchChange(Management("10.99.0.11"), {"eth0": with_gates(gated)}, {"eth0": gated})
    octets = encoding.change_to_octets(change)
    assert encoding.change_from_octets(octets, change.outcome, change.detail) == change
