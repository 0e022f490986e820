"""The program of a plant with one axis or two, what is recorded of a path, and its picture."""

from __future__ import annotations

import csv
import socket
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnc.loops.model import Loop
from cnc.testbed.experiments import pictures
from cnc.testbed.experiments.control_loop.path_picture import path_picture
from cnc.testbed.traffic.ethernet import Arrival
from cnc.testbed.traffic.loop import axes, program, run
from cnc.testbed.traffic.loop.parts import controller_of
from cnc.testbed.traffic.loop.path_error import driven, path_error
from cnc.testbed.traffic.loop.run import Curve
from tests.unit.loop_curves import ARM, BELT, LOOP, curve

ANSWER = struct.Struct("!HIq")  # as a listener has it: flow number, sequence number, arrival


class Answering:
    """The rest of a loop, in this process: answers each sample at once, but for some.

    Its controller may count a period more than the plant, 1 `ahead`, or one less, -1: an answer has
    the number of the controller's own period, and a sample is of no use before that has come.
    """

    def __init__(self, loop: Loop, lost: Sequence[int], number: int, ahead: int) -> None:
        self.socket, self._sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._controllers = [
            controller_of(axes.numbers(loop.controller), loop.period_ns, "")
            for _ in axes.resting(loop)
        ]
        self._references = axes.references(loop)["references"]
        self._lost, self._number, self._ahead = lost, number, ahead
        self._held: list[bytes] = []
        self._content = program.content_of(len(self._controllers))

    def send_probe(self, _number: int, seq: int, content: bytes) -> None:
        sample, *values = self._content.unpack(content)
        assert sample == seq
        commands = [
            controller(reference, value)
            for controller, reference, value in zip(
                self._controllers, self._references[seq], values, strict=True
            )
        ]
        self._held.append(self._content.pack(seq, *commands))
        if self._ahead < 0 and len(self._held) == 1:
            return
        answer = self._held[-2 if self._ahead < 0 else -1]
        if seq not in self._lost:
            self._sending.send(ANSWER.pack(self._number, seq + self._ahead, 0) + answer)

    def receive_with_content(self, octets: int) -> tuple[Arrival, bytes]:
        data = self.socket.recv(100)
        assert len(data) == ANSWER.size + octets
        return Arrival(*ANSWER.unpack_from(data)), data[ANSWER.size :]


def plant_alone(
    loop: Loop,
    directory: Path,
    patch: pytest.MonkeyPatch,
    lost: Sequence[int] = (),
    ahead: int = 0,
) -> Curve:
    """What the plant's program records where answers come at once, but for those to `lost`, from a
    controller that is so many periods ahead."""
    start_ns = 1_000_000_000
    other = Answering(loop, lost, program.number_of(start_ns, actuator=True), ahead)
    for name in ("outlet_of", "listener_of"):
        patch.setattr(program, name, lambda _its: other)
    patch.setattr(program, "wait_for_start", lambda: start_ns)
    for name in ("rehearse", "sleep_until"):
        patch.setattr(program, name, lambda *_its: None)
    file = directory / "plant.csv"
    spec = {"flow": {}, "listener": {}, "turn": 0, "sampled_ns": 0, "drain_ns": 0}
    times = {"period_ns": loop.period_ns, "deadline_ns": loop.deadline_ns, "periods": loop.periods}
    its = {"controlled": axes.controlled(loop, ""), "inputs": axes.inputs(loop)}
    its["resting"] = axes.resting(loop)
    program.plant({**spec, **times, **its, "output": str(file)})
    with file.open(newline="") as opened:
        _, *rows = csv.reader(opened)
    station: Any = SimpleNamespace(rows=lambda: rows)
    answers: Any = SimpleNamespace(rows=lambda: [[n, "", n, "0"] for n in range(loop.periods)])
    plan: Any = SimpleNamespace(streams={loop.sensor: SimpleNamespace(talker_offsets_ns=(0,))})
    return Curve(loop, run._joined(plan, loop, (station, answers), 0))


@pytest.mark.parametrize("loop", [BELT, LOOP], ids=["belt", "arm"])
def test_a_plant_in_time_has_the_undisturbed_path_to_the_last_digit(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert plant_alone(loop, tmp_path, monkeypatch).axes == run.undisturbed_axes(loop)


@pytest.mark.parametrize("loop", [BELT, LOOP], ids=["belt", "arm"])
def test_commands_that_are_lost_make_the_path_error_larger(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    of = {
        name: path_error(loop, plant_alone(loop, tmp_path, monkeypatch, lost).axes)
        for name, lost in (("none", ()), ("some", range(40, 90)))
    }
    assert of["some"].maximum > 1.2 * of["none"].maximum
    assert of["some"].root_mean_square > of["none"].root_mean_square


@pytest.mark.parametrize("ahead", [1, -1])
def test_where_clocks_are_a_period_apart_every_command_is_counted_as_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
):
    found = plant_alone(BELT, tmp_path, monkeypatch, ahead=ahead)
    assert found.missed == BELT.periods
    # What acts is the answer to the sample before.
    acted = [period.acting_sample for period in found.periods]
    assert acted == [None, *range(BELT.periods - 1)]


def test_a_loop_that_has_begun_by_the_clock_of_a_station_ends_its_program(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(program, "tai_ns", lambda: 3_500_000_000)
    with pytest.raises(SystemExit) as ended:
        program.rehearse(SimpleNamespace(), 1_000_000_000, 0)  # type: ignore[arg-type]
    assert ended.value.code == "by the clock of this station the loop began 2.5 s ago"


def test_the_record_of_an_arm_has_both_joints_and_its_path(tmp_path: Path):
    run.write(curve(LOOP, axes.references(LOOP)["references"]), tmp_path / "loop.csv")
    with (tmp_path / "loop.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [*rows[0]][len(run.COLUMNS) :] == [
        *("output_2", "command_2", "planned_x", "planned_y", "driven_x", "driven_y", "path_error"),
    ]
    last = {key: float(value) for key, value in rows[-1].items()}
    assert ARM.tip((last["output"], last["output_2"])) == (last["driven_x"], last["driven_y"])
    assert last["driven_x"] == pytest.approx(last["planned_x"])
    assert last["command_2"] == 0.5


def test_the_record_of_a_belt_has_its_path_and_that_of_a_step_none(tmp_path: Path):
    ideal = run.undisturbed_axes(BELT)
    points = [*zip(*ideal, strict=True)]
    for loop, more in ((BELT, ",planned,driven,path_error"), (replace(BELT, path=None), "")):
        run.write(curve(loop, points), tmp_path / "loop.csv")
        header, first, *_ = (tmp_path / "loop.csv").read_text().splitlines()
        assert header == ",".join(run.COLUMNS) + more
        assert first.count(",") == header.count(",")


def test_a_picture_shows_a_path_planned_and_driven(tmp_path: Path):
    for loop in (BELT, LOOP):
        its = curve(loop, [*zip(*run.undisturbed_axes(loop), strict=True)])
        picture = path_picture(its)
        text = pictures.save([picture], tmp_path, {})["path"]
        assert (tmp_path / "path.svg").read_text() == text
        assert "path error, m" in text or "<!-- path error, m -->" in text
        assert len(driven(loop, its.axes)) == loop.periods
