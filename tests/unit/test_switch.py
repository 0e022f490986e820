"""Desired minus actual, and every reason to refuse, without a kernel."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.exceptions import NetlinkError

from agent.mechanism import BRIDGE_PORT, ReportContext
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.rules import TABLE
from agent.mechanisms.gates import hardware
from agent.mechanisms.gates.kernel import GateAdapter
from agent.mechanisms.gates.model import (
    UNKNOWN_LENGTHS,
    GateEntry,
    GateLimits,
    GateOperation,
    GateSchedule,
    Taprio,
    TaprioMode,
)
from agent.mechanisms.gates.openings import binding_max_sdu_octets, longest_opening_ns
from agent.mechanisms.gates.operational import operational
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, Clock, EmulatedLink, MacMerge, PortState, Refusal
from agent.root_qdisc import RootQdisc
from agent.switch import Switch, plan
from agent.switch import problems as switch_problems
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import altered, configured

CYCLE_NS = 1_000_000
SCHEDULE = GateSchedule(0, CYCLE_NS, (GateEntry(0x1, 400_000), GateEntry(0x3, 600_000)))
TAPRIO = Taprio(
    priority_map=(0, 1, *[0] * 14),
    queues=(QueueRange(1, 0), QueueRange(1, 1)),
    mode=TaprioMode.SOFTWARE,
    clock=Clock.TAI,
    schedule=SCHEDULE,
)
BARE = PortState("p1", 2, 8, 1_000_000_000, "noqueue")


def starting_at(base_time_ns, taprio=TAPRIO):
    return replace(taprio, schedule=replace(taprio.schedule, base_time_ns=base_time_ns))


def running(taprio):
    return altered(BARE, root_qdisc="taprio", taprio=taprio, running=taprio.schedule)


def pending(taprio):
    return altered(BARE, root_qdisc="taprio", taprio=taprio, pending=taprio.schedule)


def planned(desired, states):
    """Each step as its object, the contents before and those after."""
    return [
        (step.target, [each.content for each in step.before], [each.content for each in step.after])
        for step in plan(MECHANISMS, desired, states)
    ]


def steps(taprio, state, dscp_priorities=None):
    return planned({"p1": configured("p1", taprio, dscp_priorities)}, {"p1": state})


def gates_step(before, after, port="p1"):
    return (RootQdisc(port, 2), [before] if before else [], [after] if after else [])


class Lacking(MemoryPorts):
    """Ports whose kernel cannot run gates or rules, for these reasons."""

    def __init__(self, *reasons):
        super().__init__(MECHANISMS, [])
        self.reasons = reasons

    def problems(self, config):
        yield from self.reasons


def validate(desired, states, *lacking):
    return [each.text for each in switch_problems(Lacking(*lacking), desired, states)]


def problems(taprio, state=BARE):
    return validate({"p1": configured("p1", taprio)}, {"p1": state})


def with_schedule(**changes):
    return replace(TAPRIO, schedule=replace(SCHEDULE, **changes))


def test_a_port_without_gates_that_wants_none_is_left_alone():
    assert steps(None, BARE) == []


def test_a_wanted_schedule_is_set_and_an_unwanted_one_removed():
    assert steps(TAPRIO, BARE) == [gates_step(None, TAPRIO)]
    assert steps(None, running(TAPRIO)) == [gates_step(TAPRIO, None)]


def test_a_port_that_is_not_mentioned_loses_what_is_ours():
    state = altered(running(TAPRIO), dscp_priorities={46: 1})
    assert planned({}, {"p1": state}) == [gates_step(TAPRIO, None), (TABLE, [{46: 1}], [])]


@given(cycles=st.integers(-(10**6), 10**6))
def test_a_running_schedule_whole_cycles_away_agrees(cycles):
    wanted = starting_at(10**12 + cycles * CYCLE_NS)
    assert steps(wanted, running(starting_at(10**12))) == []


@given(shift_ns=st.integers(1, CYCLE_NS - 1))
def test_a_running_schedule_of_another_phase_is_changed(shift_ns):
    wanted = starting_at(shift_ns)
    assert steps(wanted, running(TAPRIO)) == [gates_step(TAPRIO, wanted)]


def test_a_schedule_that_waits_must_start_when_wanted():
    waiting = starting_at(10 * CYCLE_NS)
    later = starting_at(20 * CYCLE_NS)
    assert steps(waiting, pending(waiting)) == []
    assert steps(later, pending(waiting)) == [gates_step(waiting, later)]


@pytest.mark.parametrize(
    "changed",
    [
        replace(TAPRIO, priority_map=(1, *[0] * 15)),
        replace(TAPRIO, queues=(QueueRange(1, 0), QueueRange(2, 1))),
        replace(TAPRIO, clock=Clock.MONOTONIC),
        replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD),
        replace(TAPRIO, max_sdu_octets=(0, 500)),
        with_schedule(entries=SCHEDULE.entries[::-1]),
    ],
)
def test_any_other_difference_is_a_change(changed):
    assert steps(changed, running(TAPRIO)) == [gates_step(TAPRIO, changed)]


def test_schedules_leave_before_rules_change_and_come_after():
    states = {"p1": running(TAPRIO), "p2": replace(BARE, name="p2")}
    assert planned({"p2": configured("p2", TAPRIO, {46: 1})}, states) == [
        gates_step(TAPRIO, None),
        (TABLE, [], [{46: 1}]),
        gates_step(None, TAPRIO, "p2"),
    ]


def test_changes_say_what_they_do():
    desired = {"p1": configured("p1", TAPRIO, {46: 7, 16: 1})}
    changes = [
        change for step in plan(MECHANISMS, desired, {"p1": BARE}) for change in step.changes
    ]
    assert [change.description for change in changes] == [
        "port p1: priority by DSCP: DSCP 16 to 1, DSCP 46 to 7",
        "port p1: set the schedule: 2 entries, cycle 1000000 ns, base time 0 ns",
    ]


def test_a_good_configuration_has_no_problem():
    assert problems(TAPRIO) == []


@pytest.mark.parametrize(
    ("taprio", "problem"),
    [
        (with_schedule(entries=()), "the gate control list is empty"),
        (
            with_schedule(cycle_time_ns=CYCLE_NS + 1),
            "the gate control list lasts 1000000 ns, the cycle 1000001; make them equal",
        ),
        (
            with_schedule(entries=(*SCHEDULE.entries, GateEntry(0x3, 100_000))),
            (
                "the gate control list lasts 1100000 ns, the cycle 1000000; make them equal; a "
                "merge keeps entries of the previous list: send admin-control-list with "
                'operation="replace"'
            ),
        ),
        (
            with_schedule(cycle_time_ns=2**31, entries=(GateEntry(0x3, 2**31),)),
            "cycle time 2147483648 ns is not within 1..2147483647",
        ),
        (
            with_schedule(entries=(GateEntry(0x1, 479), GateEntry(0x3, CYCLE_NS - 479))),
            (
                "gate control entry 0 lasts 479 ns; the kernel wants the 480 ns that 60 octets "
                "take (1000 Mb/s)"
            ),
        ),
        (
            with_schedule(entries=(GateEntry(0x1, 400_000), GateEntry(0x93, 600_000))),
            "gate control entry 1 opens 0x93: no traffic class 4, 7",
        ),
        (
            replace(TAPRIO, priority_map=(0, 2, *[0] * 14)),
            "priority 1 leads to traffic class 2; the port has 2 (0..1)",
        ),
        (
            replace(TAPRIO, priority_map=(0, 1)),
            "2 priorities are mapped; Linux needs 16",
        ),
        (
            replace(TAPRIO, queues=(QueueRange(2, 0), QueueRange(1, 1))),
            "traffic classes 0 and 1 share TX queues (2@0 and 1@1)",
        ),
        (
            replace(TAPRIO, queues=(QueueRange(0, 0), QueueRange(1, 1))),
            "traffic class 0 has no queue",
        ),
        (
            replace(TAPRIO, queues=(QueueRange(1, 0), QueueRange(8, 1))),
            (
                "needs 9 TX queues, has 8 (the kernel: Multi-queue device is required); use an "
                "interface with more queues or fewer traffic classes"
            ),
        ),
        (
            replace(TAPRIO, max_sdu_octets=(0, 45)),
            (
                "queue-max-sdu of traffic class 1 is 45 octets, but every Ethernet frame carries "
                "46 or more: none would pass; 0 is no limit"
            ),
        ),
        (
            replace(TAPRIO, max_sdu_octets=(500,)),
            "queue-max-sdu of 1 traffic class; the port has 2",
        ),
        (
            replace(TAPRIO, mode=TaprioMode.TXTIME_ASSIST),
            (
                "mode txtime-assist needs an etf qdisc on every queue, which this agent does not "
                "set up: frames would pass closed gates; use software or full-offload"
            ),
        ),
        (
            replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD, clock=Clock.MONOTONIC),
            (
                "clock monotonic cannot be chosen with full-offload: the hardware's own runs the "
                "gates; leave the clock at tai"
            ),
        ),
    ],
)
def test_what_the_kernel_cannot_do_is_refused(taprio, problem):
    assert problems(taprio) == [f"port p1: {problem}"]


def test_nine_traffic_classes_are_one_too_many():
    nine = replace(TAPRIO, queues=tuple(QueueRange(1, i) for i in range(9)))
    assert "port p1: 9 traffic classes; 1..8 are possible" in problems(nine)


def test_a_link_of_unknown_speed_counts_as_the_slowest():
    taprio = with_schedule(entries=(GateEntry(0x1, 40_000), GateEntry(0x3, 960_000)))
    down = replace(BARE, link_speed_bps=None)
    assert problems(taprio, down) == [
        (
            "port p1: gate control entry 0 lasts 40000 ns; the kernel wants the 48000 ns that 60 "
            "octets take (10 Mb/s, link down)"
        )
    ]


def test_a_foreign_qdisc_is_named():
    state = replace(BARE, root_qdisc="htb", foreign_qdisc="htb 1:")
    assert problems(TAPRIO, state) == [
        (
            "port p1: its root qdisc htb 1: was not set by this agent and is left alone; remove "
            "it first (tc qdisc del dev p1 root)"
        )
    ]


def test_rules_may_stand_beside_a_foreign_qdisc():
    state = replace(BARE, root_qdisc="htb", foreign_qdisc="htb 1:")
    assert validate({"p1": configured("p1", None, {46: 1})}, {"p1": state}) == []


def test_a_kernel_that_cannot_says_why():
    desired = {"p1": configured("p1", TAPRIO, {46: 1})}
    reasons = ("no sch_taprio", "no mangle")
    assert validate(desired, {"p1": BARE}, *reasons) == [f"port p1: {each}" for each in reasons]


def test_a_tos_byte_in_place_of_a_dscp_is_explained():
    desired = {"p1": configured("p1", None, {0x40: 1, 46: 16})}
    assert validate(desired, {"p1": BARE}) == [
        "port p1: priority 16 of DSCP 46 is not within 0..15",
        "port p1: DSCP 64 is not within 0..63; the TOS byte 0x40 holds DSCP 16",
    ]


def test_an_unknown_port_matters_only_when_something_is_asked_of_it():
    assert validate({"p9": configured("p9", None)}, {"p1": BARE}) == []
    assert validate({"p9": configured("p9", TAPRIO)}, {"p1": BARE}) == [
        "port p9: no such interface; this switch has p1"
    ]


def test_all_reasons_are_raised_together():
    switch = Switch(MemoryPorts(MECHANISMS, [BARE]))
    desired = {name: configured(name, TAPRIO) for name in ("p8", "p9")}
    with pytest.raises(AgentError, match=r"^port p8: no such .*\nport p9: no such .*$"):
        switch.apply(desired)


TEN_GIGABIT = replace(BARE, link_speed_bps=10_000_000_000)


def two_entries(first_ns, second_ns):
    entries = (GateEntry(0x1, first_ns), GateEntry(0x3, second_ns))
    return with_schedule(cycle_time_ns=first_ns + second_ns, entries=entries)


def test_a_gate_that_the_kernel_could_not_count_octets_for_is_refused():
    """At 10 Gb/s an int of octets is 1.718 s; class 0 never closes and is not counted."""
    assert problems(two_entries(100_000_000, 1_717_000_000), TEN_GIGABIT) == []
    (problem,) = problems(two_entries(100_000_000, 1_719_000_000), TEN_GIGABIT)
    assert "gate of traffic class 1 stays open for 1719000000 ns" in problem
    assert "beyond 1717986917 ns" in problem
    assert problems(two_entries(100_000_000, 1_719_000_000)) == []  # 1 Gb/s: ten times as long


def emulated(rate_bps):
    link = EmulatedLink(10**10, rate_bps)
    return replace(BARE, link_speed_bps=rate_bps, emulated=link), replace(TAPRIO, emulated=link)


@pytest.mark.parametrize("rate_bps", [10**8, 10**9, 10**10])
def test_gates_reckon_with_the_rate_of_an_emulated_link(rate_bps):
    port, taprio = emulated(rate_bps)
    assert problems(taprio, port) == []


@pytest.mark.parametrize("rate_bps", [10**7, 10**8 - 1, 25 * 10**9])
def test_gates_on_an_emulated_link_whose_rate_no_frame_can_count_for_are_refused(rate_bps):
    port, taprio = emulated(rate_bps)
    (problem,) = problems(taprio, port)
    assert f"its link of {rate_bps // 10**6} Mb/s is emulated" in problem
    assert "gates can reckon with 100 to 10000 Mb/s there" in problem


def test_the_shortest_interval_of_an_emulated_link_is_that_of_its_rate():
    port, taprio = emulated(10**8)
    short = replace(
        taprio,
        schedule=replace(
            SCHEDULE, entries=(GateEntry(0x1, CYCLE_NS - 4_799), GateEntry(0x3, 4_799))
        ),
    )
    (problem,) = problems(short, port)
    assert "the kernel wants the 4800 ns that 60 octets take (100 Mb/s)" in problem


def test_the_longest_opening_of_an_emulated_link_is_that_of_its_device():
    port, taprio = emulated(10**8)
    long = with_schedule(
        entries=(GateEntry(0x1, 100_000_000), GateEntry(0x3, 1_719_000_000)),
        cycle_time_ns=1_819_000_000,
    )
    (problem,) = problems(replace(long, emulated=taprio.emulated), port)
    assert "beyond 1717986917 ns" in problem


def test_a_size_table_for_another_rate_is_a_difference():
    port, taprio = emulated(10**9)
    has_other = altered(
        port,
        root_qdisc="taprio",
        taprio=replace(taprio, emulated=UNKNOWN_LENGTHS),
        running=taprio.schedule,
    )
    assert len(steps(taprio, has_other)) == 1
    assert steps(taprio, altered(has_other, taprio=taprio)) == []


def test_an_opening_goes_on_across_the_cycles_end():
    entries = (GateEntry(0x1, 200), GateEntry(0x2, 300), GateEntry(0x1, 500))
    schedule = GateSchedule(0, 1_000, entries)
    assert longest_opening_ns(schedule, 0) == 700
    assert longest_opening_ns(schedule, 1) == 300
    assert longest_opening_ns(schedule, 2) == 0


def test_a_limit_that_the_gates_imply_is_no_limit():
    """Class 1 is open for 10 µs at 1 Gb/s: 1250 octets, less 24 around and 14 in the frame."""
    short = GateSchedule(0, CYCLE_NS, (GateEntry(0x1, 990_000), GateEntry(0x3, 10_000)))
    assert binding_max_sdu_octets((0, 1211), short, 10**9) == (0, 1211)
    assert binding_max_sdu_octets((0, 1212), short, 10**9) == ()
    assert binding_max_sdu_octets((9000, 1212), short, 10**9) == (9000, 0)
    assert binding_max_sdu_octets((0, 50), short, None) == ()  # 10 Mb/s: nothing fits


def test_a_limit_that_the_gates_imply_asks_for_no_change():
    short = with_schedule(entries=(GateEntry(0x1, 990_000), GateEntry(0x3, 10_000)))
    assert steps(replace(short, max_sdu_octets=(0, 1212)), running(short)) == []
    binding = replace(short, max_sdu_octets=(0, 1211))
    assert steps(binding, running(short)) == [gates_step(short, binding)]
    assert steps(short, running(binding)) == [gates_step(binding, short)]


@pytest.fixture
def old_kernel(monkeypatch, tmp_path):
    """The gates' kernel side, on a kernel with taprio but without frame size limits."""
    monkeypatch.setattr("agent.mechanisms.gates.taprio.capability", lambda _ipr: None)
    monkeypatch.setattr("platform.release", lambda: "5.10")
    return GateAdapter(None, tmp_path / "quota.json")


