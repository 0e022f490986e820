"""Every test is in exactly one lane, and the table names nothing that is not there."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner import table, unsteady
from tests.runner.table import CHECKOUT, PREREQUISITES, TableError


@pytest.fixture(scope="module")
def lanes() -> table.Table:
    return table.load()


@pytest.fixture(scope="module")
def tests() -> dict[str, set[str]]:
    """The tests of the tree, without parameters: node id -> its markers."""
    return dict(
        found for file in sorted(CHECKOUT.glob("tests/**/test_*.py")) for found in read_tests(file)
    )


def read_tests(file: Path) -> Iterator[tuple[str, set[str]]]:
    """The tests of a file and their markers, read without importing it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    where = str(file.relative_to(CHECKOUT))
    yield from read_functions(where, tree.body)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from read_functions(f"{where}::{node.name}", node.body)


def read_functions(where: str, body: list[ast.stmt]) -> Iterator[tuple[str, set[str]]]:
    """The tests of a file or a class."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            markers = {part.rpartition(".")[2] for part in map(ast.unparse, node.decorator_list)}
            yield f"{where}::{node.name}", markers
        elif isinstance(node, ast.ImportFrom):  # from a file that has them in another place
            for its in node.names:
                if its.name.startswith("test_"):
                    yield f"{where}::{its.name}", set()


def tracked() -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (CHECKOUT / name).exists()]


def test_every_test_is_in_a_lane(lanes, tests):
    homeless = sorted({test.partition("::")[0] for test in tests if lanes.home(test) is None})
    assert homeless == [], "add these files to a lane of tests/lanes.toml"


def test_every_entry_names_a_test(lanes, tests):
    named = [*lanes.owners, *lanes.timing]
    named += [entry for lane in lanes.lanes.values() for entry in lane.repeats if "/" in entry]
    named += [entry.test for entry in unsteady.load()]
    there = {pattern for test in tests for pattern in table.patterns(test)}
    assert [entry for entry in named if entry.partition("[")[0] not in there] == []


def test_every_path_that_starts_a_lane_is_in_the_tree(lanes):
    there = {pattern for file in tracked() for pattern in table.patterns(file)}
    named = {path for lane in lanes.lanes.values() for path in lane.when}
    assert sorted(named - there) == []


def test_a_test_for_one_kind_of_time_is_in_a_lane_that_has_it(lanes, tests):
    virtual = {lane.name for lane in lanes.lanes.values() if lane.place == "uml"}
    misplaced = [
        test
        for test, markers in tests.items()
        if ("virtual_time" in markers and lanes.home(test) not in virtual)
        or ("real_time" in markers and lanes.home(test) in virtual)
    ]
    assert misplaced == []


def test_a_test_that_needs_a_kernel_of_its_own_is_in_a_lane_of_machines_that_have_one(lanes, tests):
    containers = {
        lane.name
        for lane in lanes.lanes.values()
        if lane.environment.get("TSN_BOOT_MACHINES") == "container"
    }
    needs_one = {test for test, markers in tests.items() if "own_kernel" in markers}
    assert needs_one
    assert [test for test in needs_one if lanes.home(test) in containers] == []


def test_a_repeated_marker_is_on_a_test(lanes, tests):
    markers = set().union(*tests.values())
    repeated = {
        entry for lane in lanes.lanes.values() for entry in lane.repeats if "/" not in entry
    }
    assert repeated <= markers


def test_each_directory_of_tests_has_a_place_that_can_run_it(lanes):
    guests = [lane for lane in lanes.lanes.values() if lane.place in (*table.UML_PLACES, "qemu")]
    others = [lane for lane in lanes.lanes.values() if lane not in guests]
    assert {path.split("/")[1] for lane in guests for path in lane.paths} == {"kernel"}
    assert "kernel" not in {path.split("/")[1] for lane in others for path in lane.paths}


def test_the_short_form_has_every_kind_of_test(lanes):
    short = [lane for lane in lanes.lanes.values() if lane.short]
    kinds = {path.split("/")[1] for lane in short for path in lane.paths}
    assert kinds == {"boot", "kernel", "many_kernels", "stack", "unit"}
    assert "lint" in {lane.place for lane in short}


def test_every_prerequisite_has_a_budget():
    assert all(table.prerequisite_cost(name).cpu_s > 0 for name in PREREQUISITES)


def test_a_closer_name_goes_before_a_wider_one(tmp_path):
    written(
        tmp_path,
        wide='tests = ["tests/unit/"]',
        file='tests = ["tests/unit/test_a.py"]',
        one='tests = ["tests/unit/test_a.py::test_x"]',
        parameter='tests = ["tests/unit/test_a.py::test_x[2]"]',
    )
    home = table.load(tmp_path).home
    assert home("tests/unit/test_b.py::test_x") == "wide"
    assert home("tests/unit/test_a.py::test_y[1]") == "file"
    assert home("tests/unit/test_a.py::test_x[1]") == "one"
    assert home("tests/unit/test_a.py::test_x[2]") == "parameter"
    assert home("tests/stack/test_a.py::test_x") is None


def test_a_repeated_test_runs_in_its_own_lane_too(tmp_path):
    written(
        tmp_path, own='tests = ["tests/a.py"]', again='tests = []\nrepeats = ["slow", "tests/b.py"]'
    )
    select = table.load(tmp_path).select
    assert select("own", "tests/a.py::test_x", ["slow"])
    assert select("again", "tests/a.py::test_x", ["slow"])
    assert not select("again", "tests/a.py::test_x", ["other"])
    assert select("again", "tests/b.py::test_x", [])


@pytest.mark.parametrize(
    ("lane", "reason"),
    [
        ('tests = ["tests/unit/"]', "is in first and in second"),
        ('place = "moon"', "place is moon, not one of lint, host, uml, uml-real-time, qemu"),
        ('needs = ["gold"]', "needs gold, which nothing makes"),
        ("quick = true", "unknown key quick"),
        ("when_changed = true", "when_changed is for a lane of the short form"),
        ("short = true\nonce_in = 6", "once_in is for a lane that is neither short nor first"),
    ],
)
def test_a_table_that_cannot_be_is_refused_with_its_place(tmp_path, lane, reason):
    written(tmp_path, first='tests = ["tests/unit/"]', second=lane)
    with pytest.raises(TableError, match=reason):
        table.load(tmp_path)


def test_a_lane_without_a_budget_is_refused(tmp_path):
    written(tmp_path, first="tests = []")
    (tmp_path / "budget.toml").write_text("", encoding="utf-8")
    with pytest.raises(TableError, match="first needs cpu_s"):
        table.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("45m", 2700), ("2h", 7200)]
)
def test_a_time_is_written_with_its_unit(text, seconds):
    assert table.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1d", "-5m", "1.5h"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(ValueError, match="is not a time"):
        table.seconds(text)


def test_what_tests_compile_is_kept(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    table.use_environment()
    assert os.environ["PATH"].startswith(f"{CHECKOUT}/.venv/bin:")
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def written(directory: Path, **lanes: str) -> None:
    """Both files, with these lanes on this machine, each of which takes ten seconds."""
    text = ""
    for name, body in lanes.items():
        place = "" if "place" in body else 'place = "host"\n'
        text += f"[lane.{name}]\n{place}{body}\n"
    (directory / "lanes.toml").write_text(text, encoding="utf-8")
    budget = "".join(f"{name} = {{ cpu_s = 10 }}\n" for name in lanes)
    (directory / "budget.toml").write_text(budget, encoding="utf-8")
