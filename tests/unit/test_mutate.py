"""What scripts/mutate changes in a module."""

from __future__ import annotations

import ast
import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutate"
MODULE = '''"""A module: 1 < 2."""

LIMIT: Literal[3] = 4


def within(value: int, *, strictly: bool = False) -> str:
    """Whether 5 < 6."""
    if not strictly and value <= LIMIT:
        return f"{value + 7} is within"
    return "über" if value in (8,) else "no" + "thing"
'''


@pytest.fixture(scope="module")
def mutate():
    spec = spec_from_loader("mutate", SourceFileLoader("mutate", str(SCRIPT)))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_mutant_changes_one_line_of_what_runs(mutate):
    found = sorted((each.line, each.what) for each in mutate.mutants(MODULE))
    assert found == [
        *((3, "number"), (6, "truth value")),
        *((8, "and/or"), (8, "comparison"), (8, "not")),
        *((10, "comparison"), (10, "condition"), (10, "number")),
    ]
    lines = MODULE.splitlines()
    for mutant in mutate.mutants(MODULE):
        ast.parse(mutant.text)
        changed = mutant.text.splitlines()
        assert [n for n, line in enumerate(lines, 1) if changed[n - 1] != line] == [mutant.line]


def test_it_finds_the_tests_of_a_module(mutate):
    assert "tests/unit/test_laboratory_door.py" not in mutate.tests_of(Path("cnc/planner/graph.py"))
    assert "tests/unit/test_cqf.py" in mutate.tests_of(Path("cnc/mechanisms/cqf/judge.py"))


def test_a_file_that_is_no_module_is_refused():
    asked = subprocess.run([SCRIPT, "README.md"], capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert "name modules of this checkout" in asked.stderr
