"""Ctrl-C while a measurement runs in a kernel of its own: nothing of that is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# In place of the runner: it takes longer to clear up than `subprocess.run` would let it.
RUNNER = """
import pathlib, sys, time
begun = pathlib.Path(sys.argv[1], "begun")
begun.touch()
try:
    time.sleep(60)
finally:
    time.sleep(1)
    begun.unlink()
"""
MEASUREMENT = """
import sys
from pathlib import Path
from cnc.testbed.lab import vm
vm.own_kernel_has_taprio = lambda: True
vm.RUNNER = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
vm.run_module("some.module", [], Path(sys.argv[2]))
"""


def test_the_runner_of_a_kernel_may_clear_up_when_a_measurement_is_interrupted(tmp_path: Path):
    command = [sys.executable, "-c", MEASUREMENT, RUNNER, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        deadline_s = time.monotonic() + 60
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal, and a grid, do
        _, said = process.communicate(timeout=60)
    assert said.endswith("KeyboardInterrupt\n")
    assert not (tmp_path / "begun").exists()
