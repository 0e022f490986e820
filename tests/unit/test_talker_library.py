"""The library with which programs of an end station send on time."""

from __future__ import annotations

import itertools
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mechanisms.talker_offsets.file import encode
from agent.mechanisms.talker_offsets.lateness import decode
from agent.mechanisms.talker_offsets.model import Launches, OffsetState, OffsetTable, Transmission
from agent.wake_ups import WakeUps
from cnc.talker import OffsetFile, Offsets, OffsetsError, Talker, lateness, mark, talker
from cnc.talker.__main__ import main
from cnc.talker.lateness import Lateness
from cnc.talker.offsets import parse
from cnc.testbed.traffic import endpoint
from tests.stack.netconfd_process import wait_until

MS = 1_000_000
S = 1_000 * MS
BASE_NS = 100 * S


def sent(offset_ns, period_ns=MS, name="motor", path=1, **more):
    leaves = {"payload_octets": 100, "priority": 5, "dscp": 46, "listeners": ("drive",)} | more
    return Transmission(name, path, period_ns, offset_ns, **leaves)


def table(*transmissions, base_time_ns=0):
    return OffsetTable(base_time_ns, transmissions)


def offsets(**interfaces) -> Offsets:
    """What an application reads of what an agent writes."""
    return parse(encode({name: OffsetState(*tables) for name, tables in interfaces.items()}))


def departures(published: Offsets, earliest_ns: int, number: int, stream="motor"):
    found = []
    for _ in range(number):
        departure = published.departure(stream, earliest_ns)
        if departure is None:
            break
        found.append((departure.period_begin_ns, departure.instant_ns))
        earliest_ns = departure.period_begin_ns + 1
    return found


def test_a_frame_leaves_at_its_offset_in_each_period_counted_from_1970():
    published = offsets(eth0=(table(sent(12_000)),))
    assert departures(published, 7 * MS + 1, 2) == [
        (8 * MS, 8 * MS + 12_000),
        (9 * MS, 9 * MS + 12_000),
    ]


def test_the_marks_of_a_stream_are_those_of_the_table():
    departure = offsets(eth0=(table(sent(0, dscp=None, priority=3)),)).departure("motor", 0)
    assert departure
    assert (departure.stream.priority, departure.stream.dscp) == (3, None)


def test_what_is_not_planned_has_no_departure():
    published = offsets(eth0=(table(sent(0)),))
    assert published.departure("camera", 0) is None
    assert published.departure("motor", 0, path=2) is None
    assert Offsets({}).departure("motor", 0) is None


def test_a_new_offset_applies_to_periods_that_begin_at_the_base_time_or_later():
    published = offsets(
        eth0=(table(sent(900_000)), table(sent(10_000), base_time_ns=BASE_NS)),
    )
    assert departures(published, BASE_NS - 2 * MS, 4) == [
        (BASE_NS - 2 * MS, BASE_NS - 2 * MS + 900_000),
        (BASE_NS - MS, BASE_NS - MS + 900_000),
        (BASE_NS, BASE_NS + 10_000),
        (BASE_NS + MS, BASE_NS + MS + 10_000),
    ]


def test_a_period_that_has_begun_keeps_its_offset():
    changed = table(sent(10_000), base_time_ns=BASE_NS + 500_000)
    published = offsets(eth0=(table(sent(900_000)), changed))
    assert departures(published, BASE_NS, 2) == [
        (BASE_NS, BASE_NS + 900_000),
        (BASE_NS + MS, BASE_NS + MS + 10_000),
    ]


def test_a_stream_begins_with_its_table_and_ends_with_the_next():
    until = offsets(eth0=(table(sent(0)), table(base_time_ns=BASE_NS)))
    assert departures(until, BASE_NS - MS, 9) == [(BASE_NS - MS, BASE_NS - MS)]
    since = offsets(eth0=(None, table(sent(0), base_time_ns=BASE_NS)))
    assert departures(since, 0, 1) == [(BASE_NS, BASE_NS)]