def test_a_kernel_without_frame_size_limits_says_so_only_where_one_is_asked_for(old_kernel):
    limited = replace(TAPRIO, max_sdu_octets=(0, 500))
    assert list(old_kernel.problems(configured("p1", limited))) == [
        "queue-max-sdu needs Linux 6.1; this is 5.10"
    ]
    assert list(old_kernel.problems(configured("p1", TAPRIO))) == []


def test_a_kernel_without_taprio_says_so_only_where_gates_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr("agent.mechanisms.gates.taprio.capability", lambda _ipr: "no sch_taprio")
    adapter = GateAdapter(None, tmp_path / "quota.json")
    assert list(adapter.problems(configured("p1", TAPRIO))) == ["no sch_taprio"]
    assert list(adapter.problems(configured("p1", None, {46: 1}))) == []
    assert adapter.leaves() == {"gates-refused": "no sch_taprio"}


def of_length(count, mode=TaprioMode.SOFTWARE):
    entries = tuple(GateEntry(0x3, 1_000) for _ in range(count))
    taprio = with_schedule(entries=entries, cycle_time_ns=count * 1_000)
    return replace(taprio, mode=mode)


OFFLOADING = replace(BARE, driver="tsnep", mac_merge=MacMerge())


def test_a_list_longer_than_the_port_takes_is_refused():
    software = altered(BARE, limits=GateLimits(list_max=430))
    assert problems(of_length(430), software) == []
    assert problems(of_length(431), software) == [
        (
            "port p1: admin-control-list has 431 entries; the kernel can show lists of at most 430 "
            "(supported-list-max)"
        )
    ]
    hardware = altered(OFFLOADING, limits=GateLimits(list_max=255))
    assert problems(of_length(256, TaprioMode.FULL_OFFLOAD), hardware) == [
        (
            "port p1: admin-control-list has 256 entries; the driver tsnep takes lists of at most "
            "255 (supported-list-max)"
        )
    ]


