"""What becomes of stream filters: changed, killed half-way, adopted, removed, refused; and many.

talker q1 ══ p1 ┬ br0 ┬ p2 ══ q2 ┬ br1 ┬ q3 ══ p3 listener
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from agent.kernel.bpf import PinnedObject
from agent.kernel.bpf_map import Map
from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.stream_filters.layout import LAYOUT
from agent.mechanisms.stream_filters.model import (
    Address,
    FilterCounters,
    Gate,
    Meter,
    StreamFilterConfig,
    StreamFilterState,
)
from agent.model import AgentError
from agent.switch import Switch
from tests.kernel.filtered_streams import (  # noqa: F401
    AT_P1,
    CLOSED,
    FCS,
    MAC_HEADER,
    TAG,
    a_filter,
    counters,
    filtered,
    half_open,
    phases,
    send,
    state_dir,
    switch,
)
from tests.kernel.two_bridges import (  # noqa: F401
    FRAMES,
    STREAM,
    VLAN_ID,
    asked,
    bridges,
    forwarded,
    hooks,
    index_of,
    table,
    tc,
    wire,
)


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


def test_a_program_of_another_version_is_replaced_and_keeps_what_is_counted(
    switch, state_dir, wire
):
    wanted = filtered(a_filter(Gate(1, CLOSED)))
    switch.apply(wanted)
    send([None] * FRAMES)
    pins = state_dir / "bpf" / f"stream_filters-{LAYOUT}"
    (program,) = pins.glob("program-*")
    program.rename(pins / "program-of-another-version")
    (step,) = switch.apply(wanted).steps
    assert "of this version" in step.changes[0].description
    assert list(pins.glob("program-*")) == [program]
    send([None] * FRAMES)
    assert wire() == []
    assert counters(switch).not_passing == 2 * FRAMES
    assert switch.apply(wanted).steps == ()


def test_a_port_that_leaves_its_bridge_filters_no_more(switch):
    wanted = filtered(a_filter(Gate(1, CLOSED)), a_filter(Gate(1, CLOSED), id=2, handle=None))
    switch.apply(wanted)
    assert hooks("p2") == ["clsact"]
    with IPRoute() as ipr:
        ipr.link("set", index=index_of(ipr, "p2"), master=0)
    (forwarding,) = forwarded("br0", "p1", to="p1")["br0"].parts
    filters = wanted["br0"][StreamFilterConfig]
    switch.apply(asked("br0", forwarding, filters))
    assert hooks("p2") == []
    assert hooks("p1") == ["clsact"]


def test_without_the_right_the_reason_is_told_before_anything_changes(state_dir, bridges):
    program = (
        "from pathlib import Path; from agent.kernel.ports import KernelPorts\n"
        "from agent.mechanisms import mechanisms; from agent.model import AgentError\n"
        "from agent.switch import Switch\n"
        "from tests.kernel.filtered_streams import Gate, a_filter, filtered\n"
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
