"""What a mechanism of another package needs (tests/toys), and what is said of a broken one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TOYS = CHECKOUT / "tests/toys"
# Who installs the toys, and what says how: nothing else of the repository may name them.
USERS = {
    "tests/stack/test_toy_mechanisms.py",
    "tests/unit/test_toy_mechanisms.py",
    "docs/extending.md",
}


@pytest.mark.parametrize(("side", "most"), [("controller", 150), ("agent", 120)])
def test_a_mechanism_is_one_small_folder_on_each_side(side: str, most: int) -> None:
    folder = TOYS / f"label/toy_label_{side}"
    lines = [line for file in folder.glob("*.py") for line in file.read_text().splitlines()]
    assert 0 < len(list(filter(str.strip, lines))) <= most


def test_nothing_outside_its_folders_knows_it() -> None:
    found = subprocess.run(
        ["git", "grep", "--files-with-matches", "toy.label", "--", ":!tests/toys"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(found.stdout.split()) <= USERS


def last_words_with(tmp_path: Path, entry: str, program: str = "") -> str:
    """How `cnc` ends where a package offers this entry point."""
    (info := tmp_path / "other-2.5.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(f"[cnc.mechanisms]\n{entry}\n")
    (tmp_path / "other.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-c", "import cnc.mechanisms.registry"],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_mechanism_that_cannot_be_loaded_is_named_with_its_package(tmp_path: Path) -> None:
    assert last_words_with(tmp_path, "shaper = other:SHAPER", "1 / 0") == (
        "ImportError: mechanism shaper of other 2.5 (other:SHAPER) cannot be loaded: "
        "ZeroDivisionError: division by zero"
    )


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    program = "from cnc.mechanism import Registered\nGATES = Registered(name='gates')"
    assert last_words_with(tmp_path, "gates = other:GATES", program).endswith(
        "mechanism gates of other 2.5 (other:GATES): there is a mechanism gates already"
    )
