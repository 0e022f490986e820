"""A test of `--all` that fails, and passes alone: once that is bad luck, twice it is not."""

from __future__ import annotations

import datetime
import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests.runner import __main__ as main
from tests.runner import account, lanes, unsteady
from tests.runner.lanes import Options, Outcome
from tests.runner.table import Cost, Lane, TableError
from tests.runner.unsteady import Entry

# RUN counts from 0 how often the file was run.
TESTS = """
from pathlib import Path
import pytest

RUNS = Path(__file__).with_name("runs")
RUN = len(RUNS.read_text()) if RUNS.exists() else 0
RUNS.write_text("x" * (RUN + 1))

@pytest.fixture(scope="module")
def machine():
    assert RUN > 0, "did not boot"

def test_good(): pass
"""
UNLUCKY = "\ndef test_unlucky(): assert RUN > 0\n"
BROKEN = "\ndef test_broken(): assert False\n"
ON_A_MACHINE = (
    "\n@pytest.mark.parametrize('n', range(5))\ndef test_on_a_machine(machine, n): pass\n"
)
LEAVES = """
@pytest.fixture
def left():
    yield
    assert RUN > 0

def test_leaves(left): assert RUN > 0
"""
NAME = "test_luck.py::test_unlucky"


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A directory of tests, in which pytest is the one that runs here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return tmp_path


def lane(name: str = "luck", file: str = "test_luck.py", **how) -> Lane:
    values = {
        "place": "host",
        "tests": (file,),
        "when": (),
        "short": False,
        "when_changed": False,
        "first": False,
        "once_in": 1,
        "needs": (),
        "processes": 1,
        "repeats": (),
        "environment": {},
    }
    return Lane(name, **{**values, **how}, cost=Cost(10, 10))


def run(tree: Path, *tests: str, options: Options = Options(again=True)) -> Outcome:  # noqa: B008
    """Run a lane of these tests."""
    (tree / "test_luck.py").write_text(TESTS + "".join(tests))
    return main.run_once([lane()], options)


def test_a_test_that_fails_and_passes_alone_is_shown_and_fails_nothing(tree, capsys):
    outcome = run(tree, UNLUCKY)
    said = capsys.readouterr().out
    assert outcome.good
    assert (outcome.passed, outcome.failed) == (2, 0)
    assert outcome.second == (NAME,)
    assert f"luck, again and alone: {NAME}" in said
    assert "2 passed    0 failed" in said
    assert "passed on second run: 1" in said


def test_a_run_ends_with_the_entry_for_the_file(tree, capsys, tmp_path_factory):
    run(tree, UNLUCKY)
    said = capsys.readouterr().out
    directory = tmp_path_factory.mktemp("tests")
    (directory / "unsteady.toml").write_text(said[said.index("[[unsteady]]") :])
    (entry,) = unsteady.load(directory)
    assert entry.test == NAME
    assert unsteady.overdue([entry], entry.date) == []


def test_a_test_that_fails_alone_too_fails_the_run(tree, capsys):
    outcome = run(tree, UNLUCKY, BROKEN)
    assert not outcome.good
    assert (outcome.passed, outcome.failed, outcome.second) == (2, 1, (NAME,))
    assert "[[unsteady]]" in capsys.readouterr().out


@pytest.mark.parametrize("name", [NAME, "test_luck.py"])
def test_a_test_that_is_listed_fails_the_run(tree, capsys, name):
    entry = Entry(name, datetime.date(2026, 11, 28), "5cfd84c7", "nothing yet")
    outcome = run(tree, UNLUCKY, options=Options(again=True, unsteady=(entry,)))
    said = capsys.readouterr().out
    assert not outcome.good
    assert f"{name} did not run again: tests/unsteady.toml has it since 2026-11-28" in said
    assert (tree / "runs").read_text() == "x"


def test_other_forms_run_nothing_again(tree):
    assert not run(tree, UNLUCKY, options=Options()).good
    assert (tree / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (["--all"], True),
        (["--all", "--budget", "45m"], True),
        ([], False),
        (["--quick"], False),
        (["--lane", "docs"], False),
        (["--changed"], False),
        (["--all", "-x"], False),
        (["--all", "--repeat", "3", "--state", "state"], False),
    ],
)
def test_only_all_without_options_of_pytest_and_once_runs_tests_again(words, again):
    assert main.runs_again(main.parse(words)) == again


def test_the_tests_of_a_setup_that_failed_once_run_again_together(tree):
    outcome = run(tree, ON_A_MACHINE)
    assert outcome.good
    assert (outcome.passed, len(outcome.second)) == (6, 5)
    assert (tree / "runs").read_text() == "xx"


def test_a_test_that_fails_and_cannot_clean_up_is_one_failure(tree):
    outcome = run(tree, LEAVES)
    assert outcome.good
    assert (outcome.passed, outcome.failed) == (2, 0)
    assert outcome.second == ("test_luck.py::test_leaves",)


def test_a_test_with_parameters_or_in_a_class_is_found_again(tree):
    outcome = run(
        tree,
        "\nclass TestAll:\n    @pytest.mark.parametrize('text', ['a.b::c', 'x [y] z'])\n"
        "    def test_one(self, text): assert RUN > 0\n",
    )
    assert outcome.good
    assert outcome.second[0] == "test_luck.py::TestAll::test_one[a.b::c]"


