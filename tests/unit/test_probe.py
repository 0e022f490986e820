"""tsn-probe over loopback: what its tables have, and what it refuses."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.testbed.traffic import probe
from cnc.testbed.traffic.probe import PROGRAM

MAGIC = 0x54534E50
ADDRESSES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


@pytest.fixture
def port() -> int:
    """A UDP port that nobody has."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as taken:
        taken.bind(("::", 0))
        return taken.getsockname()[1]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )


@contextlib.contextmanager
def receiver(file: Path, port: int, *options: object) -> Iterator[subprocess.Popen[str]]:
    """One that listens. It is to end by itself."""
    command = [PROGRAM, "receive", "--port", port, "-o", file, *options]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline() == "ready\n"
        try:
            yield process
            process.wait(30)
        finally:
            process.kill()


def read(file: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The header of a table, and its rows."""
    lines = file.read_text().splitlines()
    header = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    names, *rows = (line.split(",") for line in lines if not line.startswith("# "))
    return header, [dict(zip(names, row, strict=True)) for row in rows]


def tsc_refusal() -> str | None:
    """Why cycles cannot be counted here; None: they can."""
    found = re.search(r"^tsc refused: (.*)$", run("cost").stdout, re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_packet_has_a_row_at_both_ends_and_its_stamps_are_in_order(address, port, tmp_path):
    sent_file, received_file = tmp_path / "sent.csv", tmp_path / "received.csv"
    # So many fit the socket's buffer, however late the receiver gets to run.
    with receiver(received_file, port, "--count", 200):
        options = ("--count", 200, "--period", "100us", "--size", 100, "--dscp", 46)
        done = run("send", address, "--port", port, *options, "-o", sent_file)
        assert done.returncode == 0, done.stderr
    (sender, sent), (listener, received) = read(sent_file), read(received_file)
    assert sender["run"] == listener["run"]
    assert sender["packets"] == listener["packets"] == "200"
    assert [row["seq"] for row in sent] == [row["seq"] for row in received]
    assert [row["seq"] for row in sent] == [str(seq) for seq in range(200)]
    columns = ("planned_ns", "app_ns", "sched_ns", "left_ns")
    for out, into in zip(sent, received, strict=True):
        stamps = [int(out[name]) for name in columns]
        stamps += [int(into["rx_ns"]), int(into["got_ns"])]  # one host, one clock
        assert stamps == sorted(stamps)
        assert stamps[0] % 100_000 == 0
        assert out["left_hardware_ns"] == into["rx_hardware_ns"] == ""


def test_a_sender_that_is_to_have_no_stamps_has_its_own_alone(port, tmp_path):
    sent_file, received_file = tmp_path / "sent.csv", tmp_path / "received.csv"
    with receiver(received_file, port, "--count", 3):
        done = run("send", "::1", "--port", port, "--count", 3, "--no-stamps", "-o", sent_file)
        assert done.returncode == 0, done.stderr
    _, sent = read(sent_file)
    assert all(row["app_ns"] and not row["sched_ns"] and not row["left_ns"] for row in sent)
    assert all(row["rx_ns"] for row in read(received_file)[1])


def test_by_cycles_the_table_has_instants_too_or_it_says_why_there_is_none(port, tmp_path):
    sent_file, received_file = tmp_path / "sent.csv", tmp_path / "received.csv"
    if why := tsc_refusal():
        done = run("receive", "--clock", "tsc", "--port", port, "-o", received_file)
        assert done.returncode == 2
        assert why in done.stderr
        assert not received_file.exists()
        return
    with receiver(received_file, port, "--count", 200, "--clock", "tsc"):
        done = run("send", "::1", "--port", port, "--count", 200, "--clock", "tsc", "-o", sent_file)
        assert done.returncode == 0, done.stderr
    (sender, sent), (listener, received) = read(sent_file), read(received_file)
    assert int(sender["tsc_hz"]) == pytest.approx(int(listener["tsc_hz"]), rel=1e-3)
    apps_ns = [int(row["app_ns"]) for row in sent]
    assert apps_ns == sorted(apps_ns)
    assert len(received) == 200


def test_an_instant_computed_from_cycles_is_that_which_the_clock_shows(port):
    done = run("cost")
    assert done.returncode == 0
    figures = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert float(figures["realtime_stamp_ns"]) > 0
    if "tsc" not in figures:
        # The half of them that nothing interrupted between two readings.
        assert int(figures["reconstruction_p50_ns"]) < 1000
        assert float(figures["tsc_stamp_ns"]) > 0


def test_how_far_each_computed_instant_is_off_is_a_table_that_the_figures_are_of(tmp_path):
    file = tmp_path / "errors.csv"
    file.write_text("of the run before\n" * 10_000)
    done = run("cost", "-o", file)
    if why := tsc_refusal():
        assert done.returncode == 2
        assert why in done.stderr
        assert file.read_text().startswith("of the run before")
        return
    figures = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    _, rows = read(file)
    assert [*rows[0]] == ["read_ns", "error_ns"]
    instants_ns = [int(row["read_ns"]) for row in rows]
    assert instants_ns == sorted(instants_ns)
    off_ns = sorted(abs(int(row["error_ns"])) for row in rows)
    for name, place in (("p50", 1000), ("p99", 1980), ("max", 2000)):
        assert int(figures[f"reconstruction_{name}_ns"]) == off_ns[place]


def test_lost_packets_have_no_row_and_those_that_are_no_part_of_it_are_counted(port, tmp_path):
    file = tmp_path / "received.csv"
    with (
        receiver(file, port, "--count", 10, "--wait", "300ms"),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.connect(("127.0.0.1", port))
        packets = [(MAGIC, 7, 0), (MAGIC, 7, 5), (MAGIC, 7, 2), (MAGIC, 7, 5)]
        of_others = [(MAGIC, 8, 1), (1, 7, 1), (MAGIC, 7, 10)]
        for each in packets + of_others:
            sender.send(struct.pack("!III", *each))
        sender.send(b"")
    header, rows = read(file)
    assert [row["seq"] for row in rows] == ["0", "2", "5"]
    counts = {name: header[name] for name in ("packets", "repeated", "of_others")}
    assert counts == {"packets": "3", "repeated": "1", "of_others": "4"}


def test_a_signal_ends_a_receiver_with_what_it_has(port, tmp_path):
    file = tmp_path / "received.csv"
    with receiver(file, port, "--wait", "1000s") as process:
        assert run("send", "127.0.0.1", "--port", port, "--count", 3).returncode == 0
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert len(read(file)[1]) == 3


def test_what_the_kernel_has_at_the_signal_is_in_the_table_too(port, tmp_path):
    file = tmp_path / "received.csv"
    with receiver(file, port, "--wait", "1000s") as process:
        process.send_signal(signal.SIGSTOP)
        assert run("send", "127.0.0.1", "--port", port, "--count", 3).returncode == 0
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
    assert len(read(file)[1]) == 3


def test_a_receiver_that_got_nothing_says_so(port, tmp_path):
    with receiver(tmp_path / "received.csv", port) as process:
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 1


def test_without_a_receiver_the_sender_says_so(port):
    done = run("send", "::1", "--port", port, "--count", 100)
    assert done.returncode == 1
    assert "is there a receiver?" in done.stderr


def test_a_table_that_cannot_be_written_is_an_error(port):
    done = run("send", "127.0.0.1", "--port", port, "--count", 1, "-o", "/dev/full")
    assert done.returncode == 1
    assert "cannot write the table: No space left on device" in done.stderr


REFUSED = {
    ("send",): "`send`: expected one address, found none",
    ("send", "::1", "::2"): "`send`: expected one address, found ::2",
    ("send", "1.2.3"): "found '1.2.3', expected an IPv4 or IPv6 address",
    ("send", "fe80::1%none"): "expected the name of an interface after %",
    ("send", "::1", "--count", "0"): "--count: found '0', expected a whole number from 1 to",
    ("send", "::1", "--count", "10000001"): "from 1 to 10000000",
    ("send", "::1", "--count", "5x"): "--count: found '5x'",
    ("send", "::1", "--port", "65536"): "--port: found '65536'",
    ("send", "::1", "--period", "1"): "--period: found '1', expected a whole number with ns, us",
    ("send", "::1", "--period", "999ns"): "from 1us to 60s",
    ("send", "::1", "--period", "61s"): "from 1us to 60s",
    ("send", "::1", "--size", "11"): "--size: found '11', expected a whole number from 12 to",
    ("send", "::1", "--dscp", "64"): "--dscp: found '64'",
    ("send", "::1", "--priority", "-1"): "--priority: found '-1'",
    ("send", "::1", "--clock", "tai"): "--clock: found 'tai', expected realtime or tsc",
    ("send", "::1", "--wait", "1s"): "`send` has no option --wait",
    ("receive", "--period", "1ms"): "`receive` has no option --period",
    ("receive", "--hardware", "lo"): "--hardware: lo has no hardware time stamps",
    ("receive", "--hardware", "x" * 16): f"--hardware: found '{'x' * 16}', expected the name",
    ("send", "::1", "-o", "/none/x"): "--output: /none/x: No such file or directory",
    ("cost", "::1"): "`cost`: expected no address, found ::1",
    ("cost", "--count", "3"): "`cost` has no option --count",
    ("residence", "lo"): "`residence`: expected the ports IN and OUT",
    ("residence", "lo", "none"): "found 'none', expected the name of an interface",
    ("residence", "lo", "lo", "--period", "1ms"): "`residence` has no option --period",
    ("send", "::1", "--no-stamps", "--hardware", "lo"): "--hardware and --no-stamps exclude each",
    ("measure",): "expected send, receive, residence, replay, cost or path",
    (): "expected send, receive, residence, replay, cost or path",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_wrong_is_said_before_anything_is_sent_or_written(arguments, port, tmp_path):
    file = tmp_path / "kept.csv"
    file.write_text("of the run before\n")
    extra = ("-o", file) if arguments and "-o" not in arguments else ()
    done = run(*arguments, *extra)
    assert done.returncode == 2
    assert REFUSED[arguments] in done.stderr
    assert file.read_text() == "of the run before\n"


def test_an_installation_without_the_program_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(probe, "PROGRAM", tmp_path / "none")
    with pytest.raises(SystemExit, match="it was built without a C compiler"):
        probe.main()
