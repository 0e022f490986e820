"""Captures of cables of a lab of kernels, as the program that carries frames has them."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.captures.pcapng import CaptureFile, Direction
from cnc.errors import CncError, InputError
from cnc.model import PortRef
from cnc.testbed.lab import inventory, lifecycle
from cnc.testbed.lab.kernels.layout import CONTROL, HOME, INTENT_FILE
from cnc.testbed.remote.frames import Decoder, Frame, Kind
from cnc.testbed.traffic.cables import CableCapture
from tests import pcapng_reader

LINE3 = intents.load(Path(__file__).parents[2] / "schedules" / "line3.yaml")
S1, S2 = PortRef("s1", "s2"), PortRef("s2", "s1")  # two ends of a cable


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the kernels of lab line3."""
    monkeypatch.setattr(lifecycle, "STATE_ROOT", tmp_path / "labs")
    directory, home = tmp_path / "labs" / "line3", tmp_path / "home"
    directory.mkdir(parents=True)
    (home / "shared").mkdir(parents=True)
    (home / "shared" / INTENT_FILE).write_text(json.dumps(LINE3.document))
    (directory / HOME).symlink_to(home)
    inventory.write(directory, inventory.of_intent(LINE3))
    return home


@contextmanager
def answering(home: Path, answer: Frame) -> Iterator[list[list[str]]]:
    """What looks after the kernels; the cables that were asked for."""
    asked: list[list[str]] = []

    def serve() -> None:
        stream, _ = listening.accept()
        with stream:
            (request,) = Decoder().feed(stream.recv(4096))
            assert request.kind is Kind.CAPTURE
            asked.append(json.loads(request.data))
            stream.sendall(answer.encoded())
            stream.recv(1)  # until the client is gone

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / CONTROL))
        listening.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        yield asked
        serving.join()


def of_cable(fate: str | None = None) -> bytes:
    """A frame each way; what the cable does to the first."""
    written = io.BytesIO()
    file = CaptureFile(written, application="", system="", comment="")
    for port in (S1, S2):
        file.add_interface(str(port), "", mac="02:00:00:00:00:01")
    file.add_frame(0, 10, bytes(60), Direction.OUTBOUND, [fate] if fate else [])
    file.add_frame(1, 20, bytes(61), Direction.OUTBOUND)
    return written.getvalue()


def test_a_port_has_what_it_sends_and_what_its_cable_brings(home: Path, tmp_path: Path):
    source, output = tmp_path / "source", io.BytesIO()
    source.write_bytes(of_cable())
    answer = Frame(Kind.OUTPUT, 0, str(source).encode())
    with answering(home, answer) as asked, CableCapture("line3", [S2]) as capturing:
        (captured,) = capturing.run(output, frames_max=2)
    assert asked == [["s1/s2"]]
    assert (captured.port, captured.frames, captured.dropped) == (S2, 2, 0)
    found = pcapng_reader.read(output.getvalue())
    assert found.ports == ["s2/s1"]
    assert [(each.time_ns, each.is_leaving, len(each.octets)) for each in found.frames] == [
        (10, False, 60),
        (20, True, 61),
    ]
    assert "s1/s2" in found.names.values()


def test_a_frame_that_its_cable_loses_left_its_port_and_came_to_none(home: Path, tmp_path: Path):
    source, output = tmp_path / "source", io.BytesIO()
    source.write_bytes(of_cable("damaged"))
    answer = Frame(Kind.OUTPUT, 0, str(source).encode())
    with answering(home, answer), CableCapture("line3", [S1, S2]) as capturing:
        capturing.run(output, frames_max=3)
    found = pcapng_reader.read(output.getvalue()).frames
    assert [(each.port, each.is_leaving, each.comments) for each in found] == [
        (str(S1), True, ["damaged"]),
        (str(S2), True, []),
        (str(S1), False, []),
    ]


def test_a_frame_that_is_being_written_is_read_once_it_is_whole(home: Path, tmp_path: Path):
    source, output = tmp_path / "source", io.BytesIO()
    octets = of_cable()
    source.write_bytes(octets[:-30])
    answer = Frame(Kind.OUTPUT, 0, str(source).encode())
    with answering(home, answer), CableCapture("line3", [S1, S2]) as capturing:
        assert [each.frames for each in capturing.run(output, frames_max=2)] == [1, 1]
        with source.open("ab") as more:
            more.write(octets[-30:])
        found = capturing.run(io.BytesIO(), frames_max=4)
    assert [each.frames for each in found] == [2, 2]


def test_a_capture_ends_with_its_lab_and_says_why(home: Path, tmp_path: Path):
    source, output = tmp_path / "source", io.BytesIO()
    source.write_bytes(of_cable())
    answer = Frame(Kind.OUTPUT, 0, str(source).encode())
    with answering(home, answer), CableCapture("line3", [S1]) as capturing:
        (home / "ended").write_text("kernel of s1: has ended, at 70 ns\n")
        with pytest.raises(CncError, match="line3 has ended: kernel of s1"):
            capturing.run(output)
    assert len(pcapng_reader.read(output.getvalue()).frames) == 2


def test_a_cable_that_another_captures_is_refused_with_its_name(home: Path):
    refused = Frame(Kind.ERRORS, 0, b"the cable of s1/s2 is being captured already")
    with answering(home, refused), pytest.raises(CncError, match="cable of s1/s2 is being"):
        CableCapture("line3", [S1])


def test_a_port_that_there_is_not_is_refused_with_those_that_there_are(home: Path):
    with pytest.raises(InputError, match="lab line3 has no port s1/s9") as refused:
        CableCapture("line3", [PortRef("s1", "s9")])
    assert "s1/s2" in str(refused.value.hint)


def test_a_lab_that_has_ended_says_why_and_is_not_captured(home: Path):
    (home / "ended").write_text("kernel of s1: has ended, at 70 ns\n")
    with pytest.raises(CncError, match="kernel of s1: has ended"):
        CableCapture("line3", [S1])