def test_a_stream_that_changes_its_interface_goes_on():
    published = offsets(
        eth0=(table(sent(0)), table(base_time_ns=BASE_NS)),
        eth1=(None, table(sent(5), base_time_ns=BASE_NS)),
    )
    assert departures(published, BASE_NS - MS, 2) == [
        (BASE_NS - MS, BASE_NS - MS),
        (BASE_NS, BASE_NS + 5),
    ]


@given(
    period_ns=st.integers(1, 10 * MS),
    before=st.integers(0, 2**40),
    after=st.integers(0, 2**40),
    base=st.integers(1, 2**20),
    back=st.integers(0, 20),
)
def test_a_moved_stream_has_one_frame_in_every_period(period_ns, before, after, base, back):
    base_time_ns = base * period_ns
    published = offsets(
        eth0=(
            table(sent(before % period_ns, period_ns)),
            table(sent(after % period_ns, period_ns), base_time_ns=base_time_ns),
        )
    )
    first_ns = max(0, base - back) * period_ns
    begins = [begin for begin, _ in departures(published, first_ns, 40)]
    assert begins == [first_ns + n * period_ns for n in range(40)]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**8), st.integers(0, 10**8))
def test_no_frame_of_either_table_leaves_in_the_time_of_the_other(one, other, base, back):
    published = offsets(
        eth0=(table(sent(0, one)), table(sent(0, other), base_time_ns=base)),
    )
    found = departures(published, max(0, base - back % (10 * one)), 40)
    assert all(begin % (one if begin < base else other) == 0 for begin, _ in found)
    assert all(a < b for (a, _), (b, _) in itertools.pairwise(found))


# --- the file ------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "offsets.json"


def publish(path, *tables):
    """As the agent does: the file is replaced."""
    new = path.with_suffix(".new")
    new.write_bytes(encode({"eth0": OffsetState(*tables)}))
    new.replace(path)


def test_a_station_without_a_file_has_no_stream(path):
    assert OffsetFile(path).offsets() == Offsets({})


def test_a_file_is_read_again_when_it_has_changed_and_only_then(path, monkeypatch):
    publish(path, table(sent(1)))
    file = OffsetFile(path)
    first = file.offsets()
    assert file.offsets() is first
    publish(path, table(sent(2)))
    assert file.offsets().departure("motor", 0).instant_ns == 2
    path.unlink()
    assert file.offsets() == Offsets({})


@pytest.mark.parametrize("content", ["", "[]", '{"format": "tsn-offsets/2"}', "{"])
def test_what_is_no_table_is_an_error_that_names_the_file(path, content):
    path.write_text(content)
    with pytest.raises(OffsetsError, match=r"offsets\.json cannot be read: .*tsn-agent"):
        OffsetFile(path).offsets()


def test_a_period_of_0_is_refused(path):
    document = json.loads(encode({"eth0": OffsetState(table(sent(0)))}))
    document["interfaces"]["eth0"]["running"]["stream"][0]["period-ns"] = 0
    path.write_text(json.dumps(document))
    with pytest.raises(OffsetsError, match="the period of motor is 0 ns"):
        OffsetFile(path).offsets()


# --- the loop ------------------------------------------------------------------------------------


class Clock:
    """CLOCK_TAI of a test: it moves when somebody sleeps, and calls what is due then."""

    def __init__(self, now_ns):
        self.now_ns = now_ns
        self.due = []

    def tai_ns(self):
        return self.now_ns

    def sleep_until(self, instant_ns):
        for at_ns, call in sorted(self.due, key=lambda each: each[0]):
            if at_ns <= instant_ns:
                self.due.remove((at_ns, call))
                call()
        self.now_ns = max(self.now_ns, instant_ns)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(BASE_NS - 3 * S)
    monkeypatch.setattr(talker, "tai_ns", clock.tai_ns)
    monkeypatch.setattr(talker, "sleep_until", clock.sleep_until)
    return clock


