"""The table of attacks names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/operate/attacks.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$", re.MULTILINE)
TEST = re.compile(r"`((?:unit|stack|kernel|boot|many_kernels)/test_\w+\.py)(?:::(test_\w+))?`")


def rows():
    return ROW.findall(PAGE.read_text())


def test_the_rows_are_numbered_and_there_are_many():
    numbers = [int(number) for number, *_ in rows()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 60
    assert len(numbers) == PAGE.read_text().count("\n| ") - PAGE.read_text().count("\n| # |")


def test_every_attack_has_a_test_or_is_marked_as_not_withstood():
    untested = [what for _, what, _, tests in rows() if not TEST.search(tests)]
    withstood = [what for _, what, result, _ in rows() if "**not withstood" not in result]
    assert [what for what in untested if what in withstood] == []


def test_every_test_that_is_named_is_there():
    named = [test for *_, tests in rows() for test in TEST.findall(tests)]
    cells = [tests for *_, tests in rows()]
    assert len(named) == sum(cell.count("`") // 2 for cell in cells)
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (TESTS / file).exists()
        or not re.search(
            rf"^(async )?def {name}\b" if name else "", (TESTS / file).read_text(), re.M
        )
    ]
    assert missing == []
