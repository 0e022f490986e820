"""The commands of the pages that are for a switch, on a booted Debian."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.timeout(2400)
def test_every_command_for_a_switch_does_what_its_page_says():
    done = subprocess.run(
        [CHECKOUT / "scripts/check-docs", "--place", "switch"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert "switch" in done.stdout
