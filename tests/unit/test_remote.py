"""Commands that run at the other end of a stream of octets."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.testbed.remote import client
from cnc.testbed.remote.frames import DATA_MAX_OCTETS, Decoder, Frame, FrameError, Kind, ended
from cnc.testbed.remote.server import NOT_FOUND, Server


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """The socket of a server for which every connection is a stream of its own."""
    path = tmp_path / "socket"
    listening = socket.create_server(str(path), family=socket.AF_UNIX)

    def serve(connected: socket.socket) -> None:
        with connected:
            Server(connected.fileno(), list, {"NODE": "s1"}).serve()

    def accept() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connected,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield path
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def run(served: Path, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", client.__file__, str(served), "--", *argv]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_a_command_has_the_streams_and_the_exit_code_of_its_client(served: Path):
    done = run(served, "sh", "-c", "cat; echo $NODE; echo no >&2; exit 3", text="one\ntwo\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "one\ntwo\ns1\n", "no\n")


def test_a_process_asks_for_a_command_itself(served: Path):
    octets = bytes(range(256)) * 1000
    with client.connect(str(served)) as stream:
        answer = client.ask(stream, ["sh", "-c", "sha256sum; echo no >&2; exit 3"], octets)
    digest = hashlib.sha256(octets).hexdigest()
    assert answer == client.Answer(3, f"{digest}  -\n".encode(), b"no\n")


def test_a_process_that_asks_is_told_when_the_stream_ends_first():
    stream, server = socket.socketpair()
    with stream, server:
        server.shutdown(socket.SHUT_WR)
        assert client.ask(stream, ["true"]).code == client.LOST


def test_errors_that_come_after_the_last_output_arrive(served: Path):
    done = run(served, "sh", "-c", "(sleep 0.2; echo late >&2) >&- & exec >&-")
    assert (done.returncode, done.stderr) == (0, "late\n")


def test_a_command_runs_in_the_directory_of_its_client(served: Path, tmp_path: Path):
    command = [sys.executable, "-I", client.__file__, str(served), "--", "pwd"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n"


def test_output_longer_than_a_frame_arrives_whole(served: Path):
    done = run(served, "seq", "100000")
    assert done.stdout.split() == [str(number) for number in range(1, 100_001)]


def test_a_command_that_is_not_there_is_told_as_by_a_shell(served: Path):
    done = run(served, "no-such-program")
    assert done.returncode == NOT_FOUND
    assert "no-such-program" in done.stderr


def test_a_signal_that_ended_a_command_is_told_as_by_a_shell(served: Path):
    assert run(served, "sh", "-c", "kill -TERM $$").returncode == 128 + 15


def test_a_command_ends_with_its_client(served: Path):
    with client.connect(str(served)) as stream:
        request = (
            '{"argv": ["sh", "-c", "echo $$; sleep 1000"], "environment": {}, "directory": "/"}'
        )
        stream.sendall(Frame(Kind.RUN, 7, request.encode()).encoded())
        (shown,) = Decoder().feed(stream.recv(4096))
        pid = int(shown.data)
        assert (shown.kind, shown.channel) == (Kind.OUTPUT, 7)
        stream.sendall(Frame(Kind.KILL, 7).encoded())
        (last,) = Decoder().feed(stream.recv(4096))
    assert (last.kind, last.exit_code) == (Kind.ENDED, 128 + 9)
    assert not Path(f"/proc/{pid}").exists()


def test_a_client_whose_stream_ends_early_says_so(tmp_path: Path):
    path = tmp_path / "socket"
    with socket.create_server(str(path), family=socket.AF_UNIX) as listening:

        def refuse() -> None:
            listening.accept()[0].close()

        threading.Thread(target=refuse, daemon=True).start()
        done = run(path, "true")
    assert done.returncode == client.LOST
    assert "ended before the command did" in done.stderr


def test_frames_are_whole_however_their_octets_come():
    sent = [Frame(Kind.OUTPUT, 1, b"abc"), Frame(Kind.READY, 0), ended(65_535, -9)]
    octets = b"".join(frame.encoded() for frame in sent)
    decoder = Decoder()
    assert [frame for each in octets for frame in decoder.feed(bytes([each]))] == sent


@pytest.mark.parametrize(
    "octets",
    [
        b"\xff" * 7,
        b"\x00" * 7,
        bytes([Kind.OUTPUT, 0, 0]) + (DATA_MAX_OCTETS + 1).to_bytes(4, "big"),
    ],
)
def test_what_is_no_frame_is_refused(octets: bytes):
    with pytest.raises(FrameError):
        list(Decoder().feed(octets))


def test_an_end_without_an_exit_code_is_refused():
    with pytest.raises(FrameError):
        _ = Frame(Kind.ENDED, 0, b"\x00").exit_code


def test_a_command_too_long_for_a_frame_is_refused_with_its_length(served: Path):
    done = run(served, "true", "x" * DATA_MAX_OCTETS)
    assert done.returncode == 1
    assert f"at most {DATA_MAX_OCTETS} do" in done.stderr


def test_a_command_of_a_client_without_input_has_none(served: Path):
    command = [sys.executable, "-I", client.__file__, str(served), "--", "cat"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=60)
    assert done.returncode == 0
