"""`scripts/bench-planner --windows` beside methods of tsnkit: a package in its place takes the same
words and files, and answers as version 0.3.0 does."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import Intent
from cnc.planner.problem import Problem
from tests.shared_windows import networks, table, tsnkit_methods

METHOD = """
import csv, pathlib, shutil, sys, time
streams, network, output = sys.argv[1:]
for file in (streams, network):
    shutil.copy(file, pathlib.Path(__file__).parents[2])
count = len(list(csv.DictReader(open(streams))))
print("| time | name | flag   | solve_time | total_time | total_mem")
if count > {most}:
    {beyond}
print(f"| 29~14:14:47   | -   | {{'fail' if count > {most} else 'succ'}}   | 0  | 0.2 | 82.5")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose method `ls` has a place for so many streams."""

    def make(most: int, beyond: str = "pass") -> Path:
        algorithms = tmp_path / "tsnkit" / "algorithms"
        algorithms.mkdir(parents=True)
        for directory in (algorithms.parent, algorithms):
            (directory / "__init__.py").touch()
        (algorithms / "ls.py").write_text(METHOD.format(most=most, beyond=beyond))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return tmp_path

    return make


def asked(talkers: int = 20, **keys: str) -> Intent:
    document = networks.two_switches(
        talkers, rate="1Gbps", gate_margin="50us", recovery="none", **keys
    )
    return intents.from_document(document, "asked")


@pytest.mark.parametrize("most", [0, 1, 13, 20, 30])
def test_the_greatest_number_of_streams_is_found_that_a_method_places(package, most):
    package(most)
    assert str(tsnkit_methods.placed(asked(), "ls")) == f"ls {min(most, 20)}"


def test_a_method_that_runs_out_of_its_time_places_so_many_at_least(package):
    package(1, beyond="time.sleep(60)")
    assert str(tsnkit_methods.placed(asked(), "ls", limit_s=3)) == "ls ≥1"


def test_a_method_that_does_not_work_is_not_said_to_place_nothing(package):
    package(0, beyond="sys.exit('no licence')")
    with pytest.raises(RuntimeError, match=r"ls: flag\n(.|\n)*no licence"):
        tsnkit_methods.placed(asked(), "ls")


def test_a_frame_is_stated_to_be_as_long_as_it_keeps_its_link(package):
    files = package(1)
    intent = asked(1)
    tsnkit_methods.placed(intent, "ls")
    (stated,) = csv.DictReader((files / "streams.csv").open())
    (busy_ns,) = {Problem(intent, {}).busy_ns("f0", link) for link in range(6)}
    assert 0 <= busy_ns - int(stated["size"]) * 8 < 800
    assert (stated["period"], stated["deadline"]) == ("1000000", "1000000")
    links = list(csv.DictReader((files / "network.csv").open()))
    # 5 us of a switch and 100 ns of its cable; a station takes no time.
    assert sorted(int(each["t_proc"]) for each in links) == [100, 100, 5100, 5100, 5100, 5100]
    numbers = {int(node) for each in links for node in each["link"].strip("()").split(",")}
    assert numbers == {0, 1, 2, 3}
    assert f"[{stated['src']}]" != stated["dst"]


def test_of_the_table_tsnkit_has_terms_for_single_frames_without_recovery():
    said = {
        row.name
        for row in table.rows()
        if tsnkit_methods.can_express(intents.from_document(row.document, row.name))
    }
    assert {name.rpartition(", ")[2] for name in said} == {"recovery none"}
    assert {name.partition(" ")[0] for name in said} == {"100", "cell"}
    assert len(said) == 5


def test_the_table_says_where_tsnkit_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(tsnkit_methods, "is_installed", lambda: False)
    table.show("cell of 1*none")
    assert "\ntsnkit is not installed: nothing is compared with its methods\n" in (
        capsys.readouterr().out
    )


def test_the_table_has_what_each_method_places(package, capsys, monkeypatch):
    package(5)
    monkeypatch.setattr(tsnkit_methods, "is_installed", lambda: True)
    monkeypatch.setattr(tsnkit_methods, "METHODS", ("ls",))
    table.show("cell of 1*none")
    head, row, _ = capsys.readouterr().out.splitlines()
    assert head.endswith(" streams that tsnkit places")
    assert row.endswith(" ls 5")
