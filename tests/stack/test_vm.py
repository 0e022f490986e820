"""What `scripts/vm` makes of its options, seen in a user-mode kernel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

VM = Path(__file__).parents[2] / "scripts" / "vm"
NS_PER_S = 10**9
# The guest reads its clock before and after it writes a file, whose time is the host's.
TWO_FILES = """
import json, time

def written(name):
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    with open(f"/mnt/out/{name}", "w") as file:
        file.write(name)
    return before_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

first = written("first")
time.sleep(2)
print(json.dumps([first, written("second")]))
"""


@pytest.mark.parametrize("oscillator_ppb", [100_000_000, -100_000_000])
def test_a_guests_clock_runs_as_its_oscillator(oscillator_ppb: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(VM, "--uml", "--oscillator-ppb", str(oscillator_ppb), "--memory", "256M"),
            *("--out", tmp_path, "--", "python3", "-c", TWO_FILES),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    (first_begun_ns, first_done_ns), (second_begun_ns, second_done_ns) = json.loads(done.stdout)
    first_ns, second_ns = ((tmp_path / name).stat().st_mtime_ns for name in ("first", "second"))
    told_ns = (second_ns - first_ns) * (NS_PER_S + oscillator_ppb) // NS_PER_S
    # A file's time is that of the host's last tick.
    tick_ns = 10_000_000
    assert second_begun_ns - first_done_ns - tick_ns <= told_ns
    assert told_ns <= second_done_ns - first_begun_ns + tick_ns


@pytest.mark.parametrize("options", [["--qemu"], ["--own"], []])
def test_only_a_user_mode_kernel_takes_an_oscillator(options: list[str]) -> None:
    done = subprocess.run(
        [VM, *options, "--oscillator-ppb", "1", "true"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "--oscillator-ppb needs --uml" in done.stderr


def test_an_oscillator_is_off_by_a_tenth_at_most() -> None:
    done = subprocess.run(
        [VM, "--uml", "--oscillator-ppb", "100000001", "true"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "at most 100000000" in done.stderr
