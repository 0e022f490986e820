"""`tsn-probe send --sync`: what it waits for, and what it refuses."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc.testbed.traffic.probe import PROGRAM
from tests.unit.silent_ptp4l import (
    HARDWARE,
    PORT_PROPERTIES_NP,
    TIME_STATUS_NP,
    UNCALIBRATED,
    SilentPtp4l,
)

OTHER_GRANDMASTER = bytes.fromhex("66778800fffe9900")[:8]


@pytest.fixture
def port() -> int:
    """A UDP port that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def here(tmp_path) -> Path:
    return tmp_path / "sender-ptp4l"


@pytest.fixture
def there(tmp_path) -> Path:
    return tmp_path / "receiver-ptp4l"


@contextlib.contextmanager
def receiving(port: int, ptp4l: Path) -> Iterator[None]:
    """A receiver that has got no packet yet."""
    options = ["--port", str(port), "--ptp4l", str(ptp4l), "-o", "/dev/null"]
    with subprocess.Popen(
        [PROGRAM, "receive", "127.0.0.1", *options], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        assert process.stderr.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


def send(port: int, ptp4l: Path, *options: str) -> subprocess.CompletedProcess[str]:
    where = ["--port", str(port), "--ptp4l", str(ptp4l), "--sync", "1us", "-o", "/dev/null"]
    command = [PROGRAM, "send", "127.0.0.1", *where, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def waits(port: int, ptp4l: Path, lines: int = 2) -> list[str]:
    """What a sender that was interrupted has said until then, and that it has sent nothing."""
    where = ["--port", str(port), "--ptp4l", str(ptp4l), "--sync", "1us", "-o", "/dev/null"]
    with subprocess.Popen(
        [PROGRAM, "send", "127.0.0.1", *where], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        said = [process.stderr.readline() for _ in range(lines)]
        process.send_signal(signal.SIGINT)
        assert "not started: the clocks were not within 1000 ns for 10 s" in process.stderr.read()
        assert process.wait(10) == 1
    return said


def test_without_a_ptp4l_the_sender_is_refused_with_the_reason(port, here):
    done = send(port, here)
    assert done.returncode == 2
    assert f"--sync: this host: no ptp4l at {here}: No such file or directory" in done.stderr


def test_a_ptp4l_of_another_domain_is_none(port, here):
    with SilentPtp4l(here, domain=5):
        done = send(port, here)
        assert done.returncode == 2
        assert "did not say within 100 ms how far its clock is off (--domain: 0)" in done.stderr
        assert "the receiver" in send(port, here, "--domain", "5").stderr


def test_a_read_only_socket_is_refused_since_it_does_not_say_which_clock(port, here):
    with SilentPtp4l(here) as daemon:
        daemon.says.remove(PORT_PROPERTIES_NP)
        done = send(port, here)
    assert done.returncode == 2
    assert "which clock it keeps, which uds_ro_address never does" in done.stderr


def test_a_clock_of_a_card_that_has_none_is_no_source(port, here):
    with SilentPtp4l(here, stamps=HARDWARE, interface="lo"):
        done = send(port, here)
    assert done.returncode == 2
    assert "ptp4l has stamps of the clock of lo, which has none" in done.stderr


def test_a_receiver_that_is_not_there_is_refused(port, here):
    with SilentPtp4l(here):
        done = send(port, here)
    assert done.returncode == 2
    assert "--sync: the receiver: it does not answer; is `tsn-probe receive` there?" in done.stderr


def test_a_receiver_without_a_ptp4l_says_so_to_the_sender(port, here, there):
    with SilentPtp4l(here), receiving(port, there):
        done = send(port, here)
    assert done.returncode == 2
    assert f"--sync: the receiver: no ptp4l at {there}: No such file" in done.stderr


@pytest.mark.parametrize("ahead_ns", [1_001, -1_001])
def test_nothing_is_sent_while_the_receivers_clock_is_beyond_the_limit(ahead_ns, port, here, there):
    with (
        SilentPtp4l(here, ahead_ns=1_000),
        SilentPtp4l(there, ahead_ns=ahead_ns),
        receiving(port, there),
    ):
        ours, theirs = waits(port, here)
    assert ours.startswith("tsn-probe: this host: clock 1000 ns from the grandmaster (")
    assert f"waiting for the receiver: clock {ahead_ns} ns from the grandmaster ({there}" in theirs


def test_nothing_is_sent_while_a_ptp4l_has_not_chosen_a_clock(port, here, there):
    with SilentPtp4l(here, state=UNCALIBRATED), SilentPtp4l(there), receiving(port, there):
        ours, _ = waits(port, here)
    assert "waiting for this host: its ptp4l has no port in the state slave" in ours


def test_nothing_is_sent_while_the_hosts_have_different_grandmasters(port, here, there):
    with (
        SilentPtp4l(here),
        SilentPtp4l(there, grandmaster=OTHER_GRANDMASTER),
        receiving(port, there),
    ):
        *_, last = waits(port, here, lines=3)
    assert "waiting: the hosts have different grandmasters" in last


def test_a_ptp4l_that_is_lost_meanwhile_begins_the_wait_again(port, here, there):
    with SilentPtp4l(there), receiving(port, there), SilentPtp4l(here) as daemon:
        where = ["--port", str(port), "--ptp4l", str(here), "--sync", "1us", "-o", "/dev/null"]
        with subprocess.Popen(
            [PROGRAM, "send", "127.0.0.1", *where], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr
            assert "this host: clock 0 ns" in process.stderr.readline()
            assert "the receiver: clock 0 ns" in process.stderr.readline()
            daemon.says.remove(TIME_STATUS_NP)
            assert "waiting for this host: ptp4l at" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 1
