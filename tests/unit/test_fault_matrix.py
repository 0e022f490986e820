"""What the fault matrix calls one schedule, and how it shows what it found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agent.mechanisms.gates.model import GateEntry, GateSchedule
from cnc.check.transition import judge_transition
from cnc.model import Plan, StreamAddress
from cnc.plans.transition import transition
from tests.fault.copies import kept
from tests.fault.director import Direction
from tests.fault.kernels import Gates, Side, Sides
from tests.fault.matrix import cases, distinct
from tests.fault.network import STRUCK, Subject, telling_ports, two_plans
from tests.fault.table import Fault, Recovery, Row, from_json, to_json, to_markdown
from tests.fault.ways import planned, told

MS = 1_000_000
START_NS = 1_000 * MS
SOUND = Row(1, "cnc: before lock running", Fault.LINK, 10, 0, 0, Recovery.NONE, 1, 0, 20)


@pytest.fixture(scope="module")
def sides() -> Sides:
    return Sides(*two_plans())


def running(plan: Plan, base_time_ns: int = 0) -> dict:
    """All ports as they are once a plan's base time has passed."""
    return {port: Gates(START_NS, _list(plan, port, base_time_ns)) for port in plan.gates}


def _list(plan, port, base_time_ns):
    gates = plan.gates[port]
    entries = tuple(GateEntry(e.gate_states, e.interval_ns) for e in gates.entries)
    return GateSchedule(base_time_ns, gates.cycle_ns, entries)


def test_the_two_schedules_differ_on_every_port(sides):
    assert len(sides.old.gates) == 10
    assert set(sides.old.gates) == set(sides.new.gates)
    assert all(sides.old.gates[port] != sides.new.gates[port] for port in sides.old.gates)


def test_a_network_at_rest_is_on_the_schedule_that_all_ports_run(sides):
    assert set(sides.at_rest(running(sides.old)).values()) == {Side.OLD}
    assert set(sides.at_rest(running(sides.new)).values()) == {Side.NEW}


def test_one_port_on_the_other_schedule_is_seen(sides):
    port = next(iter(sides.old.gates))
    snapshot = running(sides.old) | {port: running(sides.new)[port]}
    assert sides.at_rest(snapshot)[port] is Side.NEW
    assert list(sides.at_rest(snapshot).values()).count(Side.OLD) == 9


def test_a_port_without_gates_or_with_gates_of_nobody_is_on_neither(sides):
    port = next(iter(sides.old.gates))
    foreign = GateSchedule(0, MS, (GateEntry(0xFF, MS),))
    for schedule in (None, foreign):
        snapshot = running(sides.old) | {port: Gates(START_NS, schedule)}
        assert sides.at_rest(snapshot)[port] is Side.NEITHER


def test_a_port_whose_next_list_still_waits_is_not_at_rest(sides):
    port = next(iter(sides.old.gates))
    waiting = replace(running(sides.old)[port], pending=_list(sides.new, port, 2 * START_NS))
    assert sides.at_rest(running(sides.old) | {port: waiting})[port] is Side.NEITHER


