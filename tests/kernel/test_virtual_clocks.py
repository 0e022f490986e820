"""Virtual clocks of a PTP hardware clock, on the mock-up one of netdevsim."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.kernel import virtual_clocks

NAME = "Mock-up PTP clock"


@pytest.fixture
def clock(offloading_port) -> Iterator[int]:
    """The number of the clock of a card, which has no virtual ones afterwards."""
    numbers = [
        int(each.name.removeprefix("ptp"))
        for each in virtual_clocks.ROOT.glob("ptp*")
        if (each / "clock_name").read_text().strip() == NAME
    ]
    (number,) = numbers
    yield number
    count(number).write_text("0", encoding="ascii")
    assert virtual_clocks.of(number) == []


def count(number: int) -> Path:
    return virtual_clocks.ROOT / f"ptp{number}" / "n_vclocks"


def refusal(number: int) -> str:
    """What the kernel says where it does not set the frequency of /dev/ptpN; empty: it does."""
    device = Path(f"/dev/ptp{number}")
    if not device.exists():
        major, minor = (virtual_clocks.ROOT / device.name / "dev").read_text().split(":")
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(int(major), int(minor)))
    command = ["phc_ctl", str(device), "--", "freq", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search("failed to adjust the clock: (.*)", done.stdout + done.stderr)
    return found[1] if found else ""


def test_the_virtual_clocks_of_a_card_are_found_and_set_while_the_card_itself_is_busy(clock):
    assert virtual_clocks.of(clock) == []
    assert not refusal(clock)
    count(clock).write_text("2", encoding="ascii")
    found = virtual_clocks.of(clock)
    assert len(found) == 2
    assert clock not in found
    assert [refusal(each) for each in found] == ["", ""]
    assert refusal(clock) == os.strerror(errno.EBUSY)
    count(clock).write_text("0", encoding="ascii")
    assert virtual_clocks.of(clock) == []
    assert not refusal(clock)
