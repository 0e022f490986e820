"""The watch's core: what is seen of switches goes in, what an operator is told comes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cnc.data_tree.counters import PortCounters
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, ClassTraffic, GatesReport, PtpReport
from cnc.mechanisms.multipath.leaves import MULTIPATH
from cnc.mechanisms.talker_offsets.tree import TalkerReport
from cnc.model import ClassRole, GateControlList, StoredGates, WakeUps
from cnc.switch.rollout_id import RolloutId
from cnc.switch.subscription import NETCONF_EVENTS
from cnc.watch import judge
from cnc.watch.observer import Observer
from tests.unit.places import changed, stored_gates
from tests.unit.watched_switches import PLAN, bare, poll, received, report, unreachable

CHECKOUT = Path(__file__).parents[2]
OURS = "11111111-1111-4111-8111-111111111111"
THEIRS = "22222222-2222-4222-8222-222222222222"
SCHEDULED = next(c for c in PLAN.intent.classes.values() if c.role is ClassRole.SCHEDULED).number
BEST_EFFORT = PLAN.intent.classes_with(ClassRole.BEST_EFFORT)[0].number


@pytest.fixture
def observer():
    return Observer(PLAN, is_known=lambda identity: identity == OURS)


def told(events):
    return [(e.what, e.kind, e.switch, e.port) for e in events]


def began(kind, switch, port=""):
    return [("began", kind, switch, port)]


def ended(kind, switch, port=""):
    return [("ended", kind, switch, port)]


def test_switches_that_run_the_plan_are_no_news(observer):
    assert [e for name in ("s1", "s2", "s3") for e in observer.take(poll(name))] == []


def test_a_lost_schedule_is_told_once_when_it_is_lost_and_once_when_it_is_back(observer):
    lost = {"ports": lambda reports: bare(reports, "s3")}
    (event,) = observer.take(poll("s2", 0, **lost))
    assert told([event]) == began("drift", "s2", "s3")
    assert "no gate control list" in event.text
    assert observer.take(poll("s2", 10, **lost)) == []
    (event,) = observer.take(poll("s2", 20))
    assert told([event]) == ended("drift", "s2", "s3")
    assert (event.at - event.since).total_seconds() == 20


def test_gates_that_open_later_than_the_plan_allows_are_told_once_for_their_switch(
    observer, monkeypatch
):
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)
    late = {
        "ports": lambda reports: {
            port: changed(each, wake_ups=WakeUps(400, 43_210)) for port, each in reports.items()
        }
    }
    (event,) = observer.take(poll("s1", 0, **late))
    assert told([event]) == began("gate-margin", "s1")
    assert event.text == (
        "its gates open up to 43.21 µs late (the latest of 400 wake-ups); the plan allows for 0 ns"
    )
    assert observer.take(poll("s1", 10, **late)) == []
    (event,) = observer.take(poll("s1", 20))
    assert told([event]) == ended("gate-margin", "s1")


def test_talkers_that_send_later_than_the_plan_allows_are_told(monkeypatch):
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)
    talkers = TalkerReport(lateness={("motion", 1): WakeUps(3_000, 43_000)})
    eth0 = changed(report(None), talkers)
    state = SwitchState(AgentReport(37, 100), {"eth0": eth0}, 0, 0)
    station = dataclasses.replace(poll("s1"), switch="t1", state=state)
    found = judge.late(station, {"eth0": None}, PLAN.intent)
    assert found == {
        "gate-margin": {},
        "talker-lateness": {
            "eth0": "its talkers send up to 43 µs late (the latest of 3,000 periods); the plan "
            "allows for 0 ns"
        },
    }


def test_a_reported_drift_is_told_at_once_and_lasts_until_the_port_is_seen_to_be_right(observer):
    observer.take(poll("s2", 0))
    (event,) = observer.take(
        received("s2", "port-drift", interface="s3", difference="the gate control list is gone")
    )
    assert told([event]) == began("drift", "s2", "s3")
    assert event.text == "the gate control list is gone"
    assert observer.take(poll("s2", 1, ports=lambda reports: bare(reports, "s3"))) == []
    assert told(observer.take(poll("s2", 2))) == ended("drift", "s2", "s3")


def test_a_reported_drift_that_the_agent_takes_back_is_over_with_the_next_look(observer):
    observer.take(received("s2", "port-drift", interface="s3", difference="gone"))
    assert observer.take(received("s2", "port-restored", interface="s3")) == []
    assert told(observer.take(poll("s2", 1))) == ended("drift", "s2", "s3")


def test_a_drift_of_a_port_that_vanished_is_over_when_it_is_back_and_right(observer):
    observer.take(poll("s2", 0))
    observer.take(received("s2", "port-drift", interface="s3", difference="gone"))
    gone = {"ports": lambda reports: {p: r for p, r in reports.items() if p != "s3"}}
    assert told(observer.take(poll("s2", 1, **gone))) == began("link-down", "s2", "s3")
    assert told(observer.take(poll("s2", 2))) == [
        *ended("drift", "s2", "s3"),
        *ended("link-down", "s2", "s3"),
    ]


def test_a_reported_drift_of_a_port_that_is_not_in_the_plan_is_not_ours(observer):
    assert observer.take(received("s2", "port-drift", interface="eth9", difference="gone")) == []


def test_what_was_reported_before_the_agent_died_does_not_outlive_it(observer):
    observer.take(received("s2", "port-drift", interface="s3", difference="gone"))
    observer.take(received("s2", "agent-started", pid="7"))
    assert told(observer.take(poll("s2", 1))) == ended("drift", "s2", "s3")


def test_what_was_reported_before_the_session_broke_may_be_over(observer):
    observer.take(received("s2", "port-drift", interface="s3", difference="gone"))
    observer.take(unreachable("s2"))
    assert ended("drift", "s2", "s3")[0] in told(observer.take(poll("s2", 1)))


def test_a_switch_that_gives_no_answer_is_told_once_and_nothing_else_of_it_ends(observer):
    observer.take(poll("s2", 0, ports=lambda reports: bare(reports, "s3")))
    (event,) = observer.take(unreachable("s2", "cannot reach the NETCONF server"))
    assert told([event]) == began("unreachable", "s2")
    assert event.text == "cannot reach the NETCONF server"
    assert observer.take(unreachable("s2")) == []
    assert told(observer.take(poll("s2", 30))) == [
        *ended("unreachable", "s2"),
        *ended("drift", "s2", "s3"),
    ]


def test_without_an_agent_nothing_is_said_of_the_kernel(observer):
    observer.take(poll("s2", 0, ports=lambda reports: bare(reports, "s3")))
    assert told(observer.take(poll("s2", 10, agent=None))) == began("agent-down", "s2")
    assert observer.snapshot().drifted == frozenset()
    assert told(observer.take(poll("s2", 20))) == [
        *ended("agent-down", "s2"),
        *ended("drift", "s2", "s3"),
    ]


def waiting(sent):
    def ports(reports):
        traffic = {SCHEDULED: ClassTraffic(sent, 1000), BEST_EFFORT: ClassTraffic(0, 1000)}
        return {**reports, "s3": changed(reports["s3"], traffic=traffic)}

    return ports


def test_a_scheduled_class_that_sends_nothing_is_starved_until_it_does(observer):
    assert observer.take(poll("s2", 0, ports=waiting(5))) == []
    (event,) = observer.take(poll("s2", 10, ports=waiting(5)))
    assert told([event]) == began("starved", "s2", "s3")
    assert event.text == f"class {SCHEDULED} has 1000 frames waiting and sent none in 10 s"
    assert observer.take(poll("s2", 15, agent=None))[0].kind == "agent-down"
    observer.take(poll("s2", 20, ports=waiting(5)))
    assert observer.take(poll("s2", 30, ports=waiting(5))) == []
    assert told(observer.take(poll("s2", 40, ports=waiting(6)))) == ended("starved", "s2", "s3")


def test_a_port_configured_for_another_plan_is_no_drift(observer):
    def other(stored):
        gates = GateControlList(1_000_000, ())
        configuration = dataclasses.replace(stored["s3"][StoredGates].configuration, gates=gates)
        return {**stored, "s3": stored_gates(configuration)}

    (event,) = observer.take(poll("s2", 0, stored=other))
    assert told([event]) == began("configuration", "s2", "s3")
    assert event.text == "another gate control list is configured"
    assert observer.snapshot().drifted == frozenset()


def test_what_is_configured_beside_the_plan_is_told(observer):
    def beside(stored):
        limit = "queue-max-sdu of 46 octets for traffic class 6"
        return {
            **stored,
            "s3": stored_gates(stored["s3"][StoredGates].configuration, extras=(limit,)),
        }

    (event,) = observer.take(poll("s2", 0, stored=beside))
    assert told([event]) == began("configuration", "s2", "s3")
    assert event.text == (
        "also configured, but in no plan: queue-max-sdu of 46 octets for traffic class 6"
    )


def test_a_rollout_that_the_history_does_not_know_is_told_with_its_author(observer):
    assert observer.take(poll("s1", 0, rollout_id=RolloutId(OURS, "ann@noc", "now"))) == []
    (event,) = observer.take(
        poll("s1", 10, rollout_id=RolloutId(THEIRS, "bob@laptop", "2026-11-21T14:00Z"))
    )
    assert told([event]) == began("foreign-change", "s1")
    assert "bob@laptop" in event.text
    assert THEIRS in event.text


def test_a_link_that_goes_down_and_an_interface_that_goes_away_are_told(observer):
    down = {
        "ports": lambda reports: {
            **reports,
            "s3": dataclasses.replace(reports["s3"], oper_status="lower-layer-down"),
        }
    }
    (event,) = observer.take(poll("s2", 0, **down))
    assert told([event]) == began("link-down", "s2", "s3")
    assert event.text == "the link is lower-layer-down"
    gone = {"ports": lambda reports: {p: r for p, r in reports.items() if p != "s3"}}
    assert observer.take(poll("s2", 10, **gone)) == []
    assert told(observer.take(poll("s2", 20))) == ended("link-down", "s2", "s3")


def test_ptp_that_loses_its_master_is_told_where_it_runs(observer):
    locked = AgentReport(37, 0, ptp=PtpReport("a", False, 12, ("slave", "master")))
    searching = AgentReport(37, 0, ptp=PtpReport("b", False, None, ("listening",)))
    assert observer.take(poll("s1", 0, agent=locked)) == []
    assert told(observer.take(poll("s1", 10, agent=searching))) == began("ptp-unlocked", "s1")
    assert told(observer.take(poll("s1", 20, agent=locked))) == ended("ptp-unlocked", "s1")


def test_gates_that_wait_for_the_clock_are_told_with_what_it_lacks(observer: Observer) -> None:
    lacking = "unmanaged: the kernel has no TAI offset"
    waiting = AgentReport(37, 100, gates_wait=lacking)
    assert told(observer.take(poll("s1"))) == []
    (event,) = observer.take(poll("s1", 10, agent=waiting))
    assert (event.kind, event.switch) == ("gates-wait", "s1")
    assert event.text == f"gates wait for the clock: {lacking}"
    assert told(observer.take(poll("s1", 20))) == ended("gates-wait", "s1")


def test_a_clock_that_leaves_the_others_is_told_of_that_switch_alone(observer):
    for name in ("s1", "s2", "s3"):
        assert observer.take(poll(name, 0)) == []
    (event,) = observer.take(poll("s1", 1, clock_ahead_ns=-37_000_000_000))
    assert told([event]) == began("clock-offset", "s1")
    assert "behind that of s" in event.text
    assert told(observer.take(poll("s1", 2))) == ended("clock-offset", "s1")


def following(name, parent, offset_ns):
    """An agent whose ptp4l follows that of another switch, or none."""
    states = ("slave", "master") if parent else ("master",)
    ptp = PtpReport("s1", parent is None, offset_ns, states, identity=name, parent=parent or name)
    return AgentReport(37, 0, ptp=ptp)


def test_streams_that_cross_clocks_further_apart_than_planned_are_named_before_they_are_late(
    observer,
):
    error_ns = PLAN.intent.network.clock_error_ns
    observer.take(poll("s1", 0, agent=following("s1", None, None)))
    observer.take(poll("s2", 2, agent=following("s2", "s1", error_ns // 2)))
    assert observer.take(poll("s3", 4, agent=following("s3", "s2", error_ns // 2))) == []
    (event,) = observer.take(poll("s3", 6, agent=following("s3", "s2", -error_ns)))
    assert told([event]) == began("clock-error", "")
    assert "the clocks of s1 and s3 are up to" in event.text
    late = sorted(
        name
        for name, planned in PLAN.streams.items()
        if {"s1", "s3"} <= {hop.egress.node for hop in planned.hops}
    )
    assert f"{len(late)} streams may be late: {', '.join(late)}" in event.text
    assert told(observer.take(poll("s3", 8, agent=following("s3", "s2", 0)))) == ended(
        "clock-error", ""
    )


def test_a_tai_offset_that_others_do_not_have_is_told_of_the_odd_one(observer):
    for name in ("s1", "s2"):
        assert observer.take(poll(name, 0)) == []
    (event,) = observer.take(poll("s3", 0, agent=AgentReport(0, 0)))
    assert told([event]) == began("tai-offset", "s3")
    assert event.text == "TAI is 0 s ahead of UTC here, 37 s on the other switches"


def counting(port, **counters):
    return {"counters": {port: PortCounters(**counters)}}


def test_counters_are_told_when_they_move_and_not_what_they_had_counted_before(observer):
    observer.take(poll("s2", 0, **counting("s3", drops={SCHEDULED: 1000})))
    assert observer.take(poll("s2", 10, **counting("s3", drops={SCHEDULED: 1000}))) == []
    (event,) = observer.take(poll("s2", 20, **counting("s3", drops={SCHEDULED: 1003})))
    assert told([event]) == began("drops", "s2", "s3")
    assert event.text == f"3 frames of class {SCHEDULED} dropped"


def test_a_counter_that_rests_for_a_minute_is_over_and_all_it_counted_is_told(observer):
    for after_s, count in ((0, 0), (10, 3), (20, 5), (30, 5), (79, 5)):
        observer.take(poll("s2", after_s, **counting("s3", overruns={1: count})))
    (event,) = observer.take(poll("s2", 80, **counting("s3", overruns={1: 5})))
    assert told([event]) == ended("overruns", "s2", "s3")
    assert event.text == "5 frames of class 1 still being sent when the gate closed"


def test_a_counter_that_began_anew_has_moved_by_what_it_shows(observer):
    observer.take(poll("s2", 0, **counting("s3", config_change_errors=9)))
    (event,) = observer.take(poll("s2", 10, **counting("s3", config_change_errors=2)))
    assert told([event]) == began("config-change-error", "s2", "s3")
    assert event.text.startswith("2 schedules")


def test_a_best_effort_queue_may_drop(observer):
    observer.take(poll("s2", 0, **counting("s3", drops={BEST_EFFORT: 0})))
    assert observer.take(poll("s2", 10, **counting("s3", drops={BEST_EFFORT: 500}))) == []


@pytest.mark.parametrize(
    ("name", "leaves", "port", "text"),
    [
        (
            "mode-changed",
            {"token": "7", "mode": "reliability", "before": "single-path", "reason": "radio"},
            "",
            "connection 7 is reliability, was single-path: radio",
        ),
        (
            "fall-back",
            {"local": "10.1.0.1", "remote": "10.1.0.9", "remote_port": "443"},
            "",
            "the connection from 10.1.0.1 to 10.1.0.9 port 443 is plain TCP",
        ),
        (
            "data-limit-near",
            {"interface": "wwan0", "octets": "4000000000"},
            "wwan0",
            "4000000000 octets of its data limit are used up",
        ),
        (
            "path-demoted",
            {"interface": "wwan0", "reason": "its data limit is used up"},
            "wwan0",
            "is a backup of every connection: its data limit is used up",
        ),
        (
            "path-restored",
            {"interface": "wwan0"},
            "wwan0",
            "is again what the modes of connections make of it",
        ),
    ],
)
def test_what_becomes_of_connections_and_their_paths_is_noted(observer, name, leaves, port, text):
    (event,) = observer.take(received("s1", name, MULTIPATH, **leaves))
    assert (event.what, event.kind, event.port, event.text) == ("noted", name, port, text)
    # Each leaf is one of the module, by which agents notify.
    module = (CHECKOUT / "yang" / "tsn-multipath.yang").read_text()
    notification = module[module.index(f"notification {name} {{") :].split("notification ")[1]
    for leaf in leaves:
        assert f"leaf {leaf.replace('_', '-')} {{" in notification


def test_subflows_that_come_and_go_are_not_told(observer):
    assert observer.take(received("s1", "subflow-opened", MULTIPATH, interface="wwan0")) == []


@pytest.mark.parametrize(
    ("name", "leaves", "kind", "text"),
    [
        ("netconf-config-change", {}, "configuration-changed", "by the switch itself"),
        ("netconf-config-change", {"datastore": "startup"}, None, ""),
        ("netconf-confirmed-commit", {"confirm_event": "start"}, None, ""),
        (
            "netconf-confirmed-commit",
            {"confirm_event": "timeout"},
            "commit-taken-back",
            "not confirmed in time",
        ),
        (
            "netconf-confirmed-commit",
            {"confirm_event": "cancel", "username": "ann", "source_host": "192.0.2.7"},
            "commit-taken-back",
            "by ann from 192.0.2.7",
        ),
        ("netconf-session-start", {"username": "ann"}, None, ""),
    ],
)
def test_who_changes_the_configuration_is_noted(observer, name, leaves, kind, text):
    events = observer.take(received("s1", name, NETCONF_EVENTS, **leaves))
    assert [(e.what, e.kind, e.text) for e in events] == ([("noted", kind, text)] if kind else [])


def test_a_clock_step_is_noted_with_its_size(observer):
    (event,) = observer.take(received("s1", "clock-step", tai_offset="37", step_ns="-1500000000"))
    assert event.text == "CLOCK_TAI moved 1.5 s back, TAI offset 37 s"


def test_a_pending_schedule_agrees(observer):
    def pending(reports):
        running = reports["s3"][GatesReport].running
        return {**reports, "s3": changed(reports["s3"], running=None, pending=running)}

    assert observer.take(poll("s2", 0, ports=pending)) == []
    assert report(None)[GatesReport].newest is None


def test_what_switches_run_is_not_judged_while_another_plan_is_under_way(observer):
    lost = {"ports": lambda reports: bare(reports, "s3")}
    first = observer.hold()
    second = observer.hold()  # the next push has begun before the last one was taken up
    observer.follow(PLAN, poll("s2", 5).at, first)
    assert observer.take(poll("s2", 10, **lost)) == []
    observer.release(poll("s2", 15).at, second)
    assert told(observer.take(poll("s2", 20, **lost))) == began("drift", "s2", "s3")
