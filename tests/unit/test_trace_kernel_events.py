"""Events of the kernel: read from its text, joined with frames, and what they tell apart."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc.errors import CncError, InputError
from cnc.model import Plan, PortRef
from cnc.plans import file as planfile
from cnc.testbed.cli.trace import trace
from cnc.testbed.lab import lifecycle, namespaces, wires
from cnc.testbed.lab.kernels import layout
from cnc.testbed.traffic.tap import Tap
from cnc.testbed.traffic.trace import account, circumstances, trace_text, tracefs
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.kernel_events import KernelEvents
from cnc.testbed.traffic.trace.summary import summarise
from cnc.testbed.traffic.trace.trace_text import (
    NET_DEV_QUEUE,
    NETIF_RX,
    SCHED_SWITCH,
    SCHED_WAKING,
    Event,
)
from tests.unit.traced_frames import T0, TORQUE_AT_S1, TORQUE_PLANNED, US, Record, part, torque

SCHEDULES = Path(__file__).parents[2] / "schedules"
TEXT = (Path(__file__).parent / "data" / "kernel-trace.txt").read_text().splitlines(keepends=True)
IDS = {380: NET_DEV_QUEUE, 378: NETIF_RX, 66: SCHED_WAKING, 63: SCHED_SWITCH}
RAW = [
    *("# tracer: nop\n", "#\n"),
    *("301 0 1000000000100 type: 63\n", "0 0 1000000002640 type: 380\n"),
    *("0 0 1000000008324 type: 378\n", "88 0 1000000009499 type: 378\n"),
    *("0 0 1000000026000 type: 66\n", "0 0 1000000026499 type: 63\n"),
]
LISTENER = 301


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def test_the_text_gets_its_nanoseconds_from_the_raw_trace():
    stamps = trace_text.Stamps(RAW, IDS)
    assert list(trace_text.events(stamps, TEXT)) == [
        Event(T0 + 100, SCHED_SWITCH, ("301", "0")),
        Event(T0 + 2_640, NET_DEV_QUEUE, ("s2", "00000000a1")),
        Event(T0 + 8_324, NETIF_RX, ("w4", "00000000a1")),
        Event(T0 + 9_499, NETIF_RX, ("w5", "00000000b2")),
        Event(T0 + 26_000, SCHED_WAKING, ("301",)),
        Event(T0 + 26_499, SCHED_SWITCH, ("0", "301")),
    ]


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        (5, TEXT[4][:70], "line 5: found"),  # truncated
        (5, TEXT[4].rstrip("\n"), "line 5: found"),
        (5, TEXT[4].replace("000003", "000004"), "the event of which the raw trace has the time"),
        (5, TEXT[4].replace("net_dev_queue", "netif_rx"), "the event of which the raw trace has"),
        (5, TEXT[4].replace("net_dev_queue", "net_dev_xmit"), "expected an event of"),
        (5, "CPU:0 [LOST 7 EVENTS]\n", "expected an event of"),
    ],
)
def test_a_line_that_is_no_event_or_another_is_refused(line: int, text: str, says: str):
    stamps = trace_text.Stamps(RAW, IDS)
    with pytest.raises(CncError, match=says):
        list(trace_text.events(stamps, [*TEXT[: line - 1], text, *TEXT[line:]]))


def test_a_text_that_ends_early_or_late_is_refused():
    with pytest.raises(CncError, match="ends after 5 of 6 events"):
        list(trace_text.events(trace_text.Stamps(RAW, IDS), TEXT[:-1]))
    with pytest.raises(CncError, match=r"line 9: found .* the raw trace has the time"):
        list(trace_text.events(trace_text.Stamps(RAW[:-1], IDS), TEXT))


@pytest.mark.parametrize("line", ["0 0 10000", "0 0 1 type: 77\n", "0 0 1 type: 63", "\n"])
def test_a_raw_line_that_is_something_else_is_refused(line: str):
    with pytest.raises(CncError, match=r"line 2: found .*, expected process, processor"):
        trace_text.Stamps(["0 0 1 type: 63\n", line], IDS)


STATS = "entries: 61\noverrun: 0\ncommit overrun: 0\nnow ts: 18.001\ndropped events: 0\n"


@pytest.mark.parametrize("name", ["overrun", "commit overrun", "dropped events"])
def test_events_that_found_no_room_are_counted(name: str):
    assert tracefs.lost(STATS) == 0
    assert tracefs.lost(STATS.replace(f"\n{name}: 0", f"\n{name}: 12")) == 12


def tracing(root: Path, events: tuple[str, ...] = trace_text.EVENTS) -> Path:
    (root / "instances").mkdir(parents=True)
    (root / "trace_clock").write_text("[local] global mono tai\n")
    for event in events:
        (root / "events" / event).mkdir(parents=True)
    return root


def test_a_kernel_that_cannot_is_refused_with_what_it_lacks(tmp_path: Path):
    with pytest.raises(InputError, match="no tracefs here that you may write to"):
        tracefs.TracingInstance("x", trace_text.EVENTS, [tmp_path])
    root = tracing(tmp_path / "few", trace_text.EVENTS[:3])
    with pytest.raises(InputError, match="has no event sched:sched_switch"):
        tracefs.TracingInstance("x", trace_text.EVENTS, [root])
    root = tracing(tmp_path / "old")
    (root / "trace_clock").write_text("[local] global mono\n")
    with pytest.raises(InputError, match=r"traces by \[local\] global mono, not by tai"):
        tracefs.TracingInstance("x", trace_text.EVENTS, [root])


def test_import_has_no_events(tmp_path: Path):
    file = tmp_path / "report.txt"
    file.write_text("")
    done = CliRunner().invoke(trace, ["--import", "--kernel", str(file)])
    assert done.exit_code == 2
    assert "it takes no --kernel" in done.output


def test_a_lab_with_a_kernel_for_each_node_has_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lifecycle, "STATE_ROOT", tmp_path)
    (tmp_path / "line3").mkdir()
    (tmp_path / "line3" / layout.HOME).symlink_to(tmp_path)
    with pytest.raises(InputError, match="--kernel: lab line3 has a kernel for each node"):
        trace.main([str(SCHEDULES / "line3.yaml"), "--kernel"], standalone_mode=False)


def test_a_lab_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lifecycle, "STATE_ROOT", tmp_path)
    its = tmp_path / "line3"
    its.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != its and access(path, mode))
    with pytest.raises(InputError, match="lab line3 is not yours") as raised:
        trace.main([str(SCHEDULES / "line3.yaml")], standalone_mode=False)
    assert raised.value.hint == "run this as root, who has started it"


def test_who_may_not_tap_a_port_is_told_what_it_takes(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(namespaces, "inside", refuse)
    with pytest.raises(InputError, match="s1/s2 cannot be tapped: Operation not permitted") as no:
        Tap("line3", PortRef("s1", "s2"))
    assert "CAP_SYS_ADMIN" in (no.value.hint or "")


# By the plan a frame of torque comes to s1 at TORQUE_AT_S1, and leaves at TORQUE_PLANNED.
LATE_NS = 700  # from its arrival until it is in the queue
PORTS = "s1/s2", "s2/s3", "s3/l1"


def of_torque(plan: Plan, seq: int = 0, address: str = "a1", late_ns: int = LATE_NS) -> list[Event]:
    """What the kernel says of a frame of torque that all switches have in the queue so late."""
    begin_ns = T0 + seq * 500 * US
    names = wires.interfaces(plan.intent.network)
    came = [TORQUE_AT_S1 - T0, *(planned + 2_140 for planned in TORQUE_PLANNED[:2])]
    said = []
    for arrived_ns, left_ns, port in zip(came, TORQUE_PLANNED, PORTS, strict=True):
        where = PortRef(*port.split("/"))
        queued_ns = begin_ns + arrived_ns + late_ns
        said.append(Event(queued_ns, NET_DEV_QUEUE, (where.port, address)))
        said.append(Event(begin_ns + left_ns, NETIF_RX, (names[where], address)))
    return said


def accounts(record: Record, events: list[Event]) -> list[Account]:
    plan, taps = record.plan, record.taps()
    ports = {name: port for port, name in wires.interfaces(plan.intent.network).items()}
    said = KernelEvents(sorted(events), ports, {"l1": LISTENER, "l2": 302}, taps)
    under = circumstances.of_one_kernel(plan, timed_wires=True)
    return list(account.account(under, record.sent, record.rows(), taps, said))


def test_until_a_frame_is_in_the_queue_it_is_processed(line3: Plan):
    record = Record(line3)
    torque(record)
    (found,) = accounts(record, of_torque(line3))
    (by_taps,) = record.accounts()
    assert part(by_taps, "s1/s2", Layer.PROCESSING) == 1_000
    assert part(found, "s1/s2", Layer.PROCESSING) == 1_000 + LATE_NS
    assert part(found, "s1/s2", Layer.QDISC) == 0
    assert part(found, "s1/s2", Layer.GATE_CLOSED) == TORQUE_PLANNED[0] - 2_640 - LATE_NS
    assert found.total_ns == by_taps.total_ns == sum(each.duration_ns or 0 for each in found.parts)


def test_what_a_queue_takes_beyond_its_gate_is_no_processing(line3: Plan):
    record = Record(line3)
    stamps = [(">t1/eth0", T0 + 500), ("s1/t1", TORQUE_AT_S1)]
    left_ns = T0 + TORQUE_PLANNED[0] + LATE_NS
    record.add("torque", 0, (T0, T0 + 300, T0 + 500), [], [*stamps, (">s1/s2", left_ns)])
    queue, leave = of_torque(line3, late_ns=0)[:2]
    (found,) = accounts(record, [queue, leave._replace(time_ns=left_ns)])
    assert part(found, "s1/s2", Layer.PROCESSING) == 1_000
    assert part(found, "s1/s2", Layer.QDISC) == LATE_NS


def test_an_address_that_a_later_frame_has_again_is_told_apart(line3: Plan):
    record = Record(line3)
    late_ns = (100, 900, 300)
    for seq in range(3):
        torque(record, seq)
    events = [each for seq in range(3) for each in of_torque(line3, seq, late_ns=late_ns[seq])]
    # One that was dropped in the queue, and one that another port of that name has meanwhile.
    events.append(Event(T0 + 499 * US, NET_DEV_QUEUE, ("s2", "a1")))
    events.append(Event(T0 + TORQUE_AT_S1 - T0 + 1, NET_DEV_QUEUE, ("s2", "b2")))
    found = accounts(record, events)
    waits = [part(each, "s1/s2", Layer.PROCESSING) for each in found]
    assert waits == [1_000 + each for each in late_ns]


def test_without_its_event_a_frame_is_incomplete_and_its_layers_are_absent(line3: Plan):
    record = Record(line3)
    for seq in range(3):
        torque(record, seq)
    events = [each for seq in range(3) for each in of_torque(line3, seq)]
    queued = [each for each in events if each.name == NET_DEV_QUEUE]
    departed = [each for each in events if each.name == NETIF_RX]
    stale = queued[3]._replace(time_ns=T0 + 400 * US)  # of a frame before
    for missing in (queued[3], departed[3]):
        for instead in ([], [stale]):
            kept = [each for each in events if each != missing]
            first, second, third = accounts(record, [*kept, *instead])
            assert second.total_ns is None
            assert part(second, "s1/s2", Layer.PROCESSING) is None
            assert part(second, "s1/s2", Layer.GATE_CLOSED) is None
            assert first.total_ns == third.total_ns == 30_927
    (flow,) = summarise(gather([first, second, third]))
    assert (flow.frames, flow.lost, flow.incomplete) == (3, 0, 1)


def waking(*instants: tuple[str, int]) -> Iterator[Event]:
    """The listener is woken, runs, or sleeps, at an instant after its frame came to the kernel."""
    came_ns = T0 + TORQUE_PLANNED[2] + 1_140
    for what, after_ns in instants:
        if what == "woken":
            yield Event(came_ns + after_ns, SCHED_WAKING, (str(LISTENER),))
        else:
            processes = ("0", str(LISTENER)) if what == "runs" else (str(LISTENER), "0")
            yield Event(came_ns + after_ns, SCHED_SWITCH, processes)


@pytest.mark.parametrize(
    ("instants", "wake_up_ns"),
    [
        ([("sleeps", -9), ("woken", 20), ("runs", 110)], 90),
        ([("sleeps", -9), ("woken", -5), ("runs", 110)], 110),  # for a frame before
        ([("sleeps", -9), ("woken", 20), ("runs", 9_000)], 280),  # after this one was delivered
        ([("runs", -9)], 0),
        ([("runs", -9), ("woken", 20), ("sleeps", 5_000), ("woken", 6_000), ("runs", 6_001)], 0),
        ([("sleeps", -90), ("woken", -80), ("runs", -70), ("woken", 400), ("runs", 500)], 0),
    ],
)
def test_what_a_program_is_woken_and_does_not_run_is_its_wake_up(
    line3: Plan, instants: list[tuple[str, int]], wake_up_ns: int
):
    record = Record(line3)
    torque(record)
    (found,) = accounts(record, [*of_torque(line3), *waking(*instants)])
    assert part(found, "l1", Layer.LISTENER_WAKE_UP) == wake_up_ns
    assert part(found, "l1", Layer.LISTENER) == 300 - wake_up_ns


def test_without_events_no_account_has_their_layers(line3: Plan):
    record = Record(line3)
    torque(record)
    (found,) = record.accounts()
    assert {each.layer for each in found.parts} <= {*account.layers()}
