"""docs/reference/extending-controller.md: which hooks are there, and which are planned."""

from __future__ import annotations

import ast
import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = "docs/reference/extending-controller.md"
NOTHING = "\u2013"  # an en dash, with why where that is not plain


def rows() -> list[list[str]]:
    """The cells of the table: a hook (or two), whether it is there, and who would use it."""
    page = (CHECKOUT / PAGE).read_text()
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:])
    return [row for row in cells if row[0].startswith("`")]


def hooks_of_the_contract() -> set[str]:
    contract = (
        CHECKOUT / "cnc" / name for name in ("mechanism.py", "keys/keys.py", "account/judge.py")
    )
    return {
        node.target.id
        for file in contract
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_a_hook_that_is_ticked_is_in_the_contract():
    ticked = {name for hook, today, *_ in rows() if today for name in re.findall("`(\\w+)`", hook)}
    assert ticked <= hooks_of_the_contract(), f"{PAGE} ticks what is not there"


def test_each_hook_of_the_table_is_used_by_something_to_come():
    assert {len(row) for row in rows()} == {9}
    empty = [hook for hook, _, *uses in rows() if not all(uses)]
    assert not empty
    unused = [hook for hook, _, *uses in rows() if all(use.startswith(NOTHING) for use in uses)]
    assert not unused, "a hook that nothing needs is left out of the contract"
