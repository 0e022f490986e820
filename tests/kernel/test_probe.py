"""tsn-probe where computing takes no time: cycles do not count there, and clocks do."""

from __future__ import annotations

import subprocess

import pytest

from cnc.testbed.traffic.probe import PROGRAM

pytestmark = pytest.mark.virtual_time


def test_cycles_that_pass_while_time_stands_still_are_refused():
    cost = subprocess.run([PROGRAM, "cost"], capture_output=True, text=True, check=True)
    assert "tsc refused: its cycles do not go with the clock, as in virtual time" in cost.stdout
    done = subprocess.run(
        [PROGRAM, "receive", "--clock", "tsc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "use --clock realtime" in done.stderr


def test_a_stamp_costs_what_reading_a_clock_does_in_virtual_time():
    cost = subprocess.run([PROGRAM, "cost"], capture_output=True, text=True, check=True)
    (line,) = (line for line in cost.stdout.splitlines() if line.startswith("realtime_stamp_ns "))
    assert float(line.split()[1]) == pytest.approx(256, abs=2)
