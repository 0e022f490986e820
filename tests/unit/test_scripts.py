"""Every script starts, and says what it is for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = sorted(
    file for file in (Path(__file__).parents[2] / "scripts").iterdir() if file.is_file()
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_tells_its_usage(script):
    asked = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert script.name in asked.stdout