def instants(talks, number):
    return [each.instant_ns for each in itertools.islice(talks.departures(), number)]


def test_each_departure_is_handed_out_at_its_instant(path, clock):
    publish(path, table(sent(12_000)))
    for departure in itertools.islice(Talker(OffsetFile(path), "motor").departures(), 3):
        assert clock.now_ns == departure.instant_ns


def test_a_talker_with_a_long_period_hears_of_a_push_while_it_waits(path, clock):
    publish(path, table(sent(0, 10 * S)))
    moved = table(sent(4 * S, 10 * S), base_time_ns=BASE_NS)
    clock.due.append((BASE_NS - 2 * S, lambda: publish(path, table(sent(0, 10 * S)), moved)))
    assert instants(Talker(OffsetFile(path), "motor"), 1) == [BASE_NS + 4 * S]


def test_a_talker_waits_for_its_stream_to_be_planned_again(path, clock):
    publish(path, table())
    clock.due.append((BASE_NS, lambda: publish(path, table(sent(7)))))
    talks = Talker(OffsetFile(path), "motor")
    (instant_ns,) = instants(talks, 1)
    assert BASE_NS <= instant_ns < BASE_NS + S
    assert talks.skipped == 0


def test_periods_in_which_the_program_was_stopped_are_counted_and_not_made_up_for(path, clock):
    publish(path, table(sent(0)))
    talks = Talker(OffsetFile(path), "motor")
    running = talks.departures()
    first = next(running)
    clock.now_ns += 5 * MS + 500
    assert next(running).instant_ns == first.instant_ns + 5 * MS
    assert talks.skipped == 4


def test_a_talker_is_told_what_is_missing(path, clock):
    with pytest.raises(OffsetsError, match="has no stream motor: push a plan with it"):
        Talker(OffsetFile(path), "motor").wait_until_told(timeout_s=1)


# --- how late it sends ---------------------------------------------------------------------------


def told(path, name="motor.1"):
    """What the agent reads of the talker."""
    return decode((path.parent / "lateness" / name).read_bytes()).lateness


