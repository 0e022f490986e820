"""`scripts/check-docs --changed`: the pages that a change may make wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts/check-docs.d"))

import affected  # noqa: E402
import blocks  # noqa: E402

from tests.runner import changed  # noqa: E402


@pytest.fixture(scope="module")
def pages() -> list[blocks.Page]:
    return [
        blocks.read(file)
        for file in (CHECKOUT / "README.md", *sorted(CHECKOUT.glob("docs/**/*.md")))
    ]


def names(found: list[blocks.Page]) -> set[str]:
    return {page.file.name for page in found}


def test_a_page_that_changed_runs_alone(pages):
    assert names(affected.pages(pages, ["docs/operate/rollout.md"])) == {"rollout.md"}


@pytest.mark.parametrize(
    ("source", "page"),
    [
        ("cnc/testbed/cli/capture.py", "commands.md"),
        ("cnc/testbed/cli/render/lab.py", "lab.md"),
        ("cnc/cli/example.yaml", "commands.md"),
    ],
)
def test_pages_with_a_command_run_when_its_source_changed(pages, source, page):
    assert page in names(affected.pages(pages, [source]))


def test_pages_without_a_command_do_not_run_when_its_source_changed(pages):
    assert "rollout.md" not in names(affected.pages(pages, ["cnc/testbed/cli/capture.py"]))


def test_pages_with_a_script_run_when_it_changed(pages):
    assert "testing.md" in names(affected.pages(pages, ["scripts/test"]))
    assert "testing.md" not in names(affected.pages(pages, ["scripts/tes"]))


def test_no_page_runs_for_what_no_page_runs(pages):
    assert affected.pages(pages, ["cnc/planner/exact.py", "cnc/cli/terminal.py"]) == []


def test_on_the_main_branch_its_recent_commits_are_the_change(monkeypatch):
    asked = []

    def differing(reference: str | None) -> list[str]:
        asked.append(reference)
        return [] if reference is None else ["docs/operate/rollout.md"]

    monkeypatch.setattr(changed, "paths", differing)
    assert affected.paths(None) == ["docs/operate/rollout.md"]
    assert asked == [None, "HEAD~20"]


def test_where_nothing_can_be_compared_any_page_may_have_changed(monkeypatch):
    def unknown(_reference: str | None) -> list[str]:
        raise changed.NoSuchReference

    monkeypatch.setattr(changed, "paths", unknown)
    assert affected.paths(None) is None