def test_the_right_lists_out_of_phase_are_no_schedule_of_the_network(sides):
    port = next(iter(sides.old.gates))
    late = running(sides.old, base_time_ns=MS // 2)[port]
    snapshot = running(sides.old) | {port: late}
    assert set(sides.at_rest(snapshot).values()) == {Side.NEITHER}


def test_whole_cycles_apart_is_in_phase(sides):
    port = next(iter(sides.old.gates))
    earlier = running(sides.old, base_time_ns=7 * MS)[port]
    snapshot = running(sides.old) | {port: earlier}
    assert set(sides.at_rest(snapshot).values()) == {Side.OLD}


def test_a_waiting_list_comes_into_force_at_its_base_time(sides):
    port = next(iter(sides.old.gates))
    later, past = START_NS + 5 * MS, START_NS // 2 + 1
    waiting = replace(running(sides.old)[port], pending=_list(sides.new, port, later))
    assert sides.of(port, waiting.in_force(later - 1)) is Side.OLD
    assert sides.of(port, waiting.in_force(later)) is Side.NEW
    # A base time in the past means the next of its cycles.
    waiting = replace(waiting, pending=_list(sides.new, port, past))
    assert waiting.switch_over_ns == START_NS + 1


def test_the_time_on_two_schedules_runs_from_the_first_switch_over_to_the_last(sides):
    early, late = START_NS + 3 * MS, START_NS + 5 * MS
    changing = {
        port: replace(gates, pending=_list(sides.new, port, early if port.node == "s1" else late))
        for port, gates in running(sides.old).items()
    }
    assert sides.mixed_ns([changing], START_NS + 100 * MS) == 2 * MS
    together = {
        port: replace(gates, pending=_list(sides.new, port, late))
        for port, gates in running(sides.old).items()
    }
    assert sides.mixed_ns([together], START_NS + 100 * MS) == 0


def test_a_list_taken_back_before_it_came_into_force_mixes_nothing(sides):
    port = next(iter(sides.old.gates))
    waiting = replace(running(sides.old)[port], pending=_list(sides.new, port, START_NS + 5 * MS))
    taken_back = Gates(START_NS + 4 * MS, _list(sides.old, port, 0))
    before, after = running(sides.old) | {port: waiting}, running(sides.old) | {port: taken_back}
    assert sides.mixed_ns([before, after], START_NS + 100 * MS) == 0


def test_each_step_meets_each_fault_and_half_of_each_fault_is_resumed():
    wanted = cases(["one", "two"])
    assert {(case.step, case.fault) for case in wanted} == {
        (step, fault) for step in ("one", "two") for fault in Fault
    }
    for fault in Fault:
        choices = [case.choice for case in wanted if case.fault is fault]
        assert sorted(choices) == [Recovery.RESUME, Recovery.ROLLBACK]


def test_the_second_time_at_a_place_is_a_step_of_its_own_and_each_step_is_struck_once():
    struck = []
    direction = Direction("here (2)", lambda: struck.append(len(direction.steps)))
    for place in ("here", "there", "here", "here"):
        direction.arrive(place)
    assert direction.steps == ["here", "there", "here (2)", "here (3)"]
    assert struck == [3]
    assert direction.has_struck


def test_a_strike_that_fails_is_heard_of():
    direction = Direction("here", lambda: 1 // 0)
    direction.arrive("here")
    with pytest.raises(ZeroDivisionError):
        _ = direction.has_struck


def test_a_row_is_sound_only_if_every_switch_was_attacked_in_it():
    assert not replace(SOUND, attacks=0).is_sound


def test_a_row_is_sound_only_if_it_was_struck_and_ends_on_one_schedule():
    assert SOUND.is_sound
    assert SOUND.outcome == "old"
    assert replace(SOUND, ports_on_old=0, ports_on_new=10).outcome == "new"
    assert not replace(SOUND, has_struck=False).is_sound
    for mixed in (
        replace(SOUND, ports_on_old=9, ports_on_new=1),
        replace(SOUND, ports_on_old=9, ports_on_neither=1),
    ):
        assert mixed.outcome == "mixed"
        assert not mixed.is_sound


def test_the_json_has_what_a_reader_of_the_matrix_asks_for():
    (row,) = json.loads(to_json([SOUND]))
    expected = {"step": SOUND.step, "fault": "link cut", "outcome": "old"}
    assert row.items() >= (expected | {"ports_on_old": 10, "ports_on_new": 0}).items()


def test_rows_come_back_from_their_json():
    assert from_json(to_json([SOUND])) == [SOUND]


def test_the_table_has_a_line_a_step_and_shouts_what_is_wrong():
    rows = [
        SOUND,
        replace(SOUND, fault=Fault.AGENT, recovery=Recovery.ROLLBACK, mixed_ns=2_500 * MS),
        replace(SOUND, step="cnc: after lock running", ports_on_old=7, ports_on_new=3),
        replace(SOUND, step="cnc: after lock running", fault=Fault.AGENT, attacks=0),
    ]
    assert to_markdown(rows).splitlines() == [
        "| step | agent killed | link cut |",
        "|---|---|---|",
        "| cnc: before lock running | old, `--rollback`, mixed for 2.5 s | old |",
        "| cnc: after lock running | **not attacked** | **MIXED: 7 old, 3 new** |",
    ]


def test_requests_that_only_ask_one_after_another_are_one_step():
    asked = [
        "before netlink RTM_GETLINK",
        "before netlink generic",
        "before netlink RTM_GETLINK (2)",
    ]
    steps = [f"tsn-agent: {step}" for step in [*asked, "before netlink RTM_NEWQDISC"]]
    steps += ["tsn-agent: before netlink RTM_GETLINK (3)", "cnc: after get-data"]
    steps += ["tsn-agent: before netlink RTM_GETLINK (4)", "tsn-agent: before netlink generic (2)"]
    assert distinct(steps) == [*steps[:2], *steps[3:7]]


def test_the_end_of_a_change_is_the_beginning_of_the_next_one():
    changes = ("after batch RTM_NEWMDB", "before BPF update", "after BPF update")
    again = ("before BPF update (2)", "after BPF update (2)", "before netlink RTM_GETLINK")
    steps = [f"tsn-agent: {step}" for step in (*changes, *again)]
    assert distinct(steps) == [*steps[:3], *steps[4:]]
    between = [*steps, "cnc: after connect", "tsn-agent: before BPF update (3)"]
    assert distinct(between)[-2:] == between[-2:]
    controllers = [f"cnc: {step}" for step in (*changes, *again)]  # it changes other switches, too
    assert distinct(controllers) == controllers


# --- a network of bridges ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forwarding", "strays", "is_sound"),
    [("old", 0, True), ("new", 0, False), ("neither", 0, False), ("old", 1, False)],
)
def test_a_row_of_bridges_ends_on_the_forwarding_of_its_schedule(
    forwarding: str, strays: int, is_sound: bool
):
    row = replace(SOUND, forwarding=forwarding, strays=strays)
    assert row.outcome == "old"
    assert row.is_sound is is_sound
    assert ("**" in to_markdown([row])) is not is_sound


@pytest.mark.parametrize(
    ("guards", "lost", "doubled", "is_sound"),
    [
        ("old", 0, 0, True),
        ("new", 0, 0, False),
        ("neither", 0, 0, False),
        ("old", 1, 0, False),
        ("old", 0, 1, False),
    ],
)
def test_a_row_of_guarded_streams_ends_on_the_guards_of_its_schedule_with_one_copy_of_each_frame(
    guards: str, lost: int, doubled: int, is_sound: bool
):
    frames = {"frames_sent": 100, "frames_lost": lost, "frames_doubled": doubled}
    row = replace(SOUND, forwarding="old", guards=guards, **frames)
    assert row.is_sound is is_sound
    assert ("**" in to_markdown([row])) is not is_sound


def test_rows_of_before_are_read():
    (document,) = json.loads(to_json([SOUND]))
    for later in ("forwarding", "strays", "guards", "frames_sent", "frames_lost", "frames_doubled"):
        del document[later]
    assert from_json(json.dumps([document])) == [SOUND]


def test_every_stream_of_the_triangle_has_another_way_and_address_in_either_schedule():
    old, new = two_plans(Subject.BRIDGED)
    assert set(transition(old, new).moved) == set(transition(new, old).moved) == {"there", "back"}
    assert judge_transition(new, old, transition(old, new)) == []
    assert {port.node for port in telling_ports(old, new)} == {"s1", "s2", "s3"}
    assert not planned(old) & planned(new)
    assert kept(old, new) == ("there", "back")
    assert any(switch == STRUCK for switch, _, _ in planned(old))


def test_a_line_that_is_half_written_tells_of_no_entry():
    lines = (
        "dev br0 port s2 grp 03:54:53:4e:00:00 permanent vid 10\n"
        "Deleted dev br0 port s3 grp 03:54:53:4e:00:01 permanent vid 10\n"
    )
    entries = {
        (StreamAddress("03:54:53:4e:00:00", 10), "s2"),
        (StreamAddress("03:54:53:4e:00:01", 10), "s3"),
    }
    assert told(lines) == entries
    assert told(f"{lines}dev br0 port s1 grp 03:54:53:4e:00:00 permanent vid 1") == entries


def test_a_late_link_may_have_both_schedules_in_force_only_until_an_operator_has_chosen():
    moved = replace(SOUND, fault=Fault.LATE, mixed_ns=3_001 * MS)
    assert not moved.is_sound
    assert "| **old, mixed for 3.0 s** |" in to_markdown([moved])
    chosen = replace(moved, recovery=Recovery.ROLLBACK)
    assert chosen.is_sound
    assert "| old, `--rollback`, mixed for 3.0 s |" in to_markdown([chosen])
    assert replace(moved, fault=Fault.AGENT).is_sound