def test_an_offloaded_list_that_the_kernel_could_not_show_is_refused_though_no_driver_says_so():
    assert problems(of_length(860, TaprioMode.FULL_OFFLOAD), OFFLOADING) == []
    (problem,) = problems(of_length(861, TaprioMode.FULL_OFFLOAD), OFFLOADING)
    assert "the kernel can show lists of at most 860" in problem


def test_cycle_and_interval_are_held_to_the_drivers_limits():
    limits = GateLimits(cycle_max_ns=CYCLE_NS - 1, interval_max_ns=599_999)
    offloaded = replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD)
    assert problems(offloaded, altered(OFFLOADING, limits=limits)) == [
        (
            "port p1: cycle time 1000000 ns is above the 999999 of the driver tsnep "
            "(supported-cycle-max)"
        ),
        (
            "port p1: gate control entry 1 lasts 600000 ns; the port takes at most 599999 "
            "(supported-interval-max)"
        ),
    ]


HOLDING = with_schedule(
    entries=(
        GateEntry(0x1, 400_000, GateOperation.HOLD),
        GateEntry(0x3, 600_000, GateOperation.RELEASE),
    )
)


IN_SWITCH = replace(BARE, driver="mv88e6085", switch_id="00:01:02:03", bridge="br0")


@pytest.mark.parametrize(
    ("other", "is_past_gates"),
    [
        ({}, True),
        ({"bridge": "br1"}, False),
        ({"switch_id": "00:01:02:04"}, False),
        ({"switch_id": None}, False),
    ],
)
def test_hardware_forwards_between_the_ports_of_one_switch_in_one_bridge(other, is_past_gates):
    peer = replace(IN_SWITCH, **{"name": "p2", "ifindex": 3, **other})
    states = {"p1": IN_SWITCH, "p2": peer}
    assert hardware.peers(IN_SWITCH, states) == (("p2",) if is_past_gates else ())
    alone = replace(IN_SWITCH, bridge=None)
    assert hardware.peers(alone, {**states, "p1": alone}) == ()


