"""Gate control lists that switches run, as a draft has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc import planner
from cnc.data_tree.tree import GatesReport, KernelSchedule, PortReport
from cnc.discover import as_data, as_yaml
from cnc.discover.asking import View
from cnc.discover.model import Draft
from cnc.mechanisms.gates.given import GivenLists
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    GateMode,
    PlaceParts,
    Plan,
    PortGates,
    PortRef,
)
from cnc.switch.payload import desired_nodes
from cnc.switch.topology import Identifier, LldpReport, NeighborReport, topology_report
from tests.unit.lying_switches import state_data
from tests.unit.test_discover import accepted, drafted, hears, view

US = 1_000
SHARES = Path(__file__).parents[2] / "schedules" / "shares3.yaml"
# Control 7, cyclic 6, best effort 0, as `cnc init` has them.
MAP = (0, 0, 0, 0, 0, 0, 6, 7)
RULES = {48: 7, 56: 7, 46: 6, 0: 0}
ENTRIES = (GateEntry(0xC0, 300 * US), GateEntry(0x81, 700 * US))


def running(*entries: GateEntry, base_time_ns: int = 0, **more: object) -> GatesReport:
    """The gates of a port whose list lasts for 1 ms."""
    schedule = KernelSchedule(base_time_ns, GateControlList(1000 * US, entries or ENTRIES))
    its = GatesReport("taprio", GateMode.SOFTWARE, "tai", schedule, None, MAP, 8, dict(RULES))
    return dataclasses.replace(its, **more)


def pair(gates: Mapping[str, GatesReport]) -> list[View]:
    """s1/p1 ── p2/s2; each an end station at p3, too; ports of s1 have these gates."""
    s1 = view(1, hears("p1", 2, 2), hears("p3", 8, "eth0", system_name="talker"))
    s2 = view(2, hears("p2", 1, 1), hears("p3", 9, "eth0", system_name="listener"))
    ports = {port: PortReport(PlaceParts.of(its)) for port, its in gates.items()}
    report = dataclasses.replace(s1.report, ports=ports)
    return [dataclasses.replace(s1, report=report), s2]


def lists_of(made: Draft) -> dict[str, tuple[int, tuple[GateEntry, ...]]]:
    """What the intent's own reader takes: base offset and entries."""
    given = accepted(made)[GivenLists].by_port
    return {str(port): (its.base_offset_ns, its.entries) for port, its in given.items()}


def remarks_of(made: Draft) -> str:
    return "\n".join(as_data(made)["remarks"].get("s1", ()))


def test_a_running_list_is_drafted_with_the_classes_whose_gates_it_opens():
    made = drafted(*pair({"p1": running(base_time_ns=5_000_250_000)}))
    assert lists_of(made) == {"s1/p1": (250 * US, ENTRIES)}
    assert "- {open: [control, cyclic], for: 300us}" in as_yaml(made)
    assert "base-offset: 250us" in as_yaml(made)
    classes = accepted(made).classes
    assert {name: (its.number, its.dscps) for name, its in classes.items()} == {
        "control": (7, (48, 56)),
        "cyclic": (6, (46,)),
        "best-effort": (0, (0,)),
    }


def test_a_list_that_waits_for_its_base_time_is_drafted_as_one_that_runs():
    waiting = running()
    waiting = dataclasses.replace(waiting, running=None, pending=waiting.running)
    assert lists_of(drafted(*pair({"p1": waiting}))) == {"s1/p1": (0, ENTRIES)}


def test_a_list_of_tc_is_named_and_how_to_take_it():
    by_hand = GatesReport("foreign: taprio 8001:")
    made = drafted(*pair({"p1": by_hand}))
    assert lists_of(made) == {}
    assert "p1: its list is none of tsn-agent's (taprio 8001:)" in remarks_of(made)
    assert "`cnc import gates` takes the command that set it" in remarks_of(made)


def test_a_list_that_an_intent_cannot_have_is_a_comment_with_the_reason():
    never = running(GateEntry(0xC0, 300 * US), GateEntry(0x80, 700 * US))
    made = drafted(*pair({"p1": running(), "p3": never}))
    assert lists_of(made) == {"s1/p1": (0, ENTRIES)}
    text = as_yaml(made)
    assert "# its list is refused: class best-effort never open" in text
    assert "#     - {open: [control], for: 700us}" in text
    assert "1 gate control list in comments: p3" in remarks_of(made)


