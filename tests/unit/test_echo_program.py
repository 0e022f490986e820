"""The programs of the latency characterizer, in one process: a test PC that asks in turn, and
components that turn commands back or pass them on."""

from __future__ import annotations

import csv
import itertools
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cnc.testbed.traffic.echo import program
from cnc.testbed.traffic.echo.chain import Component, echo_points
from cnc.testbed.traffic.ethernet import Arrival

MS = 1_000_000
START_NS = 1_000_000_000
HEADER = struct.Struct("!HIq")  # as a listener has it: flow number, sequence number, arrival
RUN = 3


def test_echo_points_are_in_the_order_in_which_a_command_passes_them():
    chain = [Component("srv", "h1", MS), Component("robot", "h2", MS, moving_ns=110 * MS)]
    assert [(point.number, point.name) for point in echo_points(chain)] == [
        (0, "srv entry"),
        (1, "srv exit"),
        (2, "robot entry"),
        (3, "robot exit(1)"),
        (4, "robot exit(2)"),
    ]


def test_commands_leave_at_instants_of_the_seed_on_average_an_interval_apart():
    def first(seed: int) -> list[int]:
        return [*itertools.islice(program.instants(seed, START_NS, 20 * MS), 2_000)]

    assert first(1) == first(1)
    assert first(1) != first(2)
    gaps = [other - one for one, other in itertools.pairwise(first(1))]
    assert first(1)[0] == START_NS
    assert 10 * MS <= min(gaps) < 10.2 * MS
    assert 29.8 * MS < max(gaps) < 30 * MS
    assert sum(gaps) / len(gaps) == pytest.approx(20 * MS, rel=0.02)


class Line:
    """A listener's socket that has what others put into it, and outlets that note what is sent."""

    def __init__(self) -> None:
        self.socket, self._into = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def put(self, number: int, seq: int, received_ns: int, content: bytes) -> None:
        self._into.send(HEADER.pack(number, seq, received_ns) + content)

    def receive_with_content(self, octets: int) -> tuple[Arrival, bytes]:
        data = self.socket.recv(100)
        return Arrival(*HEADER.unpack_from(data)), data[HEADER.size : HEADER.size + octets]

    def receive(self) -> Arrival:
        return self.receive_with_content(0)[0]


class Clock:
    """A clock that goes on in waits only."""

    def __init__(self) -> None:
        self.now_ns = START_NS

    def sleep_until(self, instant_ns: int) -> None:
        self.now_ns = max(self.now_ns, instant_ns)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    its = Clock()
    monkeypatch.setattr(program, "sleep_until", its.sleep_until)
    monkeypatch.setattr(program, "tai_ns", lambda: its.now_ns)
    monkeypatch.setattr(program, "be_punctual", lambda *, go_first: None)
    monkeypatch.setattr(program, "report_ready", lambda: None)
    monkeypatch.setattr(program, "wait_for_start", lambda: START_NS)
    return its


def rows_of(file: Path) -> list[list[str]]:
    with file.open(newline="") as opened:
        return [*csv.reader(opened)][1:]


# --- a component ---------------------------------------------------------------------------------


def passed(
    clock: Clock, directory: Path, patch: pytest.MonkeyPatch, commands: list[tuple[bool, int]]
) -> list[tuple[str, int, bool, int]]:
    """What a component with the points 2 to 4 sends, where to and how long after its arrival, when
    these come: whether it is an echo, and the point."""
    line, sent = Line(), []

    class Noting:
        def __init__(self, way: str) -> None:
            self._way = way

        def send_probe(self, number: int, seq: int, content: bytes) -> None:
            assert number == RUN
            came_ns = START_NS + seq * 1_000 * MS
            sent.append((self._way, clock.now_ns - came_ns, *program.CONTENT.unpack(content)))

    def arriving() -> Iterator[list[tuple[int, int]]]:
        for seq, content in enumerate(commands):
            clock.now_ns = START_NS + seq * 1_000 * MS
            line.put(RUN, seq, clock.now_ns, program.CONTENT.pack(*content))
            yield [(line.socket.fileno(), 1)]
        yield [(0, 1)]  # the standard input is closed

    arrivals = arriving()
    patch.setattr(program, "listener_of", lambda _spec: line)
    patch.setattr(program, "Outlet", Noting)
    patch.setattr(program.select, "poll", lambda: Polled(arrivals))
    file = directory / "component.csv"
    spec: dict[str, Any] = {"before": "back", "behind": "on", "listener": {}, "entry": 2}
    program.component({**spec, "leaves_ns": [5 * MS, 115 * MS], "output": str(file)})
    assert rows_of(file) == [[str(sum(not is_echo for is_echo, _ in commands))]]
    return sent


