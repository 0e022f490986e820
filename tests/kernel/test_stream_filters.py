"""Which frames of streams a bridge takes in: when, how long, how many; and what is counted.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from agent.kernel.bpf import Map, PinnedObject
from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.stream_filters.model import (
    Address,
    FilterCounters,
    Frames,
    Gate,
    GateEntry,
    GateList,
    Meter,
    RunningGate,
    Setting,
    StreamFilter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from cnc.talker import be_punctual, sleep_until, tai_ns
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_bridges import (  # noqa: F401
    EXPERIMENTAL,
    FIRST,
    FRAMES,
    PAYLOAD,
    STREAM,
    TALKER,
    TRANSLATED,
    UNKNOWN,
    VLAN_ID,
    OnTheWire,
    asked,
    bridges,
    forwarded,
    hooks,
    index_of,
    send_udp,
    table,
    tc,
    wire,
)
from tests.stack.recording_kernel import configured

CYCLE_NS, HALF_NS = 1_000_000, 500_000
OPEN, CLOSED = Setting(is_open=True), Setting(is_open=False)
HANDLE = 7
AT_P1 = Address("p1", HANDLE, STREAM, VLAN_ID)
MAC_HEADER, TAG, FCS = 14, 4, 4


@pytest.fixture
def state_dir(tmp_path) -> Iterator[Path]:
    """The directory of the agent; what it mounts there is gone afterwards."""
    yield tmp_path
    if os.path.ismount(tmp_path / "bpf"):
        subprocess.run(["umount", tmp_path / "bpf"], check=True)


@pytest.fixture
def switch(bridges, state_dir) -> Iterator[Switch]:
    """The switch of br0."""
    opened = KernelPorts(mechanisms(state_dir))
    yield Switch(opened)
    opened.close()


@pytest.fixture
def set_clock() -> Iterator[Callable[[int], None]]:
    """Sets the clock by so many nanoseconds; it is right again afterwards."""
    steps = []

    def step(by_ns: int) -> None:
        steps.append(by_ns)
        time.clock_settime_ns(
            time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) + by_ns
        )

    yield step
    time.clock_settime_ns(
        time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) - sum(steps)
    )


def half_open(gate: int = 1, base_ns: int = 0, *, closed_first: bool = False) -> Gate:
    """Open in one half of each millisecond."""
    settings = (CLOSED, OPEN) if closed_first else (OPEN, CLOSED)
    entries = tuple(GateEntry(each, HALF_NS) for each in settings)
    return Gate(gate, OPEN, GateList(base_ns, CYCLE_NS, entries))


def a_filter(gate: Gate, **details) -> StreamFilter:
    return StreamFilter(
        **{"id": 1, "handle": HANDLE, "priority": None, "max_sdu_octets": 0}
        | {"gate": gate}
        | details
    )


def filtered(
    *filters: StreamFilter, addresses=(AT_P1,), places=frozenset()
) -> dict[str, PortConfig]:
    """The bridge forwards the stream from p1 to p2, with these stream filters."""
    (forwarding,) = forwarded("br0", "p1", "p2", to="p2")["br0"].parts
    wanted = StreamFilterConfig(frozenset(filters), frozenset(addresses), places)
    return asked("br0", forwarding, wanted)


def send(instants_ns, sdu_octets: int = 46, *, to: str = STREAM, pcp: int = 5) -> None:
    """Frames of the talker with a tag, at these instants of TAI; None: at once."""
    header = bytes.fromhex((to + TALKER).replace("-", ""))
    header += struct.pack("!HHH", 0x8100, pcp << 13 | VLAN_ID, EXPERIMENTAL)
    frame = header + PAYLOAD.ljust(sdu_octets, b"\0")
    be_punctual(go_first=False)
    with inside(FAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
        talker.bind(("q1", 0))
        for instant_ns in instants_ns:
            if instant_ns is not None:
                sleep_until(instant_ns)
            talker.send(frame)
    time.sleep(0.002)


def phases(count: int, first_ns: int | None = None) -> list[int]:
    """Instants that go through a cycle in steps of 100 us, half a step away from where it changes,
    from the beginning of a cycle to come."""
    start_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS if first_ns is None else first_ns
    return [start_ns + 50_000 + number * 100_000 for number in range(count)]


def counters(switch: Switch, number: int = 1) -> FilterCounters:
    return switch.read()["br0"][StreamFilterState].counters[number]


def running(switch: Switch) -> RunningGate:
    return switch.read()["br0"][StreamFilterState].running[1]


def test_exactly_the_frames_pass_that_come_while_the_gate_is_open(switch, wire):
    switch.apply(filtered(a_filter(half_open())))
    send(phases(1000))
    assert wire() == [OnTheWire(STREAM, VLAN_ID, 5)] * 500
    assert counters(switch) == FilterCounters(1000, 1000, 0, 500, 500, 0)


def test_each_phase_of_a_list_is_that_of_its_base_time(switch, wire):
    base_ns = 300_000
    switch.apply(filtered(a_filter(half_open(base_ns=base_ns))))
    for phase_ns, passes in ((299_000, 0), (301_000, 1), (799_000, 1), (801_000, 0)):
        cycle_ns = (tai_ns() // CYCLE_NS + 20) * CYCLE_NS
        send([cycle_ns + phase_ns])
        assert len(wire()) == passes, phase_ns


@pytest.mark.parametrize("step_ns", [1_500_000, -1_500_000, -5_000_000_000])
def test_after_a_step_of_the_clock_the_right_frames_pass(switch, wire, set_clock, step_ns):
    switch.apply(filtered(a_filter(half_open())))
    send(phases(100))
    set_clock(step_ns)
    send(phases(1000))
    assert len(wire()) == 50 + 500
    assert counters(switch).not_passing == 50 + 500


def test_no_frame_is_longer_than_the_longest_service_data_unit(switch, wire):
    switch.apply(filtered(a_filter(Gate(1), max_sdu_octets=500)))
    send([None] * FRAMES, 500)
    send([None] * FRAMES, 501)
    assert len(wire()) == FRAMES
    assert counters(switch) == FilterCounters(2 * FRAMES, FRAMES, FRAMES, FRAMES, 0, 0)


def test_no_more_octets_pass_in_an_interval_than_it_has(switch, wire):
    entries = (GateEntry(OPEN, CYCLE_NS, octets_max=300),)
    switch.apply(filtered(a_filter(Gate(1, OPEN, GateList(0, CYCLE_NS, entries)))))
    send(phases(100), 100)
    assert len(wire()) == 30  # three of ten in each interval
    send(phases(100), 101)
    assert len(wire()) == 20
    assert counters(switch) == FilterCounters(200, 200, 0, 50, 150, 0)


def test_a_flow_meter_has_its_rate_and_its_burst_to_the_octet(switch, wire):
    frame_octets = MAC_HEADER + TAG + 100 + FCS
    meter = Meter(1, rate_bps=frame_octets * 8 * 1000, burst_octets=3 * frame_octets)
    switch.apply(filtered(a_filter(Gate(1), meter=meter)))
    start_ns = tai_ns() + 20_000_000
    send([start_ns] * 5, 100)
    assert len(wire()) == 3
    send([start_ns + 10_000_000] * 5, 100)  # the bucket is full again, and no fuller
    assert len(wire()) == 3
    send([start_ns + 20_000_000 + number * 500_000 for number in range(100)], 100)
    assert len(wire()) == 3 + 49  # one each millisecond; three are there, one is for the last
    assert counters(switch).red == 2 + 2 + 48


def test_frames_get_the_internal_priority_value_of_their_interval(switch, two_classes):
    entries = (
        GateEntry(Setting(is_open=True, ipv=1), HALF_NS),
        GateEntry(Setting(is_open=True, ipv=0), HALF_NS),
    )
    gate = Gate(1, OPEN, GateList(0, CYCLE_NS, entries))
    gates = {"p2": configured("p2", two_classes((0x3, CYCLE_NS)))}
    switch.apply(filtered(a_filter(gate)) | gates)

    def in_class_1() -> int:
        return switch.read()["p2"][GateState].counters[1].frames

    before = in_class_1()
    send(phases(100))
    assert in_class_1() - before == 50
    assert counters(switch).passing == 100


def test_a_filter_that_only_counts_drops_nothing_and_counts_the_same(switch, wire):
    both = {"max_sdu_octets": 100, "only_counts": True}
    switch.apply(filtered(a_filter(half_open(), **both)))
    send(phases(100), 100)
    send(phases(10), 101)
    assert len(wire()) == 110
    assert counters(switch) == FilterCounters(110, 100, 10, 50, 50, 0)


def test_of_the_filters_that_match_the_one_with_the_lowest_number_has_the_frame(switch, wire):
    closed = Gate(2, CLOSED)
    switch.apply(
        filtered(
            a_filter(Gate(1), id=1, priority=5),
            a_filter(closed, id=2),
            a_filter(Gate(3), id=3, handle=None),
        )
    )
    send([None] * 3, pcp=5)  # no table of received priorities: it has priority 0
    send([None] * 4, to=UNKNOWN)
    assert wire() == []
    state = switch.read()["br0"][StreamFilterState]
    assert {n: each.matching for n, each in state.counters.items()} == {1: 0, 2: 3, 3: 4}
    assert state.table.ports["p1"][Frames(STREAM, VLAN_ID, 5)].id == 1


def test_a_filter_of_no_stream_is_at_the_ports_that_it_names(switch, wire):
    closed = a_filter(Gate(1, CLOSED), handle=None)
    switch.apply(filtered(closed, addresses=(), places=frozenset({(1, "p2")})))
    send([None] * 3)
    assert len(wire()) == 3
    switch.apply(filtered(closed, addresses=(), places=frozenset({(1, "p1")})))
    send([None] * 4)
    assert wire() == []
    assert counters(switch).not_passing == 4


def test_frames_that_identification_has_translated_are_filtered_too(switch, wire):
    both = filtered(a_filter(Gate(1, CLOSED)))
    switch.apply(FIRST | both)
    send_udp()
    assert wire() == []
    assert counters(switch).not_passing == FRAMES
    switch.apply(FIRST | filtered(a_filter(Gate(1, OPEN))))
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES


def test_nothing_opens_while_a_list_takes_over_from_another(switch, wire):
    switch.apply(filtered(a_filter(half_open())))
    sleep_until(running(switch).change_ns)
    start_ns = (tai_ns() // CYCLE_NS + 200) * CYCLE_NS
    change_ns = start_ns + 50 * CYCLE_NS
    later = half_open(base_ns=change_ns, closed_first=True)
    switch.apply(filtered(a_filter(later)))
    assert running(switch) == RunningGate(half_open().list, change_ns)
    send([instant for instant in phases(500, start_ns) if instant % CYCLE_NS >= HALF_NS])
    assert wire() == []  # the former list
    send(
        [
            instant
            for instant in phases(500, change_ns + 9 * CYCLE_NS)
            if instant % CYCLE_NS < HALF_NS
        ]
    )
    assert wire() == []
    send(phases(500, change_ns + 60 * CYCLE_NS))
    assert len(wire()) == 250


def test_before_the_first_list_starts_the_administrative_state_rules(switch, wire):
    start_ns = (tai_ns() // CYCLE_NS + 500) * CYCLE_NS
    gate = replace(half_open(base_ns=start_ns), initial=CLOSED)
    switch.apply(filtered(a_filter(gate)))
    send(phases(100))
    assert wire() == []
    send(phases(100, start_ns))
    assert len(wire()) == 50


def test_another_configuration_keeps_the_counters_and_the_tokens(switch, wire):
    meter = Meter(1, rate_bps=1, burst_octets=10 * (MAC_HEADER + TAG + 46 + FCS))
    switch.apply(filtered(a_filter(Gate(1), meter=meter)))
    send([None] * 15)
    assert len(wire()) == 10
    switch.apply(filtered(a_filter(Gate(1), meter=meter, max_sdu_octets=1000)))
    send([None] * 5)
    assert wire() == []
    assert counters(switch) == FilterCounters(20, 20, 0, 20, 0, 10)


def test_an_agent_that_is_killed_leaves_all_and_the_next_one_goes_on(switch, state_dir, wire):
    wanted = filtered(a_filter(half_open()))
    switch.apply(wanted)
    send(phases(100))
    with closing(KernelPorts(mechanisms(state_dir))) as opened:
        restarted = Switch(opened)
        assert restarted.apply(wanted).steps == ()
        send(phases(100))
        assert counters(restarted) == FilterCounters(200, 200, 0, 100, 100, 0)
    assert len(wire()) == 100


@pytest.mark.parametrize("moment", range(12))
def test_killed_at_any_moment_of_a_change_nothing_opens_and_it_can_be_repeated(
    switch, state_dir, wire, moment
):
    closed = filtered(a_filter(Gate(1, CLOSED)))
    switch.apply(closed)
    pid = os.fork()
    if not pid:
        change_and_die(state_dir, moment)
    os.waitpid(pid, 0)
    send([None] * FRAMES)
    assert wire() == []
    with closing(KernelPorts(mechanisms(state_dir))) as opened:
        after = Switch(opened)
        after.apply(filtered(a_filter(Gate(1, CLOSED)), addresses=[AT_P1]))
        send([None] * FRAMES)
        assert wire() == []
        after.apply({})
        assert list((state_dir / "bpf").iterdir()) == []


def change_and_die(state_dir: Path, moment: int) -> None:
    """Ask for another closed gate, and end at this one of the calls that change something."""
    moments = iter(range(100))

    def deadly(call):
        def wrapper(*arguments):
            if next(moments) == moment:
                os._exit(1)
            return call(*arguments)

        return wrapper

    for owner, name in (
        (PinnedObject, "new_map"),
        (PinnedObject, "pin"),
        (PinnedObject, "unpin"),
        (PinnedObject, "load"),
        (Map, "update"),
        (Map, "delete"),
    ):
        setattr(owner, name, deadly(getattr(owner, name)))
    opened = KernelPorts(mechanisms(state_dir))
    Switch(opened).apply(filtered(a_filter(Gate(2, CLOSED), id=2)))
    os._exit(0)


def test_what_is_removed_leaves_nothing(switch, state_dir, wire):
    before = bpf_objects()
    switch.apply(filtered(a_filter(half_open())))
    assert hooks("p1") == ["clsact"]
    change = switch.apply({})
    assert hooks("p1") == []
    assert list((state_dir / "bpf").iterdir()) == []
    assert bpf_objects() == before
    change.undo()
    assert switch.read()["br0"][StreamFilterState].table.ports["p1"]
    switch.apply({})
    assert bpf_objects() == before


def bpf_objects() -> int:
    """The descriptors of BPF programs and maps that this process has open."""
    targets = [
        str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()
    ]
    return sum("bpf" in target for target in targets)


def test_a_program_that_was_removed_by_hand_is_a_difference_and_set_again(switch, wire):
    wanted = filtered(a_filter(Gate(1, CLOSED)))
    switch.apply(wanted)
    tc("filter", "del", "dev", "p1", "ingress", "prio", str(0x7B00))
    (step,) = switch.apply(wanted).steps
    assert step.changes[0].difference == (
        f"frames to {STREAM} in VLAN 10 at p1 are not filtered by stream filter 1 as configured"
    )
    send([None] * FRAMES)
    assert wire() == []
    assert switch.apply(wanted).steps == ()


def test_without_the_right_the_reason_is_told_before_anything_changes(state_dir, bridges):
    program = (
        "from pathlib import Path; from agent.kernel.ports import KernelPorts\n"
        "from agent.mechanisms import mechanisms; from agent.model import AgentError\n"
        "from agent.switch import Switch\n"
        "from tests.kernel.test_stream_filters import Gate, a_filter, filtered\n"
        f"switch = Switch(KernelPorts(mechanisms(Path({str(state_dir)!r}))))\n"
        "try: switch.apply(filtered(a_filter(Gate(1))))\n"
        "except AgentError as error: print(error)\n"
    )
    lacking = ["setpriv", "--bounding-set=-bpf,-sys_admin", sys.executable, "-c", program]
    run = subprocess.run(
        lacking, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert run.stdout.startswith("port br0: streams cannot be filtered: ")
    assert "(EPERM)" in run.stdout
    with IPRoute() as ipr:
        assert not list(ipr.get_filters(index_of(ipr, "p1")))


def test_a_thousand_streams_on_one_switch(switch, wire):
    addresses = [
        Address("p1", number, f"02-54-53-4E-{number >> 8:02X}-{number & 255:02X}", VLAN_ID)
        for number in range(1000)
    ]
    filters = [
        a_filter(half_open(number), id=number, handle=number, meter=Meter(number, 1000, 1000))
        for number in range(1000)
    ]
    wanted = filtered(*filters, addresses=addresses)
    before_s = time.process_time()
    switch.apply(wanted)
    applied_s = time.process_time()
    assert switch.apply(wanted).steps == ()
    print(
        f"applied in {applied_s - before_s:.2f} s, again in {time.process_time() - applied_s:.2f}"
    )
    send(phases(10), to=addresses[999].mac)
    assert counters(switch, 999).passing == 5
    one_differs = filtered(replace(filters[0], max_sdu_octets=9), *filters[1:], addresses=addresses)
    switch.apply(one_differs)
    assert counters(switch, 999).passing == 5
    switch.apply({})


def test_more_instances_than_there_is_room_for_are_refused(switch):
    filters = [a_filter(Gate(1), id=number) for number in range(4097)]
    with pytest.raises(AgentError, match="4097 stream filters are more than the 4096"):
        switch.apply(filtered(*filters))