def test_a_class_has_frames_that_fit_windows_as_short_as_those_of_planned_streams():
    short = running(GateEntry(0xC0, 8 * US), GateEntry(0x81, 992 * US))
    made = drafted(*pair({"p1": short}))
    assert [*lists_of(made)] == ["s1/p1"]
    assert accepted(made).classes["cyclic"].max_frame_octets == 979


def test_gates_of_classes_that_no_frame_has_are_left_out():
    made = drafted(*pair({"p1": running(GateEntry(0xFF, 1000 * US))}))
    assert lists_of(made) == {"s1/p1": (0, (GateEntry(0xC1, 1000 * US),))}


def test_a_list_at_a_port_without_a_cable_is_named():
    made = drafted(*pair({"p2": running()}))
    assert lists_of(made) == {}
    assert "p2: runs a gate control list, without a cable" in remarks_of(made)


@pytest.mark.parametrize(
    ("said", "remark"),
    [
        ({"clock": "monotonic"}, "it runs by the clock monotonic: no base-offset"),
        ({"extras": ("set-and-hold-mac in entry 1",)}, "beside its list: set-and-hold-mac in"),
    ],
)
def test_what_an_intent_does_not_say_of_a_list_is_a_comment(said: dict[str, object], remark: str):
    made = drafted(*pair({"p1": running(base_time_ns=250 * US, **said)}))
    assert f"# {remark}" in as_yaml(made)
    assert lists_of(made)["s1/p1"][0] == (0 if "clock" in said else 250 * US)


def test_a_list_that_no_switch_can_run_is_named():
    made = drafted(*pair({"p1": running(GateEntry(0x1FF, 1000 * US))}))
    assert "its list is not drafted: p1: found gate states 0x1ff" in remarks_of(made)


def test_gates_are_drafted_in_the_mode_in_which_they_run():
    offloaded = running(mode=GateMode.FULL_OFFLOAD)
    made = drafted(*pair({"p1": offloaded}))
    assert accepted(made).network.gate_mode("s1") is GateMode.FULL_OFFLOAD


def test_a_priority_that_changes_its_class_by_a_push_is_named():
    made = drafted(*pair({"p1": running(priority_map=(0, 0, 0, 0, 0, 6, 6, 7))}))
    assert any("a push lets frames of 5 go as best effort" in each for each in made.remarks)


def test_a_class_that_no_rule_gives_frames_has_an_assumed_dscp():
    each_its_own = running(priority_map=tuple(range(8)), dscp_priorities={48: 7, 56: 7})
    made = drafted(*pair({"p1": each_its_own}))
    assert lists_of(made) == {"s1/p1": (0, ENTRIES)}
    dscps = {its.number: its.dscps for its in accepted(made).classes.values()}
    assert dscps == {7: (48, 56), 6: (1,), 5: (40,), 4: (32,), 3: (24,), 2: (16,), 1: (8,), 0: ()}
    assert "# no rule gives frames this class by their DSCP: it is an assumption" in as_yaml(made)


def test_where_all_dscps_have_a_priority_other_classes_are_best_effort():
    rules = dict.fromkeys(range(64), 7)
    made = drafted(*pair({"p1": running(dscp_priorities=rules)}))
    assert accepted(made).classes["cyclic"].role is ClassRole.BEST_EFFORT


def test_the_draft_of_a_network_plans_what_its_switches_run():
    """Whatever set the lists: here an intent that is lost."""
    plan = planner.plan(intents.load(SHARES))
    found = planner.plan(accepted(drafted(*views_of(plan))))
    assert found.gates == plan.gates
    assert configurations(found) == configurations(plan)


def views_of(plan: Plan) -> list[View]:
    """The switches of a plan, which run it and hear all that they are cabled to."""
    network = plan.intent.network

    def heard(switch: str) -> tuple[NeighborReport, ...]:
        return tuple(
            NeighborReport(
                link.source.port,
                Identifier(link.target.node),
                Identifier(link.target.port, "interface-name"),
                system_name=link.target.node,
            )
            for link in network.links.values()
            if link.source.node == switch
        )

    reports = {name: topology_report(state_data(name, plan)) for name in network.bridges}
    return [
        View(
            network.bridges[name].management,
            dataclasses.replace(its, lldp=LldpReport(Identifier(name), name, heard(name))),
        )
        for name, its in reports.items()
    ]


def configurations(plan: Plan) -> dict[PortRef, object]:
    """What a push would set."""
    return {
        PortRef(node, port): its[PortGates]
        for node, ports in desired_nodes(plan).items()
        for port, its in ports.items()
    }