class Polled:
    def __init__(self, ready: Iterator[list[tuple[int, int]]]) -> None:
        self._ready = ready

    def register(self, *_its: object) -> None:
        pass

    def poll(self) -> list[tuple[int, int]]:
        return next(self._ready)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ((False, 2), ("back", 0, True, 2)),  # its entry: at once
        ((False, 3), ("back", 5 * MS, True, 3)),  # its exit: after the work
        ((False, 4), ("back", 115 * MS, True, 4)),  # held until the actuator has moved
        ((False, 5), ("on", 5 * MS, False, 5)),  # for one behind it: after the work
        ((True, 5), ("back", 0, True, 5)),  # an echo that passes: at once
    ],
)
def test_a_component_turns_back_what_is_for_it_and_passes_on_the_rest(
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[bool, int],
    sent: tuple[str, int, bool, int],
):
    assert passed(clock, tmp_path, monkeypatch, [command]) == [sent]


def test_the_last_component_drops_what_is_for_none(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    original = program.component
    monkeypatch.setattr(program, "component", lambda spec: original({**spec, "behind": None}))
    assert passed(clock, tmp_path, monkeypatch, [(False, 9), (False, 2)]) == [("back", 0, True, 2)]


# --- the test PC ---------------------------------------------------------------------------------


class Echoing(Line):
    """The rest of the chain: echoes each command after a time by its point, but for the lost."""

    def __init__(self, clock: Clock, round_trips_ns: dict[int, int], lost: list[int]) -> None:
        super().__init__()
        self._clock, self._round_trips_ns, self._lost = clock, round_trips_ns, lost
        self.echoes_twice = False

    def send_probe(self, number: int, seq: int, content: bytes) -> None:
        is_echo, point = program.CONTENT.unpack(content)
        assert not is_echo
        if seq in self._lost:
            return
        came_ns = self._clock.now_ns + self._round_trips_ns[point]
        if self.echoes_twice:
            self.put(number, seq - 1, came_ns - 1, content)  # of a command before: too late
        self.put(number, seq, came_ns, content)


def asked(
    clock: Clock,
    directory: Path,
    patch: pytest.MonkeyPatch,
    rest: Echoing,
    **changes: int,
) -> list[list[int | None]]:
    """The rows that a test PC leaves; instants count from its start."""
    patch.setattr(program, "listener_of", lambda _spec: rest)
    patch.setattr(program, "Outlet", lambda _spec: rest)
    file = directory / "test-pc.csv"
    spec: dict[str, Any] = {"behind": {}, "listener": {}, "run": RUN, "seed": 1}
    spec |= {"points": [2, 3], "names": ["srv entry", "srv exit"]}
    times = {"interval_ns": 20 * MS, "gives_up_ns": 5 * MS, "lead_ns": 0}
    program.ask_all({**spec, **times, "least": 3, "most": 9, **changes, "output": str(file)})
    return [
        [
            int(round_),
            int(point),
            int(sent) - START_NS,
            int(received) - START_NS if received else None,
        ]
        for round_, point, sent, received in rows_of(file)
    ]


def test_a_test_pc_asks_in_turn_and_stops_by_the_rule(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 4 * MS}, [])
    rows = asked(clock, tmp_path, monkeypatch, rest)
    assert [row[:2] for row in rows] == [[n, point] for n in range(3) for point in (2, 3)]
    assert [row[3] - row[2] for row in rows if row[2] and row[3]] == [MS, 4 * MS] * 3


def test_the_first_round_does_not_count(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 4 * MS}, [])
    rows = asked(clock, tmp_path, monkeypatch, rest)
    third = [*itertools.islice(program.instants(1, 0, 20 * MS), 3)][2]
    assert rows[0][2] == third


def test_no_command_leaves_while_an_echo_is_out(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 110 * MS}, [])
    rows = asked(clock, tmp_path, monkeypatch, rest)
    drawn = {*itertools.islice(program.instants(1, 0, 20 * MS), 100)}
    assert {row[2] for row in rows} <= drawn
    assert all((one[3] or 0) <= (other[2] or 0) for one, other in itertools.pairwise(rows))


def test_a_lost_echo_is_told_and_its_round_does_not_count(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 4 * MS}, [6])  # the second point of the second round
    rows = asked(clock, tmp_path, monkeypatch, rest)
    assert [row[:2] for row in rows if row[3] is None] == [[1, 3]]
    assert rows[-1][:2] == [3, 3]


def test_the_echo_of_a_command_before_is_none_of_this_one(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 4 * MS}, [])
    rest.echoes_twice = True
    rows = asked(clock, tmp_path, monkeypatch, rest)
    assert [row[3] - row[2] for row in rows if row[2] and row[3]] == [MS, 4 * MS] * 3


def test_a_point_that_never_answers_ends_the_program_by_its_name(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SystemExit, match="no echo came from srv exit"):
        asked(clock, tmp_path, monkeypatch, Echoing(clock, {2: MS}, [2]))


def test_too_many_lost_echoes_end_the_program(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rest = Echoing(clock, {2: MS, 3: 4 * MS}, [*range(5, 100)])
    with pytest.raises(SystemExit, match="only 1 of 9 rounds had all their echoes"):
        asked(clock, tmp_path, monkeypatch, rest)