@pytest.fixture
def heard(path):
    """An agent that hears talkers."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / "lateness").mkdir()


def send(path, clock, *late_ns, note=lambda _talks: None):
    """Frames that leave so late; the last period is not over when the program ends."""
    talks = Talker(OffsetFile(path), "motor")
    running = talks.departures()
    for each_ns in late_ns:
        departure = next(running)
        clock.now_ns = departure.instant_ns + each_ns
        note(talks)
    next(running)
    running.close()


def test_a_talker_whose_frames_are_launched_tells_which_did_not_leave(tmp_path):
    measured = Lateness(tmp_path / "motor.1")
    measured.missed, measured.refused = 2, 1
    measured.write()
    stated = decode((tmp_path / "motor.1").read_bytes())
    assert (stated.lateness, stated.launches) == (None, Launches(2, 1))
    measured.add(40)
    measured.write()
    assert decode((tmp_path / "motor.1").read_bytes()).lateness == WakeUps(1, 40, None)


def test_departures_with_a_lead_come_so_long_before_their_instants(path, clock):
    publish(path, table(sent(100_000)))
    running = Talker(OffsetFile(path), "motor", lead_ns=3 * MS).departures()
    for _ in range(3):
        departure = next(running)
        assert clock.now_ns == departure.instant_ns - 3 * MS


@pytest.mark.usefixtures("heard")
def test_a_talker_tells_the_agent_how_late_it_sent(path, clock):
    publish(path, table(sent(0)))
    send(path, clock, 300, 91_000, 40)
    assert told(path) == WakeUps(3, 91_000, None)
    assert stat.S_IMODE((path.parent / "lateness" / "motor.1").stat().st_mode) == 0o644


@pytest.mark.usefixtures("heard")
def test_what_a_program_does_after_it_has_sent_does_not_count(path, clock):
    publish(path, table(sent(0)))

    def work(talks):
        talks.sent()
        clock.now_ns += 500_000

    send(path, clock, 300, 400, note=work)
    assert told(path).maximum_ns == 400


def test_a_station_without_an_agent_that_hears_hinders_nobody(path, clock):
    publish(path, table(sent(0)))
    send(path, clock, 300)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def figures(tmp_path, *late_ns):
    """What is written of these periods."""
    measured = Lateness(tmp_path / "motor.1")
    for each_ns in late_ns:
        measured.add(each_ns)
    measured.write()
    return decode((tmp_path / "motor.1").read_bytes()).lateness


def test_one_period_in_100_000_may_be_later_than_the_quantile(tmp_path):
    punctual = itertools.repeat(1_500, 99_999)
    assert figures(tmp_path, *punctual, 7_000_000) == WakeUps(100_000, 7_000_000, 2_000)
    assert figures(tmp_path, *itertools.repeat(1_500, 99_999)).quantile_ns is None


def test_a_quantile_is_never_above_the_maximum(tmp_path):
    assert figures(tmp_path, *itertools.repeat(1_500, 100_000)).quantile_ns == 1_500


def test_what_was_measured_a_day_ago_is_forgotten(tmp_path, boot_time):
    measured = Lateness(tmp_path / "motor.1")
    measured.add(9_000_000)
    boot_time.now_s += 24 * 3600
    measured.add(40)
    assert decode((tmp_path / "motor.1").read_bytes()).lateness == WakeUps(1, 40, None)


def test_the_agent_is_told_every_ten_seconds(tmp_path, boot_time):
    measured = Lateness(tmp_path / "motor.1")
    measured.add(40)
    boot_time.now_s += 9
    measured.add(40)
    assert not list(tmp_path.iterdir())
    boot_time.now_s += 1
    measured.add(40)
    assert decode((tmp_path / "motor.1").read_bytes()).lateness.count == 3


class BootTime:
    """CLOCK_BOOTTIME as the test sets it."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self):
        self.now_s = 1_000_000.0

    def clock_gettime(self, clock_id):
        assert clock_id == self.CLOCK_BOOTTIME
        return self.now_s


@pytest.fixture
def boot_time(monkeypatch):
    clock = BootTime()
    monkeypatch.setattr(lateness, "time", clock)
    return clock


# --- the example ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "address", "level", "option"),
    [
        (socket.AF_INET, "127.0.0.1", socket.IPPROTO_IP, socket.IP_TOS),
        (socket.AF_INET6, "::1", socket.IPPROTO_IPV6, socket.IPV6_TCLASS),
    ],
)
def test_a_socket_is_marked_for_the_network_and_for_the_own_port(family, address, level, option):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        mark(sock, 46, 5)
        assert sock.getsockopt(level, option) == 46 << 2
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == 5


def test_the_example_sends_frames_of_the_planned_size_and_measures_itself(path):
    publish(path, table(sent(0, 20 * MS)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(30)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "cnc.talker", "motor", "127.0.0.1"),
                *("--port", str(listener.getsockname()[1])),
                *("--frames", "3", "--wait", "10", "--offsets", str(path)),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        frames = [listener.recv(2000) for _ in range(3)]
    assert [int.from_bytes(each[:8], "big") for each in frames] == [0, 1, 2]
    assert {len(each) for each in frames} == {100 - 28}
    assert done.stdout.startswith("motor: 3 frames, ")
    assert "us at most" in done.stdout


def test_the_example_launches_no_frame_that_the_kernel_would_not_keep_to(path, capsys):
    """The loopback has no qdisc."""
    document = {"lo": OffsetState(table(sent(0, 20 * MS)))}
    path.write_bytes(encode(document))
    arguments = ["motor", "127.0.0.1", "--launch", "--frames", "1", "--offsets", str(path)]
    assert main(arguments) == 1
    assert "lo: frames of priority 5 meet no etf qdisc" in capsys.readouterr().err


def test_the_example_says_what_it_lacks_and_fails(path, capsys):
    assert main(["motor", "127.0.0.1", "--wait", "0", "--offsets", str(path)]) == 1
    assert "has no stream motor" in capsys.readouterr().err


TALKER = {
    "cnc.version",
    "cnc.talker",
    *(
        f"cnc.talker.{name}"
        for name in (
            "clock",
            "error_queue",
            "lateness",
            "launch",
            "marking",
            "offsets",
            "qdiscs",
            "talker",
        )
    ),
}


def test_the_library_needs_nothing_that_is_not_in_python(tmp_path):
    code = "import sys, cnc.talker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(talker.__file__).parents[2])},
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"__main__", "cnc"}
    assert not {name for name in done.stdout.split() if name.startswith("cnc.")} - TALKER


