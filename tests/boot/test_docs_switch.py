"""The commands of the pages that are for a switch, on a booted Debian."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.boot.limits import patient

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.timeout(patient(2400))
def test_every_command_for_a_switch_does_what_its_page_says():
    done = subprocess.run(
        [CHECKOUT / "scripts/check-docs", "--place", "switch"],
        capture_output=True,
        text=True,
        check=False,
    )

    # Not "nothing on stderr": image and package say there how their building goes.
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"([1-9]\d*) of \1 blocks do what their page says; 0 not run", done.stdout)
