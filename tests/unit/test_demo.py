"""`scripts/demo` chooses a kernel: the one it has, or the exact one, which it builds meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo"
# Writes down what it is asked for, and says which kernel there is. A build ends once awaited.
VM = """#!/bin/sh
echo "vm $*" >> "$RECORD"
case "$*" in
    *--which) echo "$KERNEL: as the test has it" ;;
    --build)
        echo "vm: user-mode Linux 6.12: 955 objects   12 s" >&2
        for try in $(seq 200); do
            if grep -q "awaited" "$RECORD"; then exit "$BUILD"; fi
            sleep 0.1
        done
        echo "vm: nobody waits for it" >&2
        exit 1 ;;
esac
"""
CNC = """#!/bin/sh
echo "cnc $*" >> "$RECORD"
case "$*" in
    check*) echo '{"name": "line3"}' ;;
    lab\\ up*) echo "  export CNC_IDENTITY=key" ;;
    "$FAILS"*) exit 1 ;;
esac
"""
STUBS = {
    "scripts/setup": "#!/bin/sh\n",
    "schedules/line3.yaml": "name: line3\n",
    "scripts/vm": VM,
    ".venv/bin/python": '#!/bin/sh\n[ "$1" = -m ] || cat > /dev/null\necho line3\n',
    ".venv/bin/cnc": CNC,
    "bin/timeout": '#!/bin/sh\necho awaited >> "$RECORD"\nexec /usr/bin/timeout "$@"\n',
    "bin/sleep": '#!/bin/sh\n[ "$1" = 6 ] || exec /bin/sleep "$1"\n',
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

    def run(
        kernel: str, *options: str, build: int = 0, fails: str = "nothing", code: int = 0
    ) -> tuple[list[str], str]:
        record = tmp_path / "record"
        done = subprocess.run(
            [tmp_path / "scripts" / "demo", *options],
            env={
                "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "RECORD": str(record),
                "KERNEL": kernel,
                "BUILD": str(build),
                "FAILS": fails,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return record.read_text().splitlines(), done.stderr

    return run


def ran_in(asked: list[str]) -> set[str]:
    """The kernels that something was run in."""
    return {line.split()[1] for line in asked if " -- " in line}


def rehearsed(asked: list[str]) -> bool:
    """Whether the switches went up and down without frames."""
    return any(line.startswith("cnc lab up --rehearse") for line in asked) and (
        "cnc lab down line3" in asked
    )


def test_quick_rehearses_and_needs_no_kernel(demo):
    asked, _ = demo("qemu", "--quick")
    typed = [line for line in asked if line.startswith("cnc ") and "check" not in line]
    verbs = [" ".join(line.split()[1:3]) for line in typed]
    assert verbs[:4] == [
        "plan schedules/line3.yaml",
        "lab up",
        "push schedules/line3.yaml",
        "status schedules/line3.yaml",
    ]
    assert verbs[-2:] == ["history", "lab down"]
    assert "cnc rollback" in typed
    assert not any(line.startswith("vm") for line in asked)


def test_what_is_rehearsed_goes_down_where_a_command_fails(demo):
    asked, _ = demo("qemu", "--quick", fails="push", code=1)
    assert asked[-1] == "cnc lab down line3"
    assert "cnc rollback" not in asked


def test_an_intent_of_ones_own_is_rehearsed_without_a_change(demo, tmp_path):
    own = tmp_path / "own.yaml"
    own.touch()
    asked, _ = demo("qemu", "--quick", own)
    assert f"cnc push {own}" in asked
    assert "cnc rollback" not in asked


def test_while_the_exact_kernel_is_built_the_switches_are_rehearsed(demo):
    asked, told = demo("qemu")
    assert "vm --build" in asked
    assert rehearsed(asked)
    assert ran_in(asked) == {"--uml"}
    assert "building the exact kernel [############### " in told
    assert "min left" in told


@pytest.mark.parametrize("kernel", ["uml", "own"])
def test_a_kernel_that_is_there_is_used(demo, kernel):
    asked, _ = demo(kernel)
    assert "vm --build" not in asked
    assert not rehearsed(asked)
    assert ran_in(asked) == {f"--{kernel}"}


def test_a_kernel_that_was_asked_for_is_used(demo):
    asked, _ = demo("qemu", "--qemu")
    assert "vm --build" not in asked
    assert ran_in(asked) == {"--qemu"}


def test_where_the_exact_kernel_cannot_be_built_qemu_is_used(demo):
    asked, told = demo("qemu", build=1)
    assert ran_in(asked) == {"--qemu"}
    assert "could not be built" in told
    assert "955 objects" in told  # what its builder said last
