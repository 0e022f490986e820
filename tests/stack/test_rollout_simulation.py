"""Simulated switches leave nothing behind, however whoever started them ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack.netconfd_process import wait_until
from tests.stack.repository import SHARED_MEMORY

CHECKOUT = Path(__file__).parents[2]

STARTER = """
import time
from tests.scale.simulation import simulated_switches


with simulated_switches(1) as simulation:
    switch = simulation.switches["s1"]
    print(switch.chassis.shm_prefix, switch.chassis.directory.parent, *switch.pids.values())
    print(flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "ctrl-c"])
def test_processes_files_and_shared_memory_go_with_the_one_who_started_them(end):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        shm_prefix, directory, *pids = starter.stdout.readline().split()
        left = [Path(directory), *(Path("/proc", pid) for pid in pids)]
        assert list(SHARED_MEMORY.glob(f"{shm_prefix}*"))
        assert all(path.exists() for path in left)
        starter.send_signal(end)
    assert wait_until(lambda: not any(path.exists() for path in left), timeout_s=60)
    assert not list(SHARED_MEMORY.glob(f"{shm_prefix}*"))
