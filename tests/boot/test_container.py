"""The containers that the playbooks are tested in: on their own, ended surely, harmless."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.boot.container import Container, groups_of_run
from tests.boot.limits import patient
from tests.boot.machine import Machine, MachineError, link

CHECKOUT = Path(__file__).parents[2]
CAP_SYS_TIME = 25  # linux/capability.h
END_LIMIT_S = patient(60)
NETWORK = "[Match]\nName=enp0s17\n[Network]\nAddress=10.99.0.{}/24\n"
GREETING = "import socket; print(socket.create_connection(('10.99.0.2', 22), 60).recv(8).decode())"
# A test run that starts a container and does not end by itself.
RUN = """
import sys, time
from pathlib import Path
from tests.boot.container import Container
with Container(Path(sys.argv[1]), "orphan") as machine:
    machine.wait()
    print("up", flush=True)
    time.sleep(3600)
"""


@pytest.fixture(scope="module")
def kind() -> type[Machine]:
    """Whatever the machines of other tests are."""
    return Container


@pytest.fixture(scope="module")
def twins(boot: Callable[..., Machine]) -> tuple[Machine, Machine]:
    """Two machines of the same name with a link between them."""
    with TemporaryDirectory(prefix="tsn") as ends:
        near, far = (
            boot(
                "twin",
                links=[end],
                files={"/etc/systemd/network/20-link.network": NETWORK.format(number)},
            )
            for number, end in enumerate(link(Path(ends)), 1)
        )
        return near.wait(), far.wait()


@pytest.fixture
def orphaned(image: Path) -> int:
    """The process id of a test run that was killed while its container was running."""
    command = [sys.executable, "-c", RUN, image]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "up\n"
            assert processes_of_run(run.pid)
        finally:
            run.send_signal(signal.SIGKILL)
    return run.pid


def test_every_service_of_the_image_runs(twins):
    assert [machine.wait_booted() for machine in twins] == ["running", "running"]


def test_machines_of_one_name_keep_their_files_apart(twins):
    near, far = twins
    near.write("/root/note", b"mine")
    assert near.run("hostname; cat /root/note").stdout == "twin\nmine"
    assert far.run("cat /root/note", check=False).code != 0


def test_machines_reach_each_other_by_their_link_and_nobody_else(twins):
    assert twins[0].run(f'python3 -c "{GREETING}"').stdout == "SSH-2.0-\n"
    for machine in twins:
        interfaces = machine.json("ip -json link show")
        assert [interface["ifname"] for interface in interfaces] == ["lo", "enp0s17"]


def test_no_machine_can_set_the_clock_that_it_shares(twins):
    near, _ = twins
    bounding = near.run("sed -n 's/^CapBnd:\t//p' /proc/1/status").stdout
    assert not int(bounding, 16) >> CAP_SYS_TIME & 1


def test_nobody_else_sees_what_a_machine_has_mounted(twins):
    near, _ = twins
    device, _, _, options, *_ = near.run("grep ' / ' /proc/mounts").stdout.split()
    assert device == "overlay"
    assert options not in Path("/proc/self/mounts").read_text(encoding="utf-8")


def test_a_machine_that_is_stopped_leaves_nothing(image):
    others = set(groups_of_run(os.getpid()))
    with Container(image, "short-lived") as machine:
        machine.wait()
        its_own = set(groups_of_run(os.getpid())) - others
        assert its_own
    assert set(groups_of_run(os.getpid())) == others
    assert not machine.directory.exists()


def test_when_a_test_run_is_killed_its_machines_end_and_the_next_removes_what_is_left(
    orphaned, image
):
    deadline = time.monotonic() + END_LIMIT_S
    while left := processes_of_run(orphaned):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert groups_of_run(orphaned)
    with Container(image, "next") as machine:
        assert groups_of_run(orphaned) == []
        machine.wait()  # a system that is not up yet cannot be shut down in order


def test_a_machine_that_cannot_start_says_why(tmp_path):
    machine = Container(tmp_path, "no-disk")
    with pytest.raises(MachineError, match=r"(?s)the machine is off.*disk\.ext4"), machine:
        machine.wait()


def test_a_machine_without_control_groups_says_why_and_leaves_nothing(image, monkeypatch, tmp_path):
    nowhere = tmp_path / "cgroup"
    monkeypatch.setattr("tests.boot.container._hierarchies", lambda: [nowhere])
    machine = Container(image, "no-groups")
    with pytest.raises(MachineError, match=f"root and a writable /sys/fs/cgroup: .*{nowhere}"):
        machine.__enter__()
    assert not machine.directory.exists()


def processes_of_run(run: int) -> list[str]:
    """The processes in the containers of a test run."""
    listed = [path for group in groups_of_run(run) for path in group.rglob("cgroup.procs")]
    return [process for path in listed for process in path.read_text(encoding="ascii").split()]
