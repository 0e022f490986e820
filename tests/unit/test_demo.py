"""`scripts/demo` chooses a kernel: the one it has, or what this machine builds in good time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo"
# Writes down what it is asked for, and says which kernel there is.
VM = """#!/bin/sh
echo "vm $*" >> "$RECORD"
case "$*" in
    *--which) echo "$KERNEL: as the test has it" ;;
    --build) exit "$BUILD" ;;
esac
"""
STUBS = {
    "scripts/setup": "#!/bin/sh\n",
    "scripts/vm": VM,
    ".venv/bin/python": "#!/bin/sh\n",
    "bin/nproc": '#!/bin/sh\necho "$PROCESSORS"\n',
}


@pytest.fixture
def demo(tmp_path):
    """Runs the script in a checkout where everything else is a stub; what vm was asked for."""
    for name, text in STUBS.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    shutil.copy(DEMO, tmp_path / "scripts")

    def run(kernel: str, processors: int, *options: str, build: int = 0) -> tuple[list[str], str]:
        record = tmp_path / "record"
        done = subprocess.run(
            [tmp_path / "scripts" / "demo", *options],
            env={
                "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "RECORD": str(record),
                "KERNEL": kernel,
                "PROCESSORS": str(processors),
                "BUILD": str(build),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return record.read_text().splitlines(), done.stderr

    return run


def ran_in(asked: list[str]) -> set[str]:
    """The kernels that something was run in."""
    return {line.split()[1] for line in asked if " -- " in line}


def test_with_four_processors_the_exact_kernel_is_built_and_used_at_once(demo):
    asked, _ = demo("qemu", 4)
    assert "vm --build" in asked
    assert ran_in(asked) == {"--uml"}


def test_with_two_processors_qemu_comes_first_and_the_way_to_the_exact_kernel_is_told(demo):
    asked, told = demo("qemu", 2)
    assert "vm --build" not in asked
    assert ran_in(asked) == {"--qemu"}
    assert "scripts/vm --build" in told


@pytest.mark.parametrize("kernel", ["uml", "own"])
def test_a_kernel_that_is_there_is_used(demo, kernel):
    asked, _ = demo(kernel, 8)
    assert "vm --build" not in asked
    assert ran_in(asked) == {f"--{kernel}"}


def test_a_kernel_that_was_asked_for_is_used(demo):
    asked, _ = demo("qemu", 8, "--qemu")
    assert "vm --build" not in asked
    assert ran_in(asked) == {"--qemu"}


def test_where_the_exact_kernel_cannot_be_built_qemu_is_used(demo):
    asked, told = demo("qemu", 4, build=1)
    assert ran_in(asked) == {"--qemu"}
    assert "could not be built" in told
