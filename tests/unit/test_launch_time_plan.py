"""Launch times in an intent, in plans and in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent as intents
from cnc.check import judge
from cnc.data_tree.tree import Launches, PortReport, TalkerReport
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.launch_time.entries import delta_ns, refused
from cnc.mechanisms.launch_time.model import (
    KernelLaunch,
    Launch,
    LaunchMode,
    LaunchReport,
    PortLaunch,
    StationLaunch,
)
from cnc.mechanisms.launch_time.place import AT_PLACE
from cnc.mechanisms.launch_time.registration import MECHANISM
from cnc.model import GateControlList, GateEntry, Plan, TalkerStreams
from cnc.model.parts import PlaceParts
from cnc.planner import plan
from cnc.switch.payload import desired_nodes, with_former

SCHEDULES = Path(__file__).parents[2] / "schedules"
LAUNCHED = {"management": "10.99.0.11", "launch-time": "software"}


def document(**t1: Any) -> dict[str, Any]:
    found = yaml.safe_load((SCHEDULES / "line3.yaml").read_text())
    found["defaults"]["gate-margin"] = "1us"
    found["end-stations"] = dict.fromkeys(found["end-stations"]) | {"t1": t1}
    for its in found["streams"].values():
        its["max-latency"] = "900us"
    return found


def planned(**t1: Any) -> Plan:
    return plan(intents.from_document(document(**t1), "line3"))


def refusal_of(**t1: Any) -> str:
    with pytest.raises(InputError) as caught:
        intents.from_document(document(**t1), "line3")
    return str(caught.value)


def figures(of: Plan) -> list[str]:
    return [
        f"{its.name} {its.value_ns} ns ({its.source})" for its in MECHANISM.measured.figures(of)
    ]


def report(**by_priority: KernelLaunch) -> PortReport:
    found = {int(name[1:]): its for name, its in by_priority.items()}
    return PortReport(PlaceParts.of(LaunchReport(found)))


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"launch-time": "software"}, "t1.launch-time: found software without management"),
        ({"launch-error": "1us"}, "t1.launch-error: found 1us without launch-time"),
        ({"launch-delta": "1us"}, "t1.launch-delta: found 1us without launch-time"),
        ({**LAUNCHED, "launch-delta": "0ns"}, "t1.launch-delta: found 0ns, expected more than 0"),
        ({**LAUNCHED, "launch-delta": "3s"}, "t1.launch-delta: found 3s"),
        ({**LAUNCHED, "launch-time": "etf"}, "expected one of software, hardware"),
        ({**LAUNCHED, "launch-error": "5ms"}, "t1.launch-error: found 5ms, expected less than"),
    ],
)
def test_what_has_no_effect_or_cannot_be_is_refused(keys, problem):
    assert problem in refusal_of(**keys)


def test_all_priorities_of_a_station_get_it_at_the_port_where_streams_leave():
    asked = desired_nodes(planned(**LAUNCHED), ["t1"])["t1"]["eth0"]
    launch = asked[PortLaunch].configuration
    assert launch
    assert set(launch.priorities) == {each.priority for each in asked[TalkerStreams].streams}
    assert (launch.mode, launch.delta_ns) == (LaunchMode.SOFTWARE, 500_000)


def test_beside_gates_times_are_in_the_entries_of_the_instants():
    gated = planned(**LAUNCHED, gates="software")
    launch = desired_nodes(gated, ["t1"])["t1"]["eth0"][PortLaunch].configuration
    assert launch
    (cycle_ns,) = (its.cycle_ns for port, its in gated.gates.items() if port.node == "t1")
    assert launch.delta_ns == cycle_ns + 1
    assert 0 in gated.streams["torque"].talker_offsets_ns


def test_a_time_at_which_an_entry_begins_is_refused():
    keys = {**LAUNCHED, "gates": "software", "launch-time": "hardware"}
    with pytest.raises(Unschedulable, match="a frame of torque that leaves at 0 ns is not within"):
        planned(**keys)
    found = document(**keys)
    found["streams"]["torque"]["window"] = {"earliest": "1us"}
    launch = desired_nodes(plan(intents.from_document(found, "line3")), ["t1"])["t1"]["eth0"]
    assert launch[PortLaunch].configuration.delta_ns == 500_000


def test_a_delta_of_cycles_beyond_what_the_kernel_takes_is_refused():
    gates = GateControlList(2**31, (GateEntry(0xFF, 2**31),))
    assert delta_ns(StationLaunch(LaunchMode.SOFTWARE), gates) == 2**31 + 1
    gated = planned(**LAUNCHED, gates="software")
    (port,) = (each for each in gated.gates if each.node == "t1")
    found = refused(replace(gated, gates={port: gates}))
    assert "a delta of whole cycles of t1/eth0 is 2147483649 ns" in found["t1"]


def test_a_station_without_the_key_keeps_what_another_client_configures():
    asked = desired_nodes(planned(management="10.99.0.11"), ["t1"])["t1"]["eth0"]
    assert asked.get(PortLaunch) is None


def test_what_only_the_plan_before_had_has_to_go():
    before, after = planned(**LAUNCHED), planned(management="10.99.0.11")
    asked = with_former(desired_nodes(after, ["t1"]), before)["t1"]["eth0"]
    assert asked.get(PortLaunch) == PortLaunch()


def test_a_bound_is_smaller_by_the_lateness_of_the_program_less_the_error_of_the_release():
    launched = planned(**LAUNCHED, **{"talker-lateness": "80us", "launch-error": "20us"})
    sent_by_program = planned(management="10.99.0.11", **{"talker-lateness": "80us"})
    its = [name for name, each in launched.intent.streams.items() if each.talker == "t1"]
    for name in its:
        bound_ns, before_ns = (
            of.streams[name].latency_bound_ns for of in (launched, sent_by_program)
        )
        assert before_ns - bound_ns == 60_000
    assert judge(launched) == []
    (text,) = figures(launched)
    assert text == (
        "launch error of t1 20000 ns (software; 60 µs less in the latency bound of each of "
        f"{len(its)} streams in windows of their own than with talker-lateness 80 µs)"
    )


def test_without_a_stated_error_the_gate_margin_counts():
    launched = planned(**LAUNCHED)
    assert launched.intent.network.lateness_ns("t1") == 1_000
    assert figures(launched) == ["launch error of t1 1000 ns (software, as the gate margin)"]


def test_an_error_of_the_release_is_named_where_it_leaves_no_room():
    found = document(**LAUNCHED, **{"launch-error": "100us"})
    found["streams"]["motion"]["max-latency"] = "50us"
    with pytest.raises(Exception, match=r"the talker's own lateness 100 µs \(launch-error\)"):
        plan(intents.from_document(found, "line3"))


ASKED = PortLaunch(Launch(LaunchMode.SOFTWARE, 1_000, (3, 5)))
SHOWN = KernelLaunch(LaunchMode.SOFTWARE, 1_000, 4)


@pytest.mark.parametrize(
    ("asked", "shown", "difference"),
    [
        (ASKED, {"p3": SHOWN, "p5": SHOWN}, None),
        (ASKED, {"p3": SHOWN}, "launch time of priority 5 is none, expected software, delta 1 µs"),
        (
            ASKED,
            {"p3": SHOWN._replace(delta_ns=2_000), "p5": SHOWN},
            "launch time of priority 3 is software, delta 2 µs, expected software, delta 1 µs",
        ),
        (
            PortLaunch(),
            {"p3": SHOWN},
            "launch time of priority 3 is software, delta 1 µs, expected none",
        ),
        (PortLaunch(), {}, None),
    ],
)
def test_what_the_kernel_does_otherwise_is_told(asked, shown, difference):
    assert AT_PLACE.differs(asked, report(**shown), None) == difference


def test_frames_that_were_discarded_are_no_other_launch_time():
    before, now = report(p3=SHOWN), report(p3=SHOWN._replace(discarded_frames=9))
    assert AT_PLACE.since(before, now) is None
    assert AT_PLACE.since(before, report()) == "the launch time is not the same as before"


def test_frames_that_did_not_leave_are_told():
    said = {("motion", 1): Launches(3, 1), ("torque", 1): Launches(0, 0)}
    its = PortReport(PlaceParts.of(TalkerReport(launches=said)))
    text = "frames did not leave: motion (3 missed their time, 1 refused)"
    assert AT_PLACE.lost(its) == text
    assert AT_PLACE.lost(PortReport()) is None


@pytest.mark.parametrize("part", [ASKED, PortLaunch()])
def test_the_history_has_it_as_it_was(part):
    kept = AT_PLACE.kept
    assert kept
    assert kept.part(tuple(kept.rows(part))) == part
