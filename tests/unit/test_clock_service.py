"""`tsn-clock` with a ptp4l that the test has written: what it starts, restarts and says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.clock_service import leap_seconds
from agent.ptp_daemons import files, status
from agent.ptp_daemons.files import Daemon
from agent.ptp_daemons.model import Instance, InstancePort, TimeStamping

PATIENCE_S = 60
# Answers every question with the default data set; its own process id is in a file beside.
PTP4L = """#!{python}
import os, socket, sys
if "refuse" in open(sys.argv[2]).read():
    print("unknown option refuse at line 9")
    print("failed to parse configuration file")
    sys.exit(255)
path = sys.argv[3].partition("=")[2]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
    if os.path.exists(path):
        os.unlink(path)
    server.bind(path)
    with open(path + ".pid.new", "w") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".pid.new", path + ".pid")  # whoever reads it meanwhile finds a number
    while True:
        _, client = server.recvfrom(2048)
        server.sendto(bytes.fromhex("{reply}"), client)
"""
REPLY = (
    "0d02004a" + "00" * 16 + "7abc58fffe1bd97c00000000047f" + "00000000000000000000000002000001"
    "001620000300000180fffeffff807abc58fffe1bd97c0000"
)
PHC2SYS = """#!/bin/sh
echo "$@" > {directory}/phc2sys.arguments
exec sleep 1000
"""


def wait_for(condition):
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.02)
    return found


def command(state_dir):
    """Without a list of leap seconds: the machine's clock is none of ours."""
    options = ["--state-dir", str(state_dir), "--leap-seconds", str(state_dir / "none.list")]
    return [sys.executable, "-m", "agent.clock_service.main", *options]


class Service:
    """A tsn-clock, and the files of its directory."""

    def __init__(self, state_dir: Path, programs: Path) -> None:
        self.directory = state_dir / "ptp"
        self.process = subprocess.Popen(
            command(state_dir),
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        )
        wait_for(lambda: status.is_locked(self.directory))

    def configure(self, index=0, stamping=TimeStamping.SOFTWARE, **instance):
        of = Instance(index, 0, 256, 246, 248, **instance)
        content = files.encode(Daemon(of, stamping, (("p1", InstancePort(of, 1)),)))
        return self.write(index, content)

    def write(self, index, content):
        path = files.configuration_file(self.directory, index)
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").replace(path)
        return files.digest(content)

    def status_of(self, index, digest):
        found = status.read(files.status_file(self.directory, index))
        return found if found and found.configuration == digest else None

    def is_running(self, index, digest):
        found = self.status_of(index, digest)
        return found is not None and found.running

    def pid(self, index=0):
        return int(Path(f"{files.socket_address(self.directory, index)}.pid").read_text())

    def stop(self):
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


def is_alive(pid):
    """Whether it runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def service(tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (
        ("ptp4l", PTP4L.format(python=sys.executable, reply=REPLY)),
        ("phc2sys", PHC2SYS.format(directory=tmp_path)),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    started = Service(tmp_path, programs)
    yield started
    started.process.kill()
    started.process.wait()


def test_a_daemon_runs_as_long_as_its_configuration_is_there(service):
    digest = service.configure()
    wait_for(lambda: service.is_running(0, digest))
    pid = service.pid()

    files.configuration_file(service.directory, 0).unlink()

    wait_for(lambda: not is_alive(pid))
    wait_for(lambda: not files.status_file(service.directory, 0).exists())


def test_a_changed_configuration_restarts_its_daemon_and_no_other(service):
    first, other = service.configure(0), service.configure(1)
    wait_for(lambda: service.is_running(0, first) and service.is_running(1, other))
    pids = service.pid(0), service.pid(1)

    changed = service.configure(0, time_receiver_only=True)

    wait_for(lambda: service.is_running(0, changed))
    assert not is_alive(pids[0])
    assert service.pid(1) == pids[1]
    assert is_alive(pids[1])


def test_a_daemon_that_is_killed_is_started_again(service):
    digest = service.configure()
    wait_for(lambda: service.is_running(0, digest))
    pid = service.pid()

    os.kill(pid, signal.SIGKILL)

    wait_for(lambda: service.pid() != pid and service.is_running(0, digest))


def test_why_a_daemon_does_not_start_is_told_in_its_own_words(service):
    of = Instance(0, 0, 256, 246, 248)
    refused = files.encode(
        Daemon(of, TimeStamping.SOFTWARE, (("p1", InstancePort(of, 1, (("refuse", "1"),))),))
    )
    digest = service.write(0, refused)

    found = wait_for(lambda: service.status_of(0, digest))
    assert not found.running
    assert found.failure == ("unknown option refuse at line 9; failed to parse configuration file")


def test_a_file_that_the_agent_has_not_written_starts_nothing(service):
    digest = service.write(0, b"[global]\nuds_address /tmp/elsewhere\n")

    found = wait_for(lambda: service.status_of(0, digest))
    assert "0.conf" in found.failure
    assert not files.socket_address(service.directory, 0).exists()


def test_with_hardware_stamps_all_clocks_are_brought_together(service, tmp_path):
    digest = service.configure(stamping=TimeStamping.HARDWARE)
    wait_for(lambda: service.is_running(0, digest))

    arguments = tmp_path / "phc2sys.arguments"
    wait_for(arguments.exists)
    words = wait_for(lambda: arguments.read_text().split())
    assert words[:3] == ["-a", "-r", "-r"]
    assert words[words.index("-z") + 1] == str(files.socket_address(service.directory, 0))
    assert "--transportSpecific=1" in words


def test_an_instance_that_only_measures_brings_no_clocks_together(service, tmp_path):
    digest = service.configure(stamping=TimeStamping.HARDWARE, free_running=True)
    wait_for(lambda: service.is_running(0, digest))
    service.stop()

    assert not (tmp_path / "phc2sys.arguments").exists()


def test_the_end_of_the_service_ends_its_daemons(service):
    digest = service.configure()
    wait_for(lambda: service.is_running(0, digest))
    pid = service.pid()

    assert service.stop() == 0
    assert not is_alive(pid)
    assert not status.is_locked(service.directory)


def test_daemons_end_with_a_service_that_is_killed(service):
    digest = service.configure()
    wait_for(lambda: service.is_running(0, digest))
    pid = service.pid()

    service.process.kill()

    wait_for(lambda: not is_alive(pid))


def test_a_second_service_of_a_directory_ends_and_says_why(service):
    second = subprocess.run(
        command(service.directory.parent),
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert second.returncode == 1
    assert "another tsn-clock runs the daemons of this directory" in second.stderr


LIST = """#$ 3913920000
#@ 3928521600
2272060800 10 # 1 Jan 1972
2287785600 11 # 1 Jul 1972
3692217600 37 # 1 Jan 2017
"""


@pytest.mark.parametrize(
    ("now_s", "offset_s"), [(0, 10), (78796799, 10), (78796800, 11), (1_800_000_000, 37)]
)
def test_the_list_of_leap_seconds_says_how_far_tai_is_ahead(now_s, offset_s):
    listed = leap_seconds.parse(LIST)

    assert listed.tai_offset_s(now_s) == offset_s
    assert listed.expires_s == 3928521600 - 2208988800


@pytest.mark.parametrize("text", ["", "# nothing\n", "2272060800\n", "today 37\n", "#@ never\n"])
def test_what_is_no_list_of_leap_seconds_is_refused(text):
    with pytest.raises(ValueError, match="leap second"):
        leap_seconds.parse(text)