def test_software_gates_that_hardware_forwards_past_are_refused_and_published():
    state = altered(IN_SWITCH, hardware_peers=("p2", "p3"))
    why = (
        "the hardware of switch 00:01:02:03 (driver mv88e6085) forwards frames from p2, p3 to p1, "
        "which pass no gates of mode software; use full-offload, if the driver has it, or take p1 "
        "out of br0, so that the kernel forwards"
    )
    assert problems(TAPRIO, state) == [f"port p1: {why}"]
    assert problems(replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD), state) == []
    assert problems(TAPRIO, IN_SWITCH) == []
    kernel = operational(state, ReportContext(lambda _: 0))[BRIDGE_PORT]["tsn-linux:taprio"]
    assert kernel["kernel"]["software-gates-refused"] == why


def test_hold_and_release_need_a_mac_merge_layer_and_hardware_gates():
    offloaded = replace(HOLDING, mode=TaprioMode.FULL_OFFLOAD)
    assert problems(offloaded, OFFLOADING) == []
    assert problems(offloaded, replace(OFFLOADING, mac_merge=None)) == [
        (
            "port p1: gate control entries 0, 1: frame preemption: the driver of p1 (tsnep) has no "
            "MAC merge layer, IEEE 802.3 clause 99; ethtool --show-mm p1"
        )
    ]
    assert problems(HOLDING, OFFLOADING) == [
        (
            "port p1: gate control entries 0, 1: set-and-hold-mac and set-and-release-mac need the "
            "mode full-offload; in the mode software the kernel ignores them"
        )
    ]