def test_a_real_wait_ends_when_a_push_brings_the_stream(path):
    seen = []
    talks = Talker(OffsetFile(path), "motor")
    thread = threading.Thread(target=lambda: seen.append(talks.wait_until_told(60)))
    thread.start()
    publish(path, table(sent(0, priority=4)))
    wait_until(lambda: bool(seen))
    thread.join()
    assert seen[0].priority == 4


# --- the talkers of the lab ----------------------------------------------------------------------


def lab_flow(path, name="motor"):
    return {"name": name, "offsets": str(path), "period_ns": MS, "offset_ns": 0}


def test_a_talker_of_the_lab_sends_when_the_agent_of_its_station_says(path):
    publish(path, table(sent(900_000)), table(sent(10_000), base_time_ns=BASE_NS))
    frames = endpoint.timeline(3, lab_flow(path), BASE_NS - 2 * MS, BASE_NS + 2 * MS)
    assert [frame[:3] for frame in frames] == [
        (BASE_NS - 2 * MS + 900_000, 3, 0),
        (BASE_NS - MS + 900_000, 3, 1),
        (BASE_NS + 10_000, 3, 2),
        (BASE_NS + MS + 10_000, 3, 3),
    ]


def test_a_talker_of_the_lab_hears_of_a_push_between_two_frames(path):
    publish(path, table(sent(0)))
    frames = endpoint.timeline(0, lab_flow(path), BASE_NS, BASE_NS + 3 * MS)
    assert next(frames)[0] == BASE_NS
    publish(path, table(sent(0)), table(sent(500), base_time_ns=BASE_NS + 2 * MS))
    assert [planned for planned, *_ in frames] == [BASE_NS + MS, BASE_NS + 2 * MS + 500]


def test_a_talker_of_the_lab_sends_to_the_address_that_its_agent_says_by_then(path):
    before = sent(0, destination_mac="03:00:00:00:00:01", vlan_id=10)
    after = sent(0, destination_mac="03:00:00:00:00:02", vlan_id=20)
    publish(path, table(before), table(after, base_time_ns=BASE_NS))
    frames = endpoint.timeline(0, lab_flow(path), BASE_NS - MS, BASE_NS + MS)
    assert [(told.destination_mac, told.vlan_id, told.priority) for *_, told in frames] == [
        ("03:00:00:00:00:01", 10, 5),
        ("03:00:00:00:00:02", 20, 5),
    ]


def test_a_talker_of_the_lab_refuses_to_guess(path):
    with pytest.raises(SystemExit, match=r"publishes no offset of stream motor.*push the plan"):
        endpoint.refuse_untold([lab_flow(path)], BASE_NS)
    publish(path, table(sent(0)))
    endpoint.refuse_untold([lab_flow(path)], BASE_NS)


def test_other_flows_keep_to_their_own_offsets():
    flow = {"name": "motor", "period_ns": MS, "offset_ns": 7, "frames": 1}
    endpoint.refuse_untold([flow], 0)
    assert list(endpoint.timeline(0, flow, 0, 2 * MS)) == [(7, 0, 0, None), (MS + 7, 0, 1, None)]
