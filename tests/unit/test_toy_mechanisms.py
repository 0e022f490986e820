"""What a mechanism of another package needs (tests/toys), and what is said of a broken one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TOYS = CHECKOUT / "tests/toys"
# Who installs the toys, and what says how: nothing else of the repository may name them.
USERS = {
    "tests/stack/test_toy_mechanisms.py",
    "tests/unit/test_toy_mechanisms.py",
    "docs/reference/extending-controller.md",
}


@pytest.mark.parametrize(("side", "most"), [("controller", 150), ("agent", 120)])
def test_a_mechanism_is_one_small_folder_on_each_side(side: str, most: int) -> None:
    folder = TOYS / f"label/toy_label_{side}"
    lines = [line for file in folder.glob("*.py") for line in file.read_text().splitlines()]
    assert 0 < len(list(filter(str.strip, lines))) <= most


def test_nothing_outside_their_folders_knows_them() -> None:
    found = subprocess.run(
        ["git", "grep", "-E", "--files-with-matches", "toy.(label|stamp)", "--", ":!tests/toys"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(found.stdout.split()) == USERS


@pytest.fixture
def offered(tmp_path: Path) -> Callable[..., None]:
    """Packages that offer an entry point each, with a program beside."""

    def offer(name: str, group: str, entry: str, program: str) -> None:
        (info := tmp_path / f"{name}-2.5.dist-info").mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
        (tmp_path / f"{name}.py").write_text(program)

    return offer


def run_with(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )


CONTROLLER = """
from cnc.mechanism import Kept, Mechanism, Registered, Shown

class Part: pass

def bridged(**hooks):
    nothing = dict.fromkeys(("planned", "changed", "switch", "kept", "tree", "shown"))
    return Mechanism(**{"name": "other", "part": Part, **nothing, **hooks})

"""
TAKEN = "another mechanism has"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("import nowhere", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("", "cannot be loaded: AttributeError: module 'other' has no attribute 'IT'"),
        ("IT = 5", "is a int, not a cnc.mechanism.Registered"),
        ("IT = Registered(name='gates')", f"{TAKEN} the name 'gates' already"),
        (
            "IT = bridged(kept=Kept('filters', str, iter, Part))",
            f"{TAKEN} the key 'filters' in the history already",
        ),
        (
            "IT = bridged(shown=Shown('filters', str, iter, '', 'other', '', None, None))",
            f"{TAKEN} the key 'filters' in documents already",
        ),
    ],
)
def test_a_mechanism_that_cannot_be_had_is_named_with_its_package(
    tmp_path: Path, offered: Callable[..., None], program: str, why: str
) -> None:
    offered("other", "cnc.mechanisms", "shaper = other:IT", CONTROLLER + program)
    ended = run_with(tmp_path, "-m", "cnc", "check", "schedules/guarded.yaml")
    assert ended.stderr == (
        f"cnc: mechanism shaper of other 2.5 (other:IT): {why}\n"
        "hint: repair other 2.5, or remove it\n"
    )
    assert ended.returncode == 1


def test_a_key_of_an_intent_that_two_mechanisms_have_is_refused(
    tmp_path: Path, offered: Callable[..., None]
) -> None:
    program = """
from cnc.keys.keys import Keys, Level
from cnc.keys.mapping import Shape

class StreamKeys(Shape):
    colour: str | None = None

IT = Registered(name=__name__, keys=lambda: Keys({Level.STREAM: StreamKeys}))
"""
    for name in ("first", "second"):
        offered(name, "cnc.mechanisms", f"{name} = {name}:IT", CONTROLLER + program)
    ended = run_with(tmp_path, "-m", "cnc", "check", "schedules/guarded.yaml")
    said = " ".join(ended.stderr.split())
    assert "first and second both define the key 'colour' of Stream" in said
    assert "Traceback" not in said
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        (
            "from pathlib import Path; IT = Path('/lost.yang')",
            "/lost.yang is no pathlib.Path of a file",
        ),
    ],
)
def test_a_lab_names_the_package_of_a_module_that_cannot_be_had(
    tmp_path: Path, offered: Callable[..., None], program: str, why: str
) -> None:
    offered("other", "tsn.yang", "shaper = other:IT", program)
    ended = run_with(
        tmp_path, "-c", "from cnc.testbed.lab.switch import others_yang; others_yang()"
    )
    assert ended.stderr.splitlines()[-1] == (
        f"cnc.errors.CncError: mechanism shaper of other 2.5 (other:IT): {why}"
    )


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("IT = 5", "is a int, not an agent.mechanism.Mechanism"),
        (
            "from agent.mechanisms.forwarding import FORWARDING as IT",
            f"{TAKEN} the name 'forwarding' already",
        ),
    ],
)
def test_a_mechanism_that_an_agent_cannot_have_is_named_with_its_package(
    tmp_path: Path, offered: Callable[..., None], program: str, why: str
) -> None:
    offered("other", "agent.mechanisms", "shaper = other:IT", program)
    ended = run_with(tmp_path, "-m", "agent.main", "--rehearse", "p1")
    assert ended.stderr.splitlines()[-1].endswith(
        f"mechanism shaper of other 2.5 (other:IT): {why}"
    )
    assert ended.returncode == 1