def test_many_failures_of_a_lane_are_no_bad_luck(tree, capsys):
    outcome = run(tree, *(UNLUCKY.replace("unlucky", f"unlucky_{n}") for n in range(4)))
    assert outcome.failed == 4
    assert "none of 4 failures ran again" in capsys.readouterr().out
    assert (tree / "runs").read_text() == "x"


def test_many_failures_of_a_run_are_no_bad_luck(tree):
    """Four lanes of three failures: those of the first two run again."""
    several = []
    for n in range(4):
        (tree / f"d{n}").mkdir()
        tests = [UNLUCKY.replace("unlucky", f"unlucky_{n}") for n in range(3)]
        (tree / f"d{n}/test_luck.py").write_text(TESTS + "".join(tests))
        several.append(lane(f"luck{n}", f"d{n}/test_luck.py"))
    outcome = main.run_once(several, Options(again=True))
    assert (outcome.failed, len(outcome.second)) == (6, 6)
    assert len(outcome.remarks) == 2


def test_a_file_that_cannot_be_imported_does_not_run_again(tree):
    outcome = run(tree, "\nimport surely_no_such_module\n")
    assert not outcome.good
    assert (tree / "runs").read_text() == "x"


def test_a_lane_that_died_does_not_run_again(tree):
    outcome = run(tree, "\ndef test_dies():\n    import os\n    os._exit(1)\n")
    assert not outcome.good
    assert (tree / "runs").read_text() == "x"


def test_where_no_time_is_left_a_test_does_not_run_again(tree, capsys):
    slow = UNLUCKY + "\ndef test_slow():\n    import time; time.sleep(0.6)\n"
    options = Options(again=True, budget_s=1.0)
    (tree / "test_luck.py").write_text(TESTS + slow)
    free = lane()
    outcome = main.run_once([Lane(**{**vars(free), "cost": Cost(0, 0)})], options)
    assert not outcome.good
    said = capsys.readouterr().out
    assert f"left out, since the time does not suffice: luck, again and alone: {NAME}" in said


def test_in_a_guest_the_test_runs_in_the_same_guest_alone(tmp_path):
    tests = ("tests/kernel/test_taprio.py::test_x[1]",)
    command = lanes.command(lane(place="uml", processes=2), tmp_path, Options(), True, tests)
    assert command[command.index("--uml") + 1] == "--virtual-time"
    assert tests[0] in command
    assert "test_luck.py" not in command
    assert "-n" not in command


def test_a_second_run_is_expected_to_take_what_the_file_of_the_test_took(tmp_path):
    (tmp_path / "report.xml").write_text(
        '<testsuite tests="3" failures="1">'
        '<testcase classname="tests.unit.test_cli" name="test_x" time="1.5"><failure/></testcase>'
        '<testcase classname="tests.unit.test_cli" name="test_y" time="1.5"/>'
        '<testcase classname="tests.unit.test_docs" name="test_z" time="9"/></testsuite>'
    )
    (failure,) = account.read(tmp_path / "report.xml").failures
    assert failure.tests == ("tests/unit/test_cli.py::test_x",)
    assert failure.share == 0.25


def test_a_report_without_failures_asks_for_nothing(tmp_path):
    (tmp_path / "report.xml").write_text('<testsuite tests="1"><testcase name="x"/></testsuite>')
    assert account.read(tmp_path / "report.xml").failures == ()


# --- the file -------------------------------------------------------------------------------------


def test_no_entry_of_the_file_is_older_than_14_days():
    today = datetime.datetime.now(datetime.UTC).date()
    assert unsteady.overdue(unsteady.load(), today) == []


def test_an_entry_may_stay_14_days_and_says_so():
    entry = Entry("tests/a.py::test_x", datetime.date(2026, 11, 28), "5cfd84c7", "20 runs")
    assert unsteady.overdue([entry], datetime.date(2026, 12, 12)) == []
    (line,) = unsteady.overdue([entry], datetime.date(2026, 12, 13))
    assert "tests/a.py::test_x failed and passed on 2026-11-28" in line
    assert "until 2026-12-12: mend the test" in line
    assert unsteady.overdue([entry], datetime.date(2026, 11, 27))


def test_an_entry_is_written_as_it_is_read(tmp_path):
    entry = Entry(
        'tests/a.py::test_x[a "b"\\n]', datetime.date(2026, 11, 28), "5cfd84c7+", "20 runs"
    )
    (tmp_path / "unsteady.toml").write_text(unsteady.text(entry))
    assert unsteady.load(tmp_path) == (entry,)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ('tried = "20 runs"', "tried has to say something"),
        ("date = 2026-11-28", "has to be a day"),
        ('commit = "5cfd84c7"', "an entry has commit, date, test, tried, and nothing else"),
    ],
)
def test_an_entry_that_says_too_little_is_refused(tmp_path, change, reason):
    entry = Entry("tests/a.py::test_x", datetime.date(2026, 11, 28), "5cfd84c7", "20 runs")
    wrong = {"tried": 'tried = " "', "date": 'date = "2026-11-28"', "commit": ""}
    text = unsteady.text(entry).replace(change, wrong[change.split()[0]])
    assert tomllib.loads(text)
    (tmp_path / "unsteady.toml").write_text(text)
    with pytest.raises(TableError, match=reason):
        unsteady.load(tmp_path)