class Refusing(MemoryPorts):
    """Ports whose kernel answers with an error number."""

    def __init__(self, number, *states):
        super().__init__(MECHANISMS, states)
        self.number = number

    def execute(self, step):
        raise AgentError("port p1: the kernel refused it") from NetlinkError(self.number, "no")


@pytest.mark.parametrize(
    ("number", "tag"),
    [
        (errno.EOPNOTSUPP, "operation-not-supported"),
        (errno.ENOSPC, "resource-denied"),
        (errno.ENOMEM, "resource-denied"),
        (errno.EINVAL, "operation-failed"),
    ],
)
def test_a_refusal_of_the_kernel_says_of_which_port_and_kind_it_is(number, tag):
    switch = Switch(Refusing(number, BARE))

    with pytest.raises(AgentError) as error:
        switch.apply({"p1": configured("p1", TAPRIO)})

    assert error.value.refusals == (Refusal("port p1: the kernel refused it", "p1", tag),)


def test_what_cannot_be_is_refused_port_by_port():
    switch = Switch(Lacking("no gates"))

    with pytest.raises(AgentError) as error:
        switch.apply({"p1": configured("p1", TAPRIO), "p9": configured("p9", TAPRIO)}, {"p1": BARE})

    assert [(each.port, each.tag) for each in error.value.refusals] == [
        ("p1", "operation-not-supported"),
        ("p9", "invalid-value"),
    ]
    assert str(error.value) == "\n".join(each.text for each in error.value.refusals)
